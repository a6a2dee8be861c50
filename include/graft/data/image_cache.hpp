// Decoded pictures on disk, found by what their files hold, mapped into memory. Safe to kill: what is not whole is not there.
#pragma once

#include "image.hpp"

#include <cstdint>
#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// A folder with one file, "pictures.graftcache", that only grows. Each record has a checksum of its head and one of its pixels;
/// what a killed process left behind unfinished is cut off by the next one that opens it to write. One process writes (it holds a
/// lock on the file); others that open it meanwhile find what was there and add nothing. Meant for one machine; POSIX systems
/// only. All functions may be called from many threads. Whoever cuts the file short while it is open takes the ground from under
/// its readers.
class image_cache {
public:
    /// What a picture is found by.
    struct key {
        std::uint64_t first = 0, second = 0;
    };
    /// Of an encoded file, and of what was done to its picture before it was stored: a text that names the rule and its version.
    static key key_of(const void* bytes, std::size_t size, const std::string& rule) noexcept;

    /// Opens the cache in `folder`, which is made if it is not there (its parent must be). It stops growing at `most` bytes.
    /// Errors: file.open (also for a file that is no such cache, and on systems without it), file.write.
    static result<std::shared_ptr<image_cache>> open(const std::string& folder, std::int64_t most = std::int64_t(16) << 30);

    image_cache(const image_cache&) = delete;
    image_cache& operator=(const image_cache&) = delete;
    ~image_cache();

    /// The picture, read-only (whoever writes into its pixels ends the program), or none, also where there is no memory to map it: `if (image found =
    /// cache.find(k))`.
    image find(const key& wanted) const;
    /// Adds a picture, unless it is there or memory is wanting. What cannot be written is told by `trouble`, not by failing: the picture is at hand.
    void put(const key& name, const image& picture);

    /// Why pictures are no longer added, or "".
    std::string trouble() const;
    /// How many pictures it holds, and how long its file is.
    std::int64_t pictures() const;
    std::int64_t bytes() const;

private:
    image_cache() noexcept;
    struct state;
    std::unique_ptr<state> state_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/descriptor.hpp"
#include "../core/xxhash.hpp"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>
#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The head of a record; the pixels follow, zeros up to a multiple of 64, and 64 more as the slack that buffers have.
struct cache_record {
    std::uint64_t magic, first, second;
    std::uint32_t height, width, channels, unused;
    std::uint64_t pixels_sum;
    std::uint64_t head_sum;  // of what stands before it
    std::uint64_t padding;

    static constexpr std::uint64_t magic_number = 0x31636572746667e3u;
    std::int64_t pixels() const noexcept { return std::int64_t(height) * width * channels; }
    std::int64_t total() const noexcept { return std::int64_t(sizeof(cache_record)) + (pixels() + 63) / 64 * 64 + 64; }
    std::uint64_t sum() const noexcept { return xxh64(this, 48); }
    bool valid() const noexcept {
        return magic == magic_number && head_sum == sum() && height && width && height <= (1u << 27) && width <= (1u << 27) && (channels == 1 || channels == 3);
    }
};
static_assert(sizeof(cache_record) == 64, "records are written as they are");

inline constexpr char cache_head[64] = "graft pictures 1\n";

struct cache_key_hash {
    std::size_t operator()(const image_cache::key& k) const noexcept { return static_cast<std::size_t>(k.first); }
};
struct cache_key_equal {
    bool operator()(const image_cache::key& a, const image_cache::key& b) const noexcept { return a.first == b.first && a.second == b.second; }
};

}  // namespace detail

struct image_cache::state {
    struct entry {
        std::int64_t at;
        detail::cache_record head;
        bool checked;  // whether its pixels have been held against their checksum
    };
    mutable std::mutex index_lock, append_lock;
    std::unordered_map<key, entry, detail::cache_key_hash, detail::cache_key_equal> index;
    std::string path, trouble;
    std::int64_t end = 0, most = 0;
    int descriptor = -1;

    image find(const key& wanted);
    void put(const key& name, const image& picture);
};

GRAFT_INLINE image_cache::image_cache() noexcept = default;

GRAFT_INLINE image_cache::key image_cache::key_of(const void* bytes, std::size_t size, const std::string& rule) noexcept {
    return {xxh64(bytes, size, xxh64(rule.data(), rule.size(), 1)), xxh64(bytes, size, xxh64(rule.data(), rule.size(), 2))};
}

GRAFT_INLINE std::string image_cache::trouble() const {
    std::lock_guard<std::mutex> lock(state_->index_lock);
    return state_->trouble;
}

