// POST /v1/explain: the picture under a map of the places that spoke for a class, as PNG.
#include "endpoints.hpp"

#include <graft/data/decode.hpp>
#include <graft/data/png_encode.hpp>

#include <chrono>

namespace program {
namespace {

constexpr auto longest_wait = std::chrono::seconds(10);

// Made at the first question, as it takes as much memory as the network again. On the CPU, whatever the network runs on.
graft::status make_explainer(service& s, const served_model& model, const model_version& v, std::optional<graft::explainer>& to) {
    graft::classifier_options how = s.explains;
    const bool there = std::string(v.model.device()) == "cpu";
    auto made = there ? graft::explainer::make(v.model, how) : graft::explainer::load(model.path(), how);
    if (!made.ok()) return made.take_status();
    to.emplace(std::move(made).value());
    return {};
}

graft::result<std::string> explained(graft::explainer& by, std::string_view bytes, int index) {
    graft::image picture;
    GRAFT_TRY_ASSIGN(picture, graft::decode(bytes.data(), bytes.size(), "image"));
    if (index >= 0) {
        auto one = by.of(picture, index);
        if (!one.ok()) return one.take_status();
        return graft::encode_png(one->picture);
    }
    auto best = by.best(picture, 1);
    if (!best.ok()) return best.take_status();
    return graft::encode_png(best.value().front().picture);
}

}  // namespace

http_answer explain(service& s, const http_request& request) {
    served_model* const model = s.find(request.parameter("model"));
    if (!model) return refusal(404, "http.not_found", "there is no model of that name; /v1/models lists them");
    const std::shared_ptr<const model_version> v = model->current();
    if (!v->classifier) return refusal(*v->no_classifier);
    const std::string wanted = request.parameter("class");
    if (wanted.size() > 7 || wanted.find_first_not_of("0123456789") != std::string::npos)
        return refusal(400, "http.malformed", "class takes the index of a class");
    if (!request.is_picture()) return refusal(415, "http.type", "a picture goes here as the body");
    // A map takes as long as a step of training, and memory of its own: one at a time.
    explaining& e = *v->explains;
    const turnstile::pass turn(e.turns, longest_wait);
    if (!turn) return refusal(503, "http.busy", "other pictures are being explained");
    if (!e.by) {
        const graft::status done = make_explainer(s, *model, *v, e.by);
        if (!done.ok()) return refusal(done.error());
    }
    auto png = explained(*e.by, request.body, wanted.empty() ? -1 : std::atoi(wanted.c_str()));
    if (!png.ok()) return refusal(png.error());
    http_answer a;
    a.type = "image/png";
    a.body = std::move(png).value();
    return a;
}

}  // namespace program
