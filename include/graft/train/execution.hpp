// How the graphs of training are planned and run.
#pragma once

#include "../cpu/training/backend.hpp"
#include "../plan/plan.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The CPU with the kernels of training. Errors: cpu.isa, device.unavailable (no kernels of the precision).
inline result<std::shared_ptr<device>> training_host(const char* precision = "float32") {
    const backend& cpu = backends::cpu_training::instance();
    device_options options;
    options.precision = precision;
    return cpu.open(cpu.name, options, nullptr);
}
// Of what is computed beside the steps: on the CPU alone.
inline result<execution_options> host_execution(const limits& limit, std::uint64_t seed = 0) {
    execution_options how;
    how.limit = limit;
    how.seed = seed;
    how.packed = std::make_shared<pack_cache>();
    how.places.resize(1);
    GRAFT_TRY_ASSIGN(how.places[0], training_host());
    return how;
}

}  // namespace detail
GRAFT_END_NAMESPACE
