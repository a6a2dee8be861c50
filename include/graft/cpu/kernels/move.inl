// Kernels that move and convert elements: text, included once for each instruction set.

// Bytes, halves and doublewords: blocks of 16 x 16, so that the lines of both sides are used up while they are there.
template <class T>
GRAFT_FORCE_INLINE void transpose_blocks(const void* from, std::int64_t x_row, void* to, std::int64_t y_row, std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t side = 16;
    const char* x = static_cast<const char*>(from);
    char* y = static_cast<char*>(to);
    constexpr std::int64_t size = sizeof(T);
    for (std::int64_t j0 = 0; j0 < columns; j0 += side) {
        const std::int64_t j1 = columns - j0 < side ? columns : j0 + side;
        for (std::int64_t i0 = 0; i0 < rows; i0 += side) {
            const std::int64_t i1 = rows - i0 < side ? rows : i0 + side;
            for (std::int64_t j = j0; j < j1; ++j)
                for (std::int64_t i = i0; i < i1; ++i) {
                    T element;
                    std::memcpy(&element, x + (i * x_row + j) * size, sizeof(T));
                    std::memcpy(y + (j * y_row + i) * size, &element, sizeof(T));
                }
        }
    }
}

inline void transpose_floats(const float* x, std::int64_t x_row, float* y, std::int64_t y_row, std::int64_t rows, std::int64_t columns) {
    if (rows < 4 || columns < 4) return transpose_blocks<float>(x, x_row, y, y_row, rows, columns);
    for (std::int64_t j = 0; j < columns; j += V::W) {
        const int wide = columns - j < V::W ? static_cast<int>(columns - j) : V::W;
        for (std::int64_t i = 0; i < rows; i += V::W) {
            const int high = rows - i < V::W ? static_cast<int>(rows - i) : V::W;
            const float* from = x + i * x_row + j;
            float* to = y + j * y_row + i;
            V block[V::W];
            if (wide == V::W && high == V::W) {
                GRAFT_UNROLL
                for (int r = 0; r < V::W; ++r) block[r] = V::load(from + r * x_row);
                transpose(block);
                GRAFT_UNROLL
                for (int r = 0; r < V::W; ++r) block[r].store(to + r * y_row);
                continue;
            }
            for (int r = 0; r < V::W; ++r) block[r] = r < high ? V::load_partial(from + r * x_row, wide) : V::zero();
            transpose(block);
            for (int r = 0; r < wide; ++r) block[r].store_partial(to + r * y_row, high);
        }
    }
}

inline void transpose_run(int size, const void* x, std::int64_t x_row, void* y, std::int64_t y_row, std::int64_t rows, std::int64_t columns) {
    if (size == 4) return transpose_floats(static_cast<const float*>(x), x_row, static_cast<float*>(y), y_row, rows, columns);
    if (size == 1) return transpose_blocks<std::uint8_t>(x, x_row, y, y_row, rows, columns);
    if (size == 2) return transpose_blocks<std::uint16_t>(x, x_row, y, y_row, rows, columns);
    transpose_blocks<std::uint64_t>(x, x_row, y, y_row, rows, columns);
}

// Widens or narrows n elements by a vector function; the last ones through a full vector of zeros and copies.
#define GRAFT_CONVERT(name, From, To, expression) \
    inline void name(const From* x, To* y, std::int64_t n) { \
        std::int64_t i = 0; \
        for (; i + V::W <= n; i += V::W) { \
            const From* from = x + i; \
            To* to = y + i; \
            expression; \
        } \
        if (i == n) return; \
        From from[V::W] = {}; \
        To to[V::W]; \
        std::memcpy(from, x + i, static_cast<std::size_t>(n - i) * sizeof(From)); \
        expression; \
        std::memcpy(y + i, to, static_cast<std::size_t>(n - i) * sizeof(To)); \
    }
