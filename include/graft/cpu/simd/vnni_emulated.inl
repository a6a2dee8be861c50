// What AVX-512 VNNI does with bytes, in any vectors and one by one: text, included inside the namespace and region of an instruction set.

struct lane_bytes {
    std::uint8_t byte[4 * V::W];
};
GRAFT_VECTOR lane_bytes bytes_of(I a) {
    std::int32_t lanes[V::W];
    a.store(lanes);
    lane_bytes made;
    std::memcpy(made.byte, lanes, sizeof made.byte);
    return made;
}
GRAFT_VECTOR I lanes_of(const lane_bytes& from) {
    std::int32_t lanes[V::W];
    std::memcpy(lanes, from.byte, sizeof lanes);
    return I::load(lanes);
}

GRAFT_VECTOR I add_bytes(I sum, I pixels, I weights) {
    const lane_bytes a = bytes_of(pixels), b = bytes_of(weights);
    std::int32_t lanes[V::W];
    sum.store(lanes);
    for (int i = 0; i < 4 * V::W; ++i)
        lanes[i / 4] = static_cast<std::int32_t>(static_cast<std::uint32_t>(lanes[i / 4]) +
                                                 static_cast<std::uint32_t>(int(a.byte[i]) * static_cast<std::int8_t>(b.byte[i])));
    return I::load(lanes);
}
GRAFT_VECTOR I max_bytes(I a, I b) {
    lane_bytes x = bytes_of(a);
    const lane_bytes y = bytes_of(b);
    for (int i = 0; i < 4 * V::W; ++i) x.byte[i] = y.byte[i] > x.byte[i] ? y.byte[i] : x.byte[i];
    return lanes_of(x);
}
GRAFT_VECTOR I zip_bytes(I a, I b, int from) {
    const lane_bytes x = bytes_of(a), y = bytes_of(b);
    lane_bytes made;
    for (int i = 0; i < 4 * V::W; ++i) {
        const int at = i / 16 * 16 + from + i % 16 / 2;
        made.byte[i] = i % 2 ? y.byte[at] : x.byte[at];
    }
    return lanes_of(made);
}
GRAFT_VECTOR I zip_bytes_low(I a, I b) { return zip_bytes(a, b, 0); }
GRAFT_VECTOR I zip_bytes_high(I a, I b) { return zip_bytes(a, b, 8); }
GRAFT_VECTOR std::int32_t cut_off(std::int32_t x, std::int32_t least, std::int32_t most) { return x < least ? least : x > most ? most : x; }
GRAFT_VECTOR I pack_bytes(I a, I b, I c, I d, I added) {
    std::int32_t lanes[4][V::W], more[V::W];
    a.store(lanes[0]), b.store(lanes[1]), c.store(lanes[2]), d.store(lanes[3]), added.store(more);
    lane_bytes made;
    for (int i = 0; i < 4 * V::W; ++i) {
        const std::int32_t half = cut_off(lanes[i / 4 % 4][i / 16 * 4 + i % 4], -32768, 32767), sum = half + static_cast<std::int16_t>(more[0] & 0xffff);
        made.byte[i] = static_cast<std::uint8_t>(cut_off(sum, 0, 255));
    }
    return lanes_of(made);
}
GRAFT_VECTOR I turn_fours(I a) {
    const lane_bytes x = bytes_of(a);
    lane_bytes made;
    for (int i = 0; i < 4 * V::W; ++i) made.byte[i] = x.byte[i / 16 * 16 + i % 4 * 4 + i % 16 / 4];
    return lanes_of(made);
}
GRAFT_VECTOR void store_fours(I a, std::uint8_t* first, std::uint8_t* second) {
    const lane_bytes x = bytes_of(a);
    for (int i = 0; i < 4 * V::W; ++i) (i % 16 < 8 ? first : second)[i % 8 / 4 * 16 + i / 16 * 4 + i % 4] = x.byte[i];
}
GRAFT_VECTOR I min_bytes(I a, I b) {
    lane_bytes x = bytes_of(a);
    const lane_bytes y = bytes_of(b);
    for (int i = 0; i < 4 * V::W; ++i) x.byte[i] = y.byte[i] < x.byte[i] ? y.byte[i] : x.byte[i];
    return lanes_of(x);
}
GRAFT_VECTOR I even_lanes(I a, I b) {
    std::int32_t lanes[2 * V::W];
    a.store(lanes), b.store(lanes + V::W);
    for (int i = 0; i < V::W; ++i) lanes[i] = lanes[2 * i];
    return I::load(lanes);
}
GRAFT_VECTOR I repeat_four(const std::int32_t* p) {
    std::int32_t lanes[V::W];
    for (int i = 0; i < V::W; ++i) lanes[i] = p[i % 4];
    return I::load(lanes);
}
