// Finding pictures, decoding them ahead, names for new files.
#include "pictures.hpp"

#include <graft/core/directory.hpp>
#include <graft/core/fnv1a.hpp>
#include <graft/core/start_thread.hpp>
#include <graft/data/picture_files.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#if !defined(_WIN32)
#include <fcntl.h>
#include <unistd.h>
#endif

namespace program {
namespace {

constexpr std::int64_t most_waiting = std::int64_t(256) << 20;  // bytes of pixels

void warn_of(const common_options& common, const graft::picture_files& found, const std::string& folder) {
    constexpr int most = 5;
    int others = 0, told = 0, untold = 0;
    for (const graft::dataset_problem& p : found.problems) {
        if (p.code == graft::errc::image_unsupported)
            ++others;
        else if (++told <= most)
            warn(common, p.path + ": " + p.detail);
        else
            ++untold;
    }
    if (untold) warn(common, folder + ": " + std::to_string(untold) + " more of the kind");
    if (others)
        warn(common,
             folder + ": " + std::to_string(others) + (others == 1 ? " file that is no picture was" : " files that are no pictures were") + " passed over");
}

// A file that is not there yet, opened for writing; null where there is one already (EEXIST), or it cannot be made.
std::FILE* create(const std::string& path) {
#if defined(_WIN32)
    if (std::FILE* there = std::fopen(path.c_str(), "rb")) {
        std::fclose(there);
        errno = EEXIST;
        return nullptr;
    }
    return std::fopen(path.c_str(), "wb");
#else
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return descriptor < 0 ? nullptr : ::fdopen(descriptor, "wb");
#endif
}

std::string percent(char c) {
    char text[8];
    std::snprintf(text, sizeof text, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    return text;
}

}  // namespace

std::vector<picture_argument> pictures_of(const common_options& common, const std::vector<std::string>& arguments, const std::string& leave_out) {
    std::vector<picture_argument> all;
    for (const std::string& argument : arguments) {
        const auto entry = graft::look_at(argument, graft::errc::image_open);
        if (!entry.ok() || entry.value().kind != graft::entry_kind::folder) {
            all.push_back({argument, {}});  // whoever decodes it says what is wrong with it
            continue;
        }
        auto found = graft::find_pictures(argument, leave_out);
        if (!found.ok()) {
            all.push_back({argument, found.error()});
            continue;
        }
        warn_of(common, found.value(), argument);
        for (const std::string& path : found->paths) all.push_back({path, {}});
        if (found->paths.empty()) all.push_back({argument, graft::error(graft::errc::image_open, argument, "there is no picture in this folder or below it")});
    }
    return all;
}

decoded_ahead::decoded_ahead(const std::vector<picture_argument>& pictures, int threads) : pictures_(pictures) {
    const std::size_t workers = std::min<std::size_t>(static_cast<std::size_t>(threads), pictures.size());
    done_.resize(std::max<std::size_t>(2 * workers, 1));
    threads_.reserve(workers);
    std::thread made;
    while (threads_.size() < workers && graft::detail::start_thread(made, [this] { work(); })) threads_.push_back(std::move(made));
}

decoded_ahead::~decoded_ahead() {
    {
        const std::lock_guard<std::mutex> lock(lock_);
        stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& t : threads_) t.join();
}

void decoded_ahead::work() {
    std::unique_lock<std::mutex> lock(lock_);
    for (;;) {
        // The one that is waited for always has room.
        room_.wait(lock,
                   [this] { return stopping_ || begun_ == pictures_.size() || begun_ == taken_ || (begun_ - taken_ < done_.size() && bytes_ < most_waiting); });
        if (stopping_ || begun_ == pictures_.size()) return;
        decode_one(lock);
    }
}

void decoded_ahead::decode_one(std::unique_lock<std::mutex>& lock) {
    const std::size_t i = begun_++;
    lock.unlock();
    graft::result<graft::image> picture = graft::detail::or_out_of_memory<graft::result<graft::image>>("pictures", [&]() -> graft::result<graft::image> {
        if (pictures_[i].failed) return *pictures_[i].failed;
        return graft::decode_file(pictures_[i].path);
    });
    lock.lock();
    if (picture.ok()) bytes_ += picture->bytes();
    done_[i % done_.size()].emplace(std::move(picture));
    ready_.notify_all();
}

graft::result<graft::image> decoded_ahead::next() {
    std::unique_lock<std::mutex> lock(lock_);
    std::optional<graft::result<graft::image>>& slot = done_[taken_ % done_.size()];
    if (threads_.empty()) decode_one(lock);  // the system gave none
    ready_.wait(lock, [&slot] { return slot.has_value(); });
    graft::result<graft::image> picture = std::move(*slot);
    slot.reset();
    if (picture.ok()) bytes_ -= picture->bytes();
    ++taken_;
    lock.unlock();
    room_.notify_all();
    return picture;
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::string legal_name(const std::string& name) {
    constexpr std::size_t longest = 200;
    std::string out;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const char c = name[i];
        const bool edge = (c == '.' && (i == 0 || i + 1 == name.size())) || (c == ' ' && (i == 0 || i + 1 == name.size()));
        out += static_cast<unsigned char>(c) < 32 || c == 127 || std::strchr("/\\:*?\"<>|%", c) || edge ? percent(c) : std::string(1, c);
    }
    if (out.empty()) return "%";
    if (out.size() <= longest) return out;
    char hash[24];
    std::snprintf(hash, sizeof hash, "%%%016llx", static_cast<unsigned long long>(graft::fnv1a(name.data(), name.size())));
    std::size_t cut = longest - std::strlen(hash);
    while (cut > 0 && (static_cast<unsigned char>(out[cut]) & 0xc0) == 0x80) --cut;  // between letters
    return out.substr(0, cut) + hash;
}

graft::result<std::string> new_files::write(const std::string& folder, const std::string& name, const std::string& bytes) {
    GRAFT_TRY(graft::make_folder(folder));
    const std::size_t dot = name.rfind('.'), stem = dot == std::string::npos || dot == 0 ? name.size() : dot;
    for (int& number = last_[graft::join_path(folder, name)];;) {
        ++number;
        const std::string path = graft::join_path(folder, name.substr(0, stem) + (number > 1 ? "-" + std::to_string(number) : "") + name.substr(stem));
        std::FILE* const file = create(path);
        if (!file && errno == EEXIST) continue;
        if (!file) return graft::fail(graft::errc::file_write, path, graft::detail::system_message());
        const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
        const int why = errno;
        const bool closed = std::fclose(file) == 0;
        if (written && closed) return path;
        std::remove(path.c_str());
        return graft::fail(graft::errc::file_write, path, graft::detail::system_message(written ? errno : why));
    }
}

}  // namespace program
