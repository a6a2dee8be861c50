// Vectors of activations that were kept as float32 or bfloat16: text, included once for each instruction set.

GRAFT_VECTOR V load_saved(const float* p) { return V::load(p); }
GRAFT_VECTOR V load_saved(const std::uint16_t* p) { return load_bf16(p); }
// The first lanes; zeros behind them.
GRAFT_FORCE_INLINE V load_saved(const float* p, int lanes) { return load_some(p, lanes); }
GRAFT_FORCE_INLINE V load_saved(const std::uint16_t* p, int lanes) {
    if (lanes == V::W) return load_bf16(p);
    std::uint16_t some[V::W] = {};
    std::memcpy(some, p, static_cast<std::size_t>(lanes) * sizeof *p);
    return load_bf16(some);
}
GRAFT_FORCE_INLINE void store_saved(V v, float* p, int lanes) { store_some(v, p, lanes); }
GRAFT_FORCE_INLINE void store_saved(V v, std::uint16_t* p, int lanes) {
    if (lanes == V::W) return store_bf16(v, p);
    std::uint16_t some[V::W];
    store_bf16(v, some);
    std::memcpy(p, some, static_cast<std::size_t>(lanes) * sizeof *p);
}

// f(p), with the elements as what they are.
template <class F>
GRAFT_FORCE_INLINE void with_saved(const saved_activation& x, const F& f) {
    if (x.narrow) return f(static_cast<const std::uint16_t*>(x.data));
    f(x.floats());
}
