// Files of raw pixels that may be gzipped (RFC 1952): read whole, unpacked to exactly the size that is expected.
#pragma once

#include "../core/descriptor.hpp"
#include "../core/read_file.hpp"
#include "inflate.hpp"
#include "png_decode.hpp"

#include <cstring>
#include <memory>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The contents of a raw file as it lies on the disk.
class raw_file {
public:
    // Errors: data.open, memory.budget.
    static result<raw_file> open(const std::string& path, std::int64_t most) {
        raw_file file;
        file.path_ = path;
        std::string bytes;
        GRAFT_TRY_ASSIGN(bytes, read_file(path, most, errc::data_open, errc::memory_budget));
        auto kept = std::make_shared<const std::string>(std::move(bytes));
        file.data_ = reinterpret_cast<const std::uint8_t*>(kept->data());
        file.size_ = kept->size();
        file.owner_ = std::move(kept);
        file.packed_ = file.size_ >= 2 && file.data_[0] == 0x1f && file.data_[1] == 0x8b;
        if (file.packed_) GRAFT_TRY(file.skip_header());
        return file;
    }

    // The first bytes of a regular file's contents, at most n, without reading all of it: to see what it is. Errors: data.open, memory.oom.
    static result<std::string> peek(const std::string& path, std::size_t n) {
        const descriptor from = descriptor::open(path, descriptor::use::read);
        if (!from.is_open()) return fail(errc::data_open, path, detail::system_message());
        std::string bytes(std::size_t(1) << 16, '\0');
        const std::int64_t have = from.read(&bytes[0], bytes.size());
        if (have < 0) return fail(errc::data_open, path, "reading failed: " + detail::system_message());
        bytes.resize(static_cast<std::size_t>(have));
        raw_file file;
        file.path_ = path;
        file.data_ = reinterpret_cast<const std::uint8_t*>(bytes.data());
        file.size_ = bytes.size();
        file.packed_ = file.size_ >= 2 && file.data_[0] == 0x1f && file.data_[1] == 0x8b;
        if (file.packed_ && !file.skip_header().ok()) return std::string();
        return file.head(n);
    }

    const std::string& path() const noexcept { return path_; }
    const std::uint8_t* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    const std::shared_ptr<const void>& owner() const noexcept { return owner_; }

    // How many bytes there are once unpacked; a packed file's own claim (modulo 2^32), which `unpack` holds against the truth.
    std::uint64_t claimed_size() const noexcept {
        if (!packed_) return size_;
        const std::uint8_t* p = data_ + size_ - 4;
        return p[0] | std::uint64_t(p[1]) << 8 | std::uint64_t(p[2]) << 16 | std::uint64_t(p[3]) << 24;
    }
    // The first bytes of the contents, at most n: what a reader needs to know how many there ought to be. Errors: memory.oom.
    result<std::string> head(std::size_t n) const {
        if (!packed_) return std::string(reinterpret_cast<const char*>(data_), size_ < n ? size_ : n);
        taker take{nullptr, n, {}, 0};
        inflater unpacker(data_ + body_, size_ - body_ - 8, taker::put_head, &take);
        if (unpacker.run() == inflate_end::no_memory) return no_memory();
        return take.head;
    }
    // Makes the contents plain. They must have exactly `expected` bytes, and unpacking never makes more. Errors: data.format,
    // memory.budget, memory.oom.
    status unpack(std::uint64_t expected, std::int64_t most) {
        if (!packed_) {
            if (size_ == expected) return {};
            return fail(errc::data_format, path_, "the file has " + std::to_string(size_) + " bytes; its header asks for " + std::to_string(expected));
        }
        // Photos shrink to a half, digits to a fifth. DEFLATE can claim a thousand times its own size.
        if (expected > (std::uint64_t(64) << 20) + 64 * std::uint64_t(size_))
            return fail(errc::data_format, path_,
                        std::to_string(size_) + " packed bytes claim to hold " + std::to_string(expected) + "; if that is meant, unpack the file with gunzip");
        if (expected > static_cast<std::uint64_t>(most))
            return fail(errc::memory_budget, path_, std::to_string(expected) + " bytes unpacked; the limit is " + std::to_string(most));
        buffer plain;
        GRAFT_TRY_ASSIGN(plain, buffer::allocate(static_cast<std::size_t>(expected)));
        taker take{reinterpret_cast<std::uint8_t*>(plain.data()), static_cast<std::size_t>(expected), {}, 0};
        inflater unpacker(data_ + body_, size_ - body_ - 8, taker::put, &take);
        const inflate_end end = unpacker.run();
        if (end == inflate_end::no_memory) return no_memory();
        if (end == inflate_end::malformed) return fail(errc::data_format, path_, "the gzip stream is damaged");
        if (end == inflate_end::stopped) return fail(errc::data_format, path_, "more bytes are packed than the " + std::to_string(expected) + " expected");
        if (end == inflate_end::truncated || take.have < expected)
            return fail(errc::data_format, path_, "the gzip stream ends after " + std::to_string(take.have) + " of " + std::to_string(expected) + " bytes");
        if (unpacker.consumed() != size_ - body_ - 8)
            return fail(errc::data_format, path_, "something follows the gzip stream; pack the file again, in one piece");
        const std::uint8_t* p = data_ + size_ - 8;
        const std::uint32_t crc = p[0] | std::uint32_t(p[1]) << 8 | std::uint32_t(p[2]) << 16 | std::uint32_t(p[3]) << 24;
        if (crc != crc32(0, take.to, take.have) || claimed_size() != (expected & 0xffffffffu))
            return fail(errc::data_format, path_, "the checksum of the gzip stream is wrong");
        data_ = take.to;
        size_ = take.have;
        packed_ = false;
        owner_ = std::make_shared<const buffer>(std::move(plain));
        return {};
    }

private:
    struct taker {
        std::uint8_t* to;
        std::size_t most;
        std::string head;
        std::size_t have;

        static bool put(void* context, const std::uint8_t* bytes, std::size_t n) {
            taker& t = *static_cast<taker*>(context);
            if (n > t.most - t.have) return false;
            std::memcpy(t.to + t.have, bytes, n);
            t.have += n;
            return true;
        }
        static bool put_head(void* context, const std::uint8_t* bytes, std::size_t n) {
            taker& t = *static_cast<taker*>(context);
            const std::size_t room = t.most - t.head.size();
            t.head.append(reinterpret_cast<const char*>(bytes), n < room ? n : room);
            return t.head.size() < t.most;
        }
    };

    GRAFT_COLD status no_memory() const { return fail(errc::memory_oom, path_, "the system has not enough memory to unpack it"); }
    status skip_header() {
        const auto short_file = [this] { return fail(errc::data_format, path_, "the gzip header ends too early"); };
        if (size_ < 18) return short_file();
        if (data_[2] != 8 || (data_[3] & 0xe0)) return fail(errc::data_format, path_, "the gzip header is damaged");
        const int flags = data_[3];
        std::size_t at = 10;
        if (flags & 4) at += 2 + (data_[10] | std::size_t(data_[11]) << 8);
        for (int flag = 8; flag <= 16; flag *= 2) {  // the file's name, a comment
            if (!(flags & flag)) continue;
            while (at < size_ && data_[at]) ++at;
            ++at;
        }
        if (flags & 2) at += 2;
        if (at > size_ - 8) return short_file();
        body_ = at;
        return {};
    }

    std::string path_;
    std::shared_ptr<const void> owner_;
    const std::uint8_t* data_ = nullptr;
    std::size_t size_ = 0, body_ = 0;
    bool packed_ = false;
};

}  // namespace detail
GRAFT_END_NAMESPACE
