// Parts of the wrapper for sets of four lanes that lack the instructions: lane by lane through memory. Text, included inside
// the namespace and region of baseline and wasm.

GRAFT_VECTOR V floor(V a) {
    const V cut = trunc(a);
    return select(a < cut, cut - V::set1(1.0f), cut);
}
GRAFT_VECTOR V ceil(V a) {
    const V cut = trunc(a);
    return select(cut < a, cut + V::set1(1.0f), cut) | (a & V::set1(-0.0f));
}
GRAFT_VECTOR I max(I a, I b) { return select(a > b, a, b); }
GRAFT_VECTOR I min(I a, I b) { return select(a > b, b, a); }
GRAFT_VECTOR V permute(V a, I at) {
    float from[4], to[4];
    std::int32_t index[4];
    a.store(from);
    at.store(index);
    for (int i = 0; i < 4; ++i) to[i] = from[index[i] & 3];
    return V::load(to);
}
GRAFT_VECTOR V load_f16(const std::uint16_t* p) {
    float all[4];
    for (int i = 0; i < 4; ++i) all[i] = to_float(float16{p[i]});
    return V::load(all);
}
GRAFT_VECTOR V load_bf16(const std::uint16_t* p) {
    const std::int32_t all[4] = {p[0], p[1], p[2], p[3]};
    return as_float(shift_left<16>(I::load(all)));
}
GRAFT_VECTOR void store_f16(V a, std::uint16_t* p) {
    float all[4];
    a.store(all);
    for (int i = 0; i < 4; ++i) p[i] = to_float16(static_cast<double>(all[i])).bits;
}
GRAFT_VECTOR I load_u8(const std::uint8_t* p) {
    const std::int32_t all[4] = {p[0], p[1], p[2], p[3]};
    return I::load(all);
}
GRAFT_VECTOR I load_s8(const std::int8_t* p) {
    const std::int32_t all[4] = {p[0], p[1], p[2], p[3]};
    return I::load(all);
}
GRAFT_VECTOR void store_8(I a, void* p) {
    std::int32_t all[4];
    a.store(all);
    for (int i = 0; i < 4; ++i) static_cast<std::uint8_t*>(p)[i] = static_cast<std::uint8_t>(all[i]);
}
GRAFT_VECTOR void store_16(I a, std::uint16_t* p) {
    std::int32_t all[4];
    a.store(all);
    for (int i = 0; i < 4; ++i) p[i] = static_cast<std::uint16_t>(all[i]);
}
