// DEFLATE (RFC 1951) in a zlib wrapper (RFC 1950), for writing: hash chains and Huffman codes made for each block.
#pragma once

#include "../core/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// The bytes as a zlib stream that any inflater reads; equal input gives equal output. Size and speed are near zlib's level 6.
std::string zlib_compress(const void* bytes, std::size_t size);

namespace detail {
// The checksum at the end of a zlib stream.
inline std::uint32_t adler32(const std::uint8_t* p, std::size_t n) noexcept {
    std::uint32_t a = 1, b = 0;
    while (n) {
        // As many as fit before b could pass 2^32.
        std::size_t run = n < 5552 ? n : 5552;
        n -= run;
        for (; run; --run, ++p) b += a += *p;
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}
}  // namespace detail

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Lengths of a Huffman code for `n` <= 288 symbols, none over `most`; 0 where the count is 0. Where a length comes out over
// `most`, counts are halved and it is tried again: they end up equal, and equal counts give 9 bits at the most.
inline void huffman_lengths(const std::uint32_t* counts, int n, int most, std::uint8_t* lengths) {
    std::uint32_t weight[288], inner[288];
    int order[288], parent[576], depth[576], leaves = 0;
    for (int i = 0; i < n; ++i) {
        weight[i] = counts[i];
        lengths[i] = 0;
        if (counts[i]) order[leaves++] = i;
    }
    for (int longest = most + 1; leaves > 1 && longest > most;) {
        std::sort(order, order + leaves, [&weight](int a, int b) { return weight[a] != weight[b] ? weight[a] < weight[b] : a < b; });
        // Leaves in order and the nodes made so far are two sorted queues: the lightest two are at their fronts.
        int leaf = 0, taken = 0;
        for (int made = 0; made < leaves - 1; ++made) {
            inner[made] = 0;
            for (int k = 0; k < 2; ++k) {
                const bool is_leaf = leaf < leaves && (taken == made || weight[order[leaf]] <= inner[taken]);
                inner[made] += is_leaf ? weight[order[leaf]] : inner[taken];
                parent[is_leaf ? leaf++ : leaves + taken++] = leaves + made;
            }
        }
        longest = 0;
        depth[2 * leaves - 2] = 0;
        for (int node = 2 * leaves - 3; node >= 0; --node) {
            depth[node] = depth[parent[node]] + 1;
            longest = std::max(longest, depth[node]);
        }
        for (int i = 0; i < leaves; ++i) {
            lengths[order[i]] = static_cast<std::uint8_t>(depth[i]);
            weight[order[i]] = (weight[order[i]] + 1) / 2;
        }
    }
    if (leaves == 1) lengths[order[0]] = 1;
}

// The codes of RFC 1951 3.2.2, their bits turned around, as they are sent.
inline void huffman_codes(const std::uint8_t* lengths, int n, std::uint16_t* codes) {
    std::uint32_t next = 0;
    for (int length = 1; length <= 15; ++length, next <<= 1)
        for (int i = 0; i < n; ++i) {
            if (lengths[i] != length) continue;
            std::uint32_t turned = 0;
            for (int b = 0; b < length; ++b) turned |= (next >> b & 1) << (length - 1 - b);
            codes[i] = static_cast<std::uint16_t>(turned);
            ++next;
        }
}

class deflater {
public:
    explicit deflater(std::string& out) : out_(out), head_(1 << hash_bits, -1), previous_(window, -1) {
        for (int code = 0; code < 29; ++code)
            for (int length = length_base(code); length <= 258 && (code == 28 || length < length_base(code + 1)); ++length)
                length_code_[length] = static_cast<std::uint8_t>(code);
    }