GRAFT_CONVERT(from_float16, std::uint16_t, float, load_f16(from).store(to))
GRAFT_CONVERT(to_float16, float, std::uint16_t, store_f16(V::load(from), to))
GRAFT_CONVERT(from_bfloat16, std::uint16_t, float, load_bf16(from).store(to))
GRAFT_CONVERT(to_bfloat16, float, std::uint16_t, store_bf16(V::load(from), to))
#undef GRAFT_CONVERT

inline void quantize_run(const float* x, void* y, std::int64_t n, float scale, int zero, bool is_signed) {
    const int lowest_code = is_signed ? -128 : 0;
    const V low = V::set1(static_cast<float>(lowest_code - zero)), high = V::set1(static_cast<float>(lowest_code + 255 - zero)), s = V::set1(scale);
    const I z = I::set1(zero);
    std::uint8_t* codes = static_cast<std::uint8_t*>(y);
    for (std::int64_t i = 0; i < n; i += V::W) {
        const int lanes = n - i < V::W ? static_cast<int>(n - i) : V::W;
        const V v = clamp((lanes == V::W ? V::load(x + i) : V::load_partial(x + i, lanes)) / s, low, high);
        const I code = select(is_nan(v), z, to_int(v) + z);
        if (lanes == V::W) {
            store_8(code, codes + i);
        } else {
            std::uint8_t last[V::W];
            store_8(code, last);
            std::memcpy(codes + i, last, static_cast<std::size_t>(lanes));
        }
    }
}

inline void dequantize_run(const void* x, float* y, std::int64_t n, float scale, int zero, bool is_signed) {
    const V s = V::set1(scale);
    const I z = I::set1(zero);
    const std::uint8_t* codes = static_cast<const std::uint8_t*>(x);
    for (std::int64_t i = 0; i < n; i += V::W) {
        const int lanes = n - i < V::W ? static_cast<int>(n - i) : V::W;
        std::uint8_t last[V::W] = {};
        const std::uint8_t* from = codes + i;
        if (lanes < V::W) std::memcpy(last, from, static_cast<std::size_t>(lanes)), from = last;
        const I code = is_signed ? load_s8(reinterpret_cast<const std::int8_t*>(from)) : load_u8(from);
        const V v = to_float(code - z) * s;
        if (lanes == V::W)
            v.store(y + i);
        else
            v.store_partial(y + i, lanes);
    }
}

// Two sources at a time, which are most of what splits, joins and shuffles make: some pixels at a time where there are more.
inline void gather_channels(const channel_gather& of, float* y, std::int64_t pixels) {
    constexpr std::int64_t together = 64 * V::W;
    for (std::int64_t first = 0, end = 0; first < pixels * V::W; first = end) {
        end = of.sources <= 2 || pixels * V::W - first < together ? pixels * V::W : first + together;
        for (int s = 0; s < of.sources; s += 2) {
            const int t = s + 1 < of.sources ? s + 1 : s;
            const float *const a = of.from[s], *const b = of.from[t];
            const I of_a = I::load(of.lane[s]), of_b = I::load(of.lane[t]);
            const M in_a = V::zero() < V::load(of.taken[s]), in_b = V::zero() < V::load(of.taken[t]);
            for (std::int64_t i = first; i < end; i += V::W) {
                const V others = s ? V::load(y + i) : V::zero();
                select(in_b, permute(V::load(b + i), of_b), select(in_a, permute(V::load(a + i), of_a), others)).store(y + i);
            }
        }
    }
}

inline const move_kernels* move_table() {
    static constexpr move_kernels all = {&transpose_run,
                                         &from_float16,
                                         &to_float16,
                                         &from_bfloat16,
                                         &to_bfloat16,
                                         wanted("QuantizeLinear") ? &quantize_run : nullptr,
                                         wanted("DequantizeLinear") ? &dequantize_run : nullptr,
                                         channels_wanted() ? &gather_channels : nullptr};
    return &all;
}
