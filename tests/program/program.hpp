// What the tests of the program share: running it, and what it left behind.
#pragma once

#include "../data/made_dataset.hpp"
#include "../file_contents.hpp"

#include <sys/wait.h>

namespace program_test {

/// How a run of the program ended: its exit code, -1 where a signal ended it, and what it printed.
struct done {
    int code = -1;
    std::string out, err;

    bool has(const std::string& text) const { return contains(out, text); }
    /// The number behind a key of the JSON; -1 where there is none.
    double number(const std::string& key) const {
        const std::size_t at = out.find("\"" + key + "\":");
        return at == std::string::npos ? -1 : std::atof(out.c_str() + at + key.size() + 3);
    }
    /// The last line of stderr.
    std::string last() const {
        const std::string text = err.substr(0, err.find_last_not_of('\n') + 1);
        return text.substr(text.find_last_of('\n') + 1);
    }
    bool refused(const char* error_code) const { return last().rfind(std::string("graft: error: ") + error_code + ": ", 0) == 0; }
};

/// Runs the program by the shell; `before` is put before its name.
inline done graft_program(const std::string& arguments, const std::string& before = "") {
    const made_folder folder;
    const std::string out = folder.path + "/out", err = folder.path + "/err";
    for (int tries = 0;; ++tries) {
        const int status = std::system((before + GRAFT_PROGRAM " " + arguments + " >" + out + " 2>" + err + " </dev/null").c_str());
        done d{WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_contents(out), file_contents(err)};
        // On a busy machine LeakSanitizer itself crashes now and then while it looks at a process that ends: then nothing is learnt.
        if (tries || !contains(d.err, "LeakSanitizer has encountered a fatal error")) return d;
    }
}

/// Whether this machine's processor multiplies bfloat16, as the program says.
inline bool cpu_has_bfloat16() { return graft_program("doctor --json").has("\"bfloat16\":true"); }

// What is printed, without the numbers that are times.
inline std::string timeless(const done& d) {
    std::string text = d.out;
    for (const char* key : {"\"images_per_s\":", "\"load_ms\":", "\"total_ms\":"}) {
        const std::size_t at = text.find(key);
        if (at == std::string::npos) continue;
        const std::size_t from = at + std::string(key).size();
        text.erase(from, text.find_first_of(",}", from) - from);
    }
    return text;
}

}  // namespace program_test
