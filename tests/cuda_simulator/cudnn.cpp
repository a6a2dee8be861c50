// A simulated libcudnn.so.9: its handles, and the functions of its backend API over checked descriptors.
#include "cudnn_descriptors.hpp"
#include "simulator.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <unistd.h>

namespace graft_simulator {

namespace {

namespace attribute = cudnn::attribute;
namespace type = cudnn::attribute_type;
namespace result = cudnn::result;

constexpr const char *handle_kind = "cudnnHandle_t", *descriptor_kind = "cudnnBackendDescriptor_t";

struct cudnn_handle {
    void* stream = nullptr;
    int device = 0;
    std::atomic<int> users{0};
};

// A thread inside of the library with a handle: one at a time may be. Null: the call has none.
class handle_use {
public:
    handle_use(const void* handle, const char* doing) : handle_(static_cast<cudnn_handle*>(const_cast<void*>(handle))) {
        if (handle_ && handle_->users.fetch_add(1)) problem("shared_handle", std::string(doing) + ": another thread uses the handle at the same time");
    }
    ~handle_use() {
        if (handle_) --handle_->users;
    }
    handle_use(const handle_use&) = delete;
    handle_use& operator=(const handle_use&) = delete;

private:
    cudnn_handle* handle_;
};

std::string& last_error() {
    static thread_local std::string text;
    return text;
}

// Descriptors live here until they are destroyed; completed ones that others hold live on inside of these.
struct registry {
    std::mutex lock;
    std::map<const void*, cudnn_pointer> known;
};
registry& all() {
    static registry r;
    return r;
}
cudnn_pointer descriptor_of(const void* raw) {
    if (!raw) return nullptr;
    const std::lock_guard<std::mutex> guard(all().lock);
    const auto at = all().known.find(raw);
    if (at != all().known.end()) return at->second;
    handle_used(descriptor_kind, raw);
    return nullptr;
}

// The handle that a descriptor was made with, or what it is made of; null for none.
const void* handle_of(const cudnn_descriptor& d) {
    for (const int name : {attribute::operation_graph_handle, attribute::execution_plan_handle})
        if (d.find(name)) return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(d.integer(name)));
    for (const int name : {attribute::engine_heuristic_operation_graph, attribute::engine_operation_graph, attribute::engine_config_engine,
                           attribute::execution_plan_engine_config})
        if (const cudnn_descriptor* of = d.descriptor(name)) return handle_of(*of);
    return nullptr;
}

// Puts what the caller points to into a value.
int read_elements(const cudnn_attribute& a, int as, std::int64_t count, const void* elements, cudnn_value& v) {
    const auto* bytes = static_cast<const unsigned char*>(elements);
    if (as == type::text) v.text.assign(static_cast<const char*>(elements), static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count && as != type::text; ++i) {
        if (as == type::descriptor) {
            void* raw = nullptr;
            std::memcpy(&raw, bytes + i * static_cast<std::int64_t>(sizeof raw), sizeof raw);
            const cudnn_pointer d = descriptor_of(raw);
            if (!d) return cudnn_error(2002, "a descriptor that does not live is set");
            if (a.of_kind == -2 ? !is_operation(d->kind) : d->kind != a.of_kind) return cudnn_error(2012, "a descriptor of another kind is set");
            if (!d->complete) return cudnn_error(2004, "a descriptor that is not complete is set");
            v.descriptors.push_back(d);
        } else if (as == type::float32 || as == type::float64) {
            float narrow = 0;
            double wide = 0;
            if (as == type::float32)
                std::memcpy(&narrow, bytes + i * 4, 4), wide = static_cast<double>(narrow);
            else
                std::memcpy(&wide, bytes + i * 8, 8);
            v.reals.push_back(wide);
        } else if (as == type::int64 || as == type::void_pointer || as == type::handle) {
            std::int64_t n = 0;
            std::memcpy(&n, bytes + i * 8, 8);
            v.integers.push_back(n);
        } else if (as == type::boolean) {
            v.integers.push_back(bytes[i] != 0);
        } else {
            std::int32_t n = 0;
            std::memcpy(&n, bytes + i * 4, 4);
            v.integers.push_back(n);
        }
    }
    return result::success;
}

int set_attribute(void* raw, int name, int as, std::int64_t count, const void* elements) {
    const cudnn_pointer d = descriptor_of(raw);
    if (!d) return cudnn_error(2002, "no such descriptor");
    if (d->complete) return cudnn_error(result::bad_parameter, "an attribute is set behind completion");
    const cudnn_attribute* a = find_attribute(d->kind, name);
    if (!a) return cudnn_error(result::bad_parameter, "descriptors of kind " + std::to_string(d->kind) + " have no attribute " + std::to_string(name));
    if (as != a->type && (a->type_too < 0 || as != a->type_too))
        return cudnn_error(2010, "attribute " + std::to_string(name) + " has another type than " + std::to_string(as));
    if (count < a->least || count > a->most)
        return cudnn_error(result::bad_parameter, "attribute " + std::to_string(name) + " has another number of elements than " + std::to_string(count));
    if (!elements) return cudnn_error(result::bad_parameter, "an attribute is set from nothing");
    cudnn_value v;
    if (const int code = read_elements(*a, as, count, elements, v)) return code;
    if (as == type::handle && !handle_used(handle_kind, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(v.integers[0]))))
        return cudnn_error(result::bad_parameter, "a handle that does not live is set");
    d->attributes[name] = std::move(v);
    return result::success;
}

