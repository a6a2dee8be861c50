// What the dataset tests share: a folder that goes away at the end, files in it, and small pictures.
#pragma once

#include <graft/data/dataset.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

/// A folder of the test's own. POSIX.
struct made_folder {
    std::string path;
    made_folder() {
        char name[] = "/tmp/graft_dataset_XXXXXX";
        path = ::mkdtemp(name);
    }
    made_folder(const made_folder&) = delete;
    made_folder& operator=(const made_folder&) = delete;
    ~made_folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    /// Writes a file, and the folders on the way to it.
    std::string put(const std::string& name, const std::string& bytes) const {
        std::string full = path + "/" + name;
        std::error_code ignored;
        std::filesystem::create_directories(std::filesystem::path(full).parent_path(), ignored);
        std::FILE* file = std::fopen(full.c_str(), "wb");
        if (!file) return "";
        std::fwrite(bytes.data(), 1, bytes.size(), file);
        std::fclose(file);
        return full;
    }
    std::string make(const std::string& name) const {
        std::error_code ignored;
        std::filesystem::create_directories(path + "/" + name, ignored);
        return path + "/" + name;
    }
};

/// A PGM of one pixel; pictures of different levels have different contents.
inline std::string picture(int level) { return "P5 1 1 255\n" + std::string(1, static_cast<char>(level)); }

/// `n` as four bytes, the highest first.
inline std::string big_endian(std::uint32_t n) {
    return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n)};
}
inline std::string idx_images(std::uint32_t count, std::uint32_t height, std::uint32_t width, const std::string& pixels) {
    return big_endian(0x803) + big_endian(count) + big_endian(height) + big_endian(width) + pixels;
}
inline std::string idx_labels(const std::string& labels) { return big_endian(0x801) + big_endian(static_cast<std::uint32_t>(labels.size())) + labels; }
/// A pair of 1x1 pictures with these labels, their pixels 0, 1, 2, ...
inline void put_idx(const made_folder& folder, const std::string& part, const std::string& labels) {
    std::string pixels;
    for (std::size_t i = 0; i < labels.size(); ++i) pixels += static_cast<char>(i);
    folder.put(part + "-images-idx3-ubyte", idx_images(static_cast<std::uint32_t>(labels.size()), 1, 1, pixels));
    folder.put(part + "-labels-idx1-ubyte", idx_labels(labels));
}
/// A CIFAR-10 record, all of one level.
inline std::string cifar_record(int label, int level) { return std::string(1, static_cast<char>(label)) + std::string(3072, static_cast<char>(level)); }

/// "ok", or the code of the error.
template <class T>
std::string code_of(const graft::result<T>& r) {
    return r.ok() ? "ok" : graft::text(r.error().code());
}
inline std::string code_of(const graft::status& s) { return s.ok() ? "ok" : graft::text(s.error().code()); }

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// How many problems have a code, at paths that end so.
inline int count_problems(const std::vector<graft::dataset_problem>& problems, graft::errc code, const std::string& path_end = "") {
    int n = 0;
    for (const graft::dataset_problem& p : problems)
        n += p.code == code && p.path.size() >= path_end.size() && p.path.compare(p.path.size() - path_end.size(), path_end.size(), path_end) == 0;
    return n;
}
