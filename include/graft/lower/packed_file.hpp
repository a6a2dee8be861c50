// The file that packed weights are kept in: what is in it, how it is read and written.
#pragma once

#include "../core/buffer.hpp"
#include "../core/executor.hpp"
#include "../core/file.hpp"
#include "../core/xxhash.hpp"
#include "../version.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// To be raised when a kernel reads what it read in another order.
constexpr int packed_order = 1;

// A header, a table of what follows, and that, each at a multiple of 64 with as much behind it as buffers have. Numbers lie as machines with the kernels have
// them.
struct packed_header {
    char what[40];  // says what the file is, by whom and in which form; another form is as no file
    std::uint64_t count, table_number, size;
};
struct packed_entry {
    std::uint64_t constant, form, begin, bytes, contents;
};
static_assert(sizeof(packed_header) == 64 && sizeof(packed_entry) == 40);

class packed_file {
public:
    packed_file(const std::string& path, void (*warn)(const char*)) : path_(path), warn_(warn) {
        std::snprintf(header_.what, sizeof header_.what, "%s %d.%d.%d %d", title, GRAFT_VERSION_MAJOR, GRAFT_VERSION_MINOR, GRAFT_VERSION_PATCH, packed_order);
    }

    // Empty where there is no file, or one of another version.
    status open() {
        file_ = nullptr;
        entries_.clear();
        auto opened = mapped_file::open(path_, most_bytes, errc::file_open);
        if (!opened.ok()) return file_exists(path_) ? opened.take_status() : status();
        if (!(*opened)->size()) return {};
        packed_header h;
        if ((*opened)->size() < sizeof h || std::memcmp((*opened)->data(), title, sizeof title - 1) != 0)
            return fail(errc::file_open, path_, "this is no file of packed weights, and would be written over: name another");
        std::memcpy(&h, (*opened)->data(), sizeof h);
        if (std::memcmp(h.what, header_.what, sizeof h.what) != 0) return {};
        file_ = std::move(opened).value();
        if (!read_table(h)) entries_.clear(), tell_damage();
        return {};
    }

    // Of pieces, so that threads can share it.
    static std::uint64_t number_of(const void* bytes, std::size_t size, executor& pool) {
        constexpr std::int64_t piece = std::int64_t(1) << 20;
        const auto n = static_cast<std::int64_t>(size);
        std::vector<std::uint64_t> numbers(static_cast<std::size_t>((n + piece - 1) / piece));
        parallel_for_pieces(pool, n, piece, [&](std::int64_t first, std::int64_t count) {
            numbers[static_cast<std::size_t>(first / piece)] = xxh64(static_cast<const std::uint8_t*>(bytes) + first, static_cast<std::size_t>(count));
        });
        return std::max<std::uint64_t>(1, numbers.size() == 1 ? numbers[0] : xxh64(numbers.data(), numbers.size() * sizeof numbers[0], size));
    }
    buffer find(std::uint64_t constant, std::uint64_t form, std::size_t bytes, executor& pool) {
        std::lock_guard<std::mutex> guard(lock_);
        seen_.push_back(constant);
        const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const packed_entry& e) { return e.constant == constant && e.form == form; });
        if (found == entries_.end() || found->bytes != bytes) return {};
        const packed_entry e = *found;
        if (number_of(at(e.begin), bytes, pool) == e.contents) return buffer::borrow(at(e.begin), bytes, file_);
        entries_.erase(found);
        tell_damage();
        return {};
    }
    void add(std::uint64_t constant, std::uint64_t form, const buffer& packed) {
        std::lock_guard<std::mutex> guard(lock_);
        for (const added& a : added_)
            if (a.entry.constant == constant && a.entry.form == form) return;  // another model has added it meanwhile
        added_.push_back({{constant, form, 0, packed.bytes(), 0}, packed});
    }
    void keep(executor& pool) {
        std::lock_guard<std::mutex> guard(lock_);
        if (added_.empty()) return;
        status done = write(pool);
        added_.clear();
        if (done.ok()) done = open();
        if (!done.ok()) tell(std::string("packed weights are not kept: ") + done.error().what());
    }