// Descriptors are given back by filling those that the caller has made.
int give_descriptors(const std::vector<cudnn_pointer>& from, int kind, std::int64_t capacity, std::int64_t* count, void* elements) {
    const std::int64_t have = static_cast<std::int64_t>(from.size()), given = std::min(have, capacity);
    for (std::int64_t i = 0; i < given; ++i) {
        void* raw = nullptr;
        std::memcpy(&raw, static_cast<const unsigned char*>(elements) + i * static_cast<std::int64_t>(sizeof raw), sizeof raw);
        const cudnn_pointer to = descriptor_of(raw);
        if (!to || to->kind != kind) return cudnn_error(2012, "a descriptor to be filled is of another kind, or does not live");
        *to = *from[static_cast<std::size_t>(i)];
    }
    if (count) *count = given;
    return result::success;
}

template <class T>
int give(const std::vector<T>& from, std::int64_t capacity, std::int64_t* count, void* elements) {
    const std::int64_t given = std::min(static_cast<std::int64_t>(from.size()), capacity);
    if (given) std::memcpy(elements, from.data(), static_cast<std::size_t>(given) * sizeof(T));
    if (count) *count = given;
    return result::success;
}

int get_attribute(const void* raw, int name, int as, std::int64_t capacity, std::int64_t* count, void* elements) {
    const cudnn_pointer d = descriptor_of(raw);
    if (!d) return cudnn_error(2002, "no such descriptor");
    if (!d->complete) return cudnn_error(result::not_initialized, "an attribute is read before completion");
    if (capacity < 0 || (capacity > 0 && !elements)) return cudnn_error(result::bad_parameter, "an attribute is read into nothing");
    const auto wrong = [&](int wanted) { return as == wanted ? 0 : cudnn_error(2010, "attribute " + std::to_string(name) + " is read as another type"); };
    if (d->kind == cudnn::engine_heuristic_descriptor && name == attribute::engine_heuristic_results) {
        if (const int code = wrong(type::descriptor)) return code;
        if (capacity > 0) return give_descriptors(d->proposed, cudnn::engine_config_descriptor, capacity, count, elements);
        if (count) *count = d->announced;
        return result::success;
    }
    if (d->kind == cudnn::engine_descriptor && name == attribute::engine_numerical_note)
        return wrong(type::numerical_note) ? 2010 : give(d->engine.notes, capacity, count, elements);
    if (d->kind == cudnn::engine_descriptor && name == attribute::engine_behavior_note)
        return wrong(type::behavior_note)
                   ? 2010
                   : give(std::vector<std::int32_t>(compiles(d->engine.index) ? 1 : 0, cudnn::behavior_note::runtime_compilation), capacity, count, elements);
    if (d->kind == cudnn::execution_plan_descriptor && name == attribute::execution_plan_json) {
        if (const int code = wrong(type::text)) return code;
        const std::string text = text_of_plan(*d);
        if (capacity > 0) return give(std::vector<char>(text.begin(), text.end()), capacity, count, elements);
        if (count) *count = static_cast<std::int64_t>(text.size());
        return result::success;
    }
    if (d->kind == cudnn::execution_plan_descriptor && name == attribute::execution_plan_workspace_bytes)
        return wrong(type::int64) ? 2010 : give(std::vector<std::int64_t>{d->engine.workspace_bytes}, capacity, count, elements);
    const cudnn_attribute* a = find_attribute(d->kind, name);
    if (!a)
        return cudnn_error(result::bad_parameter, "descriptors of kind " + std::to_string(d->kind) + " have no attribute " + std::to_string(name) + " to read");
    if (const int code = wrong(a->type)) return code;
    static const cudnn_value nothing;
    const cudnn_value& v = d->find(name) ? *d->find(name) : nothing;
    if (as == type::descriptor) return give_descriptors(v.descriptors, a->of_kind, capacity, count, elements);
    if (as == type::int64) return give(v.integers, capacity, count, elements);
    if (as == type::float64) return give(v.reals, capacity, count, elements);
    if (as == type::boolean) return give(std::vector<unsigned char>(v.integers.begin(), v.integers.end()), capacity, count, elements);
    if (as == type::void_pointer || as == type::handle || as == type::text || as == type::float32)
        return cudnn_error(result::not_supported, "the simulator does not give this attribute back");
    return give(std::vector<std::int32_t>(v.integers.begin(), v.integers.end()), capacity, count, elements);
}

}  // namespace

