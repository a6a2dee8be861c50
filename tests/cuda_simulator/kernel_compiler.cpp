// The CUDA simulator's compiler: rewrites what host compilers do not know, runs g++, and keeps the results in a folder by hash.
#include "kernel_runner.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef GRAFT_SIMULATOR_DEFAULT_CXX
#define GRAFT_SIMULATOR_DEFAULT_CXX "g++"
#endif

extern char** environ;

namespace graft_simulator {
namespace {

std::string environment(const char* name, const std::string& otherwise) {
    const char* value = std::getenv(name);
    return value && *value ? value : otherwise;
}

std::string contents_of(const std::string& path) {
    std::string text;
    if (std::FILE* f = std::fopen(path.c_str(), "rb")) {
        char block[16384];
        for (std::size_t n; (n = std::fread(block, 1, sizeof block, f)) > 0;) text.append(block, n);
        std::fclose(f);
    }
    return text;
}

std::string hash_of(const std::string& text) {  // FNV-1a, twice
    std::uint64_t a = 14695981039346656037ull, b = 0x9ae16a3b2f90404full;
    for (const char c : text) {
        a = (a ^ static_cast<unsigned char>(c)) * 1099511628211ull;
        b = (b + static_cast<unsigned char>(c)) * 0x9e3779b97f4a7c15ull;
        b ^= b >> 29;
    }
    char name[40];
    std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
    return name;
}

// The text with comments and literals blanked, of the same length: what may be searched for words.
std::string code_of(const std::string& text) {
    std::string code = text;
    std::size_t i = 0;
    const auto blank = [&](std::size_t to) {
        for (; i < to && i < code.size(); ++i) {
            if (code[i] != '\n') code[i] = ' ';
        }
    };
    while (i < code.size()) {
        if (code.compare(i, 2, "//") == 0) {
            blank(std::min(code.find('\n', i), code.size()));
        } else if (code.compare(i, 2, "/*") == 0) {
            const std::size_t end = code.find("*/", i + 2);
            blank(end == std::string::npos ? code.size() : end + 2);
        } else if (code[i] == '"') {
            std::size_t end = i + 1;
            while (end < code.size() && code[end] != '"') end += code[end] == '\\' ? 2 : 1;
            blank(end + 1);
        } else if (code[i] == '\'' && i + 2 < code.size() && (code[i + 1] == '\\' || code[i + 2] == '\'')) {
            blank(code.find('\'', i + (code[i + 1] == '\\' ? 3 : 2)) + 1);
        } else {
            ++i;
        }
    }
    return code;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::size_t find_word(const std::string& code, const std::string& word, std::size_t from) {
    for (std::size_t at = code.find(word, from); at != std::string::npos; at = code.find(word, at + 1)) {
        if ((at == 0 || !is_word(code[at - 1])) && (at + word.size() >= code.size() || !is_word(code[at + word.size()]))) return at;
    }
    return std::string::npos;
}

// Behind the bracket that closes the one at `at`.
std::size_t behind_brackets(const std::string& code, std::size_t at) {
    int depth = 0;
    for (; at < code.size(); ++at) {
        if (code[at] == '(') ++depth;
        if (code[at] == ')' && --depth == 0) return at + 1;
    }
    return code.size();
}

struct entry_found {
    std::string name, max_threads = "1024";
};

// The names behind __global__: the last word before the bracket that is not an attribute's.
std::vector<entry_found> entries_of(const std::string& text, const std::string& code) {
    std::vector<entry_found> entries;
    for (std::size_t at = find_word(code, "__global__", 0); at != std::string::npos; at = find_word(code, "__global__", at + 1)) {
        entry_found e;
        for (std::size_t i = at + 10; i < code.size() && code[i] != ';' && code[i] != '{';) {
            if (is_word(code[i])) {
                const std::size_t begin = i;
                while (i < code.size() && is_word(code[i])) ++i;
                e.name = code.substr(begin, i - begin);
            } else if (code[i] == '(') {
                const std::size_t end = behind_brackets(code, i);
                if (e.name == "__launch_bounds__") {
                    const std::string inside = text.substr(i + 1, end - i - 2);
                    e.max_threads = inside.substr(0, inside.find(','));
                } else if (e.name.compare(0, 2, "__") != 0) {
                    break;
                }
                i = end;
            } else {
                ++i;
            }
        }
        const bool known = std::any_of(entries.begin(), entries.end(), [&](const entry_found& other) { return other.name == e.name; });
        if (!e.name.empty() && !known) entries.push_back(e);
    }
    return entries;
}

// `extern __shared__ [alignment] T name[];` becomes a pointer to the block's dynamic shared memory, on the same lines.
std::string with_dynamic_shared(const std::string& text, const std::string& code) {
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = find_word(code, "extern", 0); at != std::string::npos; at = find_word(code, "extern", at + 1)) {
        const std::size_t end = code.find(';', at);
        if (end == std::string::npos) break;
        std::string words = code.substr(at + 6, end - at - 6);
        const std::size_t shared = find_word(words, "__shared__", 0);
        if (shared == std::string::npos || words.find('{') != std::string::npos) continue;
        words.replace(shared, 10, "");
        for (const char* attribute : {"__align__", "alignas", "__attribute__"}) {
            const std::size_t a = find_word(words, attribute, 0);
            if (a != std::string::npos) words.erase(a, behind_brackets(words, a) - a);
        }
        const std::size_t bracket = words.find('[');
        if (bracket == std::string::npos) continue;
        std::size_t name_end = bracket;
        while (name_end > 0 && !is_word(words[name_end - 1])) --name_end;
        std::size_t name = name_end;
        while (name > 0 && is_word(words[name - 1])) --name;
        const std::string type = words.substr(0, name);
        out += text.substr(done, at - done) + "static " + type + "* const " + words.substr(name, name_end - name) + " = reinterpret_cast<" + type +
               "*>(graft_simulator_dynamic_shared)";
        done = end;
    }
    return out + text.substr(done);
}

std::string shim_folder() { return environment("GRAFT_SIMULATOR_SHIM", GRAFT_SIMULATOR_SOURCE_DIR); }

struct exit_of_command {
    int code = -1;
    std::string output;
};

exit_of_command run_command(const std::vector<std::string>& words, const std::string& log_path) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    // A compiler that inherited a sanitizer's or a simulator's preloads would be another compiler.
    std::vector<char*> env;
    for (char** e = environ; *e; ++e) {
        if (std::strncmp(*e, "LD_PRELOAD=", 11) != 0 && std::strncmp(*e, "LD_LIBRARY_PATH=", 16) != 0 && std::strncmp(*e, "LC_ALL=", 7) != 0) env.push_back(*e);
    }
    static char plain_text[] = "LC_ALL=C";
    env.push_back(plain_text);
    env.push_back(nullptr);
    exit_of_command result;
    pid_t child = 0;
    const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), env.data());
    posix_spawn_file_actions_destroy(&actions);
    if (error) {
        result.output = std::string("cannot start ") + words[0] + ": " + std::strerror(error) + "\n";
        return result;
    }
    int state = 0;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    result.code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    result.output = contents_of(log_path);
    unlink(log_path.c_str());
    return result;
}