GRAFT_INLINE std::int64_t image_cache::pictures() const {
    std::lock_guard<std::mutex> lock(state_->index_lock);
    return static_cast<std::int64_t>(state_->index.size());
}

GRAFT_INLINE std::int64_t image_cache::bytes() const {
    std::lock_guard<std::mutex> lock(state_->index_lock);
    return state_->end;
}

#if defined(_WIN32)

GRAFT_INLINE image_cache::~image_cache() = default;

GRAFT_INLINE result<std::shared_ptr<image_cache>> image_cache::open(const std::string& folder, std::int64_t) GRAFT_MEMORY_TRY {
    return fail(errc::file_open, folder, "caches of pictures are not available on this system");
}
GRAFT_MEMORY_CATCH(folder)
GRAFT_INLINE image image_cache::find(const key&) const { return {}; }
GRAFT_INLINE void image_cache::put(const key&, const image&) {}

#else

namespace detail {

inline bool write_at(int descriptor, const void* bytes, std::int64_t size, std::int64_t at) noexcept {
    for (const auto* p = static_cast<const char*>(bytes); size;) {
        const ssize_t n = uninterrupted([&] { return ::pwrite(descriptor, p, static_cast<std::size_t>(size), at); });
        if (n <= 0) return false;
        p += n;
        at += n;
        size -= n;
    }
    return true;
}

// False also where the file ends before: then errno is 0.
inline bool read_at(int descriptor, void* bytes, std::size_t size, std::int64_t at) noexcept {
    for (auto* p = static_cast<char*>(bytes); size;) {
        const ssize_t n = uninterrupted([&] { return ::pread(descriptor, p, size, at); });
        if (n == 0) errno = 0;
        if (n <= 0) return false;
        p += n;
        at += n;
        size -= static_cast<std::size_t>(n);
    }
    return true;
}

// A part of a file in memory.
struct cache_mapping {
    void* start = MAP_FAILED;
    std::size_t size = 0;
    ~cache_mapping() {
        if (start != MAP_FAILED) ::munmap(start, size);
    }
};

}  // namespace detail

GRAFT_INLINE image_cache::~image_cache() {
    if (state_ && state_->descriptor >= 0) ::close(state_->descriptor);
}

GRAFT_INLINE result<std::shared_ptr<image_cache>> image_cache::open(const std::string& folder, std::int64_t most) GRAFT_MEMORY_TRY {
    std::shared_ptr<image_cache> cache(new image_cache);
    cache->state_.reset(new state);
    state& s = *cache->state_;
    s.path = folder + "/pictures.graftcache";
    s.most = most;
    if (folder.find('\0') != std::string::npos) return fail(errc::file_open, folder, "a path cannot hold a NUL byte");
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return fail(errc::file_open, folder, detail::system_message());
    const auto open_it = [&](int flags) { return detail::uninterrupted([&] { return ::open(s.path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666); }); };
    s.descriptor = open_it(O_RDWR | O_CREAT);
    const bool write = s.descriptor >= 0 && detail::uninterrupted([&] { return ::flock(s.descriptor, LOCK_EX | LOCK_NB); }) == 0;
    if (s.descriptor < 0) s.descriptor = open_it(O_RDONLY);
    struct stat about;
    if (s.descriptor < 0 || ::fstat(s.descriptor, &about) != 0) return fail(errc::file_open, s.path, detail::system_message());
    if (!S_ISREG(about.st_mode)) return fail(errc::file_open, s.path, "this is not a regular file");
    if (!write) s.trouble = "another process adds to it, or it cannot be written";
    std::int64_t size = about.st_size;
    char head[sizeof detail::cache_head];
    if (size < static_cast<std::int64_t>(sizeof head) && write) {
        if (!detail::write_at(s.descriptor, detail::cache_head, sizeof head, 0)) return fail(errc::file_write, s.path, detail::system_message());
        size = sizeof head;
    }
    const bool read = detail::read_at(s.descriptor, head, sizeof head, 0);
    if (!read && errno) return fail(errc::file_open, s.path, detail::system_message());
    if (!read || std::memcmp(head, detail::cache_head, sizeof head) != 0)
        return fail(errc::file_open, s.path, "this is not a cache of pictures, or one of another version; remove it or name another folder");
    s.end = sizeof head;
    for (state::entry place; size - s.end >= static_cast<std::int64_t>(sizeof place.head); s.end += place.head.total()) {
        const bool got = detail::read_at(s.descriptor, &place.head, sizeof place.head, s.end);
        // What could not be read just now is not cut off as what is damaged.
        if (!got && errno) return fail(errc::file_open, s.path, detail::system_message());
        if (!got || !place.head.valid() || place.head.total() > size - s.end) break;
        place.at = s.end;
        place.checked = false;
        s.index[{place.head.first, place.head.second}] = place;  // the last one counts: it was put because the others were damaged
    }
    if (write && s.end < size && detail::uninterrupted([&] { return ::ftruncate(s.descriptor, s.end); }) != 0)
        return fail(errc::file_write, s.path, detail::system_message());
    return cache;
}
GRAFT_MEMORY_CATCH(folder)