    void run(const std::uint8_t* in, std::size_t n) {
        in_ = in;
        size_ = static_cast<std::int64_t>(n);
        for (std::int64_t at = 0; at < size_;) {
            int length = 0, distance = 0;
            match(at, length, distance);
            // One byte later there may be a better one.
            if (length >= 3 && length < 64 && at + 1 < size_) {
                int later = 0, unused = 0;
                enter(at);
                match(at + 1, later, unused);
                if (later > length) length = 0;
                push(length, length ? distance : in_[at]);
                for (std::int64_t i = at + 1; i < at + length; ++i) enter(i);
            } else {
                push(length >= 3 ? length : 0, length >= 3 ? distance : in_[at]);
                for (std::int64_t i = at; i < at + std::max(length, 1); ++i) enter(i);
            }
            at += std::max(length, 1);
            if (symbols_.size() >= block_symbols) finish_block(false);
        }
        finish_block(true);
        if (used_) out_ += static_cast<char>(bits_);
    }

private:
    static constexpr int hash_bits = 15, window = 32768, chain = 48;
    static constexpr std::size_t block_symbols = 1 << 15;
    struct symbol {
        std::uint16_t length, value;  // 0 and a byte, or a length and a distance
    };

    static int length_base(int code) noexcept { return code == 28 ? 258 : code < 8 ? code + 3 : ((4 + (code & 3)) << (code / 4 - 1)) + 3; }
    static int length_extra(int code) noexcept { return code < 8 || code == 28 ? 0 : code / 4 - 1; }
    static int distance_base(int code) noexcept { return code < 4 ? code + 1 : ((2 + (code & 1)) << (code / 2 - 1)) + 1; }
    static int distance_extra(int code) noexcept { return code < 4 ? 0 : code / 2 - 1; }
    static int distance_code(int distance) noexcept {
        int code = 0;
        for (int over = distance - 1; over >= 4; over >>= 1) code += 2;
        return code + ((distance - 1) >> (code / 2));
    }

    std::uint32_t hash(std::int64_t at) const noexcept {
        const std::uint32_t three = in_[at] | std::uint32_t(in_[at + 1]) << 8 | std::uint32_t(in_[at + 2]) << 16;
        return (three * 0x9e3779b1u) >> (32 - hash_bits);
    }
    void enter(std::int64_t at) noexcept {
        if (at + 3 > size_) return;
        std::int64_t& head = head_[hash(at)];
        previous_[static_cast<std::size_t>(at % window)] = head;
        head = at;
    }
    // The longest earlier match of what stands at `at`; positions from `at` on have not been entered.
    void match(std::int64_t at, int& length, int& distance) const noexcept {
        length = 0;
        if (at + 3 > size_) return;
        const int most = static_cast<int>(std::min<std::int64_t>(258, size_ - at));
        std::int64_t from = head_[hash(at)];
        for (int tries = chain; tries && from >= 0 && at - from <= window; --tries) {
            if (in_[from + length] == in_[at + length] && std::memcmp(in_ + from, in_ + at, 3) == 0) {
                int n = 3;
                while (n < most && in_[from + n] == in_[at + n]) ++n;
                if (n > length) {
                    length = n;
                    distance = static_cast<int>(at - from);
                    if (n == most) return;
                }
            }
            // A slot that has been taken again points forwards.
            const std::int64_t before = previous_[static_cast<std::size_t>(from % window)];
            if (before >= from) break;
            from = before;
        }
    }
    void push(int length, int value) {
        symbols_.push_back({static_cast<std::uint16_t>(length), static_cast<std::uint16_t>(value)});
        ++literals_[length ? 257 + length_code_[length] : value];
        if (length) ++distances_[distance_code(value)];
    }

    void put(std::uint32_t value, int bits) {
        bits_ |= std::uint64_t(value) << used_;
        for (used_ += bits; used_ >= 8; used_ -= 8, bits_ >>= 8) out_ += static_cast<char>(bits_ & 255);
    }

    // How the lengths of both codes are sent: symbols of the third alphabet, with what follows 16, 17 and 18.
    static std::size_t run_lengths(const std::uint8_t* lengths, std::size_t n, std::uint8_t (*runs)[2]) noexcept {
        std::size_t count = 0;
        for (std::size_t i = 0; i < n;) {
            std::size_t same = 1;
            while (i + same < n && lengths[i + same] == lengths[i]) ++same;
            std::uint8_t code = lengths[i], extra = 0;
            if (lengths[i] == 0 && same >= 3) {
                same = std::min<std::size_t>(same, 138);
                code = same < 11 ? 17 : 18;
                extra = static_cast<std::uint8_t>(same - (same < 11 ? 3 : 11));
            } else if (i && lengths[i - 1] == lengths[i] && same >= 3) {
                same = std::min<std::size_t>(same, 6);
                code = 16;
                extra = static_cast<std::uint8_t>(same - 3);
            } else
                same = 1;
            runs[count][0] = code;
            runs[count++][1] = extra;
            i += same;
        }
        return count;
    }

