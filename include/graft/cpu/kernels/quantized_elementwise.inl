// Sums, products, functions, means and largest windows of 8-bit images, and the table of the family: text, included once for each instruction set.

GRAFT_VECTOR I load_whole_codes(const std::uint8_t* from, bool is_signed) {
    return is_signed ? load_s8(reinterpret_cast<const std::int8_t*>(from)) : load_u8(from);
}
GRAFT_VECTOR V load_codes(const std::uint8_t* from, bool is_signed) { return to_float(load_whole_codes(from, is_signed)); }
// Sum / y_scale, rounded once: the quotient by the rounded reciprocal, less what it is off by (Markstein, 1990), takes a third of a division's time.
struct sum_divider {
    float scale, reciprocal;
    bool multiplies;
};
GRAFT_VECTOR sum_divider divider_of(const quantized_sum_problem& p) {
    // Where nothing on the way leaves the normal numbers.
    const auto moderate = [](float scale) { return scale > 1e-15f && scale < 1e15f; };
    return {p.y_scale, 1 / p.y_scale, moderate(p.a_scale) && moderate(p.b_scale) && moderate(p.y_scale)};
}
GRAFT_VECTOR V divide(V sum, const sum_divider& by) {
    if (!V::fuses || !by.multiplies) return sum / V::set1(by.scale);
    const V near = sum * V::set1(by.reciprocal);
    return fma(fnma(near, V::set1(by.scale), sum), V::set1(by.reciprocal), near);
}
GRAFT_VECTOR void sum_codes(const quantized_sum_problem& p, const sum_divider& by, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y) {
    const V a_zero = V::set1(static_cast<float>(p.a_zero)), b_zero = V::set1(static_cast<float>(p.b_zero));
    V steps[16 / V::W];
    GRAFT_UNROLL
    for (int k = 0; k < 16 / V::W; ++k) {
        const V left = (load_codes(a + k * V::W, p.a_signed) - a_zero) * V::set1(p.a_scale);
        const V right = (load_codes(b + k * V::W, p.b_signed) - b_zero) * V::set1(p.b_scale);
        steps[k] = divide(left + right, by);
    }
    store_codes(steps, p.y_zero, p.low, p.high, y);
}
inline void sum_quantized(const quantized_sum_problem& problem, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y, std::int64_t n) {
    const quantized_sum_problem p = problem;  // which no byte that is stored can be part of
    const sum_divider by = divider_of(p);
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) sum_codes(p, by, a + i, b + i, y + i);
    if (i == n) return;
    std::uint8_t rest_a[16] = {}, rest_b[16] = {}, rest_y[16];
    std::memcpy(rest_a, a + i, static_cast<std::size_t>(n - i));
    std::memcpy(rest_b, b + i, static_cast<std::size_t>(n - i));
    sum_codes(p, by, rest_a, rest_b, rest_y);
    std::memcpy(y + i, rest_y, static_cast<std::size_t>(n - i));
}

// Differences from zero points, and their products, are exact.
struct code_factor {
    V by[16 / V::W];
    GRAFT_VECTOR code_factor(const quantized_product_problem& p, const std::uint8_t* b) {
        GRAFT_UNROLL
        for (int k = 0; k < 16 / V::W; ++k) by[k] = load_codes(b + k * V::W, p.b_signed) - V::set1(static_cast<float>(p.b_zero));
    }
};
GRAFT_VECTOR void multiply_codes(const quantized_product_problem& p, const std::uint8_t* a, const code_factor& b, std::uint8_t* y) {
    const V a_zero = V::set1(static_cast<float>(p.a_zero)), scale = V::set1(p.scale);
    V steps[16 / V::W];
    GRAFT_UNROLL
    for (int k = 0; k < 16 / V::W; ++k) steps[k] = (load_codes(a + k * V::W, p.a_signed) - a_zero) * b.by[k] * scale;
    store_codes(steps, p.y_zero, p.low, p.high, y);
}
GRAFT_VECTOR void multiply_rest(const quantized_product_problem& p, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y, std::int64_t n) {
    std::uint8_t rest_a[16] = {}, rest_b[16] = {}, rest_y[16];
    std::memcpy(rest_a, a, static_cast<std::size_t>(n));
    std::memcpy(rest_b, b, static_cast<std::size_t>(n));
    multiply_codes(p, rest_a, code_factor(p, rest_b), rest_y);
    std::memcpy(y, rest_y, static_cast<std::size_t>(n));
}
inline void multiply_quantized(const quantized_product_problem& problem, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y, std::int64_t n) {
    const quantized_product_problem p = problem;  // which no byte that is stored can be part of
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) multiply_codes(p, a + i, code_factor(p, b + i), y + i);
    if (i < n) multiply_rest(p, a + i, b + i, y + i, n - i);
}
// b is 16 codes, again and again.
inline void multiply_by_channel(const quantized_product_problem& problem, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* y, std::int64_t n,
                                std::int64_t pitch) {
    const quantized_product_problem p = problem;
    const code_factor by(p, b);
    std::int64_t i = 0;
    for (; i + 16 <= n; i += pitch) multiply_codes(p, a + i, by, y + i);
    if (i < n) multiply_rest(p, a + i, b, y + i, n - i);
}

