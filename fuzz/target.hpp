// What the fuzz targets share: limits that keep an input within milliseconds, what counts as a finding, files to read from.
#pragma once

#include <graft/core/error.hpp>
#include <graft/core/limits.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

/// What libFuzzer calls for every input; a target defines it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fuzz {

/// Ends the run with a finding where something does not hold that always has to.
inline void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "finding: %s\n", what);
    std::abort();
}

/// What a refusal owes: a code that is not graft's own fault, a place and a sentence. Gives back whether there is none.
inline bool accepted(const graft::status& s) {
    if (s.ok()) return true;
    if (s.error().code() == graft::errc::internal) std::fprintf(stderr, "%s\n", s.error().what());
    require(s.error().code() != graft::errc::internal, "a file makes an internal error");
    require(!s.error().detail().empty(), "a refusal without a sentence");
    return false;
}
template <class T>
bool accepted(const graft::result<T>& r) {
    return r.ok() || accepted(graft::status(r.error()));
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

/// Limits for files of a few kilobytes: an input that takes 2 seconds or 512 MiB below them is a finding.
inline graft::limits small_limits() {
    graft::limits l;
    l.model_bytes = 1 << 20;
    l.memory_bytes = 16 << 20;
    l.fold_bytes = 1 << 20;
    l.load_work = 1 << 20;
    l.nesting = 8;
    l.function_depth = 8;
    l.nodes = 2000;
    l.loop_iterations = 50;
    l.image_side = 2048;
    l.image_pixels = 1 << 20;
    l.image_bytes = 1 << 20;
    l.image_scans = 20;
    return l;
}

/// A folder of this process's own, in memory where the system has that, gone at its end.
class folder {
public:
    folder() {
        std::error_code failed;
        const std::filesystem::path shared = "/dev/shm";
        std::string name = (std::filesystem::is_directory(shared, failed) ? shared : std::filesystem::temp_directory_path()).string() + "/graft-fuzz-XXXXXX";
        require(mkdtemp(&name[0]) != nullptr, "no folder for files can be made");
        path_ = name;
    }
    ~folder() {
        std::error_code failed;
        std::filesystem::remove_all(path_, failed);
    }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;

    /// Writes a file there, and gives its path.
    std::string write(const std::string& name, const void* data, std::size_t size) const {
        const std::string path = path_ + "/" + name;
        std::FILE* file = std::fopen(path.c_str(), "wb");
        require(file && std::fwrite(data, 1, size, file) == size && std::fclose(file) == 0, "a file cannot be written");
        return path;
    }
    std::string write(const std::string& name, std::string_view text) const { return write(name, text.data(), text.size()); }
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace fuzz
