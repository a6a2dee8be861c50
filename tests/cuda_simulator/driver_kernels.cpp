// The simulated libcuda.so.1: modules, functions, launches.
#include "cubin.hpp"
#include "exports.hpp"

#include <algorithm>
#include <cstring>

namespace graft_simulator {
namespace {

int shared_limit() { return device_attribute(driver::attribute::max_shared_bytes_opt_in); }

bool runs_here(int arch) {
    const int here = compute_capability();
    return arch / 10 == here / 10 && arch <= here;
}

function_handle* find_function(void* handle, int& why) {
    const context* c = current(why);
    if (!c || why) return nullptr;
    function_handle* f = the_world().functions.find(handle);
    if (!f) {
        problem("invalid_handle", "a function was used whose module does not live");
        why = result::invalid_handle;
    }
    return f;
}

int code_of(outcome::kind_type kind) {
    switch (kind) {
    case outcome::done: return result::success;
    case outcome::invalid: return result::invalid_value;
    case outcome::illegal_address: return result::illegal_address;
    case outcome::misaligned_address: return result::misaligned_address;
    case outcome::illegal_instruction: return result::illegal_instruction;
    default: return result::launch_failed;
    }
}

struct kernel_launch {
    function code;
    unsigned grid[3], block[3], shared_bytes;
    std::vector<std::uint64_t> storage;  // the parameters' bytes, each at a multiple of 8
    std::vector<std::size_t> at;
};

void run_kernel(kernel_launch& k) {
    std::vector<void*> parameters;
    for (const std::size_t at : k.at) parameters.push_back(&k.storage[at]);
    ++the_world().launches;
    const outcome o = launch(k.code, k.grid, k.block, k.shared_bytes, parameters.data());
    if (!o.race.empty()) problem("kernel_race", o.race);
    if (o.kind != outcome::done) fail_work(code_of(o.kind), o.message);
}

// What the parameters' types tell of the memory that the kernel touches: each address, not how far it goes.
void ranges_of(const entry_description& e, void** parameters, operation& op) {
    for (unsigned i = 0; i < e.parameters; ++i) {
        if (e.parameter_kinds[i] == plain) continue;
        std::uint64_t address = 0;
        std::memcpy(&address, parameters[i], sizeof address);
        if (!address) continue;  // an input that is left out
        (e.parameter_kinds[i] == read_only ? op.reads : op.writes).push_back({address, e.pointee_bytes[i]});
    }
}

int put_launch(function_handle& f, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes, stream& s, void** parameters) {
    const outcome checked = check(f.code, grid, block, shared_bytes);
    if (checked.kind != outcome::done) {
        problem("invalid_launch", checked.message);
        return checked.message.find("__launch_bounds__") != std::string::npos ? static_cast<int>(result::launch_out_of_resources) : result::invalid_value;
    }
    const entry_description& e = *f.code.entry;
    if (e.parameters && !parameters) return result::invalid_value;
    auto k = std::make_shared<kernel_launch>();
    k->code = f.code;
    std::copy(grid, grid + 3, k->grid);
    std::copy(block, block + 3, k->block);
    k->shared_bytes = shared_bytes;
    for (unsigned i = 0; i < e.parameters; ++i) {
        k->at.push_back(k->storage.size());
        k->storage.resize(k->storage.size() + (e.parameter_bytes[i] + 7) / 8);
        std::memcpy(&k->storage[k->at.back()], parameters[i], e.parameter_bytes[i]);
    }
    operation op;
    op.what = e.name;
    ranges_of(e, parameters, op);
    op.work = [k] { run_kernel(*k); };
    return put(s, std::move(op), true);
}

}  // namespace
}  // namespace graft_simulator

using namespace graft_simulator;

