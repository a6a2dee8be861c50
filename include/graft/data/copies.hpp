// Copies among pictures: the same contents, the same pixels, or a picture that was encoded, resized or brightened anew.
#pragma once

#include "../core/executor.hpp"
#include "image.hpp"
#include "sample.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A picture that is a copy of one before it.
struct picture_copy {
    std::int64_t index = 0;  ///< of the picture
    std::int64_t of = 0;     ///< of the earlier one
    bool exact = false;      ///< the same contents or the same pixels; else nearly the same
};

/// The copies among some pictures.
struct picture_copies {
    std::vector<picture_copy> copies;  ///< one for each picture that has a copy before it, by rising index
    /// For each picture the first of all those that it is a copy of, directly or by way of others; its own index where there is none.
    std::vector<std::int64_t> groups;
    bool near_searched = true;  ///< whether near copies were looked for among all that can be compared
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/xxhash.hpp"
#include "resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What near copies are known by. Measured on photos: see docs/data.md.
struct picture_print {
    static constexpr int side = 32, patches = 4;
    std::uint64_t across = 0, down = 0;              // of 8 x 8 pairs of neighbours in a picture of 9 x 8 and of 8 x 9: which one is lighter
    std::uint64_t light = 0;                         // the cells of a picture of 8 x 8 that are lighter than its mean
    std::uint8_t luma[side * side] = {};             // the picture at 32 x 32
    std::int16_t color[patches * patches * 2] = {};  // R - G and B - G of 4 x 4 patches
    float mean = 0, deviation = 0;                   // of `luma`
    bool comparable = false;

    // Copies of a picture agree in its detail, distinct pictures of one scene only in its masses.
    static void detail_of(const picture_print& p, std::int16_t* out) noexcept {
        for (int y = 1; y < side - 1; ++y)
            for (int x = 1; x < side - 1; ++x) {
                const std::uint8_t* at = p.luma + y * side + x;
                *out++ = static_cast<std::int16_t>(4 * at[0] - at[-1] - at[1] - at[-side] - at[side]);
            }
    }
};

inline int bits_in(std::uint64_t x) noexcept {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return static_cast<int>(x * 0x0101010101010101u >> 56);
}

// Finds copies among `pictures` of them. Each is added once, or not where it cannot be read; from any thread.
class copy_finder {
public:
    // `by_looks`: whether some may be large enough to be compared by how they look.
    copy_finder(std::int64_t pictures, bool by_looks) : keys_(static_cast<std::size_t>(pictures)), by_looks_(by_looks) {
        if (by_looks && pictures <= most_near) prints_.resize(keys_.size());
    }

    // `picture` may be null: then it is known by its contents alone.
    status add(std::int64_t i, const sample_bytes& contents, const image* picture) {
        if (is_blank(contents, picture)) return {};
        key& k = keys_[static_cast<std::size_t>(i)];
        k.known = true;
        k.contents = xxh64(contents.data, contents.size, contents.size ^ static_cast<std::uint64_t>(contents.height) << 48);
        k.pixels = k.contents;
        if (!picture) return {};
        if (!contents.height)
            k.pixels = xxh64(picture->data(), static_cast<std::size_t>(picture->bytes()),
                             static_cast<std::uint64_t>(picture->height) << 32 | static_cast<std::uint64_t>(picture->width));
        if (!prints_.empty() && picture->height >= picture_print::side && picture->width >= picture_print::side)
            GRAFT_TRY(print(*picture, prints_[static_cast<std::size_t>(i)]));
        return {};
    }

    // One colour all over: such pictures are alike without being copies.
    static bool is_blank(const sample_bytes& contents, const image* picture) noexcept {
        if (!contents.height && !picture) return false;
        const std::uint8_t* const data = contents.height ? contents.data : picture->data();
        const std::size_t bytes = contents.height ? contents.size : static_cast<std::size_t>(picture->bytes());
        const std::size_t pixel = contents.height ? 1 : bytes / static_cast<std::size_t>(picture->height * picture->width);
        return bytes > pixel && std::memcmp(data, data + pixel, bytes - pixel) == 0;
    }

    picture_copies find(executor& pool) {
        picture_copies out;
        group_.resize(keys_.size());
        for (std::size_t i = 0; i < group_.size(); ++i) group_[i] = static_cast<std::int64_t>(i);
        join_equal(&key::contents);
        join_equal(&key::pixels);
        if (by_looks_) out.near_searched = !prints_.empty() && join_near(pool);
        for (std::size_t i = 0; i < group_.size(); ++i) out.groups.push_back(first_of(static_cast<std::int64_t>(i)));
        // Each is told with the first one that it was found to be like; one that is only like later ones, with the first of all.
        std::sort(found_.begin(), found_.end(), [](const picture_copy& a, const picture_copy& b) {
            return a.index != b.index ? a.index < b.index : a.exact != b.exact ? a.exact : a.of < b.of;
        });
        std::size_t at = 0;
        for (std::size_t i = 0; i < group_.size(); ++i) {
            const auto index = static_cast<std::int64_t>(i);
            if (at < found_.size() && found_[at].index == index)
                out.copies.push_back(found_[at]);
            else if (out.groups[i] != index)
                out.copies.push_back({index, out.groups[i], false});
            while (at < found_.size() && found_[at].index == index) ++at;
        }
        return out;
    }

private:
    static constexpr std::int64_t most_near = std::int64_t(1) << 18;  // prints of more would take too much memory
    static constexpr std::int64_t most_looks = std::int64_t(1) << 31;
    static constexpr int most_bits = 7, blocks = 4, block_bits = 16;

