// A simulated libcublasLt.so.13: checked descriptors, algorithms with and without a workspace, and products summed in double.
#include "simulator.hpp"

#include <graft/core/dtype.hpp>
#include <graft/gpu/api/cublaslt.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>

namespace graft_simulator {

namespace {

namespace lt = graft::gpu::api::cublaslt;
namespace result = lt::result;

constexpr const char *handle_kind = "cublasLtHandle_t", *operation_kind = "cublasLtMatmulDesc_t", *layout_kind = "cublasLtMatrixLayout_t",
                     *preference_kind = "cublasLtMatmulPreference_t";

struct lt_handle {
    int device = 0;
};
struct operation {
    int compute = 0, scale = 0;
    std::int32_t transpose_a = lt::operation::none, transpose_b = lt::operation::none, pointer_mode = lt::pointer_mode::host;
    std::uint32_t epilogue = lt::epilogue::none;
    std::int32_t bias_type = -1;
    const void* bias = nullptr;
    bool has_bias = false;
};
struct matrix_layout {
    int type = 0;
    std::int32_t order = lt::order::column_major, batch_count = 1;
    std::uint64_t rows = 0, columns = 0;
    std::int64_t leading = 0, batch_stride = 0;
};
struct preference {
    std::uint64_t workspace_bytes = 0;
    std::uint32_t alignment[4] = {256, 256, 256, 256};
    std::uint32_t reduction_schemes = lt::reduction_scheme::all;
};

// Algorithms know themselves by this word, their number, and the product that they were proposed for.
constexpr std::uint64_t magic = 0x67726166742d6c74ull;
constexpr std::uint64_t split_sums = 1, plain = 2, unready = 3, racing = 4;
constexpr std::uint64_t split_workspace = 1 << 20;

std::size_t size_of(int type) {
    switch (type) {
    case lt::data::float64: return 8;
    case lt::data::float32: return 4;
    case lt::data::float16:
    case lt::data::bfloat16: return 2;
    default: return 0;
    }
}
double load(const void* memory, int type, std::int64_t at) {
    const unsigned char* p = static_cast<const unsigned char*>(memory) + at * static_cast<std::int64_t>(size_of(type));
    double wide = 0;
    float single = 0;
    std::uint16_t half = 0;
    switch (size_of(type)) {
    case 8: std::memcpy(&wide, p, 8); return wide;
    case 4: std::memcpy(&single, p, 4); return static_cast<double>(single);
    default:
        std::memcpy(&half, p, 2);
        return static_cast<double>(type == lt::data::float16 ? graft::to_float(graft::float16{half}) : graft::to_float(graft::bfloat16{half}));
    }
}
void store(void* memory, int type, std::int64_t at, double v) {
    unsigned char* p = static_cast<unsigned char*>(memory) + at * static_cast<std::int64_t>(size_of(type));
    const float single = static_cast<float>(v);
    const std::uint16_t half = type == lt::data::float16 ? graft::to_float16(v).bits : graft::to_bfloat16(v).bits;
    if (size_of(type) == 8)
        std::memcpy(p, &v, 8);
    else if (size_of(type) == 4)
        std::memcpy(p, &single, 4);
    else
        std::memcpy(p, &half, 2);
}
double rounded_to_tf32(double v) {
    std::uint32_t bits = graft::bit_cast<std::uint32_t>(static_cast<float>(v));
    if ((bits & 0x7f800000u) == 0x7f800000u) return v;
    bits += 0x0fffu + ((bits >> 13) & 1);
    return static_cast<double>(graft::bit_cast<float>(bits & ~0x1fffu));
}

// An attribute of `T` that a caller gives as bytes.
template <class T>
int take(T& to, const void* value, std::size_t bytes) {
    if (!value || bytes != sizeof to) return result::invalid_value;
    std::memcpy(&to, value, sizeof to);
    return result::success;
}

struct product {
    operation how;
    matrix_layout a, b, c, d;
    std::int64_t m = 0, n = 0, k = 0;
};

bool has(const operation& o, std::uint32_t with_bias_a, std::uint32_t with_bias_b, std::uint32_t with_bias_c) {
    return o.epilogue == with_bias_a || o.epilogue == with_bias_b || o.epilogue == with_bias_c;
}
bool wants_bias(const operation& o) { return has(o, lt::epilogue::bias, lt::epilogue::relu_bias, lt::epilogue::gelu_bias); }

// Whether the library knows products of these descriptors.
int check(const product& p) {
    for (const matrix_layout* l : {&p.a, &p.b, &p.c, &p.d}) {
        if (l->order != lt::order::column_major) return result::not_supported;
        if (l->leading < static_cast<std::int64_t>(l->rows) || l->batch_count < 1 || l->batch_count != p.d.batch_count) return result::invalid_value;
    }
    const std::uint64_t m = p.how.transpose_a ? p.a.columns : p.a.rows, k = p.how.transpose_a ? p.a.rows : p.a.columns;
    const std::uint64_t n = p.how.transpose_b ? p.b.rows : p.b.columns, inner = p.how.transpose_b ? p.b.columns : p.b.rows;
    if (k != inner || p.d.rows != m || p.d.columns != n || p.c.rows != m || p.c.columns != n) return result::invalid_value;
    if (p.d.batch_count > 1 && p.d.batch_stride < static_cast<std::int64_t>(p.d.leading * static_cast<std::int64_t>(p.d.columns))) return result::invalid_value;
    if (p.a.type != p.b.type || p.c.type != p.d.type) return result::not_supported;
    const bool wide = p.a.type == lt::data::float64;
    if (p.d.type != p.a.type && (wide || p.d.type != lt::data::float32)) return result::not_supported;
    const int compute = p.how.compute;
    const bool right = wide ? compute == lt::compute::float64 && p.how.scale == lt::data::float64
                            : (compute == lt::compute::float32 || (compute == lt::compute::float32_fast_tf32 && p.a.type == lt::data::float32)) &&
                                  p.how.scale == lt::data::float32;
    if (!right || p.how.pointer_mode != lt::pointer_mode::host) return result::not_supported;
    if (p.how.epilogue != lt::epilogue::none && wide) return result::not_supported;
    if (!wants_bias(p.how) && !has(p.how, lt::epilogue::none, lt::epilogue::relu, lt::epilogue::gelu)) return result::not_supported;
    if (wants_bias(p.how) && (!p.how.has_bias || !p.how.bias)) return result::invalid_value;
    if (wants_bias(p.how) && p.how.bias_type != -1 && p.how.bias_type != p.d.type) return result::not_supported;
    if (compute_capability() < 80 && p.a.type == lt::data::bfloat16) return result::not_supported;
    return result::success;
}

std::uint64_t identity(const product& p) {
    std::uint64_t h = 1469598103934665603ull;
    for (const std::uint64_t v : {p.d.rows, p.d.columns, static_cast<std::uint64_t>(p.k), static_cast<std::uint64_t>(p.a.type),
                                  static_cast<std::uint64_t>(p.how.epilogue), static_cast<std::uint64_t>(p.d.batch_count)})
        h = (h ^ v) * 1099511628211ull;
    return h;
}

int read_product(const void* o, const void* a, const void* b, const void* c, const void* d, product& p) {
    if (!handle_used(operation_kind, o)) return result::invalid_value;
    for (const void* l : {a, b, c, d})
        if (!handle_used(layout_kind, l)) return result::invalid_value;
    p.how = *static_cast<const operation*>(o);
    p.a = *static_cast<const matrix_layout*>(a), p.b = *static_cast<const matrix_layout*>(b);
    p.c = *static_cast<const matrix_layout*>(c), p.d = *static_cast<const matrix_layout*>(d);
    p.m = static_cast<std::int64_t>(p.d.rows), p.n = static_cast<std::int64_t>(p.d.columns);
    p.k = static_cast<std::int64_t>(p.how.transpose_a ? p.a.rows : p.a.columns);
    return check(p);
}

double activated(double v, const operation& o) {
    if (has(o, lt::epilogue::relu, lt::epilogue::relu_bias, lt::epilogue::relu)) return v > 0 ? v : 0;
    if (has(o, lt::epilogue::gelu, lt::epilogue::gelu_bias, lt::epilogue::gelu))
        return 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    return v;
}

void multiply(const product& p, double alpha, const void* a, const void* b, double beta, const void* c, void* d) {
    const bool tf32 = p.how.compute == lt::compute::float32_fast_tf32;
    const auto factor = [&](const void* memory, int type, std::int64_t at) {
        const double v = load(memory, type, at);
        return tf32 ? rounded_to_tf32(v) : v;
    };
    for (std::int64_t batch = 0; batch < p.d.batch_count; ++batch)
        for (std::int64_t j = 0; j < p.n; ++j)
            for (std::int64_t i = 0; i < p.m; ++i) {
                double sum = 0;
                for (std::int64_t k = 0; k < p.k; ++k)
                    sum += factor(a, p.a.type, batch * p.a.batch_stride + (p.how.transpose_a ? k + i * p.a.leading : i + k * p.a.leading)) *
                           factor(b, p.b.type, batch * p.b.batch_stride + (p.how.transpose_b ? j + k * p.b.leading : k + j * p.b.leading));
                sum *= alpha;
                if (beta != 0) sum += beta * load(c, p.c.type, batch * p.c.batch_stride + i + j * p.c.leading);
                if (wants_bias(p.how)) sum += load(p.how.bias, p.d.type, i);
                store(d, p.d.type, batch * p.d.batch_stride + i + j * p.d.leading, activated(sum, p.how));
            }
}

range bytes_of(const matrix_layout& l, const void* memory) {
    const std::int64_t elements =
        (l.batch_count - 1) * l.batch_stride + (static_cast<std::int64_t>(l.columns) - 1) * l.leading + static_cast<std::int64_t>(l.rows);
    return {memory, static_cast<std::size_t>(elements) * size_of(l.type)};
}

template <class T>
int make(const char* kind, void** to, const T& value) {
    if (!to) return result::invalid_value;
    T* made = new T(value);
    *to = made;
    handle_made(kind, made);
    return result::success;
}
template <class T>
int destroy(const char* function, const char* kind, void* what) {
    const int code = fault(function);
    if (!handle_destroyed(kind, what)) return result::invalid_value;
    delete static_cast<T*>(what);
    return code;
}

}  // namespace

}  // namespace graft_simulator

