// Row kernels: text, included once for each instruction set. Sums run in four vectors, then lanes are halved in a tree:
// an order that the length of a row alone decides.

GRAFT_FORCE_INLINE int lanes_left(std::int64_t n, std::int64_t i) { return n - i < V::W ? static_cast<int>(n - i) : V::W; }
GRAFT_VECTOR V load_some(const float* p, int lanes) { return lanes == V::W ? V::load(p) : V::load_partial(p, lanes); }
GRAFT_VECTOR void store_some(V v, float* p, int lanes) {
    if (lanes == V::W)
        v.store(p);
    else
        v.store_partial(p, lanes);
}

template <reduction Kind>
struct reducer {
    static GRAFT_VECTOR V start() {
        const float infinity = std::numeric_limits<float>::infinity();
        return V::set1(Kind == reduction::max ? -infinity : Kind == reduction::min ? infinity : 0.0f);
    }
    static GRAFT_VECTOR V join(V total, V x) {
        if constexpr (Kind == reduction::max) return select(is_nan(x), x, max(x, total));
        if constexpr (Kind == reduction::min) return select(is_nan(x), x, min(x, total));
        return total + x;
    }
    static GRAFT_VECTOR V add(V total, V x) {
        if constexpr (Kind == reduction::sum_square) return fma(x, x, total);
        if constexpr (Kind == reduction::sum_abs) return total + abs(x);
        return join(total, x);
    }
    static GRAFT_VECTOR float lanes(V total) {
        if constexpr (Kind != reduction::max && Kind != reduction::min) return sum(total);
        float lane[V::W];
        total.store(lane);
        float best = lane[0];
        for (int i = 1; i < V::W; ++i) {
            const bool beyond = Kind == reduction::max ? lane[i] > best : lane[i] < best;
            if (lane[i] != lane[i] || (beyond && best == best)) best = lane[i];
        }
        return best;
    }
};

// One row. `shift` is taken off every element first (the mean, for a variance).
template <reduction Kind>
GRAFT_FORCE_INLINE float reduce_row(const float* x, std::int64_t n, float shift) {
    using reduce = reducer<Kind>;
    const V s = V::set1(shift);
    V a = reduce::start(), b = a, c = a, d = a;
    std::int64_t i = 0;
    for (; i + 4 * V::W <= n; i += 4 * V::W) {
        a = reduce::add(a, V::load(x + i) - s);
        b = reduce::add(b, V::load(x + i + V::W) - s);
        c = reduce::add(c, V::load(x + i + 2 * V::W) - s);
        d = reduce::add(d, V::load(x + i + 3 * V::W) - s);
    }
    for (; i + V::W <= n; i += V::W) a = reduce::add(a, V::load(x + i) - s);
    if (i < n) {
        const int lanes = static_cast<int>(n - i);
        b = select(M::lanes(lanes), reduce::add(b, V::load_partial(x + i, lanes) - s), b);
    }
    return reduce::lanes(reduce::join(reduce::join(a, b), reduce::join(c, d)));
}

// Sums of long rows: pieces in float, added up in double, so that a plane of a million pixels keeps its digits.
template <reduction Kind>
inline double long_sum(const float* x, std::int64_t n, float offset) {
    double total = 0;
    for (std::int64_t i = 0; i < n; i += 2048) total += static_cast<double>(reduce_row<Kind>(x + i, n - i < 2048 ? n - i : 2048, offset));
    return total;
}

inline void reduce_rows(reduction kind, const float* x, float* y, std::int64_t rows, std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, x += n) switch (kind) {
        case reduction::sum: y[r] = static_cast<float>(long_sum<reduction::sum>(x, n, 0)); break;
        case reduction::max: y[r] = reduce_row<reduction::max>(x, n, 0); break;
        case reduction::min: y[r] = reduce_row<reduction::min>(x, n, 0); break;
        case reduction::sum_square: y[r] = static_cast<float>(long_sum<reduction::sum_square>(x, n, 0)); break;
        case reduction::sum_abs: y[r] = static_cast<float>(long_sum<reduction::sum_abs>(x, n, 0)); break;
        }
}

