// TfIdfVectorizer for integers: counts of n-grams in rows of tokens.
#pragma once

#include "window.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// The n-grams of one length, sorted, each with its number among all n-grams.
struct gram_table {
    const std::int64_t* pool = nullptr;
    std::int64_t length = 0;
    std::vector<std::int64_t> order;  ///< numbers within this length

    int compare(std::int64_t gram, const std::int64_t* tokens, std::int64_t step) const noexcept {
        for (std::int64_t i = 0; i < length; ++i)
            if (pool[gram * length + i] != tokens[i * step]) return pool[gram * length + i] < tokens[i * step] ? -1 : 1;
        return 0;
    }
    bool operator()(std::int64_t a, std::int64_t b) const noexcept {
        const int c = compare(a, pool + b * length, 1);
        return c < 0 || (c == 0 && a < b);
    }
    /// The last n-gram that equals these tokens, or -1.
    std::int64_t find(const std::int64_t* tokens, std::int64_t step) const noexcept {
        std::size_t low = 0, high = order.size();
        while (low < high) {
            const std::size_t middle = (low + high) / 2;
            if (compare(order[middle], tokens, step) <= 0)
                low = middle + 1;
            else
                high = middle;
        }
        return low && compare(order[low - 1], tokens, step) == 0 ? order[low - 1] : -1;
    }
};

/// Checks the attributes and the input's shape; `columns` becomes the width of the output.
inline GRAFT_COLD status plan_tfidf(const op_context& c, std::int64_t& columns) {
    const shape& x = c.in[0].extents;
    const integer_list counts = c.integers("ngram_counts"), indexes = c.integers("ngram_indexes"), pool = c.integers("pool_int64s");
    const attribute *strings = c.n.find("pool_strings"), *weights = c.n.find("weights");
    if (strings && !strings->strings.empty()) return c.fail(errc::op_unsupported, "n-grams of strings");
    if (x.rank() > 2 || (x.rank() == 2 && x[0] < 1)) return c.fail_shapes("the input must be [tokens] or [rows, tokens]");
    if (!c.is("mode", "TF", "") && !c.is("mode", "IDF", "") && !c.is("mode", "TFIDF", "")) return c.fail(errc::op_attribute, "mode is none of TF, IDF, TFIDF");
    const std::int64_t least = c.integer("min_gram_length", 0), most = c.integer("max_gram_length", 0);
    if (least < 1 || most < least || most > counts.size || c.integer("max_skip_count", -1) < 0)
        return c.fail(errc::op_attribute, "min_gram_length %lld, max_gram_length %lld or max_skip_count %lld is out of range", least, most,
                      c.integer("max_skip_count", -1));
    std::int64_t grams = 0;
    for (int i = 0; i < counts.size; ++i) {
        const std::int64_t end = i + 1 < counts.size ? counts[i + 1] : pool.size;
        if (counts[i] < 0 || end < counts[i] || end > pool.size || (end - counts[i]) % (i + 1))
            return c.fail(errc::op_attribute, "ngram_counts does not cut pool_int64s into %lld-grams", i + 1);
        grams += (end - counts[i]) / (i + 1);
    }
    if (grams != indexes.size || grams < 1) return c.fail(errc::op_attribute, "ngram_indexes has %lld items for %lld n-grams", indexes.size, grams);
    columns = 0;
    for (std::int64_t i : indexes) {
        if (i < 0 || i > std::int64_t(1) << 40) return c.fail(errc::op_attribute, "ngram_indexes holds %lld", i);
        columns = std::max(columns, i + 1);
    }
    if (weights && !weights->reals.empty() && static_cast<std::int64_t>(weights->reals.size()) < columns)
        return c.fail(errc::op_attribute, "%lld weights are too few for %lld columns", static_cast<std::int64_t>(weights->reals.size()), columns);
    return {};
}