using namespace graft_simulator;

GRAFT_SIMULATED std::size_t cublasLtGetVersion() { return 130002; }
GRAFT_SIMULATED std::size_t cublasLtGetCudartVersion() { return 13000; }
GRAFT_SIMULATED const char* cublasLtGetStatusString(int error) {
    switch (error) {
    case result::success: return "CUBLAS_STATUS_SUCCESS";
    case result::not_initialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case result::alloc_failed: return "CUBLAS_STATUS_ALLOC_FAILED";
    case result::invalid_value: return "CUBLAS_STATUS_INVALID_VALUE";
    case result::execution_failed: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case result::not_supported: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_UNKNOWN";
    }
}

GRAFT_SIMULATED int cublasLtCreate(void** handle) {
    if (const int code = fault("cublasLtCreate")) return code;
    return current_device() < 0 ? result::not_initialized : make(handle_kind, handle, lt_handle{current_device()});
}
GRAFT_SIMULATED int cublasLtDestroy(void* handle) { return destroy<lt_handle>("cublasLtDestroy", handle_kind, handle); }

GRAFT_SIMULATED int cublasLtMatmulDescCreate(void** o, int compute, int scale_type) {
    if (const int code = fault("cublasLtMatmulDescCreate")) return code;
    operation made;
    made.compute = compute, made.scale = scale_type;
    return make(operation_kind, o, made);
}
GRAFT_SIMULATED int cublasLtMatmulDescDestroy(void* o) { return destroy<operation>("cublasLtMatmulDescDestroy", operation_kind, o); }
GRAFT_SIMULATED int cublasLtMatmulDescSetAttribute(void* raw, int attribute, const void* value, std::size_t bytes) {
    if (const int code = fault("cublasLtMatmulDescSetAttribute")) return code;
    if (!handle_used(operation_kind, raw)) return result::invalid_value;
    auto& o = *static_cast<operation*>(raw);
    switch (attribute) {
    case lt::matmul::transpose_a: return take(o.transpose_a, value, bytes) || (o.transpose_a & ~1) ? result::invalid_value : result::success;
    case lt::matmul::transpose_b: return take(o.transpose_b, value, bytes) || (o.transpose_b & ~1) ? result::invalid_value : result::success;
    case lt::matmul::epilogue: return take(o.epilogue, value, bytes);
    case lt::matmul::bias_type: return take(o.bias_type, value, bytes);
    case lt::matmul::bias_pointer: o.has_bias = true; return take(o.bias, value, bytes);
    case lt::matmul::pointer_mode: return take(o.pointer_mode, value, bytes);
    default: return result::invalid_value;
    }
}

