// What the kinds of datasets fill and `dataset` reads: labels, parts, and where each sample's contents are.
#pragma once

#include "../core/directory.hpp"
#include "sample.hpp"

#include <cstring>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The folder of a path, "" where it names none; and what follows it.
inline std::size_t last_separator(const std::string& path) noexcept {
#if defined(_WIN32)
    return path.find_last_of("/\\");
#else
    return path.rfind('/');
#endif
}
inline std::string folder_part(const std::string& path) {
    const std::size_t slash = last_separator(path);
    return slash == std::string::npos ? "" : path.substr(0, slash ? slash : 1);
}
inline std::string file_part(const std::string& path) {
    const std::size_t slash = last_separator(path);
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

inline char ascii_lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

enum class data_part { training, validation, test };

// Samples of one raw file, equally large and equally far from each other.
struct raw_block {
    std::string name;
    std::shared_ptr<const void> owner;
    const std::uint8_t* pixels = nullptr;  // of the first sample
    std::int64_t first = 0, count = 0;     // samples
    std::size_t bytes = 0, stride = 0;     // of one sample, to the next one
    std::int64_t height = 0, width = 0;
    int channels = 0;
    bool planar = false;
};

struct dataset_state {
    // No memory of a machine holds as many pictures' names.
    static constexpr std::int64_t most_samples = std::int64_t(1) << 28;

    graft::limits caps;
    std::vector<std::string> classes;
    bool classes_declared = false;  // by the format, so that samples of all of them need not be there
    std::vector<dataset_problem> problems;
    std::vector<std::int32_t> labels;
    std::vector<data_part> parts;
    // Files: their names, relative to the folder, one behind the other.
    std::string folder, names;
    std::vector<std::uint64_t> ends;
    // Or raw files, in the order of their samples.
    std::vector<raw_block> blocks;
    // Or contents that somebody holds in memory, with their names as those of files.
    std::vector<sample_bytes> held;
    std::int64_t raw_bytes = 0;

    std::int64_t size() const noexcept { return static_cast<std::int64_t>(labels.size()); }
    bool in_files() const noexcept { return blocks.empty() && held.empty(); }
    // What is left of the memory that raw files may take.
    std::int64_t room() const noexcept { return caps.memory_bytes - raw_bytes; }
    std::int64_t count(data_part part) const noexcept {
        std::int64_t n = 0;
        for (data_part p : parts) n += p == part;
        return n;
    }
    void note(std::string path, errc code, std::string detail) { problems.push_back({std::move(path), code, std::move(detail), false}); }
    void refuse(std::string path, errc code, std::string detail) { problems.push_back({std::move(path), code, std::move(detail), true}); }
    void refuse(const error& e) { refuse(e.where(), e.code(), e.detail()); }

    status add_file(const std::string& name, int label, data_part part) {
        if (size() >= most_samples) return too_many();
        names += name;
        ends.push_back(names.size());
        labels.push_back(label);
        parts.push_back(part);
        return {};
    }
    // Labels are read from `labels_at`, one byte each, `stride` apart.
    status add_block(raw_block block, const std::uint8_t* labels_at, std::size_t label_stride, data_part part) {
        if (block.count > most_samples - size()) return too_many();
        block.first = size();
        raw_bytes += block.count * static_cast<std::int64_t>(block.stride);
        for (std::int64_t i = 0; i < block.count; ++i) labels.push_back(labels_at[static_cast<std::size_t>(i) * label_stride]);
        parts.resize(labels.size(), part);
        blocks.push_back(std::move(block));
        return {};
    }
    std::string file_name(std::int64_t i) const {
        const std::size_t at = static_cast<std::size_t>(i), from = at ? ends[at - 1] : 0;
        return join_path(folder, names.substr(from, ends[at] - from));
    }
    const raw_block& block_of(std::int64_t i) const noexcept {
        std::size_t low = 0;
        for (std::size_t high = blocks.size(); high - low > 1;) {
            const std::size_t middle = (low + high) / 2;
            (blocks[middle].first <= i ? low : high) = middle;
        }
        return blocks[low];
    }

private:
    GRAFT_COLD status too_many() const { return fail(errc::memory_budget, folder, "more than " + std::to_string(most_samples) + " samples"); }
};

}  // namespace detail
GRAFT_END_NAMESPACE