inline void sum_columns(bool is_signed, const std::uint8_t* x, std::int64_t n, std::int32_t* sums) {
    constexpr int vectors = code_columns / V::W, at_once = vectors < 8 ? vectors : 8;
    std::int64_t whole = n / code_columns * code_columns;
    for (int first = 0; first < vectors; first += at_once) {
        I total[at_once];
        GRAFT_UNROLL
        for (int k = 0; k < at_once; ++k) total[k] = I::set1(0);
        const std::uint8_t* const from = x + first * V::W;
        for (std::int64_t i = 0; i < whole; i += code_columns) GRAFT_UNROLL
        for (int k = 0; k < at_once; ++k) total[k] = total[k] + load_whole_codes(from + i + k * V::W, is_signed);
        GRAFT_UNROLL
        for (int k = 0; k < at_once; ++k) total[k].store(sums + (first + k) * V::W);
    }
    for (; whole < n; ++whole) sums[whole % code_columns] += is_signed ? static_cast<std::int8_t>(x[whole]) : x[whole];
}

inline void look_up_bytes(const std::uint8_t* table, const std::uint8_t* x, std::uint8_t* y, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        std::uint64_t from, to = 0;
        std::memcpy(&from, x + i, sizeof from);
        GRAFT_UNROLL
        for (int k = 0; k < 64; k += 8) to |= std::uint64_t(table[from >> k & 255]) << k;
        std::memcpy(y + i, &to, sizeof to);
    }
    for (; i < n; ++i) y[i] = table[x[i]];
}

// One plane: of each column the largest of the window's rows, of these the largest of its columns, and of these every sw-th.
template <class T>
GRAFT_VECTOR void max_pool_plane(const pool_problem& p, const T* x, T* y) {
    const std::int64_t columns = std::int64_t(p.kw - 1) * p.dw, width = (p.ow - 1) * p.sw + columns + 1;
    const std::int64_t first = p.pl < width ? p.pl : width, last = p.pl + p.iw < width ? p.pl + p.iw : width;
    T down[quantized_row], across[quantized_row];
    for (std::int64_t oy = 0; oy < p.oh; ++oy, y += p.ow) {
        for (std::int64_t i = 0; i < width; ++i) down[i] = std::numeric_limits<T>::min();
        for (int ky = 0; ky < p.kh; ++ky) {
            const std::int64_t iy = oy * p.sh - p.pt + std::int64_t(ky) * p.dh;
            if (iy < 0 || iy >= p.ih) continue;
            const T* const row = x + iy * p.iw - p.pl;
            for (std::int64_t i = first; i < last; ++i) down[i] = row[i] > down[i] ? row[i] : down[i];
        }
        const std::int64_t starts = width - columns;
        for (std::int64_t i = 0; i < starts; ++i) across[i] = down[i];
        for (int kx = 1; kx < p.kw; ++kx) {
            const T* const from = down + std::int64_t(kx) * p.dw;
            for (std::int64_t i = 0; i < starts; ++i) across[i] = from[i] > across[i] ? from[i] : across[i];
        }
        for (std::int64_t ox = 0; ox < p.ow; ++ox) y[ox] = across[ox * p.sw];
    }
}
inline void max_pool_codes(const pool_problem& p, bool is_signed, const std::uint8_t* x, std::uint8_t* y) {
    if (is_signed)
        max_pool_plane(p, reinterpret_cast<const std::int8_t*>(x), reinterpret_cast<std::int8_t*>(y));
    else
        max_pool_plane(p, x, y);
}

inline const quantized_kernels* quantized_table() {
    constexpr bool conv = quantized_conv_wanted();
    static constexpr quantized_kernels all = {
        conv ? &gather_quantized_tile : nullptr,
        conv ? &gather_winograd : nullptr,
        conv ? &conv_quantized : nullptr,
        conv ? &conv_winograd : nullptr,
        conv ? &depthwise_quantized : nullptr,
        quantized_sum_wanted() ? &sum_quantized : nullptr,
        quantized_max_pool_wanted() ? &max_pool_codes : nullptr,
        quantized_pairs_wanted() ? &look_up_bytes : nullptr,
        quantized_product_wanted() ? &multiply_quantized : nullptr,
        quantized_product_wanted() ? &multiply_by_channel : nullptr,
        quantized_mean_wanted() ? &sum_columns : nullptr,
    };
    return &all;
}