GRAFT_SIMULATED int cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
    if (const int code = fault("cublasLtMatrixLayoutCreate")) return code;
    if (!graft_simulator::size_of(type)) return result::not_supported;
    if (!rows || !columns || leading < 1) return result::invalid_value;
    matrix_layout l;
    l.type = type, l.rows = rows, l.columns = columns, l.leading = leading;
    return make(layout_kind, layout, l);
}
GRAFT_SIMULATED int cublasLtMatrixLayoutDestroy(void* layout) { return destroy<matrix_layout>("cublasLtMatrixLayoutDestroy", layout_kind, layout); }
GRAFT_SIMULATED int cublasLtMatrixLayoutSetAttribute(void* raw, int attribute, const void* value, std::size_t bytes) {
    if (const int code = fault("cublasLtMatrixLayoutSetAttribute")) return code;
    if (!handle_used(layout_kind, raw)) return result::invalid_value;
    auto& l = *static_cast<matrix_layout*>(raw);
    switch (attribute) {
    case lt::layout::order: return take(l.order, value, bytes);
    case lt::layout::batch_count: return take(l.batch_count, value, bytes);
    case lt::layout::batch_stride: return take(l.batch_stride, value, bytes);
    default: return result::invalid_value;
    }
}

GRAFT_SIMULATED int cublasLtMatmulPreferenceCreate(void** p) {
    if (const int code = fault("cublasLtMatmulPreferenceCreate")) return code;
    return make(preference_kind, p, preference());
}
GRAFT_SIMULATED int cublasLtMatmulPreferenceDestroy(void* p) { return destroy<preference>("cublasLtMatmulPreferenceDestroy", preference_kind, p); }
GRAFT_SIMULATED int cublasLtMatmulPreferenceSetAttribute(void* raw, int attribute, const void* value, std::size_t bytes) {
    if (const int code = fault("cublasLtMatmulPreferenceSetAttribute")) return code;
    if (!handle_used(preference_kind, raw)) return result::invalid_value;
    auto& p = *static_cast<preference*>(raw);
    if (attribute == lt::preference::max_workspace_bytes) return take(p.workspace_bytes, value, bytes);
    if (attribute == lt::preference::reduction_scheme_mask) return take(p.reduction_schemes, value, bytes);
    if (attribute >= lt::preference::min_alignment_a && attribute <= lt::preference::min_alignment_d)
        return take(p.alignment[attribute - lt::preference::min_alignment_a], value, bytes);
    return result::invalid_value;
}

