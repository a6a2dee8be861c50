// The program's command line: one argument a line of the input. It is parsed and checked as the program does it; no verb does any work.
#include "target.hpp"

#include "../apps/graft/program.hpp"

namespace program {
int looked_at(const graft::error& e);
}  // namespace program

#define main program_main
#define report looked_at
#include "../apps/graft/main.cpp"
#undef main
#undef report

namespace program {

// In place of the verb: what it makes of the options that all have, before it touches a file.
graft::result<int> perform(const action&, common_options common) {
    fuzz::accepted(wanted_device(common));
    if (!common.memory_limit.empty()) fuzz::accepted(size_of_text(common.memory_limit, "--memory-limit"));
    return exit_done;
}

int looked_at(const graft::error& e) {
    fuzz::accepted(graft::status(e));
    fuzz::require(!printable(e.what()).empty(), "a message that cannot be printed");
    return exit_failed;
}

}  // namespace program

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // --help prints.
    static const bool quiet = std::freopen("/dev/null", "w", stdout) != nullptr;
    std::vector<std::string> words(1, "graft");
    const std::string text(fuzz::text_of(data, std::min<std::size_t>(size, 4096)));
    for (std::size_t at = 0; quiet && at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        words.push_back(text.substr(at, end - at).c_str());  // as an argument is: up to a zero
        at = end + 1;
    }
    if (words.size() < 2) return 0;
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(&word[0]);
    arguments.push_back(nullptr);
    program_main(static_cast<int>(words.size()), arguments.data());
    return 0;
}
