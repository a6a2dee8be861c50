// Pictures that verbs are given as files and folders: found, decoded ahead, and written beside others without taking their names.
#pragma once

#include "program.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace program {

/// A picture to look at, or what an argument lacks.
struct picture_argument {
    std::string path;
    std::optional<graft::error> failed;
};

/// Files as they are named, folders as the pictures below them, sorted by the bytes of their paths (`graft::find_pictures`). What is passed over in a
/// folder is warned of. `leave_out` is a folder that is not looked into.
std::vector<picture_argument> pictures_of(const common_options& common, const std::vector<std::string>& arguments, const std::string& leave_out = "");

/// Reads and decodes pictures by threads, in their order, as far ahead of the caller as memory allows.
class decoded_ahead {
public:
    decoded_ahead(const std::vector<picture_argument>& pictures, int threads);
    ~decoded_ahead();
    decoded_ahead(const decoded_ahead&) = delete;
    decoded_ahead& operator=(const decoded_ahead&) = delete;
    /// The next one; only to be asked for as often as there are pictures.
    graft::result<graft::image> next();

private:
    void work();
    void decode_one(std::unique_lock<std::mutex>& lock);

    const std::vector<picture_argument>& pictures_;
    std::vector<std::optional<graft::result<graft::image>>> done_;  // a ring
    std::vector<std::thread> threads_;
    std::mutex lock_;
    std::condition_variable room_, ready_;
    std::size_t begun_ = 0, taken_ = 0;
    std::int64_t bytes_ = 0;  // of pixels that wait
    bool stopping_ = false;
};

/// The last part of a path.
std::string base_name(const std::string& path);
/// A name that is one folder or file on every system: separators, control characters and what Windows refuses become %XX, and so do dots that
/// hide a name or mean another folder; long names end in a number of their own.
std::string legal_name(const std::string& name);

/// Writes files that were not there.
class new_files {
public:
    /// Writes `name` into the folder, which is made if need be; where there is one of that name, -2, -3, ... stands before its last dot. Returns the
    /// path. Errors: file.write.
    graft::result<std::string> write(const std::string& folder, const std::string& name, const std::string& bytes);

private:
    std::unordered_map<std::string, int> last_;  // number that a name was written with
};

}  // namespace program