// TfIdfVectorizer-9: Y[row, ngram_indexes[g]] = how often n-gram g stands in the row, its tokens up to max_skip_count apart (TF);
// whether it does, times its weight (IDF); the count times its weight (TFIDF)
inline status tfidf_infer(infer_context& c) {
    std::int64_t columns = 0;
    if (c.in[0].type == dtype::string) return c.fail(errc::op_unsupported, "n-grams of strings");
    if (c.in[0].type != dtype::int32 && c.in[0].type != dtype::int64) return c.fail(errc::op_type, "the tokens must be int32 or int64");
    if (c.in[0].extents.rank() < 1) return c.fail_shapes("the tokens must be a vector or a matrix");
    GRAFT_TRY(plan_tfidf(c, columns));
    const shape& x = c.in[0].extents;
    return c.set(0, dtype::float32, x.rank() == 2 ? shape{x[0], columns} : shape{columns});
}
inline GRAFT_COLD status tfidf_run(run_context& c) {
    std::int64_t columns = 0;
    GRAFT_TRY(plan_tfidf(c, columns));
    const shape& x = c.in[0].extents;
    const integer_list counts = c.integers("ngram_counts"), indexes = c.integers("ngram_indexes"), pool = c.integers("pool_int64s");
    const attribute* weights = c.n.find("weights");
    const std::int64_t least = c.integer("min_gram_length", 1), most = c.integer("max_gram_length", 1);
    const std::int64_t rows = x.rank() == 2 ? x[0] : 1, tokens = x.rank() ? x.back() : 1, skips = std::min(c.integer("max_skip_count", 0), tokens);
    std::fill(c.out[0].as<float>(), c.out[0].as<float>() + c.out[0].elements(), 0.0f);
    // A hostile skip count makes this quadratic in the length of a row.
    if (checked_mul(checked_mul(rows, tokens), checked_mul(skips + 1, most)) < 0 || rows * tokens * (skips + 1) * most > std::int64_t(1) << 34)
        return c.fail(errc::op_limit, "%lld rows of %lld tokens with %lld skips would take too long", rows, tokens, skips);
    widened<std::uint64_t> in;
    GRAFT_TRY(widen(c, c.in[0], in));
    std::int64_t first_gram = 0;
    for (std::int64_t length = 1; length <= most; ++length) {
        const int at = static_cast<int>(length - 1);
        const std::int64_t end = at + 1 < counts.size ? counts[at + 1] : pool.size, grams = (end - counts[at]) / length;
        gram_table table;
        table.pool = pool.data + counts[at];
        table.length = length;
        for (std::int64_t g = 0; length >= least && g < grams; ++g) table.order.push_back(g);
        std::sort(table.order.begin(), table.order.end(), [&table](std::int64_t a, std::int64_t b) { return table(a, b); });
        // Single tokens have no distances between them: they are counted once.
        for (std::int64_t step = 1; !table.order.empty() && step <= (length == 1 ? 1 : skips + 1); ++step)
            for (std::int64_t row = 0; row < rows; ++row)
                for (std::int64_t start = 0; start + (length - 1) * step < tokens; ++start) {
                    const std::int64_t found = table.find(reinterpret_cast<const std::int64_t*>(in.data) + row * tokens + start, step);
                    if (found >= 0) c.out[0].as<float>()[row * columns + indexes[static_cast<int>(first_gram + found)]] += 1.0f;
                }
        first_gram += grams;
    }
    if (c.is("mode", "TF", "")) return {};
    const bool idf = c.is("mode", "IDF", "");
    for (std::int64_t i = 0; i < rows * columns; ++i) {
        float& y = c.out[0].as<float>()[i];
        const float weight = weights && !weights->reals.empty() ? weights->reals[static_cast<std::size_t>(i % columns)] : 1.0f;
        y = idf ? (y > 0 ? weight : 0.0f) : y * weight;
    }
    return {};
}

inline op_table tfidf_ops() {
    static constexpr op_row rows[] = {
        onnx("TfIdfVectorizer")
            .opsets(9)
            .inputs(1)
            .functions(tfidf_infer, tfidf_run)
            .combines()
            .attributes("max_gram_length:i max_skip_count:i min_gram_length:i mode:s ngram_counts:is ngram_indexes:is pool_int64s:is "
                        "pool_strings:ss weights:fs")
            .problems("i64{1,1,3,3,3,7,8,6,7,5,6,8} mode=TF min_gram_length=2 max_gram_length=2 max_skip_count=5 ngram_counts=0,4 "
                      "ngram_indexes=0,1,2,3,4,5,6 "
                      "pool_int64s=2,3,5,4,5,6,7,8,6,7; i32{5,6,7} mode=IDF min_gram_length=1 max_gram_length=1 max_skip_count=0 "
                      "ngram_counts=0 ngram_indexes=1,0 pool_int64s=6,9"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
