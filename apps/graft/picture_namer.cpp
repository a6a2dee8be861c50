// Naming pictures by replicas of a classifier.
#include "picture_namer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace program {
namespace {

// So many pictures are named in one go, fewer where they are large; the borders are the same for any number of processes.
constexpr std::size_t at_once = 8;
constexpr std::int64_t bytes_at_once = std::int64_t(128) << 20;
static_assert(picture_namer::turn % at_once == 0, "a turn is made of whole groups");

// What a classifier says of some pictures, all at once where it can be; one that fails is an error of its own.
std::vector<graft::result<std::vector<graft::prediction>>> name_pictures(graft::classifier& classifier, const std::vector<graft::image>& pictures, int top) {
    std::vector<graft::result<std::vector<graft::prediction>>> answers;
    auto together = classifier.classify(pictures, top);
    if (together.ok()) {
        for (auto& answer : together.value()) answers.emplace_back(std::move(answer));
        return answers;
    }
    for (const graft::image& picture : pictures) answers.push_back(classifier.classify(picture, top));
    return answers;
}

std::vector<std::unique_ptr<naming_worker>> workers(std::vector<classifier_replica>& replicas, int top) {
    std::vector<std::unique_ptr<naming_worker>> all;
    for (classifier_replica& r : replicas) all.push_back(std::make_unique<naming_worker>(r, top));
    return all;
}

}  // namespace

graft::status naming_worker::work(picture_group& some, const picture_group*) {
    return graft::detail::or_out_of_memory<graft::status>("pictures", [&]() -> graft::status {
        auto answers = name_pictures(replica_.classifier, some.decoded, top_);
        for (std::size_t i = 0; i < answers.size(); ++i) {
            named_picture& p = some.named[some.decoded_of[i]];
            if (answers[i].ok())
                p.top = std::move(answers[i]).value();
            else
                p.failed = answers[i].error();
        }
        return {};
    });
}

picture_namer::picture_namer(const std::vector<picture_argument>& pictures, std::vector<classifier_replica>& replicas, int threads, int top)
    : pictures_(pictures), ahead_(pictures, threads), jobs_(workers(replicas, top), replicas.size() > 1 ? 2 : 0) {}

graft::status picture_namer::next(picture_group& some) {
    while (given_ < pictures_.size() && !jobs_.full()) jobs_.give(decoded());
    GRAFT_TRY(jobs_.take(some));
    taken_ += some.named.size();
    return {};
}

picture_group picture_namer::decoded() {
    picture_group some;
    std::int64_t bytes = 0;
    for (const std::size_t end = std::min(pictures_.size(), (given_ / at_once + 1) * at_once); given_ < end && bytes < bytes_at_once; ++given_) {
        some.named.push_back({pictures_[given_].path, {}, {}, false, {}});
        auto picture = ahead_.next();
        if (picture.ok()) {
            bytes += picture->bytes();
            some.decoded_of.push_back(some.named.size() - 1);
            some.decoded.push_back(std::move(picture).value());
        } else
            some.named.back().failed = picture.error();
    }
    return some;
}

std::string packed(const std::vector<named_picture>& some) {
    json list = json::array();
    for (const named_picture& p : some) {
        json top = json::array();
        for (const graft::prediction& one : p.top) top.push_back(json::array({one.index, one.label, one.probability}));
        const graft::error* e = p.failed ? &*p.failed : nullptr;
        list.push_back(
            json::array({p.path, top, e != nullptr, e ? static_cast<int>(e->code()) : 0, e ? std::string(e->where()) : "", e ? std::string(e->detail()) : ""}));
    }
    const std::vector<std::uint8_t> bytes = json::to_msgpack(list);
    return std::string(bytes.begin(), bytes.end());
}
void unpack(const std::string& bytes, std::vector<named_picture>& some) {
    for (const json& p : json::from_msgpack(bytes.begin(), bytes.end())) {
        some.push_back({p[0].get<std::string>(), {}, {}, false, {}});
        for (const json& one : p[1]) some.back().top.push_back({one[0].get<int>(), one[1].get<std::string>(), one[2].get<double>()});
        if (p[2].get<bool>()) some.back().failed = graft::error(static_cast<graft::errc>(p[3].get<int>()), p[4].get<std::string>(), p[5].get<std::string>());
    }
}

}  // namespace program
