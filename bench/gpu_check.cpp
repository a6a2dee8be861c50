// Whether a device computes what it has to: operators, networks, training steps, memory and threads. bench/gpu drives it.
//   gpu_check PART --device NAME [--precision P]... [--model FILE]... [--seconds S] [--threads N] [--batch B] [--steps N] [--only OPERATOR]...
// PART: operators, training, networks, steps, memory, threads. Prints a line of JSON for each finding; exits 1 where something failed.
#include "gpu_check.hpp"

int main(int count, char** given) {
    const bench::arguments words(count, given);
    const std::string part = words.words.empty() ? "" : words.words[0];
    bench::check_options options;
    options.device = words.value("--device", "cpu");
    options.precisions = words.values("--precision");
    if (options.precisions.empty()) options.precisions = {"float32"};
    options.models = words.values("--model");
    options.only = words.values("--only");
    options.until = bench::seconds() + std::atof(words.value("--seconds", "600").c_str());
    options.threads = std::max(1, std::atoi(words.value("--threads", "1").c_str()));
    options.batch = std::max(1, std::atoi(words.value("--batch", "4").c_str()));
    options.steps = std::max(1, std::atoi(words.value("--steps", "50").c_str()));
    const double begun = bench::seconds();
    graft::result<int> failures = graft::fail(graft::errc::usage, part, "the parts are operators, training, networks, steps, memory and threads");
    if (part == "operators" || part == "training") failures = bench::check_operators(options, part == "training");
    if (part == "networks") failures = bench::check_networks(options);
    if (part == "steps") failures = bench::check_steps(options);
    if (part == "memory") failures = bench::check_memory(options);
    if (part == "threads") failures = bench::check_threads(options);
    if (!failures.ok()) bench::line("failure").text("part", part).text("why", failures.error().what()).print();
    const int found = failures.ok() ? failures.value() : 1;
    bench::line("end").text("part", part).text("device", options.device).integer("failures", found).number("seconds", bench::seconds() - begun).print();
    return found ? 1 : 0;
}
