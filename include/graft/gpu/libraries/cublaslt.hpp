// Matrix products by cuBLASLt: its descriptors with owners, and the kernel of a row-major product with an epilogue.
#pragma once

#include "../../graph/activation.hpp"
#include "../runtime/handles.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The failure that cuBLASLt's `code` means; what it does not support or takes for wrong is op.unsupported.
status cublaslt_failure(const api::cublaslt_functions& functions, int code, const char* what);

/// Owner of an operation, a layout or a preference.
class cublaslt_object {
public:
    using destroy_function = int (*)(void*);
    using set_function = int (*)(void*, int, const void*, std::size_t);

    cublaslt_object() noexcept {}
    cublaslt_object(cublaslt_object&& other) noexcept { swap(other); }
    cublaslt_object& operator=(cublaslt_object&& other) noexcept {
        swap(other);
        return *this;
    }
    ~cublaslt_object() {
        if (raw_) destroy_(raw_);
    }

    status create_operation(const api::cublaslt_functions& functions, int compute, int scale_type);
    status create_layout(const api::cublaslt_functions& functions, int type, std::int64_t rows, std::int64_t columns, std::int64_t leading);
    status create_preference(const api::cublaslt_functions& functions);
    template <class T>
    status set(int attribute, T value) {
        return set_bytes(attribute, &value, sizeof value);
    }
    void* raw() const noexcept { return raw_; }

private:
    status set_bytes(int attribute, const void* value, std::size_t bytes);
    void swap(cublaslt_object& other) noexcept {
        std::swap(functions_, other.functions_), std::swap(raw_, other.raw_), std::swap(destroy_, other.destroy_), std::swap(set_, other.set_);
    }

    const api::cublaslt_functions* functions_ = nullptr;
    void* raw_ = nullptr;
    destroy_function destroy_ = nullptr;
    set_function set_ = nullptr;
};

/// D = act(alpha * A' * B' + beta * C + bias): row-major matrices, [m, k] * [k, n], A and B transposed in memory where they say so.
/// `batch` products lie at fixed distances (in elements; 0: the same matrix for all), and these groups `outer` times again.
struct matrix_product {
    std::int64_t m = 1, n = 1, k = 1;
    bool trans_a = false, trans_b = false;
    std::int64_t batch = 1, a_stride = 0, b_stride = 0;
    std::int64_t outer = 1, a_outer = 0, b_outer = 0;
    double alpha = 1, beta = 0;                                ///< of C, which has D's shape
    int a = 0, b = 1, c = -1, bias = -1;                       ///< inputs of the node; bias: n elements
    dtype type = dtype::undefined, result = dtype::undefined;  ///< of A and B; of C, D and bias
    activation act = activation::none;
};

/// Whether cuBLASLt can apply the function to a product. Its GELU is the approximation by tanh.
bool matmul_epilogue_supported(activation function) noexcept;

/// The kernel of a product; op.unsupported where cuBLASLt has none within the workspace.
result<std::unique_ptr<library_kernel>> make_product(const kernel_query& query, const libraries& with, const matrix_product& p);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstdio>
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE GRAFT_COLD status cublaslt_failure(const api::cublaslt_functions& functions, int code, const char* what) {
    namespace result = api::cublaslt::result;
    const char* name = functions.cublasLtGetStatusString ? functions.cublasLtGetStatusString(code) : nullptr;
    const std::string text = std::string(what) + ": " + (name ? name : "error") + " (" + std::to_string(code) + ")";
    if (code == result::alloc_failed) return fail(errc::memory_oom, "cuBLASLt", text + "; use a smaller batch");
    if (code == result::not_supported || code == result::invalid_value || code == result::arch_mismatch) return fail(errc::op_unsupported, "cuBLASLt", text);
    return fail(errc::device_unavailable, "cuBLASLt", text + "; `graft doctor` tells which libraries are used");
}

