// Gradients of weights as sums of products of bfloat16 over pixels: text, included for each set that rounds to them. A row is an input channel and a tap, and
// takes the place that a pixel has in a convolution; 32 pixels take that of its channels.

// The rows of a band, [tap][channel]: `pitch` from a tap to the next, of which `channels` count.
struct bfloat16_rows {
    std::int64_t pitch, channels, rows;
};

// Pixels of a shard, one after the other through its images, and what lies between them.
class shard_pixels {
public:
    GRAFT_VECTOR shard_pixels(const bfloat16_grad_args& a, int shard, std::int64_t first)
        : a_(a), left_((a.shards.last(a.p.n, shard) - a.shards.first(a.p.n, shard)) * a.image_rows * a.pitch - first) {
        const std::int64_t pixels = a.image_rows * a.pitch, in_image = first % pixels;
        image_ = a.shards.first(a.p.n, shard) + first / pixels;
        y_ = in_image / a.pitch, x_ = in_image % a.pitch;
    }
    GRAFT_VECTOR bool more() const { return left_ > 0; }
    GRAFT_VECTOR void next() {
        --left_;
        if (++x_ < a_.pitch) return;
        x_ = 0;
        if (++y_ == a_.image_rows) y_ = 0, ++image_;
    }
    // Null where the pixel is none.
    template <class T>
    GRAFT_VECTOR const T* out(const T* dy) const {
        return more() && x_ < a_.p.ow && y_ < a_.p.oh ? dy + image_ * a_.dy_image + (y_ * a_.p.ow + x_) * a_.dy_pixel : nullptr;
    }
    template <class T>
    GRAFT_VECTOR const T* in(const T* x, std::int64_t down, std::int64_t right) const {
        const std::int64_t iy = y_ * a_.p.sh + down, ix = x_ * a_.p.sw + right;
        const bool inside = more() && iy >= 0 && iy < a_.p.ih && ix >= 0 && ix < a_.p.iw;
        return inside ? x + image_ * a_.x_image + iy * a_.x_row + ix * a_.x_pixel : nullptr;
    }

private:
    const bfloat16_grad_args& a_;
    std::int64_t left_, image_, y_, x_;
};

// Some lanes, or all of them where there is room past the last; zeros behind them.
template <class T>
GRAFT_VECTOR V grad_lanes(const T* from, std::int64_t lanes, bool whole) {
    if (lanes <= 0) return V::zero();
    return whole || lanes >= V::W ? training::load_saved(from) : training::load_saved(from, static_cast<int>(lanes));
}

// dy of some blocks of a shard's pixels and 32 output channels, as weights.
template <bool Tiles, class T>
inline void pack_dy_of(const bfloat16_grad_args& a, const T* from, std::int64_t out_block, int shard, std::int64_t block, std::int64_t blocks,
                       std::uint16_t* to) {
    constexpr int half = bfloat16_block / 2, vectors = bfloat16_block / V::W;
    const std::int64_t channels = a.p.oc - out_block * bfloat16_block, first = out_block * vectors * a.dy_vector;
    shard_pixels at(a, shard, block * bfloat16_block);
    for (; blocks > 0; --blocks, to += bfloat16_step)
        for (int k = 0; k < half; ++k) {
            const T* of[2];
            for (const T*& dy : of) {
                dy = at.out(from);
                if (dy) dy += first;
                at.next();
            }
            for (int v = 0; v < vectors; ++v) {
                const auto lanes = [&](const T* dy) { return dy ? grad_lanes(dy + v * a.dy_vector, channels - v * V::W, a.whole_vectors) : V::zero(); };
                narrow_pairs(lanes(of[0]), lanes(of[1]), pair_in_step(Tiles, to, k, v * V::W));
            }
        }
}

template <bool Tiles>
inline void pack_dy_bfloat16(const bfloat16_grad_args& a, std::int64_t out_block, int shard, std::int64_t block, std::int64_t blocks, std::uint16_t* to) {
    training::with_saved(a.dy, [&](const auto* dy) { pack_dy_of<Tiles>(a, dy, out_block, shard, block, blocks, to); });
}

template <bool Tiles>
inline void grad_pack_bfloat16(const bfloat16_grad_args& a, std::int64_t out_block, int shard) {
    const std::int64_t first = a.shard_block[shard];
    pack_dy_bfloat16<Tiles>(a, out_block, shard, 0, a.shard_block[shard + 1] - first, a.packed + (out_block * a.blocks() + first) * bfloat16_step);
}

// Rows from a tap to the next.
inline std::int64_t grad_pitch(const bfloat16_grad_args& a, std::int64_t channels) { return (channels + a.lane_step - 1) / a.lane_step * a.lane_step; }