// Columns, a vector of them at a time; 256 rows are added up by themselves, so that long sums stay exact enough.
template <reduction Kind>
GRAFT_FORCE_INLINE void reduce_some_columns(const float* x, float* y, std::int64_t n, std::int64_t inner, std::int64_t count) {
    using reduce = reducer<Kind>;
    std::int64_t j = 0;
    for (; j + 4 * V::W <= count; j += 4 * V::W) {
        V total[4] = {reduce::start(), reduce::start(), reduce::start(), reduce::start()};
        for (std::int64_t i = 0; i < n;) {
            const std::int64_t end = n - i < 256 ? n : i + 256;
            V part[4] = {reduce::start(), reduce::start(), reduce::start(), reduce::start()};
            for (; i < end; ++i) {
                GRAFT_UNROLL
                for (int v = 0; v < 4; ++v) part[v] = reduce::add(part[v], V::load(x + i * inner + j + v * V::W));
            }
            GRAFT_UNROLL
            for (int v = 0; v < 4; ++v) total[v] = reduce::join(total[v], part[v]);
        }
        GRAFT_UNROLL
        for (int v = 0; v < 4; ++v) total[v].store(y + j + v * V::W);
    }
    for (; j < count; j += V::W) {
        const int lanes = lanes_left(count, j);
        V total = reduce::start();
        for (std::int64_t i = 0; i < n;) {
            const std::int64_t end = n - i < 256 ? n : i + 256;
            V part = reduce::start();
            for (; i < end; ++i) part = reduce::add(part, load_some(x + i * inner + j, lanes));
            total = reduce::join(total, part);
        }
        store_some(total, y + j, lanes);
    }
}

inline void reduce_columns(reduction kind, const float* x, float* y, std::int64_t n, std::int64_t inner, std::int64_t count) {
    switch (kind) {
    case reduction::sum: return reduce_some_columns<reduction::sum>(x, y, n, inner, count);
    case reduction::max: return reduce_some_columns<reduction::max>(x, y, n, inner, count);
    case reduction::min: return reduce_some_columns<reduction::min>(x, y, n, inner, count);
    case reduction::sum_square: return reduce_some_columns<reduction::sum_square>(x, y, n, inner, count);
    case reduction::sum_abs: return reduce_some_columns<reduction::sum_abs>(x, y, n, inner, count);
    }
}

// Steps of a row wait for each other, and of a short row the waits are as long as the work: a step is done for some rows, which stay in the first cache
// together, then the next one.
constexpr std::int64_t most_rows_at_once = 8;
GRAFT_FORCE_INLINE std::int64_t rows_at_once(std::int64_t n) { return n > 512 ? 1 : most_rows_at_once; }

// NaN is passed over while the highest is looked for: it comes back with the sum. Exponentials and their sum are times 2^24, which the quotient does not see.
inline void softmax_rows(const float* x, float* y, std::int64_t rows, std::int64_t n, bool logarithm) {
    float tops[most_rows_at_once], sums[most_rows_at_once];
    for (std::int64_t r0 = 0, some = rows_at_once(n); r0 < rows; r0 += some) {
        const std::int64_t end = rows - r0 < some ? rows - r0 : some;
        for (std::int64_t r = 0; r < end; ++r) {
            const float* from = x + (r0 + r) * n;
            V top = V::set1(-std::numeric_limits<float>::infinity());
            for (std::int64_t i = 0; i < n; i += V::W) {
                const int lanes = lanes_left(n, i);
                const V v = load_some(from + i, lanes);
                top = max(lanes == V::W ? v : select(M::lanes(lanes), v, top), top);
            }
            tops[r] = highest(top);
        }
        for (std::int64_t r = 0; r < end; ++r) {
            const V top = V::set1(tops[r]);
            V total = V::zero();
            for (std::int64_t i = 0; i < n; i += V::W) {
                const int lanes = lanes_left(n, i);
                const std::int64_t at = (r0 + r) * n + i;
                V e = exp_up(load_some(x + at, lanes) - top);
                if (lanes < V::W) e = select(M::lanes(lanes), e, V::zero());
                total = total + e;
                if (!logarithm) store_some(e, y + at, lanes);
            }
            sums[r] = sum(total);
        }
        for (std::int64_t r = 0; r < end; ++r) {
            const V top = V::set1(tops[r]), all = V::set1(sums[r]), off = logarithm ? log(all * V::set1(exp_down)) : all, factor = V::set1(1.0f) / all;
            for (std::int64_t i = 0; i < n; i += V::W) {
                const int lanes = lanes_left(n, i);
                const std::int64_t at = (r0 + r) * n + i;
                store_some(logarithm ? load_some(x + at, lanes) - top - off : load_some(y + at, lanes) * factor, y + at, lanes);
            }
        }
    }
}