GRAFT_INLINE status cublaslt_object::create_operation(const api::cublaslt_functions& functions, int compute, int scale_type) {
    functions_ = &functions;
    destroy_ = functions.cublasLtMatmulDescDestroy;
    set_ = functions.cublasLtMatmulDescSetAttribute;
    const int code = functions.cublasLtMatmulDescCreate(&raw_, compute, scale_type);
    return code ? cublaslt_failure(functions, code, "the description of a product") : status();
}
GRAFT_INLINE status cublaslt_object::create_layout(const api::cublaslt_functions& functions, int type, std::int64_t rows, std::int64_t columns,
                                                   std::int64_t leading) {
    functions_ = &functions;
    destroy_ = functions.cublasLtMatrixLayoutDestroy;
    set_ = functions.cublasLtMatrixLayoutSetAttribute;
    const int code = functions.cublasLtMatrixLayoutCreate(&raw_, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), leading);
    return code ? cublaslt_failure(functions, code, "the layout of a matrix") : status();
}
GRAFT_INLINE status cublaslt_object::create_preference(const api::cublaslt_functions& functions) {
    functions_ = &functions;
    destroy_ = functions.cublasLtMatmulPreferenceDestroy;
    set_ = functions.cublasLtMatmulPreferenceSetAttribute;
    const int code = functions.cublasLtMatmulPreferenceCreate(&raw_);
    return code ? cublaslt_failure(functions, code, "a preference") : status();
}
GRAFT_INLINE status cublaslt_object::set_bytes(int attribute, const void* value, std::size_t bytes) {
    const int code = set_(raw_, attribute, value, bytes);
    if (!code) return {};
    char what[64];
    std::snprintf(what, sizeof what, "attribute %d of a product", attribute);
    return cublaslt_failure(*functions_, code, what);
}

GRAFT_INLINE bool matmul_epilogue_supported(activation function) noexcept {
    return function == activation::none || function == activation::relu || function == activation::gelu_tanh;
}

namespace detail {

inline int cublaslt_type(dtype type) noexcept {
    namespace data = api::cublaslt::data;
    return type == dtype::float64 ? data::float64 : type == dtype::float16 ? data::float16 : type == dtype::bfloat16 ? data::bfloat16 : data::float32;
}
inline int cublaslt_epilogue(const matrix_product& p) noexcept {
    namespace epilogue = api::cublaslt::epilogue;
    const bool bias = p.bias >= 0;
    if (p.act == activation::relu) return bias ? epilogue::relu_bias : epilogue::relu;
    if (p.act == activation::gelu_tanh) return bias ? epilogue::gelu_bias : epilogue::gelu;
    return bias ? epilogue::bias : epilogue::none;
}

/// The descriptors of a product. cuBLASLt reads column-major matrices: a row-major one is its transpose, so that what it is asked
/// for is transposed D = B * A, and one bias element belongs to each of its rows.
struct product_descriptors {
    cublaslt_object left, right, sum;  ///< B, A, and C and D

