// The pictures below a folder, however deep: image folders are read by this, and whoever is given a folder in place of pictures.
#pragma once

#include "sample.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The pictures below a folder.
struct picture_files {
    std::vector<std::string> paths;         ///< with the folder before them, sorted by their bytes
    std::vector<dataset_problem> problems;  ///< what was passed over, and why
};

/// Finds them: regular files whose name ends as pictures' names do (`.jpg`, `.PNG`, `.webp`, `.heic`, ..., so that one that cannot be read is
/// told), and others that begin like a picture that can be decoded. Names that begin with a dot are not seen. Links are followed; each folder is
/// read once, whatever loops there are, and none more than 32 deep. `leave_out` is a folder that is not looked into, where it lies below. Errors:
/// image.open (the folder cannot be read).
result<picture_files> find_pictures(const std::string& folder, const std::string& leave_out = "");

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/descriptor.hpp"
#include "dataset_state.hpp"
#include "image_kinds.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Whether a name ends as pictures' names do, of kinds that are decoded or are known to be pictures all the same.
inline bool has_picture_suffix(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return false;
    std::string suffix = " " + name.substr(dot + 1) + " ";
    for (char& c : suffix) c = ascii_lower(c);
    return std::strstr(" jpg jpeg jpe jfif png apng bmp dib pbm pgm ppm pnm gif tif tiff webp heic heif avif jp2 jxl ", suffix.c_str()) != nullptr;
}
// Whether a regular file starts like a picture that can be decoded.
inline bool starts_like_picture(const std::string& path) {
    const descriptor file = descriptor::open(path, descriptor::use::read);
    std::uint8_t p[12] = {};
    const std::int64_t got = file.is_open() ? file.read(p, sizeof p) : -1;
    if (got < 0) return true;  // what cannot be read is reported when it is fetched
    const auto n = static_cast<std::size_t>(got);
    return is_png(p, n) || is_jpeg(p, n) || is_bmp(p, n) || is_pnm(p, n) || (GRAFT_HAS_LIBWEBP && is_webp(p, n));
}

// Walks below folders of one dataset, or of one folder, and never into the same one twice.
class picture_walk {
public:
    using file_identity = std::pair<std::uint64_t, std::uint64_t>;

    // Paths are relative to `base`; what is passed over is added to `problems`.
    picture_walk(const std::string& base, std::vector<dataset_problem>& problems) : base_(base), problems_(problems) {}

    // Whether a folder was not reached before.
    bool claim(const file_identity& identity) { return identity == file_identity(0, 0) || visited_.insert(identity).second; }
    // What cannot be looked at is told when it is read. Errors of these three: memory.oom.
    status claim(const std::string& path) {
        const auto entry = look_at(path, errc::data_open);
        if (entry.ok()) claim(entry.value().identity);
        return !entry.ok() && entry.error().code() == errc::memory_oom ? status(entry.error()) : status();
    }

    // A folder that is passed over without a word.
    status leave_out(const std::string& path) {
        const auto entry = look_at(path, errc::data_open);
        if (entry.ok()) left_out_ = entry.value().identity;
        return !entry.ok() && entry.error().code() == errc::memory_oom ? status(entry.error()) : status();
    }

    // All pictures under a folder, as deep as they lie: folders by path, files by name within each. Errors: data.open (the folder itself cannot be
    // read; those below are told and passed over), memory.oom.
    result<std::vector<std::string>> below(const std::string& top) {
        std::vector<std::pair<std::string, int>> waiting{{top, 0}};  // and how deep
        std::vector<folder_files> found;
        while (!waiting.empty()) {
            const std::pair<std::string, int> folder = std::move(waiting.back());
            waiting.pop_back();
            const std::string path = join_path(base_, folder.first);
            if (folder.second > deepest) {
                note(path, errc::data_format, "folders lie more than " + std::to_string(deepest) + " deep; this one is left out");
                continue;
            }
            auto listed = list_folder(path, errc::data_open);
            if (!listed.ok()) {
                if (folder.first == top || listed.error().code() == errc::memory_oom) return listed.take_status();
                note(path, errc::data_open, listed.error().detail());
                continue;
            }
            folder_files files{folder.first, {}};
            for (folder_entry& e : listed.value()) {
                const bool left_out = e.kind == entry_kind::folder && e.identity == left_out_ && left_out_ != file_identity(0, 0);
                if (e.name[0] == '.' || left_out) continue;
                if (e.kind == entry_kind::folder && !claim(e.identity))
                    second_visit(join_path(path, e.name));
                else if (e.kind == entry_kind::folder)
                    waiting.emplace_back(join_path(folder.first, e.name), folder.second + 1);
                else if (is_picture(join_path(path, e.name), e))
                    files.names.push_back(std::move(e.name));
            }
            found.push_back(std::move(files));
        }
        std::sort(found.begin(), found.end(), [](const folder_files& a, const folder_files& b) { return a.relative < b.relative; });
        std::vector<std::string> paths;
        for (const folder_files& folder : found)
            for (const std::string& name : folder.names) paths.push_back(join_path(folder.relative, name));
        return paths;
    }

    void second_visit(const std::string& path) { note(path, errc::data_format, "a link to a folder that is read elsewhere; each is read once only"); }
    void skip_other(const std::string& path, const folder_entry& e) {
        note(path, errc::data_open, std::string(e.what) + ", not a regular file; it is passed over");
    }

private:
    static constexpr int deepest = 32;

    struct folder_files {
        std::string relative;
        std::vector<std::string> names;
    };

    bool is_picture(const std::string& path, const folder_entry& e) {
        if (e.kind == entry_kind::other) return skip_other(path, e), false;
        if (has_picture_suffix(e.name) || starts_like_picture(path)) return true;
        note(path, errc::image_unsupported, "not a picture; it is passed over");
        return false;
    }
    void note(std::string path, errc code, std::string detail) { problems_.push_back({std::move(path), code, std::move(detail), false}); }

    const std::string& base_;
    std::vector<dataset_problem>& problems_;
    file_identity left_out_{0, 0};
    std::set<file_identity> visited_;  // against loops of links, and against doubling by them
};

}  // namespace detail

GRAFT_INLINE result<picture_files> find_pictures(const std::string& folder, const std::string& leave_out) GRAFT_MEMORY_TRY {
    folder_entry top;
    GRAFT_TRY_ASSIGN(top, look_at(folder, errc::image_open));
    if (top.kind != entry_kind::folder) return fail(errc::image_open, folder, "not a folder");
    auto listed = list_folder(folder, errc::image_open);
    if (!listed.ok()) return listed.take_status();
    picture_files found;
    detail::picture_walk walk(folder, found.problems);
    walk.claim(top.identity);
    if (!leave_out.empty()) GRAFT_TRY(walk.leave_out(leave_out));
    auto below = walk.below("");
    if (!below.ok()) return fail(below.error().code() == errc::memory_oom ? errc::memory_oom : errc::image_open, folder, below.error().detail());
    for (const std::string& path : *below) found.paths.push_back(join_path(folder, path));
    std::sort(found.paths.begin(), found.paths.end());
    return found;
}
GRAFT_MEMORY_CATCH(folder)

GRAFT_END_NAMESPACE
#endif