private:
    static constexpr char title[] = "graft packed weights";
    static constexpr std::int64_t most_bytes = std::int64_t(1) << 40;
    static constexpr std::uint64_t most_entries = 1 << 16;

    struct added {
        packed_entry entry;
        buffer packed;
    };

    void tell(const std::string& text) {
        if (warn_ && !told_) warn_((path_ + ": " + text).c_str());
        told_ = true;
    }
    void tell_damage() { tell("it is damaged: weights are packed anew, and written"); }
    const std::uint8_t* at(std::uint64_t begin) const { return file_->data() + begin; }

    bool read_table(const packed_header& h) {
        const std::size_t size = file_->size();
        if (h.size != size || h.count > std::min<std::uint64_t>(most_entries, (size - sizeof h) / sizeof(packed_entry))) return false;
        entries_.resize(static_cast<std::size_t>(h.count));
        const std::size_t bytes = entries_.size() * sizeof(packed_entry);
        if (bytes) std::memcpy(entries_.data(), at(sizeof h), bytes);
        return xxh64(at(sizeof h), bytes) == h.table_number && std::all_of(entries_.begin(), entries_.end(), [&](const packed_entry& e) {
                   return e.begin % buffer::alignment == 0 && e.begin <= size && e.bytes <= size - e.begin && size - e.begin - e.bytes >= buffer::alignment;
               });
    }

    // What the file has of this network's constants, and what was added.
    status write(executor& pool) {
        std::vector<added> all;
        for (const packed_entry& e : entries_)
            if (std::find(seen_.begin(), seen_.end(), e.constant) != seen_.end()) all.push_back({e, buffer::borrow(at(e.begin), e.bytes, file_)});
        for (added& a : added_) {
            a.entry.contents = number_of(a.packed.data(), a.packed.bytes(), pool);
            all.push_back(a);
        }
        const auto rounded = [](std::uint64_t n) { return (n + buffer::alignment - 1) / buffer::alignment * buffer::alignment; };
        packed_header h = header_;
        std::vector<packed_entry> table;
        h.count = all.size();
        h.size = rounded(sizeof h + all.size() * sizeof(packed_entry));
        for (const added& a : all) {
            table.push_back(a.entry);
            table.back().begin = h.size;
            h.size = rounded(h.size + a.entry.bytes) + buffer::alignment;
        }
        h.table_number = xxh64(table.data(), table.size() * sizeof table[0]);
        atomic_file out;
        std::uint64_t written = 0;
        const auto put = [&](const void* bytes, std::size_t size) {
            written += size;
            return out.write(bytes, size);
        };
        const auto fill_to = [&](std::uint64_t end) {
            static constexpr char zeros[2 * buffer::alignment] = {};
            return put(zeros, static_cast<std::size_t>(end - written));
        };
        GRAFT_TRY(out.open(path_));
        GRAFT_TRY(put(&h, sizeof h));
        GRAFT_TRY(put(table.data(), table.size() * sizeof table[0]));
        for (std::size_t i = 0; i < all.size(); ++i) {
            GRAFT_TRY(fill_to(table[i].begin));
            GRAFT_TRY(put(all[i].packed.data(), all[i].packed.bytes()));
        }
        GRAFT_TRY(fill_to(h.size));
        return out.commit();
    }

    const std::string path_;
    void (*const warn_)(const char*);
    packed_header header_{};
    std::mutex lock_;
    std::shared_ptr<const mapped_file> file_;
    std::vector<packed_entry> entries_;  // of the file
    std::vector<added> added_;
    std::vector<std::uint64_t> seen_;  // constants that were asked for
    bool told_ = false;
};

}  // namespace detail
GRAFT_END_NAMESPACE