extern "C" {

int cuModuleLoadData(void** handle, const void* image) {
    call c("cuModuleLoadData");
    if (c.forced) return c.forced;
    int why = 0;
    context* here = current(why);
    if (!here || why) return c.end(why);
    if (!handle || !image) return c.end(result::invalid_value);
    if (const int error = unsafe_call()) return c.end(error);
    std::string path;
    int arch = 0;
    if (!library_of(image, path, arch)) return c.end(result::invalid_image);
    if (!runs_here(arch)) return c.end(result::no_binary_for_gpu, arch);
    std::string reason;
    auto made = std::make_unique<module_handle>();
    made->code = load(path, reason);
    if (!made->code) {
        problem("invalid_image", reason);
        return c.end(result::invalid_image, path);
    }
    made->owner = here;
    made->arch = arch;
    *handle = the_world().modules.add(std::move(made));
    return c.end(result::success, *handle, path);
}

int cuModuleUnload(void* handle) {
    call c("cuModuleUnload");
    int why = 0;
    const context* here = current(why);
    if (!here) return c.end(why, handle);
    if (const int error = unsafe_call()) return c.end(error, handle);
    if (the_world().modules.find(handle)) wait_for_everything(*here);
    module_handle* m = the_world().modules.find(handle);
    if (!m) {
        problem("invalid_handle", "a module that does not live was unloaded");
        return c.end(result::invalid_handle, handle);
    }
    for (const auto& f : m->functions) the_world().functions.remove(f.second);
    the_world().modules.remove(handle);
    return c.end(c.forced ? c.forced : why, handle);
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
    call c("cuModuleGetFunction");
    if (c.forced) return c.forced;
    int why = 0;
    const context* here = current(why);
    if (!here || why) return c.end(why, module, name);
    if (!function || !name) return c.end(result::invalid_value, module);
    module_handle* m = the_world().modules.find(module);
    if (!m) {
        problem("invalid_handle", "a module that does not live was used");
        return c.end(result::invalid_handle, module, name);
    }
    void*& known_as = m->functions[name];
    if (!known_as) {
        auto made = std::make_unique<function_handle>();
        made->code = find(m->code, name);
        made->module = module;
        made->owner = m->owner;
        if (!made->code.entry) {
            m->functions.erase(name);
            return c.end(result::not_found, module, name);
        }
        known_as = the_world().functions.add(std::move(made));
    }
    *function = known_as;
    return c.end(result::success, known_as, module, name);
}

int cuFuncSetAttribute(void* function, int attribute, int value) {
    call c("cuFuncSetAttribute");
    if (c.forced) return c.forced;
    int why = 0;
    function_handle* f = find_function(function, why);
    if (!f) return c.end(why, function, attribute, value);
    if (attribute == driver::function::shared_carveout)
        return c.end(value < -1 || value > 100 ? result::invalid_value : result::success, function, attribute, value);
    if (attribute != driver::function::max_dynamic_shared_bytes) return c.end(result::invalid_value, function, attribute, value);
    const int most = shared_limit() - static_cast<int>(static_shared_bytes(f->code));
    if (value < 0 || value > most) return c.end(result::invalid_value, function, attribute, value);
    f->code.dynamic_shared_limit = static_cast<unsigned>(value);
    return c.end(result::success, function, attribute, value);
}

int cuFuncGetAttribute(int* value, int attribute, void* function) {
    call c("cuFuncGetAttribute");
    if (c.forced) return c.forced;
    int why = 0;
    const function_handle* f = find_function(function, why);
    if (!f) return c.end(why, attribute, function);
    if (!value) return c.end(result::invalid_value, attribute, function);
    switch (attribute) {
    case driver::function::max_threads_per_block: *value = static_cast<int>(f->code.entry->max_threads); break;
    case driver::function::shared_bytes: *value = static_cast<int>(static_shared_bytes(f->code)); break;
    case driver::function::local_bytes: *value = 0; break;
    case driver::function::registers: *value = 32; break;
    case driver::function::max_dynamic_shared_bytes: *value = static_cast<int>(f->code.dynamic_shared_limit); break;
    default: return c.end(result::invalid_value, attribute, function);
    }
    return c.end(result::success, attribute, function);
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared_bytes, void* stream_handle, void** parameters, void** extra) {
    call c("cuLaunchKernel");
    if (c.forced) return c.forced;
    int why = 0;
    graft_simulator::stream* s = find_stream(stream_handle, why);
    function_handle* f = s && !why ? find_function(function, why) : nullptr;
    if (!f) return c.end(why, function, stream_handle);
    if (f->owner != s->owner) {
        problem("wrong_context", std::string(f->code.entry->name) + " was launched on a stream of another context");
        return c.end(result::invalid_handle, function, stream_handle);
    }
    if (extra) return c.end(result::invalid_value, function, stream_handle);
    const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    const int code = put_launch(*f, grid, block, shared_bytes, *s, parameters);
    return c.end(code, f->code.entry->name, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream_handle);
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, std::size_t shared_bytes) {
    call c("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    if (c.forced) return c.forced;
    int why = 0;
    const function_handle* f = find_function(function, why);
    if (!f) return c.end(why, function, threads, shared_bytes);
    if (!blocks || threads <= 0) return c.end(result::invalid_value, function, threads, shared_bytes);
    const int most_threads = device_attribute(driver::attribute::max_threads_per_multiprocessor);
    const std::size_t shared = static_shared_bytes(f->code) + shared_bytes + 1024;
    const int by_shared = static_cast<int>((static_cast<std::size_t>(shared_limit()) + 1024) / shared);
    *blocks = threads > static_cast<int>(f->code.entry->max_threads) ? 0 : std::min({32, most_threads / ((threads + 31) / 32 * 32), by_shared});
    return c.end(result::success, function, threads, shared_bytes);
}
}
