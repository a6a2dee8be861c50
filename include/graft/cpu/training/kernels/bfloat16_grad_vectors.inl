// Rows of gradients by vectors: text, included for each set that multiplies pairs.

// For each tap and each vector of some channels gather(pixel, row): pixel(i) is what pixel i of the block has of them, `row` the first of theirs.
template <class T, class F>
GRAFT_FORCE_INLINE void gather_taps_of(const bfloat16_grad_args& a, const T* x, int shard, std::int64_t block, std::int64_t channel, std::int64_t channels,
                                       const F& gather) {
    const conv_problem& p = a.p;
    const std::int64_t pitch = grad_pitch(a, channels);
    for (int ky = 0, t = 0; ky < p.kh; ++ky)
        for (int kx = 0; kx < p.kw; ++kx, ++t) {
            shard_pixels at(a, shard, block * bfloat16_block);
            const T* from[bfloat16_block];  // null outside the image
            bool inside = true;             // all of them
            for (const T*& pixel : from) {
                pixel = at.in(x, std::int64_t(ky) * p.dh - p.pt, std::int64_t(kx) * p.dw - p.pl);
                inside &= pixel != nullptr;
                at.next();
            }
            for (std::int64_t c = 0; c < channels; c += V::W) {
                const std::int64_t step = (channel + c) / V::W * a.x_vector, lanes = channels - c;
                const bool whole = a.whole_vectors || lanes >= V::W;
                const auto pixel = [&](int i) {
                    return inside && whole ? training::load_saved(from[i] + step) : from[i] ? grad_lanes(from[i] + step, lanes, whole) : V::zero();
                };
                gather(pixel, t * pitch + c);
            }
        }
}

template <class F>
GRAFT_FORCE_INLINE void gather_taps(const bfloat16_grad_args& a, int shard, std::int64_t block, std::int64_t channel, std::int64_t channels, const F& gather) {
    training::with_saved(a.x, [&](const auto* x) { gather_taps_of(a, x, shard, block, channel, channels, gather); });
}

// [pair of pixels][row][2]: neighbouring rows are read together, and nothing is transposed.
inline void gather_rows_bfloat16(pair_unit&, const bfloat16_grad_args& a, int shard, std::int64_t block, std::int64_t blocks, std::int64_t channel,
                                 std::int64_t channels, std::uint16_t* to) {
    for (const std::int64_t end = block + blocks; block < end; ++block, to += a.rows * bfloat16_block)
        gather_taps(a, shard, block, channel, channels, [&](const auto& pixel, std::int64_t row) {
            std::uint16_t* rows = to + row * 2;
            for (int i = 0; i < bfloat16_block; i += 2, rows += a.rows * 2) narrow_pairs(pixel(i), pixel(i + 1), rows);
        });
}

// Runs of nearly one length. Rows of no channel are left out where they are many enough to be worth it.
GRAFT_VECTOR void sum_rows_bfloat16(pair_unit&, const bfloat16_grad_args&, const pixel_args& a, const std::uint16_t* x, const std::uint16_t* w, sums_from start,
                                    const sums_to& to, const bfloat16_rows& of) {
    constexpr int many = 11;
    using sum_run = decltype(&sum_pairs_bfloat16<many, 2>);
    static constexpr sum_run sums[many] = {&sum_pairs_bfloat16<1, 2>, &sum_pairs_bfloat16<2, 2>,  &sum_pairs_bfloat16<3, 2>, &sum_pairs_bfloat16<4, 2>,
                                           &sum_pairs_bfloat16<5, 2>, &sum_pairs_bfloat16<6, 2>,  &sum_pairs_bfloat16<7, 2>, &sum_pairs_bfloat16<8, 2>,
                                           &sum_pairs_bfloat16<9, 2>, &sum_pairs_bfloat16<10, 2>, &sum_pairs_bfloat16<11, 2>};
    const bool all = of.pitch - of.channels < 4;
    const std::int64_t rows = all ? of.rows : of.channels, runs = (rows + many - 1) / many;
    for (std::int64_t first = 0; first < of.rows; first += all ? of.rows : of.pitch)
        for (std::int64_t run = 0; run < runs; ++run) {
            const std::int64_t r = first + rows * run / runs, count = first + rows * (run + 1) / runs - r;
            sums[count - 1](a, x + r * 2, a.block_pixels * 2, w, {start.first + r * start.pixel, start.pixel}, to.from_pixel(r));
        }
}

inline const bfloat16_grad_kernels* bfloat16_grad_by_vectors() {
    static constexpr bfloat16_grad_kernels all = {&grad_pack_bfloat16<false>, &grad_sum_bfloat16<pair_unit, false>, &grad_end_bfloat16};
    return &all;
}
