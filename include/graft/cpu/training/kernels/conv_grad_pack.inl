// Packing of weights that change with every step: text, included once for each instruction set. What pack_conv_weights writes, by
// transposed vectors and in tasks, from the weights as they are or, for the gradient of the input, turned round.

static constexpr int pack_room = 4096;

// u = G g.
GRAFT_VECTOR void weight_transform(V a, V b, V c, V (&u)[6]) {
    const V sixth = V::set1(1.0f / 6), s = V::zero() - sixth * (a + c), t = fma(V::set1(1.0f / 24), a, sixth * c);
    u[0] = V::set1(0.25f) * a;
    u[1] = fnma(sixth, b, s);
    u[2] = fma(sixth, b, s);
    u[3] = fma(V::set1(1.0f / 12), b, t);
    u[4] = fnma(V::set1(1.0f / 12), b, t);
    u[5] = c;
}
GRAFT_VECTOR void weight_transform(V a, V b, V c, V (&u)[4]) {
    const V half = V::set1(0.5f), s = half * (a + c);
    u[0] = a;
    u[1] = fma(half, b, s);
    u[2] = fnma(half, b, s);
    u[3] = c;
}
// `w`: nine taps of one input channel, `taps` says where each of them is.
template <int N>
GRAFT_NOINLINE inline void pack_winograd(const float* w, const std::int32_t* taps, float* to, std::int64_t element) {
    V half[3][N];
    GRAFT_UNROLL
    for (int k = 0; k < 3; ++k) weight_transform(V::load(w + taps[k] * V::W), V::load(w + taps[3 + k] * V::W), V::load(w + taps[6 + k] * V::W), half[k]);
    for (int r = 0; r < N; ++r) {
        V u[N];
        weight_transform(half[0][r], half[1][r], half[2][r], u);
        GRAFT_UNROLL
        for (int k = 0; k < N; ++k) u[k].store(to + (r * N + k) * element);
    }
}

// One task: a pair of vectors of output channels of one group, whose weights are written side by side.
inline void conv_pack(const conv_pack_args& a, std::int64_t task) {
    const std::int64_t pairs = (a.out_channels + 2 * V::W - 1) / (2 * V::W), group = task / pairs, pair = task % pairs * 2 * V::W;
    const std::int64_t left = a.out_channels - pair, vectors = left > V::W ? 2 * V::W : V::W;
    float* const to = a.to + group * a.to_group + pair * a.in_channels * (a.wino ? 1 : a.taps);
    alignas(64) float room[pack_room];
    std::int64_t at_once = pack_room / (a.from_taps * V::W);
    if (at_once > V::W) at_once = V::W;
    for (std::int64_t c = 0, count; c < a.in_channels; c += count) {
        const std::int64_t start = c / V::W * V::W, end = a.in_channels - start < V::W ? a.in_channels : start + V::W;  // of c's block
        count = end - c < at_once ? end - c : at_once;
        for (std::int64_t half = 0; half < vectors; half += V::W) {
            const float* from = a.from + group * a.from_group + (pair + half) * a.out_step + c * a.in_step;
            const int lanes = static_cast<int>(left - half < V::W ? left - half : V::W);
            if (a.in_step == a.from_taps)
                planes_to_block(from, a.out_step, lanes, 0, count * a.from_taps, room);
            else
                for (std::int64_t i = 0; i < count; ++i)
                    planes_to_block(from + i * a.in_step, a.out_step, lanes, 0, a.from_taps, room + i * a.from_taps * V::W);
            for (std::int64_t i = 0; i < count; ++i) {
                const float* w = room + i * a.from_taps * V::W;
                float* const channel = to + half +
                                       (a.wino     ? (c + i) * vectors
                                        : a.planes ? (c + i) * a.taps * vectors
                                                   : (start * a.taps + c + i - start) * vectors);
                const std::int64_t step = a.planes ? vectors : (end - start) * vectors;
                if (a.wino == 4)
                    pack_winograd<6>(w, a.tap, channel, a.element);
                else if (a.wino == 2)
                    pack_winograd<4>(w, a.tap, channel, a.element);
                else
                    for (int t = 0; t < a.taps; ++t) V::load(w + a.tap[t] * V::W).store(channel + t * step);
            }
        }
    }
}