    void finish_block(bool last) {
        // Two distances at least: some readers know no code of a single one.
        std::uint8_t lengths[288 + 32] = {}, distance_lengths[30];
        ++literals_[256];
        for (int i = 0; i < 2; ++i) distances_[i] += distances_[i] == 0;
        huffman_lengths(literals_, 286, 15, lengths);
        huffman_lengths(distances_, 30, 15, distance_lengths);
        huffman_codes(lengths, 286, literal_codes_);
        huffman_codes(distance_lengths, 30, distance_codes_);
        int literals = 286, distances = 30;
        while (literals > 257 && !lengths[literals - 1]) --literals;
        while (distances > 1 && !distance_lengths[distances - 1]) --distances;
        std::copy(distance_lengths, distance_lengths + distances, lengths + literals);

        std::uint8_t runs[320][2], order_lengths[19];
        const std::size_t count = run_lengths(lengths, static_cast<std::size_t>(literals + distances), runs);
        std::uint32_t run_counts[19] = {};
        std::uint16_t run_codes[19];
        for (std::size_t i = 0; i < count; ++i) ++run_counts[runs[i][0]];
        huffman_lengths(run_counts, 19, 7, order_lengths);
        huffman_codes(order_lengths, 19, run_codes);
        static constexpr std::uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
        int sent = 19;
        while (sent > 4 && !order_lengths[order[sent - 1]]) --sent;

        put(last ? 1 : 0, 1);
        put(2, 2);
        put(static_cast<std::uint32_t>(literals - 257), 5);
        put(static_cast<std::uint32_t>(distances - 1), 5);
        put(static_cast<std::uint32_t>(sent - 4), 4);
        for (int i = 0; i < sent; ++i) put(order_lengths[order[i]], 3);
        for (std::size_t i = 0; i < count; ++i) {
            const int code = runs[i][0];
            put(run_codes[code], order_lengths[code]);
            if (code >= 16) put(runs[i][1], code == 16 ? 2 : code == 17 ? 3 : 7);
        }
        for (const symbol& s : symbols_) send(s, lengths, distance_lengths);
        put(literal_codes_[256], lengths[256]);
        symbols_.clear();
        std::memset(literals_, 0, sizeof literals_);
        std::memset(distances_, 0, sizeof distances_);
    }

    void send(const symbol& s, const std::uint8_t* lengths, const std::uint8_t* distance_lengths) {
        if (!s.length) return put(literal_codes_[s.value], lengths[s.value]);
        const int code = length_code_[s.length], far = distance_code(s.value);
        put(literal_codes_[257 + code], lengths[257 + code]);
        put(static_cast<std::uint32_t>(s.length - length_base(code)), length_extra(code));
        put(distance_codes_[far], distance_lengths[far]);
        put(static_cast<std::uint32_t>(s.value - distance_base(far)), distance_extra(far));
    }

    std::string& out_;
    const std::uint8_t* in_ = nullptr;
    std::int64_t size_ = 0;
    std::vector<std::int64_t> head_, previous_;
    std::vector<symbol> symbols_;
    std::uint32_t literals_[286] = {}, distances_[30] = {};
    std::uint16_t literal_codes_[286] = {}, distance_codes_[30] = {};
    std::uint8_t length_code_[259] = {};
    std::uint64_t bits_ = 0;
    int used_ = 0;
};

}  // namespace detail

GRAFT_INLINE std::string zlib_compress(const void* bytes, std::size_t size) {
    const auto* p = static_cast<const std::uint8_t*>(bytes);
    std::string out("\x78\x9c", 2);
    detail::deflater(out).run(p, size);
    const std::uint32_t sum = detail::adler32(p, size);
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(sum >> shift & 255);
    return out;
}

GRAFT_END_NAMESPACE
#endif