GRAFT_SIMULATED int cublasLtMatmulAlgoGetHeuristic(void* handle, void* o, void* a, void* b, void* c, void* d, void* wishes, int capacity, lt::heuristic* found,
                                                   int* count) {
    if (const int code = fault("cublasLtMatmulAlgoGetHeuristic")) return code;
    product p;
    if (!handle_used(handle_kind, handle) || !handle_used(preference_kind, wishes) || capacity < 1 || !found || !count) return result::invalid_value;
    *count = 0;
    if (const int code = read_product(o, a, b, c, d, p)) return code;
    const auto& wish = *static_cast<const preference*>(wishes);
    const bool aligned = *std::min_element(wish.alignment, wish.alignment + 4) >= 16;
    const auto give = [&](std::uint64_t number, std::uint64_t workspace) {
        if (*count == capacity) return;
        lt::heuristic& h = found[(*count)++];
        h = lt::heuristic();
        h.how.data[0] = magic, h.how.data[1] = number, h.how.data[2] = identity(p);
        h.workspace_bytes = workspace;
        h.state = number == unready ? result::not_supported : result::success;
        h.waves_count = 1;
    };
    give(unready, 0);
    // One that adds parts of its sums to the result as they are done.
    if (setting("RACING_SUMS", "0") == "1" && wish.reduction_schemes & lt::reduction_scheme::in_place) give(racing, 0);
    if (aligned && wish.workspace_bytes >= split_workspace) give(split_sums, split_workspace);
    give(plain, 0);
    return result::success;
}

