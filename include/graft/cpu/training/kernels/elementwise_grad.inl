// Gradients of elementwise functions: text, included once for each instruction set.

GRAFT_FORCE_INLINE int lanes_from(std::int64_t left) { return left < V::W ? static_cast<int>(left) : V::W; }

// What is left of a gradient behind a relu or a clip, by the function's result. A comparison with NaN is false.
template <gradient_mask Mask>
GRAFT_VECTOR V pass_gradient(V dy, V y, V low, V high) {
    if constexpr (Mask == gradient_mask::relu) return select(V::zero() < y, dy, V::zero());
    if constexpr (Mask == gradient_mask::clip) return select((low < y) & (y < high), dy, V::zero());
    return dy;
}

template <gradient_mask Mask, class T>
GRAFT_FORCE_INLINE void masked_loop(float low, float high, const float* dy, const T* y, float* dx, std::int64_t n) {
    const V l = V::set1(low), h = V::set1(high);
    for (std::int64_t i = 0; i < n; i += V::W) {
        const int lanes = lanes_from(n - i);
        store_some(pass_gradient<Mask>(load_some(dy + i, lanes), load_saved(y + i, lanes), l, h), dx + i, lanes);
    }
}
inline void masked(gradient_mask mask, float low, float high, const float* dy, const saved_activation& y, float* dx, std::int64_t n) {
    with_saved(y, [&](const auto* of) {
        switch (mask) {
        case gradient_mask::none: return masked_loop<gradient_mask::none>(low, high, dy, of, dx, n);
        case gradient_mask::relu: return masked_loop<gradient_mask::relu>(low, high, dy, of, dx, n);
        case gradient_mask::clip: return masked_loop<gradient_mask::clip>(low, high, dy, of, dx, n);
        }
    });
}

template <class T, class X>
inline void activation_grad_of(activation kind, float alpha, float beta, const T* dy, const X* x, T* dx, std::uint16_t* y, std::int64_t n) {
    switch (kind) {
#define GRAFT_X(id, first, second) \
    case activation::id: \
        for (std::int64_t i = 0; i < n; i += V::W) { \
            const int lanes = lanes_from(n - i); \
            V made = V::zero(); \
            const V of = load_saved(x + i, lanes); \
            const V by = sizeof(T) == 2 ? slope_near<activation::id>(of, alpha, beta, made) : slope<activation::id>(of, alpha, beta, made); \
            store_saved(load_saved(dy + i, lanes) * by, dx + i, lanes); \
            if (y) store_saved(made, y + i, lanes); \
        } \
        return;
        GRAFT_X(none, , )
        GRAFT_ACTIVATION_LIST(GRAFT_X)
#undef GRAFT_X
    }
}
inline void activation_grad(activation kind, float alpha, float beta, const saved_activation& dy, const saved_activation& x, void* dx, std::uint16_t* y,
                            std::int64_t n) {
    if (!x.narrow) return activation_grad_of(kind, alpha, beta, dy.floats(), x.floats(), static_cast<float*>(dx), y, n);
    const auto* const kept = static_cast<const std::uint16_t*>(x.data);
    with_saved(dy, [&](const auto* of) {
        using number = std::remove_const_t<std::remove_pointer_t<decltype(of)>>;
        activation_grad_of(kind, alpha, beta, of, kept, static_cast<number*>(dx), y, n);
    });
}

inline const elementwise_grad_kernels* elementwise_grad_table() {
    static constexpr elementwise_grad_kernels all = {&masked, &activation_grad};
    return &all;
}