    status make(const api::cublaslt_functions& f, const matrix_product& p) {
        const int type = cublaslt_type(p.type), result = cublaslt_type(p.result);
        GRAFT_TRY(left.create_layout(f, type, p.trans_b ? p.k : p.n, p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n));
        GRAFT_TRY(right.create_layout(f, type, p.trans_a ? p.m : p.k, p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k));
        GRAFT_TRY(sum.create_layout(f, result, p.n, p.m, p.n));
        if (p.batch == 1) return {};
        GRAFT_TRY(set_batch(left, p, p.b_stride));
        GRAFT_TRY(set_batch(right, p, p.a_stride));
        return set_batch(sum, p, p.m * p.n);
    }
    static status set_batch(cublaslt_object& l, const matrix_product& p, std::int64_t stride) {
        GRAFT_TRY(l.set(api::cublaslt::layout::batch_count, static_cast<std::int32_t>(p.batch)));
        return l.set(api::cublaslt::layout::batch_stride, stride);
    }
};

inline status make_operation(const api::cublaslt_functions& f, const matrix_product& p, bool tf32, const void* bias, cublaslt_object& operation) {
    namespace compute = api::cublaslt::compute;
    namespace matmul = api::cublaslt::matmul;
    namespace transposed = api::cublaslt::operation;
    const bool wide = p.type == dtype::float64;
    const int how = wide ? compute::float64 : p.type == dtype::float32 && tf32 ? compute::float32_fast_tf32 : compute::float32;
    GRAFT_TRY(operation.create_operation(f, how, wide ? api::cublaslt::data::float64 : api::cublaslt::data::float32));
    GRAFT_TRY(operation.set(matmul::transpose_a, static_cast<std::int32_t>(p.trans_b ? transposed::transpose : transposed::none)));
    GRAFT_TRY(operation.set(matmul::transpose_b, static_cast<std::int32_t>(p.trans_a ? transposed::transpose : transposed::none)));
    GRAFT_TRY(operation.set(matmul::epilogue, static_cast<std::uint32_t>(cublaslt_epilogue(p))));
    if (p.bias < 0) return {};
    GRAFT_TRY(operation.set(matmul::bias_type, static_cast<std::int32_t>(cublaslt_type(p.result))));
    return operation.set(matmul::bias_pointer, bias);
}

/// Runs a product by one algorithm.
class product_kernel final : public library_kernel {
public:
    product_kernel(const matrix_product& p, bool tf32, const api::cublaslt::heuristic& found, int place) : p_(p), tf32_(tf32), how_(found.how) {
        workspace_bytes = static_cast<std::int64_t>(found.workspace_bytes);
        note = "cuBLASLt, algorithm " + std::to_string(place + 1) + " of its list";
    }
    inline status enqueue(const library_call& call) const override {
        const api::cublaslt_functions& f = *call.with.cublaslt;
        product_descriptors layouts;
        cublaslt_object operation;
        GRAFT_TRY(layouts.make(f, p_));
        GRAFT_TRY(make_operation(f, p_, tf32_, p_.bias < 0 ? nullptr : at(call.in[p_.bias], 0), operation));
        const std::int64_t size = static_cast<std::int64_t>(size_of(p_.type)), result_size = static_cast<std::int64_t>(size_of(p_.result));
        const float alpha = static_cast<float>(p_.alpha), beta = static_cast<float>(p_.beta);
        const bool wide = p_.type == dtype::float64;
        const void *by = wide ? static_cast<const void*>(&p_.alpha) : &alpha, *plus = wide ? static_cast<const void*>(&p_.beta) : &beta;
        for (std::int64_t i = 0; i < p_.outer; ++i) {
            const std::int64_t of_result = i * p_.batch * p_.m * p_.n * result_size;
            void* d = at(call.out[0], of_result);
            const void* c = p_.c < 0 ? d : at(call.in[p_.c], of_result);
            const void *left = at(call.in[p_.b], i * p_.b_outer * size), *right = at(call.in[p_.a], i * p_.a_outer * size);
            const int code =
                f.cublasLtMatmul(call.with.cublaslt_handle, operation.raw(), by, left, layouts.left.raw(), right, layouts.right.raw(), plus, c,
                                 layouts.sum.raw(), d, layouts.sum.raw(), &how_, at(call.workspace, 0), static_cast<std::size_t>(workspace_bytes), call.stream);
            if (code) return cublaslt_failure(f, code, "a product");
        }
        return {};
    }

private:
    static void* at(device_address base, std::int64_t bytes) noexcept {
        return reinterpret_cast<void*>(static_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(bytes));
    }

    matrix_product p_;
    bool tf32_;
    api::cublaslt::algorithm how_;
};

// Bytes that an address is a multiple of, when it is moved by `step` bytes from one that is a multiple of 256.
inline std::uint32_t alignment_after(std::int64_t step) noexcept {
    std::uint32_t a = 256;
    while (a > 1 && step % a) a /= 2;
    return a;
}

inline status find_algorithms(const libraries& with, const matrix_product& p, bool tf32, bool deterministic, std::vector<api::cublaslt::heuristic>& found) {
    namespace preference = api::cublaslt::preference;
    const api::cublaslt_functions& f = *with.cublaslt;
    product_descriptors layouts;
    cublaslt_object operation, wishes;
    GRAFT_TRY(layouts.make(f, p));
    // Only whether there is a bias, and its alignment, count here.
    GRAFT_TRY(make_operation(f, p, tf32, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(256)), operation));
    GRAFT_TRY(wishes.create_preference(f));
    const std::int64_t size = static_cast<std::int64_t>(size_of(p.type)), outer = p.outer > 1 ? 1 : 0;
    const std::uint32_t of_result = alignment_after(outer * p.batch * p.m * p.n * static_cast<std::int64_t>(size_of(p.result)));
    GRAFT_TRY(wishes.set(preference::max_workspace_bytes, static_cast<std::uint64_t>(with.choices.workspace_bytes < 0 ? 0 : with.choices.workspace_bytes)));
    GRAFT_TRY(wishes.set(preference::min_alignment_a, alignment_after(outer * p.b_outer * size)));
    GRAFT_TRY(wishes.set(preference::min_alignment_b, alignment_after(outer * p.a_outer * size)));
    GRAFT_TRY(wishes.set(preference::min_alignment_c, of_result));
    GRAFT_TRY(wishes.set(preference::min_alignment_d, of_result));
    namespace scheme = api::cublaslt::reduction_scheme;
    // Parts of a sum that are added to the result in place come in the order in which they are done.
    if (deterministic) GRAFT_TRY(wishes.set(preference::reduction_scheme_mask, static_cast<std::uint32_t>(scheme::all & ~scheme::in_place)));
    constexpr int most = 16;
    api::cublaslt::heuristic answers[most];
    int count = 0;
    const int code = f.cublasLtMatmulAlgoGetHeuristic(with.cublaslt_handle, operation.raw(), layouts.left.raw(), layouts.right.raw(), layouts.sum.raw(),
                                                      layouts.sum.raw(), wishes.raw(), most, answers, &count);
    if (code) return cublaslt_failure(f, code, "the choice of an algorithm");
    for (int i = 0; i < count && i < most; ++i)
        if (answers[i].state == api::cublaslt::result::success && static_cast<std::int64_t>(answers[i].workspace_bytes) <= with.choices.workspace_bytes)
            found.push_back(answers[i]);
    return found.empty() ? fail(errc::op_unsupported, "cuBLASLt", "no algorithm takes this product") : status();
}