inline void softmax_columns(const float* x, float* y, std::int64_t n, std::int64_t inner, std::int64_t count, bool logarithm) {
    for (std::int64_t j = 0; j < count; j += V::W) {
        const int lanes = lanes_left(count, j);
        V top = V::set1(-std::numeric_limits<float>::infinity()), total = V::zero();
        for (std::int64_t i = 0; i < n; ++i) top = max(load_some(x + i * inner + j, lanes), top);
        for (std::int64_t i = 0; i < n; ++i) {
            const V e = exp_low(load_some(x + i * inner + j, lanes) - top);
            total = total + e;
            if (!logarithm) store_some(e, y + i * inner + j, lanes);
        }
        const V off = logarithm ? log(total) : total, factor = V::set1(1.0f) / total;
        for (std::int64_t i = 0; i < n; ++i) {
            float* to = y + i * inner + j;
            store_some(logarithm ? load_some(x + i * inner + j, lanes) - top - off : load_some(to, lanes) * factor, to, lanes);
        }
    }
}

// What is taken off a row's numbers, in two parts, and what they are multiplied by.
struct row_scale {
    float mean, rest, inverse;
};

// y = (x - mean) * inverse * gamma + beta for row r.
inline void normalize_row(const normalize_rows& g, std::int64_t r, const row_scale& row) {
    const float* x = g.x + r * g.n;
    float* y = g.y + r * g.n;
    const V m = V::set1(row.mean), s = V::set1(row.inverse), left = V::set1(-row.rest * row.inverse);
    if (!g.span) {
        for (std::int64_t i = 0; i < g.n; i += V::W) {
            const int lanes = lanes_left(g.n, i);
            const V v = fma(load_some(x + i, lanes) - m, s, left);
            const V gamma = g.gamma ? load_some(g.gamma + i, lanes) : V::set1(1.0f), beta = g.beta ? load_some(g.beta + i, lanes) : V::zero();
            store_some(fma(v, gamma, beta), y + i, lanes);
        }
        return;
    }
    const std::int64_t channels = g.n / g.span, channel = r % g.groups * channels;
    for (std::int64_t c = 0; c < channels; ++c, x += g.span, y += g.span) {
        const V gamma = V::set1(g.gamma ? g.gamma[channel + c] : 1.0f), beta = V::set1(g.beta ? g.beta[channel + c] : 0.0f);
        for (std::int64_t i = 0; i < g.span; i += V::W) {
            const int lanes = lanes_left(g.span, i);
            store_some(fma(fma(load_some(x + i, lanes) - m, s, left), gamma, beta), y + i, lanes);
        }
    }
}

inline void normalize_run(const normalize_rows& g) {
    const double count = static_cast<double>(g.n);
    const std::int64_t some = rows_at_once(g.n);
    row_scale row[most_rows_at_once];
    double variance[most_rows_at_once];
    for (std::int64_t r0 = g.first, end = g.first + g.rows; r0 < end; r0 += some) {
        const std::int64_t rows = end - r0 < some ? end - r0 : some;
        for (std::int64_t r = 0; r < rows; ++r) {
            // The mean is taken off in two parts: what its rounding to float leaves over would shift a whole row that varies little.
            const double exact = g.centered ? long_sum<reduction::sum>(g.x + (r0 + r) * g.n, g.n, 0) / count : 0.0;
            row[r].mean = static_cast<float>(exact), row[r].rest = static_cast<float>(exact - static_cast<double>(row[r].mean));
        }
        for (std::int64_t r = 0; r < rows; ++r)
            variance[r] = long_sum<reduction::sum_square>(g.x + (r0 + r) * g.n, g.n, row[r].mean) / count -
                          static_cast<double>(row[r].rest) * static_cast<double>(row[r].rest);
        for (std::int64_t r = 0; r < rows; ++r) {
            const double v = variance[r] > 0 ? variance[r] : variance[r] != variance[r] ? variance[r] : 0;
            row[r].inverse = static_cast<float>(1.0 / std::sqrt(v + static_cast<double>(g.epsilon)));
            if (g.mean) g.mean[r0 + r] = row[r].mean;
            if (g.inverse_deviation) g.inverse_deviation[r0 + r] = row[r].inverse;
        }
        for (std::int64_t r = 0; r < rows; ++r) normalize_row(g, r0 + r, row[r]);
    }
}

// The lowest is the highest of the negated; `last` takes equals as better.
struct arg_state {
    V best, sign;
    I at;
    bool last;
    GRAFT_VECTOR void look(V raw, I place, M lanes) {
        const V v = raw ^ sign;
        const M better = ((best < v) | (is_nan(v) & ~is_nan(best))) & lanes;
        const M equal = ((best == v) | (is_nan(v) & is_nan(best))) & lanes;
        const M take = last ? better | equal : better;
        best = select(take, v, best);
        at = select(take, place, at);
    }
};