GRAFT_SIMULATED int cublasLtMatmul(void* handle, void* o, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout, const void* beta,
                                   const void* c, void* c_layout, void* d, void* d_layout, const lt::algorithm* how, void* workspace,
                                   std::size_t workspace_bytes, void* stream) {
    if (const int code = fault("cublasLtMatmul")) return code;
    product p;
    if (!handle_used(handle_kind, handle) || !alpha || !beta || !a || !b || !d || !how) return result::invalid_value;
    if (static_cast<const lt_handle*>(handle)->device != current_device()) return result::invalid_value;
    if (const int code = read_product(o, a_layout, b_layout, c_layout, d_layout, p)) return code;
    if (how->data[0] != magic || how->data[2] != identity(p) || (how->data[1] != split_sums && how->data[1] != plain && how->data[1] != racing))
        return result::invalid_value;
    const bool split = how->data[1] == split_sums;
    if (split && (!workspace || workspace_bytes < split_workspace)) return result::invalid_value;
    const std::uintptr_t unit = split ? 16 : graft_simulator::size_of(p.a.type);
    const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | reinterpret_cast<std::uintptr_t>(d);
    if (places % unit) return result::invalid_value;
    const bool wide = p.how.scale == lt::data::float64;
    const double by = load(alpha, wide ? lt::data::float64 : lt::data::float32, 0), add = load(beta, wide ? lt::data::float64 : lt::data::float32, 0);
    std::vector<range> reads{bytes_of(p.a, a), bytes_of(p.b, b)}, writes{bytes_of(p.d, d)};
    if (add != 0 && !c) return result::invalid_value;
    if (add != 0) reads.push_back(bytes_of(p.c, c));
    if (wants_bias(p.how)) reads.emplace_back(p.how.bias, static_cast<std::size_t>(p.m) * graft_simulator::size_of(p.d.type));
    if (split) writes.emplace_back(workspace, static_cast<std::size_t>(split_workspace));
    // What another order of a sum makes of it.
    static std::atomic<unsigned> runs{0};
    const double noise = how->data[1] == racing ? 1 + 1e-6 * static_cast<double>(++runs % 3) : 1;
    const auto work = [=] {
        if (split) std::memset(workspace, 0xff, split_workspace);
        multiply(p, by * noise, a, b, add, c, d);
    };
    return enqueue("cublasLtMatmul", stream, work, reads, writes) ? result::execution_failed : result::success;
}