std::string why_gpu_only(const std::string& code, const std::string& log) {
    if (log.find("GPU only") != std::string::npos) return "";
    for (const char* word : {"wmma", "nvcuda", "__hmma", "__half", "__nv_bfloat16", "cooperative_groups"}) {
        if (code.find(word) != std::string::npos) return std::string(word) + " is GPU only: the simulator does not know it\n";
    }
    return "";
}

void make_folder(const std::string& path) {
    for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) mkdir(path.substr(0, at).c_str(), 0700);
    mkdir(path.c_str(), 0700);
}

std::string tail_of(const std::vector<entry_found>& entries) {
    // Entry points may stand in graft's namespace: their linkage is C's all the same.
    std::string tail = "\n# 1 \"simulator_entries\"\nnamespace graft {}\nusing namespace graft;\ngraft_simulator::device_state graft_simulator_state;\n"
                       "extern \"C\" { __attribute__((visibility(\"hidden\"), aligned(1024))) unsigned char graft_simulator_dynamic_shared[" +
                       std::to_string(dynamic_shared_limit + shared_guard) +
                       "]; extern __attribute__((visibility(\"hidden\"), weak)) unsigned char __start_graft_shared[], __stop_graft_shared[]; }\n"
                       "static const graft_simulator::entry_description graft_simulator_entries[] = {\n";
    for (const entry_found& e : entries) {
        tail += "    graft_simulator::describe(\"" + e.name + "\", graft_simulator::run<&" + e.name + ">, " + e.max_threads + ", &" + e.name + "),\n";
    }
    return tail + "    {}};\nextern \"C\" __attribute__((visibility(\"default\"))) const graft_simulator::module_description graft_simulator_module = {" +
           std::to_string(module_version) + ", &graft_simulator_state, __start_graft_shared, __stop_graft_shared, graft_simulator_dynamic_shared, " +
           std::to_string(dynamic_shared_limit) + ", graft_simulator_entries, " + std::to_string(entries.size()) + "};\n";
}