int cudnn_error(int code, const std::string& why) {
    last_error() = why;
    return code;
}

}  // namespace graft_simulator

using namespace graft_simulator;

GRAFT_SIMULATED std::size_t cudnnGetVersion() { return 91900; }
GRAFT_SIMULATED std::size_t cudnnGetCudartVersion() { return 13000; }

GRAFT_SIMULATED const char* cudnnGetErrorString(int error) {
    switch (error) {
    case 0: return "CUDNN_STATUS_SUCCESS";
    case 1001: return "CUDNN_STATUS_NOT_INITIALIZED";
    case 1003: return "CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH";
    case 2000: return "CUDNN_STATUS_BAD_PARAM";
    case 2002: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case 2003: return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
    case 2004: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case 2009: return "CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES";
    case 2010: return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case 2012: return "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE";
    case 3000: return "CUDNN_STATUS_NOT_SUPPORTED";
    case 4000: return "CUDNN_STATUS_INTERNAL_ERROR";
    case 4003: return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case 4004: return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    case 5000: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_UNKNOWN";
    }
}
GRAFT_SIMULATED void cudnnGetLastErrorString(char* text, std::size_t bytes) {
    if (!text || !bytes) return;
    std::strncpy(text, last_error().c_str(), bytes - 1);
    text[bytes - 1] = 0;
    last_error().clear();
}

GRAFT_SIMULATED int cudnnCreate(void** handle) {
    if (const int code = fault("cudnnCreate")) return cudnn_error(code, "an injected fault");
    if (!handle) return cudnn_error(2002, "nowhere to put a handle");
    if (current_device() < 0) return cudnn_error(result::not_initialized, "no context is current");
    auto* h = new cudnn_handle;
    h->device = current_device();
    *handle = h;
    handle_made(handle_kind, h);
    return result::success;
}
GRAFT_SIMULATED int cudnnDestroy(void* handle) {
    const int code = fault("cudnnDestroy");
    if (!handle_destroyed(handle_kind, handle)) return cudnn_error(result::bad_parameter, "no such handle");
    delete static_cast<cudnn_handle*>(handle);
    return code;
}
GRAFT_SIMULATED int cudnnSetStream(void* handle, void* stream) {
    if (const int code = fault("cudnnSetStream")) return cudnn_error(code, "an injected fault");
    if (!handle_used(handle_kind, handle)) return cudnn_error(result::bad_parameter, "no such handle");
    if (check_stream(stream)) return cudnn_error(result::bad_parameter, "the stream cannot be used with the current context");
    const handle_use use(handle, "cudnnSetStream");
    static_cast<cudnn_handle*>(handle)->stream = stream;
    return result::success;
}