inline std::int64_t grad_channels(const bfloat16_grad_args& a, std::int64_t chunk) {
    const std::int64_t left = a.p.ic - chunk % a.bands * a.lanes;
    return left < a.lanes ? left : a.lanes;
}
inline float* grad_level(const bfloat16_grad_args& a, std::int64_t chunk, std::int64_t part, std::int64_t level) {
    return a.sums + (((chunk - a.first_chunk) * a.parts + part) * a.levels + level) * a.level_floats();
}
// to = from + to.
inline void grad_add_sums(const float* from, float* to, std::int64_t floats) {
    for (std::int64_t i = 0; i < floats; i += V::W) (V::load(from + i) + V::load(to + i)).store(to + i);
}

template <class Unit, bool Tiles>
inline void grad_sum_bfloat16(const bfloat16_grad_args& a, std::int64_t chunk, std::int64_t part) {
    const std::int64_t channels = grad_channels(a, chunk), pitch = grad_pitch(a, channels), rows = pitch * a.p.kh * a.p.kw,
                       out_floats = a.rows * bfloat16_block, each = a.shards.count / a.parts;
    std::uint16_t* const gathered = a.gathered + ((chunk - a.first_chunk) * a.parts + part) * a.task_numbers();
    std::uint16_t* const own = gathered + a.gathered_numbers();
    const std::int64_t first_out = chunk / a.bands * a.group_blocks,
                       outs = a.out_blocks - first_out < a.group_blocks ? a.out_blocks - first_out : a.group_blocks;
    static constexpr std::int64_t here[1] = {0};
    pixel_args of;  // of one row of pixels
    of.block_pixels = a.rows, of.source_block = a.rows * bfloat16_block;
    of.from.taps = here;
    alignas(64) static constexpr float zeros[bfloat16_block] = {};
    Unit unit;
    for (std::int64_t i = 0; i < each; ++i) {
        const int shard = static_cast<int>(part * each + i), merges = training::grad_merges(i);
        const std::int64_t first = a.shard_block[shard], count = a.shard_block[shard + 1] - first;
        const int last_pairs = pairs_of_last_block((a.shards.last(a.p.n, shard) - a.shards.first(a.p.n, shard)) * a.image_rows * a.pitch);
        float* const sums = grad_level(a, chunk, part, merges);
        const float* const earlier = grad_level(a, chunk, part, 0);
        if (count == 0) {
            std::memset(sums, 0, static_cast<std::size_t>(outs * out_floats) * sizeof *sums);
            for (int level = 0; level < merges; ++level) grad_add_sums(grad_level(a, chunk, part, level), sums, outs * out_floats);
        }
        for (std::int64_t block = 0; block < count; block += of.steps) {
            const std::int64_t left = count - block;
            of.steps = left < a.blocks_at_once ? left : a.blocks_at_once;
            const bool last = of.steps == left;
            of.last_pairs = last ? last_pairs : bfloat16_block / 2;
            gather_rows_bfloat16(unit, a, shard, block, of.steps, chunk % a.bands * a.lanes, channels, gathered);
            for (std::int64_t o = 0; o < outs; ++o) {
                const std::int64_t place = o * out_floats;
                const sums_to to{sums + place, bfloat16_block, earlier + place, a.level_floats(), last ? merges : 0};
                const std::uint16_t* const w = a.packed ? a.packed + ((first_out + o) * a.blocks() + first + block) * bfloat16_step : own;
                if (!a.packed) pack_dy_bfloat16<Tiles>(a, first_out + o, shard, block, of.steps, own);
                sum_rows_bfloat16(unit, a, of, gathered, w, block == 0 ? sums_from{zeros, 0} : sums_from{to.first, to.pixel}, to, {pitch, channels, rows});
            }
        }
    }
}

inline void grad_end_bfloat16(const bfloat16_grad_args& a, std::int64_t chunk) {
    const int taps = a.p.kh * a.p.kw;
    const std::int64_t channels = grad_channels(a, chunk), pitch = grad_pitch(a, channels), columns = a.columns(), last = a.levels - 1;
    const std::int64_t column = chunk / a.bands * columns, count = a.p.oc - column < columns ? a.p.oc - column : columns;
    float* const sums = grad_level(a, chunk, 0, last);
    for (std::int64_t o = 0; o < count; o += bfloat16_block)
        training::grad_join(sums + o * a.rows, a.levels * a.level_floats(), a.parts, pitch * taps * bfloat16_block);
    float* const out = a.out + chunk % a.bands * a.lanes * taps * a.out_row + column * a.out_column;
    if (a.out_column == 1) {
        for (std::int64_t o = 0; o < count; o += bfloat16_block) {
            const float* const of_block = sums + o * a.rows;
            const std::size_t bytes = static_cast<std::size_t>(count - o < bfloat16_block ? count - o : bfloat16_block) * sizeof *out;
            for (std::int64_t c = 0; c < channels; ++c) std::memcpy(out + c * a.out_row + o, of_block + c * bfloat16_block, bytes);
        }
        return;
    }
    for (std::int64_t o = 0; o < count; o += V::W)
        training::grad_transpose(sums + o / bfloat16_block * bfloat16_block * a.rows + o % bfloat16_block, bfloat16_block, channels * taps,
                                 static_cast<int>(count - o < V::W ? count - o : V::W), out + o * a.out_column, a.out_column, taps, pitch * bfloat16_block);
}