std::vector<std::string> flags_of(const std::vector<std::string>& options) {
    std::vector<std::string> flags = {"-std=gnu++17",
                                      "-O0",
                                      "-fPIC",
                                      "-w",
                                      "-fno-exceptions",
                                      "-fno-rtti",
                                      "-fwrapv",
                                      "-fno-strict-aliasing",
                                      "-fvisibility=hidden",
                                      "-fno-asynchronous-unwind-tables",
                                      "-fno-stack-protector",
                                      "-fmax-errors=20",
                                      "-ffp-contract=off",
                                      "-fno-threadsafe-statics",
                                      "-fno-var-tracking"};
    // Misaligned vectors and places past an array's end are faults here too: the compiler puts a trap before them.
    flags.insert(flags.end(), {"-fsanitize=alignment,bounds", "-fsanitize-undefined-trap-on-error"});
    if (finds_races()) flags.insert(flags.end(), {"-fsanitize=thread", "-DGRAFT_SIMULATOR_RACES"});
    for (const std::string& option : options) {
        if (option.compare(0, 2, "-D") == 0 || option.compare(0, 2, "-U") == 0) flags.push_back(option);
    }
    return flags;
}

compiled compile_now(const std::string& unit, const std::string& code, const std::vector<std::string>& flags, const std::string& path) {
    compiled result;
    static std::uint64_t serial = 0;
    const std::string stem = path + "." + std::to_string(getpid()) + "." + std::to_string(serial++), source_path = stem + ".cpp";
    std::FILE* f = std::fopen(source_path.c_str(), "wb");
    const bool written = f && std::fwrite(unit.data(), 1, unit.size(), f) == unit.size();
    if (f) std::fclose(f);
    if (!written) {
        result.log = "the simulator cannot write " + source_path + "\n";
        return result;
    }
    std::vector<std::string> words = {environment("GRAFT_SIMULATOR_CXX", GRAFT_SIMULATOR_DEFAULT_CXX)};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"-shared", "-pipe", "-nostdlib", "-Wl,-z,now", "-include", shim_folder() + "/device_shim.hpp", "-o", stem + ".so", source_path,
                               "-lm", "-lc", "-lgcc"});
    const exit_of_command ran = run_command(words, stem + ".log");
    unlink(source_path.c_str());
    result.log = ran.output;
    if (ran.code != 0) {
        unlink((stem + ".so").c_str());
        if (result.log.empty()) result.log = "the simulator's compiler ended with " + std::to_string(ran.code) + "\n";
        result.log += why_gpu_only(code, result.log);
        return result;
    }
    result.ok = std::rename((stem + ".so").c_str(), path.c_str()) == 0;
    if (!result.ok) result.log += "the simulator cannot write " + path + "\n";
    result.path = path;
    return result;
}

}  // namespace

bool finds_races() { return environment("GRAFT_SIMULATOR_RACES", "0") != "0"; }

std::string cache_folder() {
    const std::string folder = environment("GRAFT_SIMULATOR_CACHE", environment("TMPDIR", "/tmp") + "/graft_cuda_simulator." + std::to_string(getuid()));
    make_folder(folder);
    return folder;
}

compiled compile(const std::string& source, const std::vector<std::string>& options) {
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    static const std::string shim =
        contents_of(shim_folder() + "/device_shim.hpp") + contents_of(shim_folder() + "/device_state.hpp") + contents_of(shim_folder() + "/device_races.hpp");
    if (shim.empty()) {
        compiled result;
        result.log = "the simulator's device_shim.hpp is not in " + shim_folder() + "; set GRAFT_SIMULATOR_SHIM to its folder\n";
        return result;
    }
    std::string code = code_of(source);
    const std::string text = with_dynamic_shared(source, code);
    const std::string unit = "# 1 \"kernel.cu\"\n" + text + tail_of(entries_of(source, code));
    const std::vector<std::string> flags = flags_of(options);
    std::string key = shim + unit + environment("GRAFT_SIMULATOR_CXX", GRAFT_SIMULATOR_DEFAULT_CXX);
    for (const std::string& flag : flags) key += '\0' + flag;
    const std::string path = cache_folder() + "/" + hash_of(key) + ".so";
    if (access(path.c_str(), R_OK) == 0) {
        compiled result;
        result.ok = true;
        result.path = path;
        return result;
    }
    return compile_now(unit, code, flags, path);
}

}  // namespace graft_simulator