    struct key {
        std::uint64_t contents = 0, pixels = 0;
        bool known = false;
    };

    std::int64_t first_of(std::int64_t i) {
        while (group_[static_cast<std::size_t>(i)] != i)
            i = group_[static_cast<std::size_t>(i)] = group_[static_cast<std::size_t>(group_[static_cast<std::size_t>(i)])];
        return i;
    }
    void join(std::int64_t later, std::int64_t earlier, bool exact) {
        found_.push_back({later, earlier, exact});
        const std::int64_t a = first_of(later), b = first_of(earlier);
        group_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
    }

    void join_equal(std::uint64_t key::*what) {
        std::vector<std::int64_t> order;
        for (std::size_t i = 0; i < keys_.size(); ++i)
            if (keys_[i].known) order.push_back(static_cast<std::int64_t>(i));
        const auto value = [&](std::int64_t i) { return keys_[static_cast<std::size_t>(i)].*what; };
        std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return value(a) != value(b) ? value(a) < value(b) : a < b; });
        for (std::size_t first = 0, i = 1; i < order.size(); ++i) {
            if (value(order[i]) != value(order[first]))
                first = i;
            else if (first_of(order[i]) != first_of(order[first]))
                join(order[i], order[first], true);
        }
    }

    // Bit k of 64 goes to block k % 4, so that no block holds only what most pictures have in common, such as the sky.
    static std::uint64_t spread(const std::uint8_t* grid, int width, int step) noexcept {
        std::uint64_t bits = 0;
        for (int k = 0; k < 64; ++k) {
            const std::uint8_t* at = grid + k / 8 * width + k % 8;
            if (at[step] > at[0]) bits |= std::uint64_t(1) << (k % blocks * block_bits + k / blocks);
        }
        return bits;
    }

    static status print(const image& picture, picture_print& p) {
        constexpr int side = picture_print::side;
        image small, gray, wide, tall, coarse, patches;
        GRAFT_TRY_ASSIGN(small, resize(picture, side, side, filter::box));
        GRAFT_TRY_ASSIGN(gray, to_gray(small));
        GRAFT_TRY_ASSIGN(wide, resize(gray, 8, 9, filter::box));
        GRAFT_TRY_ASSIGN(tall, resize(gray, 9, 8, filter::box));
        GRAFT_TRY_ASSIGN(coarse, resize(gray, 8, 8, filter::box));
        GRAFT_TRY_ASSIGN(patches, resize(small, picture_print::patches, picture_print::patches, filter::box));
        p.across = spread(wide.data(), 9, 1);
        p.down = spread(tall.data(), 8, 8);
        int light = 0;
        for (int k = 0; k < 64; ++k) light += coarse.data()[k];
        for (int k = 0; k < 64; ++k) p.light |= std::uint64_t(64 * coarse.data()[k] > light) << k;
        std::memcpy(p.luma, gray.data(), sizeof p.luma);
        for (int i = 0; i < picture_print::patches * picture_print::patches && patches.channels == 3; ++i) {
            const std::uint8_t* rgb = patches.data() + 3 * i;
            p.color[2 * i] = static_cast<std::int16_t>(rgb[0] - rgb[1]);
            p.color[2 * i + 1] = static_cast<std::int16_t>(rgb[2] - rgb[1]);
        }
        double sum = 0, squares = 0;
        constexpr double n = side * side;
        for (const std::uint8_t v : p.luma) sum += v, squares += v * v;
        p.mean = static_cast<float>(sum / n);
        p.deviation = static_cast<float>(std::sqrt(std::max(squares / n - sum / n * (sum / n), 0.0)));
        p.comparable = p.deviation >= 4;  // an even picture is like every other
        return {};
    }

    template <class T>
    static double correlation(const T* a, const T* b, int n) noexcept {
        std::int64_t sa = 0, sb = 0, aa = 0, bb = 0, ab = 0;
        for (int i = 0; i < n; ++i) sa += a[i], sb += b[i], aa += a[i] * a[i], bb += b[i] * b[i], ab += a[i] * b[i];
        const double va = static_cast<double>(aa * n - sa * sa), vb = static_cast<double>(bb * n - sb * sb);
        return va > 0 && vb > 0 ? static_cast<double>(ab * n - sa * sb) / std::sqrt(va * vb) : 0;
    }

    // Hashes collide, for simple pictures often: what is alike at 32 x 32, in masses, detail and colour, is a copy.
    static bool alike(const picture_print& a, const picture_print& b) noexcept {
        constexpr int side = picture_print::side, inner = (side - 2) * (side - 2);
        std::int32_t product = 0;
        for (int i = 0; i < side * side; ++i) product += a.luma[i] * b.luma[i];
        const float n = side * side;
        if (static_cast<float>(product) / n - a.mean * b.mean < 0.98f * a.deviation * b.deviation) return false;
        for (std::size_t i = 0; i < sizeof a.color / sizeof a.color[0]; ++i)
            if (std::abs(a.color[i] - b.color[i]) > 40) return false;
        std::int16_t detail_a[inner], detail_b[inner];
        picture_print::detail_of(a, detail_a);
        picture_print::detail_of(b, detail_b);
        return correlation(detail_a, detail_b, inner) >= 0.95;
    }

    static std::size_t block(std::uint64_t hash, int b) noexcept { return hash >> (b * block_bits) & 0xffff; }

    // A block with one bit changed, or with none where that is -1.
    static std::size_t near_block(std::size_t k, int flip) noexcept { return flip < 0 ? k : k ^ std::size_t(1) << flip; }

    // Multi-index hashing (Norouzi, Punjani and Fleet 2012): of two hashes that differ in at most 7 bits, some block of four differs in at most
    // one. Whether all could be looked at.
    bool join_near(executor& pool) {
        std::vector<std::int64_t> items;  // one of each group of equal ones
        for (std::size_t i = 0; i < keys_.size(); ++i)
            if (prints_[i].comparable && group_[i] == static_cast<std::int64_t>(i)) items.push_back(static_cast<std::int64_t>(i));
        struct hashes {
            std::uint64_t across, down, light;
        };
        std::vector<hashes> hash;  // close together: most looks end at them
        for (std::int64_t i : items) {
            const picture_print& p = prints_[static_cast<std::size_t>(i)];
            hash.push_back({p.across, p.down, p.light});
        }
        std::vector<std::uint32_t> starts[blocks], order[blocks];
        std::int64_t looks = 0;
        for (int b = 0; b < blocks; ++b) {
            std::vector<std::uint32_t> held(std::size_t(1) << block_bits);
            for (std::size_t i = 0; i < items.size(); ++i) ++held[block(hash[i].across, b)];
            starts[b].assign(1, 0);
            for (std::size_t k = 0; k < held.size(); ++k) {
                for (int flip = -1; flip < block_bits; ++flip) looks += std::int64_t(held[k]) * held[near_block(k, flip)];
                starts[b].push_back(starts[b].back() + held[k]);
            }
            order[b].resize(items.size());
            std::vector<std::uint32_t> next(starts[b].begin(), starts[b].end() - 1);
            for (std::size_t i = 0; i < items.size(); ++i) order[b][next[block(hash[i].across, b)]++] = static_cast<std::uint32_t>(i);
        }
        if (looks / 2 > most_looks) return false;
        constexpr std::size_t chunk = 256;
        const std::size_t chunks = (items.size() + chunk - 1) / chunk;
        std::vector<std::vector<std::pair<std::size_t, std::size_t>>> pairs(chunks);
        parallel_for(pool, static_cast<std::int64_t>(chunks), [&](std::int64_t c) {
            const std::size_t from = static_cast<std::size_t>(c) * chunk, end = std::min(from + chunk, items.size());
            for (std::size_t i = from; i < end; ++i) {
                const hashes p = hash[i];
                for (int b = 0; b < blocks; ++b)
                    for (int flip = -1; flip < block_bits; ++flip) {
                        const std::size_t k = near_block(block(p.across, b), flip);
                        for (std::uint32_t at = starts[b][k]; at < starts[b][k + 1] && order[b][at] < i; ++at) {
                            const hashes q = hash[order[b][at]];
                            const std::uint64_t differ = p.across ^ q.across;
                            if (bits_in(differ) > most_bits || bits_in(p.light ^ q.light) > most_bits || bits_in(p.down ^ q.down) > most_bits) continue;
                            bool met = false;  // by a block before
                            for (int before = 0; before < b; ++before) met |= bits_in(block(differ, before)) <= 1;
                            if (met) continue;
                            const std::int64_t other = items[order[b][at]];
                            if (alike(prints_[static_cast<std::size_t>(items[i])], prints_[static_cast<std::size_t>(other)]))
                                pairs[static_cast<std::size_t>(c)].emplace_back(i, order[b][at]);
                        }
                    }
            }
        });
        for (const auto& some : pairs)
            for (const auto& pair : some) join(items[pair.first], items[pair.second], false);
        return true;
    }

    std::vector<key> keys_;
    bool by_looks_;
    std::vector<picture_print> prints_;
    std::vector<std::int64_t> group_;  // of each an earlier one of its group, or itself
    std::vector<picture_copy> found_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
