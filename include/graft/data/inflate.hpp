// DEFLATE (RFC 1951) to a sink, 96 KiB at a time: memory is fixed, and the sink says when it has enough.
#pragma once

#include "../core/buffer.hpp"

#include <cstdint>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

enum class inflate_end { done, stopped, truncated, malformed, no_memory };

// Takes the next bytes; false: no more are wanted.
using byte_sink = bool (*)(void* context, const std::uint8_t* bytes, std::size_t n);

class inflater {
public:
    inflater(const std::uint8_t* in, std::size_t n, byte_sink sink, void* context) : begin_(in), input_{in, in + n}, sink_(sink), context_(context) {}

    // Bytes of the input that were read; meant for `done`.
    std::size_t consumed() const noexcept { return static_cast<std::size_t>(input_.in - begin_) - input_.bits / 8 + input_.padding; }

    inflate_end run() {
        auto memory = buffer::allocate(capacity + 16);
        if (!memory.ok()) return inflate_end::no_memory;
        memory_ = std::move(memory).value();
        window_ = reinterpret_cast<std::uint8_t*>(memory_.data());
        for (bool last = false; !last;) {
            input_.refill();
            last = input_.take(1) != 0;
            const std::uint32_t kind = input_.take(2);
            if (input_.starved()) return flush() ? inflate_end::truncated : inflate_end::stopped;
            inflate_end end = inflate_end::malformed;
            if (kind == 0) end = stored();
            if (kind == 1) end = fixed();
            if (kind == 2) end = dynamic();
            // What came before the break still counts: a picture may be whole without it.
            if (end == inflate_end::truncated && !flush()) return inflate_end::stopped;
            if (end != inflate_end::done) return end;
        }
        return flush() ? inflate_end::done : inflate_end::stopped;
    }

private:
    static constexpr std::size_t history = 32768, capacity = 4 * history;
    static constexpr int fast_bits = 10;

    struct huffman {
        std::uint16_t fast[1 << fast_bits];  // symbol * 16 + length for the short codes, 0 for the others
        std::uint16_t count[16], symbol[288];

        bool build(const std::uint8_t* lengths, int n) {
            std::memset(this, 0, sizeof *this);
            for (int i = 0; i < n; ++i) ++count[lengths[i]];
            count[0] = 0;
            int left = 1, longest = 0;
            std::uint16_t offset[16] = {}, code[16] = {};
            for (int length = 1; length < 16; ++length) {
                if ((left = left * 2 - count[length]) < 0) return false;
                if (count[length]) longest = length;
                if (length < 15) {
                    offset[length + 1] = static_cast<std::uint16_t>(offset[length] + count[length]);
                    code[length + 1] = static_cast<std::uint16_t>((code[length] + count[length]) << 1);
                }
            }
            if (left > 0 && longest > 1) return false;  // incomplete, which only a single code may be
            for (int i = 0; i < n; ++i) {
                const int length = lengths[i];
                if (!length) continue;
                symbol[offset[length]++] = static_cast<std::uint16_t>(i);
                std::uint32_t reversed = 0, forward = code[length]++;
                if (length > fast_bits) continue;
                for (int b = 0; b < length; ++b) reversed |= (forward >> b & 1) << (length - 1 - b);
                for (; reversed < (1u << fast_bits); reversed += 1u << length) fast[reversed] = static_cast<std::uint16_t>(i * 16 + length);
            }
            return true;
        }
    };

    // The bits of the input, the next one lowest. A value of its own, so that loops keep it in registers.
    struct bit_reader {
        const std::uint8_t *in, *end;
        std::uint64_t held = 0;
        std::size_t padding = 0;  // zero bytes that were taken behind the end
        unsigned bits = 0;

        void refill() noexcept {
            if (end - in >= 8) {
                const auto byte = [this](int i) { return std::uint64_t(in[i]) << (8 * i); };
                const std::uint64_t next = byte(0) | byte(1) | byte(2) | byte(3) | byte(4) | byte(5) | byte(6) | byte(7);
                held |= next << bits;
                in += (63 - bits) >> 3;
                bits |= 56;
                return;
            }
            while (bits <= 56) {
                // Past the end come zeros, counted, so that what was made of them can be told.
                if (in < end)
                    held |= std::uint64_t(*in++) << bits;
                else
                    ++padding;
                bits += 8;
            }
        }
        bool starved() const noexcept { return padding * 8 > bits; }
        std::uint32_t take(unsigned n) noexcept {
            const auto value = static_cast<std::uint32_t>(held & ((std::uint64_t(1) << n) - 1));
            held >>= n;
            bits -= n;
            return value;
        }
        int decode(const huffman& h) noexcept {
            const unsigned entry = h.fast[held & ((1u << fast_bits) - 1)];
            if (entry) {
                held >>= entry & 15;
                bits -= entry & 15;
                return static_cast<int>(entry >> 4);
            }
            int code = 0, first = 0, index = 0;
            for (unsigned length = 1; length < 16; ++length) {
                code |= static_cast<int>(held >> (length - 1) & 1);
                const int count = h.count[length];
                if (code - count < first) {
                    held >>= length;
                    bits -= length;
                    return h.symbol[index + code - first];
                }
                index += count;
                first = (first + count) << 1;
                code <<= 1;
            }
            return -1;
        }
    };

    bool flush() noexcept {
        const bool more = at_ == sent_ || sink_(context_, window_ + sent_, at_ - sent_);
        if (at_ > history) {
            std::memmove(window_, window_ + at_ - history, history);
            at_ = history;
        }
        sent_ = at_;
        return more;
    }

