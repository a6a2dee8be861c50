// Pictures to names: decoded ahead, named by replicas of a classifier, handed out in their order; and told to other processes.
#pragma once

#include "pictures.hpp"
#include "replicas.hpp"

#include <graft/core/ordered_jobs.hpp>

#include <optional>
#include <string>
#include <vector>

namespace program {

/// What a picture shows.
struct named_picture {
    std::string path;
    std::vector<graft::prediction> top;
    std::optional<graft::error> failed;
    bool unsure = false;
    std::string sorted;  ///< the copy of it; empty where there is none
};

/// Pictures that are named in one go.
struct picture_group {
    std::vector<named_picture> named;
    std::vector<graft::image> decoded;    ///< those that could be
    std::vector<std::size_t> decoded_of;  ///< the place of each among all
};

/// Names them on one of the devices. A picture that fails does so alone.
class naming_worker {
public:
    naming_worker(classifier_replica& replica, int top) : replica_(replica), top_(top) {}
    bool looks_ahead() const noexcept { return false; }
    graft::status work(picture_group& some, const picture_group*);

private:
    classifier_replica& replica_;
    int top_;
};

/// Names pictures in their order, as far ahead of who takes them as there are replicas. Pictures and replicas must outlive it.
class picture_namer {
public:
    /// Of several processes each names so many in turn, before all tell the first what they found.
    static constexpr std::size_t turn = 64;

    picture_namer(const std::vector<picture_argument>& pictures, std::vector<classifier_replica>& replicas, int threads, int top);
    /// Errors: memory.oom (the system gives no threads).
    graft::status start() { return jobs_.start(); }
    /// Pictures that have not been handed out.
    std::size_t left() const noexcept { return pictures_.size() - taken_; }
    /// The next ones; to be asked for as long as some are left. Errors: memory.oom.
    graft::status next(picture_group& some);

private:
    picture_group decoded();

    const std::vector<picture_argument>& pictures_;
    decoded_ahead ahead_;
    std::size_t given_ = 0, taken_ = 0;
    graft::detail::ordered_jobs<picture_group, naming_worker> jobs_;
};

/// What was found, for another process: names byte for byte, and numbers to the bit.
std::string packed(const std::vector<named_picture>& some);
/// Adds what another process has packed.
void unpack(const std::string& bytes, std::vector<named_picture>& some);

}  // namespace program