inline void arg_rows(bool lowest, bool last, const float* x, std::int64_t* y, std::int64_t rows, std::int64_t n) {
    std::int32_t number[V::W];
    for (int i = 0; i < V::W; ++i) number[i] = i;
    const I count = I::load(number);
    for (std::int64_t r = 0; r < rows; ++r, x += n) {
        const int first = lanes_left(n, 0);
        // Lanes past a short row start below everything, at a place that loses every tie.
        arg_state s{V::zero(), V::set1(lowest ? -0.0f : 0.0f), count, last};
        s.best = select(M::lanes(first), load_some(x, first) ^ s.sign, V::set1(-std::numeric_limits<float>::infinity()));
        for (std::int64_t i = V::W; i < n; i += V::W) {
            const int lanes = lanes_left(n, i);
            s.look(load_some(x + i, lanes), count + I::set1(static_cast<std::int32_t>(i)), M::lanes(lanes));
        }
        float best[V::W];
        std::int32_t at[V::W];
        s.best.store(best);
        s.at.store(at);
        int winner = 0;
        for (int i = 1; i < first; ++i) {
            const bool nan = best[i] != best[i], winner_nan = best[winner] != best[winner];
            const bool equal = nan ? winner_nan : best[i] == best[winner];
            if (equal ? (at[i] < at[winner]) != last : nan || best[i] > best[winner]) winner = i;
        }
        y[r] = at[winner];
    }
}

inline void arg_columns(bool lowest, bool last, const float* x, std::int64_t* y, std::int64_t n, std::int64_t inner, std::int64_t count) {
    for (std::int64_t j = 0; j < count; j += V::W) {
        const int lanes = lanes_left(count, j);
        arg_state s{V::zero(), V::set1(lowest ? -0.0f : 0.0f), I::set1(0), last};
        s.best = load_some(x + j, lanes) ^ s.sign;
        for (std::int64_t i = 1; i < n; ++i) s.look(load_some(x + i * inner + j, lanes), I::set1(static_cast<std::int32_t>(i)), M::lanes(V::W));
        std::int32_t at[V::W];
        s.at.store(at);
        for (int i = 0; i < lanes; ++i) y[j + i] = at[i];
    }
}

GRAFT_VECTOR V power_of_neighbours(V x, float exponent) {
    if (exponent == 1.0f) return x;
    if (exponent == 0.5f || exponent == 0.75f) {
        const V root = sqrt(x);
        return exponent == 0.5f ? root : root * sqrt(root);
    }
    float each[V::W];
    x.store(each);
    for (float& e : each) e = std::pow(e, exponent);
    return V::load(each);
}
inline void neighbours_run(const neighbour_channels& p) {
    const V factor = V::set1(p.factor), bias = V::set1(p.bias);
    for (std::int64_t c = p.first; c < p.last; ++c) {
        const std::int64_t begin = c > p.before ? c - p.before : 0, end = c + p.after + 1 < p.channels ? c + p.after + 1 : p.channels;
        for (std::int64_t i = 0; i < p.n; i += V::W) {
            const int lanes = lanes_left(p.n, i);
            V sum = V::zero();
            for (std::int64_t k = begin; k < end; ++k) {
                const V v = load_some(p.x + k * p.n + i, lanes);
                sum = sum + v * v;
            }
            const V y = load_some(p.x + c * p.n + i, lanes) / power_of_neighbours(bias + factor * sum, p.beta);
            store_some(y, p.y + c * p.n + i, lanes);
        }
    }
}

inline const rows_kernels* rows_table() {
    constexpr bool softmax = wanted("Softmax") || wanted("LogSoftmax"), arg = wanted("ArgMax") || wanted("ArgMin");
    constexpr bool normalize = wanted("LayerNormalization") || wanted("RMSNormalization") || wanted("InstanceNormalization") || wanted("GroupNormalization");
    constexpr bool reduce = wanted("ReduceSum") || wanted("ReduceMean") || wanted("ReduceMax") || wanted("ReduceMin") || wanted("ReduceL1") ||
                            wanted("ReduceL2") || wanted("ReduceSumSquare");
    static constexpr rows_kernels all = {softmax ? &softmax_rows : nullptr,
                                         softmax ? &softmax_columns : nullptr,
                                         normalize ? &normalize_run : nullptr,
                                         wanted("LRN") ? &neighbours_run : nullptr,
                                         reduce ? &reduce_rows : nullptr,
                                         reduce ? &reduce_columns : nullptr,
                                         arg ? &arg_rows : nullptr,
                                         arg ? &arg_columns : nullptr};
    return &all;
}