    inflate_end stored() {
        bit_reader& r = input_;
        r.take(r.bits & 7);
        // Whole bytes that were read ahead go back to the input.
        r.in -= r.bits / 8 - r.padding;  // the input is not starved, so there is no more padding than that
        r.held = 0;
        r.bits = 0;
        r.padding = 0;
        if (r.end - r.in < 4) return inflate_end::truncated;
        std::size_t n = r.in[0] | std::size_t(r.in[1]) << 8;
        if ((n ^ 0xffff) != (r.in[2] | std::size_t(r.in[3]) << 8)) return inflate_end::malformed;
        r.in += 4;
        const bool whole = static_cast<std::size_t>(r.end - r.in) >= n;
        if (!whole) n = static_cast<std::size_t>(r.end - r.in);
        if (capacity - at_ < n && !flush()) return inflate_end::stopped;
        if (n) std::memcpy(window_ + at_, r.in, n);
        at_ += n;
        r.in += n;
        return whole ? inflate_end::done : inflate_end::truncated;
    }

    inflate_end fixed() {
        std::uint8_t lengths[288];
        for (int i = 0; i < 288; ++i) lengths[i] = static_cast<std::uint8_t>(i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
        literals_.build(lengths, 288);
        for (int i = 0; i < 32; ++i) lengths[i] = 5;
        distances_.build(lengths, 32);
        return codes();
    }

    inflate_end dynamic() {
        static constexpr std::uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
        const int n_literals = static_cast<int>(input_.take(5)) + 257, n_distances = static_cast<int>(input_.take(5)) + 1,
                  n_codes = static_cast<int>(input_.take(4)) + 4;
        if (n_literals > 286 || n_distances > 30) return inflate_end::malformed;
        std::uint8_t lengths[320] = {};
        for (int i = 0; i < n_codes; ++i) {
            input_.refill();
            lengths[order[i]] = static_cast<std::uint8_t>(input_.take(3));
        }
        if (input_.starved()) return inflate_end::truncated;
        if (!literals_.build(lengths, 19)) return inflate_end::malformed;
        std::uint8_t all[320] = {};
        for (int i = 0; i < n_literals + n_distances;) {
            input_.refill();
            const int symbol = input_.decode(literals_);
            if (input_.starved()) return inflate_end::truncated;
            if (symbol < 0) return inflate_end::malformed;
            if (symbol < 16) {
                all[i++] = static_cast<std::uint8_t>(symbol);
                continue;
            }
            if (symbol == 16 && i == 0) return inflate_end::malformed;
            const std::uint8_t value = symbol == 16 ? all[i - 1] : std::uint8_t(0);
            const int times = symbol == 16   ? 3 + static_cast<int>(input_.take(2))
                              : symbol == 17 ? 3 + static_cast<int>(input_.take(3))
                                             : 11 + static_cast<int>(input_.take(7));
            if (i + times > n_literals + n_distances) return inflate_end::malformed;
            for (int t = 0; t < times; ++t) all[i++] = value;
        }
        if (!all[256] || !literals_.build(all, n_literals) || !distances_.build(all + n_literals, n_distances)) return inflate_end::malformed;
        return codes();
    }

    inflate_end codes() {
        static constexpr std::uint16_t length_base[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                          31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
        static constexpr std::uint8_t length_extra[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
        static constexpr std::uint16_t distance_base[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                                            193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
        static constexpr std::uint8_t distance_extra[30] = {0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
        bit_reader r = input_;
        std::uint8_t* const window = window_;
        std::size_t at = at_;
        inflate_end end = inflate_end::malformed;
        for (;;) {
            if (r.bits < 48) r.refill();  // enough for a length, a distance and their extra bits
            int symbol = r.decode(literals_);
            if (r.starved()) {
                end = inflate_end::truncated;
                break;
            }
            if (capacity - at < 260) {
                at_ = at;
                const bool more = flush();
                at = at_;
                if (!more) {
                    end = inflate_end::stopped;
                    break;
                }
            }
            if (symbol >= 0 && symbol < 256) {
                window[at++] = static_cast<std::uint8_t>(symbol);
                continue;
            }
            if (symbol == 256) {
                end = inflate_end::done;
                break;
            }
            if (symbol < 0 || symbol > 285) break;
            symbol -= 257;
            const std::size_t n = length_base[symbol] + r.take(length_extra[symbol]);
            const int far = r.decode(distances_);
            const std::size_t distance = far < 0 || far > 29 ? 0 : distance_base[far] + r.take(distance_extra[far]);
            if (r.starved()) {
                end = inflate_end::truncated;
                break;
            }
            if (distance == 0 || distance > at) break;
            std::uint8_t* to = window + at;
            const std::uint8_t* from = to - distance;
            at += n;
            if (distance >= 8) {
                for (std::size_t i = 0; i < n; i += 8) std::memcpy(to + i, from + i, 8);  // the window has room to run over
            } else
                for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
        }
        input_ = r;
        at_ = at;
        return end;
    }

    const std::uint8_t* begin_;
    bit_reader input_;
    byte_sink sink_;
    void* context_;
    std::uint8_t* window_ = nullptr;
    std::size_t at_ = 0, sent_ = 0;
    buffer memory_;
    huffman literals_, distances_;
};

// Bytes of the zlib header (RFC 1950), 0 where it is wrong or asks for a preset dictionary.
inline std::size_t zlib_header(const std::uint8_t* in, std::size_t n) noexcept {
    return n >= 2 && (in[0] & 15) == 8 && (in[0] >> 4) <= 7 && (in[0] * 256 + in[1]) % 31 == 0 && !(in[1] & 32) ? 2 : 0;
}

}  // namespace detail
GRAFT_END_NAMESPACE