GRAFT_INLINE image image_cache::find(const key& wanted) const {
    auto picture = detail::or_out_of_memory<result<image>>("cache", [&] { return result<image>(state_->find(wanted)); });
    return picture.ok() ? std::move(picture).value() : image();
}
GRAFT_INLINE void image_cache::put(const key& name, const image& picture) {
    (void)detail::or_out_of_memory<status>("cache", [&] { return state_->put(name, picture), status(); });
}
GRAFT_INLINE image image_cache::state::find(const key& wanted) {
    entry place;
    {
        std::lock_guard<std::mutex> lock(index_lock);
        const auto found = index.find(wanted);
        if (found == index.end()) return {};
        place = found->second;
    }
    const std::int64_t page = ::sysconf(_SC_PAGESIZE), start = place.at / page * page;
    auto size = static_cast<std::size_t>(place.at + place.head.total() - start);
#if defined(MAP_POPULATE)
    constexpr int flags = MAP_SHARED | MAP_POPULATE;  // all of it is about to be read
#else
    constexpr int flags = MAP_SHARED;
#endif
    auto mapping = std::make_shared<detail::cache_mapping>();
    mapping->start = ::mmap(nullptr, size, PROT_READ, flags, descriptor, start);
    mapping->size = size;
    if (mapping->start == MAP_FAILED) return {};
    const char* pixels = static_cast<const char*>(mapping->start) + (place.at - start) + sizeof place.head;
    const auto bytes = static_cast<std::size_t>(place.head.pixels());
    if (!place.checked) {
        const bool whole = xxh64(pixels, bytes) == place.head.pixels_sum;
        std::lock_guard<std::mutex> lock(index_lock);
        const auto found = index.find(wanted);
        if (found != index.end() && found->second.at == place.at) {
            if (whole)
                found->second.checked = true;
            else
                index.erase(found);
        }
        if (!whole) return {};
    }
    image picture;
    picture.height = place.head.height;
    picture.width = place.head.width;
    picture.channels = static_cast<int>(place.head.channels);
    picture.pixels = buffer::borrow(pixels, bytes, std::move(mapping));
    return picture;
}

GRAFT_INLINE void image_cache::state::put(const key& name, const image& picture) {
    entry place{};
    place.checked = true;
    place.head.magic = detail::cache_record::magic_number;
    place.head.first = name.first;
    place.head.second = name.second;
    place.head.height = static_cast<std::uint32_t>(picture.height);
    place.head.width = static_cast<std::uint32_t>(picture.width);
    place.head.channels = static_cast<std::uint32_t>(picture.channels);
    place.head.pixels_sum = xxh64(picture.data(), static_cast<std::size_t>(picture.bytes()));
    place.head.head_sum = place.head.sum();
    if (!place.head.valid()) return;
    std::lock_guard<std::mutex> appending(append_lock);
    {
        std::lock_guard<std::mutex> lock(index_lock);
        if (!trouble.empty() || index.count(name)) return;
        if (place.head.total() > most - end) {
            trouble = "it has reached its limit of " + std::to_string(most) + " bytes";
            return;
        }
        place.at = end;
    }
    // The head comes last: where there is one, there are its pixels.
    const std::int64_t pixels = place.at + static_cast<std::int64_t>(sizeof place.head), bytes = picture.bytes();
    static constexpr char zeros[128] = {};
    const bool good = detail::write_at(descriptor, picture.data(), bytes, pixels) &&
                      detail::write_at(descriptor, zeros, place.at + place.head.total() - pixels - bytes, pixels + bytes) &&
                      detail::write_at(descriptor, &place.head, sizeof place.head, place.at);
    const std::string why = good ? "" : detail::system_message();
    if (!good && detail::uninterrupted([&] { return ::ftruncate(descriptor, place.at); }) != 0) {
        // The next process to open it cuts it off.
    }
    std::lock_guard<std::mutex> lock(index_lock);
    if (!good) {
        trouble = path + " cannot be written: " + why;
        return;
    }
    end += place.head.total();
    index[name] = place;  // without memory for this, what was written is not found until the file is opened anew
}

#endif

GRAFT_END_NAMESPACE
#endif