GRAFT_SIMULATED int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
    if (const int code = fault("cudnnBackendCreateDescriptor")) return cudnn_error(code, "an injected fault");
    if (!descriptor) return cudnn_error(2002, "nowhere to put a descriptor");
    if (!is_known(kind)) return cudnn_error(result::not_supported, "the simulator has no descriptors of kind " + std::to_string(kind));
    auto d = std::make_shared<cudnn_descriptor>();
    d->kind = kind;
    *descriptor = d.get();
    handle_made(descriptor_kind, d.get());
    const std::lock_guard<std::mutex> guard(all().lock);
    all().known[d.get()] = std::move(d);
    return result::success;
}
GRAFT_SIMULATED int cudnnBackendDestroyDescriptor(void* descriptor) {
    const int code = fault("cudnnBackendDestroyDescriptor");
    if (!descriptor) return cudnn_error(2002, "no such descriptor");
    if (!handle_destroyed(descriptor_kind, descriptor)) return cudnn_error(result::bad_parameter, "no such descriptor");
    const std::lock_guard<std::mutex> guard(all().lock);
    all().known.erase(descriptor);
    return code;
}
GRAFT_SIMULATED int cudnnBackendSetAttribute(void* descriptor, int name, int as, std::int64_t count, const void* elements) {
    if (const int code = fault("cudnnBackendSetAttribute")) return cudnn_error(code, "an injected fault");
    return set_attribute(descriptor, name, as, count, elements);
}
GRAFT_SIMULATED int cudnnBackendGetAttribute(const void* descriptor, int name, int as, std::int64_t capacity, std::int64_t* count, void* elements) {
    if (const int code = fault("cudnnBackendGetAttribute")) return cudnn_error(code, "an injected fault");
    return get_attribute(descriptor, name, as, capacity, count, elements);
}
GRAFT_SIMULATED int cudnnBackendFinalize(void* descriptor) {
    if (const int code = fault("cudnnBackendFinalize")) return cudnn_error(code, "an injected fault");
    const cudnn_pointer d = descriptor_of(descriptor);
    if (!d) return cudnn_error(2002, "no such descriptor");
    const void* handle = handle_of(*d);
    if (handle && !handle_used(handle_kind, handle)) return cudnn_error(result::bad_parameter, "the handle that a descriptor was made with lives no more");
    const handle_use use(handle, "cudnnBackendFinalize");
    if (d->kind == cudnn::execution_plan_descriptor) usleep(static_cast<useconds_t>(std::atoi(setting("PLAN_MS", "0").c_str())) * 1000);
    return complete_descriptor(d);
}
GRAFT_SIMULATED int cudnnBackendExecute(void* handle, void* plan, void* pack) {
    if (const int code = fault("cudnnBackendExecute")) return cudnn_error(code, "an injected fault");
    if (!handle_used(handle_kind, handle)) return cudnn_error(result::bad_parameter, "no such handle");
    const handle_use use(handle, "cudnnBackendExecute");
    const auto* h = static_cast<const cudnn_handle*>(handle);
    const cudnn_pointer p = descriptor_of(plan), v = descriptor_of(pack);
    if (!p || !v || p->kind != cudnn::execution_plan_descriptor || v->kind != cudnn::variant_pack_descriptor)
        return cudnn_error(2012, "a plan and a variant pack are needed");
    if (!p->complete || !v->complete) return cudnn_error(2004, "the plan or the variant pack is not complete");
    if (h->device != current_device()) return cudnn_error(result::bad_parameter, "the handle belongs to another device than the current context");
    const int code = execute_plan(h->stream, p, v);
    log_call("cudnnBackendExecute", "engine " + std::to_string(p->engine.index), code);
    return code;
}
