// The program's command line: one argument a line of the input. It is parsed and checked as the program does it; no verb does any work.
#define main program_main
#include "../apps/graft/main.cpp"
#undef main

#include "../apps/graft/training.hpp"
#include "target.hpp"

#include <graft/train/settings.hpp>

namespace program {

// In place of the verbs: what they make of their options before they touch a file.
static graft::result<int> checked(const common_options& common) {
    fuzz::accepted(wanted_device(common));
    if (!common.memory_limit.empty()) fuzz::accepted(size_of_text(common.memory_limit, "--memory-limit"));
    return 0;
}
graft::result<int> doctor(const common_options& c, const doctor_options&) { return checked(c); }
graft::result<int> monitor(const common_options& c, const monitor_options&) { return checked(c); }
graft::result<int> info(const common_options& c, const info_options&) { return checked(c); }
graft::result<int> run(const common_options& c, const run_options&) { return checked(c); }
graft::result<int> classify(const common_options& c, const classify_options&) { return checked(c); }
graft::result<int> explain(const common_options& c, const explain_options&) { return checked(c); }
graft::result<int> bench(const common_options& c, const bench_options&) { return checked(c); }
graft::result<int> bench_training(const common_options& c, const bench_options&) { return checked(c); }
graft::result<int> decode(const common_options& c, const decode_options&) { return checked(c); }
graft::result<int> preprocess(const common_options& c, const preprocess_options&) { return checked(c); }
graft::result<int> check(const common_options& c, const check_options&) { return checked(c); }
graft::result<int> augment(const common_options& c, const augment_options&) { return checked(c); }
graft::result<int> evaluate(const common_options& c, const evaluate_options&) { return checked(c); }
graft::result<int> train(const common_options& c, const training_options& o) {
    fuzz::accepted(trainer_options_of(c, o));
    return checked(c);
}

int report(const graft::error& e) {
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