inline std::string product_text(const matrix_product& p, bool tf32) {
    char line[320];
    const auto n = [](std::int64_t v) { return static_cast<long long>(v); };
    std::snprintf(line, sizeof line, "product %lldx%lldx%lld%s%s batch %lld %lld %lld outer %lld %lld %lld %s to %s epilogue %d%s%s", n(p.m), n(p.n), n(p.k),
                  p.trans_a ? " A'" : "", p.trans_b ? " B'" : "", n(p.batch), n(p.a_stride), n(p.b_stride), n(p.outer), n(p.a_outer), n(p.b_outer),
                  name(p.type), name(p.result), cublaslt_epilogue(p), p.beta != 0 ? " adds" : "", p.type == dtype::float32 && !tf32 ? " full" : "");
    return line;
}

// An algorithm's name: the hash of its bytes (FNV-1a).
inline std::string algorithm_text(const api::cublaslt::algorithm& how) {
    std::uint64_t hash = 14695981039346656037ull;
    for (std::uint64_t word : how.data)
        for (int i = 0; i < 8; ++i) hash = (hash ^ (word >> 8 * i & 255)) * 1099511628211ull;
    char text[24];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    return text;
}

}  // namespace detail

GRAFT_INLINE result<std::unique_ptr<library_kernel>> make_product(const kernel_query& query, const libraries& with, const matrix_product& p) {
    using kernel = std::unique_ptr<library_kernel>;
    const library_choices& choices = with.choices;
    const bool tf32 = query.options.tf32 && !query.integer("exact", 0), deterministic = query.options.deterministic;
    std::vector<api::cublaslt::heuristic> found;
    GRAFT_TRY(detail::find_algorithms(with, p, tf32, deterministic, found));
    // A measured choice differs from one run of the program to the next.
    if (deterministic) return kernel(new detail::product_kernel(p, tf32, found[0], 0));
    const std::string key = query.on.name + "; cuBLASLt " + std::to_string(with.cublaslt->cublasLtGetVersion()) + "; " + detail::product_text(p, tf32);
    const std::string kept = choices.recall ? choices.recall(choices.context, key) : std::string();
    for (std::size_t i = 0; !kept.empty() && i < found.size(); ++i)
        if (detail::algorithm_text(found[i].how) == kept) return kernel(new detail::product_kernel(p, tf32, found[i], static_cast<int>(i)));
    const bool measured = choices.milliseconds && choices.candidates > 1 && found.size() > 1;
    if (!measured) return kernel(new detail::product_kernel(p, tf32, found[0], 0));
    kernel best;
    double least = 0;
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < found.size() && i < static_cast<std::size_t>(choices.candidates); ++i) {
        kernel k(new detail::product_kernel(p, tf32, found[i], static_cast<int>(i)));
        const double milliseconds = choices.milliseconds(choices.context, query, *k, 5);
        if (milliseconds < 0 || (best && milliseconds >= least)) continue;
        least = milliseconds;
        best = std::move(k);
        chosen = i;
    }
    if (!best) return fail(errc::device_unavailable, "cuBLASLt", "every algorithm failed while it was measured; `graft doctor` tells which libraries are used");
    if (choices.remember) choices.remember(choices.context, key, detail::algorithm_text(found[chosen].how));
    return best;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
