// Sums of products over pixels of 64 bytes, numbers of bfloat16 or codes: text, included before what multiplies either. Such pixels lie side by side, so that
// neighbours of the padded image are read alike for every tap, across its rows.

// Where the pixels of a plane's row come from, of those from `column` on that are wanted.
struct pixel_source {
    std::int64_t row_phase, column_phase, image, iy, count;
    bool inside;  // whether the row is one of the image
};
GRAFT_VECTOR pixel_source source_of(const pixel_args& a, std::int64_t row, std::int64_t column, std::int64_t wanted) {
    const image_planes& g = a.from;
    const std::int64_t phase = row / g.rows, of_plane = row % g.rows, left = g.pitch - column;
    pixel_source s{phase / g.column_phases, phase % g.column_phases, of_plane / a.image_rows, 0, left < wanted ? left : wanted, false};
    s.iy = (a.first_row + of_plane % a.image_rows) * a.sh + g.row_phase[s.row_phase] - a.pt;
    s.inside = s.iy >= 0 && s.iy < a.ih;
    return s;
}
GRAFT_VECTOR void clear_pixels(std::uint16_t* to, std::int64_t count, int with = 0) {
    std::memset(to, with, static_cast<std::size_t>(count) * bfloat16_block * sizeof *to);
}

// What sums begin with: that of a pixel lies `pixel` numbers behind that of the one before, or is the same for all where it is 0.
struct sums_from {
    const float* first;
    std::int64_t pixel;
};
// Where sums go; `count` earlier ones of the same places are added, in the order in which they lie, `step` numbers from one to the next.
struct sums_to {
    float* first;
    std::int64_t pixel;
    const float* earlier;
    std::int64_t step;
    int count;

    GRAFT_VECTOR sums_to from_pixel(std::int64_t p) const { return {first + p * pixel, pixel, earlier + p * pixel, step, count}; }
};

// Sums of 32 pixels by 32 output channels, and where they go: handed out a few pixels at a time, between products, which vectors then overlap.
constexpr int room_of_sums = bfloat16_block + 1;
struct pixel_sums {
    alignas(64) float sum[room_of_sums][bfloat16_block];
    std::int64_t at[bfloat16_block], residual_at[bfloat16_block];  // at below 0: no output; the other where residual_pixel tells of it
    std::int64_t first, step;                                      // where it is not 0: all are outputs, so far apart, and `at` says nothing
    int next, pixels;
    std::int64_t place(int pixel) const { return step ? first + pixel * step : at[pixel]; }
};

// The weights of the next block, some lines of which are asked for at every step: of layers of few pixels they come from memory. Where a task reads its weights
// once, they are a stream that the machine fetches by itself.
struct weights_ahead {
    const std::uint16_t* at;
    int lines;
};

// The sums that are handed out while the next are made, perhaps those of another block, and room for these.
template <class End>
struct last_sums {
    pixel_sums sums[2];
    const End* ends[2];
    int turn;  // which are the next
};

// By tiles or by vectors: `Unit` says whose sum_block it is, and what becomes of the sums.
template <class Unit, class End>
inline void multiply_block(Unit& unit, const pixel_args& a, std::int64_t block, std::int64_t first, std::int64_t last, const End& end, last_sums<End>& of) {
    const image_planes& g = a.from;
    const std::int64_t channels = a.out_channels - block * bfloat16_block;
    const std::uint16_t* const w = a.weights + block * a.steps * bfloat16_step;
    const std::int64_t row = first * bfloat16_block / g.pitch;
    std::int64_t image = row / a.image_rows, oy = row % a.image_rows, column = first * bfloat16_block % g.pitch;
    const std::int64_t tiles = last - first;
    const int lines = tiles > 1 && channels > bfloat16_block ? static_cast<int>((bfloat16_step / bfloat16_block + tiles - 1) / tiles) : 0;
    for (std::int64_t tile = first; tile < last; ++tile) {
        pixel_sums &here = of.sums[of.turn], &before = of.sums[1 - of.turn];
        const End& end_before = *of.ends[1 - of.turn];
        const std::int64_t pixel = tile * bfloat16_block, left = a.pixels - pixel;
        // What lies there as it is ends with the last pixel: the last tile begins with some that were computed before.
        const std::int64_t whole = left > bfloat16_block / 2 ? bfloat16_block : bfloat16_block / 2,
                           again = a.narrow_x == a.source && left < whole ? whole - left : 0;
        const std::uint16_t* const x = a.source + (pixel - again) * a.source_pixel;
        const weights_ahead next{w + a.steps * (bfloat16_step + (tile - first) * lines * bfloat16_block), lines};
        here.pixels = left < bfloat16_block ? static_cast<int>(left + again) : bfloat16_block;
        sum_block(unit, a, x, w, next, end.start, here, end_before, before);
        finish_some(end_before, before, bfloat16_block);
        of.ends[of.turn] = &end;
        of.turn = 1 - of.turn;
        here.next = 0;
        here.first = end.at + image * a.y_image + (a.first_row + oy) * a.y_row + column * a.y_pixel;
        here.step = again == 0 && oy < a.oh && column + here.pixels <= a.ow && !a.residual_pixel ? a.y_pixel : 0;
        if (here.step && column + here.pixels < g.pitch) {
            column += here.pixels;
            continue;
        }
        for (int i = 0; i < again; ++i) here.at[i] = -1;
        for (int i = static_cast<int>(again); i < here.pixels;) {
            const std::int64_t of_row = g.pitch - column, wanted = here.pixels - i, count = of_row < wanted ? of_row : wanted;
            const std::int64_t used = oy < a.oh ? a.ow - column : 0, outputs = used < 0 ? 0 : used < count ? used : count;
            const std::int64_t at = end.at + image * a.y_image + (a.first_row + oy) * a.y_row + column * a.y_pixel;
            for (std::int64_t k = 0; k < count; ++k) here.at[i + k] = k < outputs ? at + k * a.y_pixel : -1;
            if (a.residual_pixel)
                for (std::int64_t k = 0; k < outputs; ++k) here.residual_at[i + k] = end.at + (column + k) * a.residual_pixel;
            i += static_cast<int>(count), column += count;
            if (column < g.pitch) continue;
            column = 0;
            if (++oy == a.image_rows) oy = 0, ++image;
        }
    }
}
template <class Unit>
inline void multiply_pixels(const pixel_args& a, std::int64_t block, std::int64_t blocks, std::int64_t first, std::int64_t last) {
    using end_type = decltype(Unit::end_of(a, block));
    Unit unit;
    end_type ends[2];
    last_sums<end_type> of;
    of.turn = 0;
    for (int i = 0; i < 2; ++i) of.ends[i] = ends, of.sums[i].next = of.sums[i].pixels = 0;
    for (const std::int64_t end = block + blocks; block < end; ++block) {
        end_type& here = of.ends[1 - of.turn] == ends ? ends[1] : ends[0];
        here = Unit::end_of(a, block);
        multiply_block(unit, a, block, first, last, here, of);
    }
    finish_some(*of.ends[1 - of.turn], of.sums[1 - of.turn], bfloat16_block);
}
