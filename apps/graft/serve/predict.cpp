// POST /v1/predict: pictures that come as they are, in a form, or in JSON.
#include "endpoints.hpp"

#include <graft/core/clock.hpp>
#include <graft/data/decode.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace program {
namespace {

struct encoded_picture {
    std::string name;
    std::string_view bytes;
    std::string own{};  // where they came as text
};

constexpr const char* where_pictures_go =
    "a picture goes here as the body (image/jpeg, image/png, application/octet-stream), as parts named \"image\" of a multipart/form-data body, or in JSON as "
    "{\"image\": BASE64} or {\"images\": [BASE64, ...]}";

// RFC 4648, section 4; line ends and spaces are passed over, as some encoders write them. Nothing where it is no base64.
std::optional<std::string> from_base64(const std::string& text) {
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3);
    std::uint32_t group = 0;
    int held = 0, pads = 0;
    for (const char c : text) {
        const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                          : c >= 'a' && c <= 'z' ? c - 'a' + 26
                          : c >= '0' && c <= '9' ? c - '0' + 52
                          : c == '+'             ? 62
                          : c == '/'             ? 63
                                                 : -1;
        if (c == '\n' || c == '\r' || c == ' ') continue;
        if (c == '=' && ++pads <= 2) continue;
        if (value < 0 || pads) return std::nullopt;
        group = group << 6 | static_cast<std::uint32_t>(value);
        if (++held < 4) continue;
        for (const int shift : {16, 8, 0}) bytes += static_cast<char>(group >> shift & 0xff);
        group = 0, held = 0;
    }
    if (held == 1 || (pads && held + pads != 4)) return std::nullopt;
    if (held >= 2) bytes += static_cast<char>((held == 2 ? group >> 4 : group >> 10) & 0xff);
    if (held == 3) bytes += static_cast<char>(group >> 2 & 0xff);
    return bytes;
}

// A data URL's head is passed over: what a page reads from a file has one.
std::string without_data_url(const std::string& text) {
    if (text.rfind("data:", 0) != 0) return text;
    const std::size_t comma = text.find(',');
    return comma == std::string::npos ? text : text.substr(comma + 1);
}

std::optional<http_answer> pictures_in_json(std::string_view body, std::vector<encoded_picture>& pictures) {
    const json object = parsed_json(body.data(), body.size());
    if (object.is_discarded()) return refusal(400, "json.malformed", "the body is no JSON, or nests too deep");
    std::vector<json> given;
    if (object.is_object() && object.contains("image")) given.push_back(object["image"]);
    if (object.is_object() && object.contains("images") && object["images"].is_array())
        for (const json& one : object["images"]) given.push_back(one);
    if (given.empty()) return refusal(400, "http.malformed", std::string("the JSON holds no picture: ") + where_pictures_go);
    for (const json& one : given) {
        auto bytes = one.is_string() ? from_base64(without_data_url(one.get<std::string>())) : std::nullopt;
        if (!bytes) return refusal(400, "http.malformed", "picture " + std::to_string(pictures.size()) + " of the JSON is no base64");
        pictures.push_back({"image", {}, std::move(*bytes)});
    }
    return std::nullopt;
}

std::optional<http_answer> pictures_of_request(const http_request& request, std::vector<encoded_picture>& pictures) {
    if (request.type == "multipart/form-data") {
        for (const http_part& part : request.parts)
            if (part.name == "image") pictures.push_back({part.file.empty() ? "image" : part.file, part.content});
        if (pictures.empty()) return refusal(400, "http.malformed", "the form has no part named \"image\"");
        return std::nullopt;
    }
    if (request.type == "application/json") return pictures_in_json(request.body, pictures);
    if (!request.is_picture()) return refusal(415, "http.type", where_pictures_go);
    if (request.body.empty()) return refusal(400, "http.malformed", std::string("the body is empty: ") + where_pictures_go);
    pictures.push_back({"image", request.body});
    return std::nullopt;
}

// A picture as the network takes it. Networks of a fixed batch get it as often as there is room.
graft::result<graft::tensor> prepared(const model_version& v, const encoded_picture& picture) {
    const std::string_view bytes = picture.own.empty() ? picture.bytes : picture.own;
    graft::image pixels;
    GRAFT_TRY_ASSIGN(pixels, graft::decode(bytes.data(), bytes.size(), picture.name));
    graft::tensor one;
    GRAFT_TRY_ASSIGN(one, graft::preprocess(pixels, v.preprocess, v.format));
    return joined(std::vector<const graft::tensor*>(static_cast<std::size_t>(v.pictures_a_run()), &one));
}

// A picture of a request on its way through the network.
struct running_picture {
    std::int64_t rows = 1;
    std::future<graft::result<batch_answer>> answer;
    std::optional<graft::error> failed;
};

running_picture begin(service& s, const std::shared_ptr<const model_version>& v, const encoded_picture& picture) {
    running_picture running;
    batch_queue::coming soon(*s.queue);
    auto input = [&] {
        const turnstile::pass one(*s.reading);
        return prepared(*v, picture);
    }();
    if (!input.ok()) {
        running.failed = input.error();
        return running;
    }
    running.rows = input->shape()[0];
    std::vector<graft::tensor> inputs(v->model.inputs().size());
    inputs[v->target->input] = std::move(input).value();
    running.answer = s.queue->give(v->target, std::move(inputs), v->target->merges ? 1 : 0, &soon);
    return running;
}

graft::result<std::vector<graft::prediction>> finish(const model_version& v, running_picture& running, int top) {
    if (running.failed) return *running.failed;
    batch_answer given;
    GRAFT_TRY_ASSIGN(given, running.answer.get());
    std::vector<double> probabilities;
    GRAFT_TRY_ASSIGN(probabilities, probabilities_of(v, given, 0, running.rows));
    return v.classifier->best(probabilities, top);
}

}  // namespace

http_answer predict(service& s, const http_request& request) {
    const double began = graft::detail::seconds_now();
    served_model* const model = s.find(request.parameter("model"));
    if (!model) return refusal(404, "http.not_found", "there is no model of that name; /v1/models lists them");
    const std::shared_ptr<const model_version> v = model->current();
    if (!v->classifier) return refusal(*v->no_classifier);
    int top = s.top;
    if (const std::string wanted = request.parameter("top"); !wanted.empty()) {
        if (wanted.size() > 6 || wanted.find_first_not_of("0123456789") != std::string::npos) return refusal(400, "http.malformed", "top takes a number");
        top = std::atoi(wanted.c_str());
    }
    std::vector<encoded_picture> pictures;
    {
        const turnstile::pass one(*s.reading);
        if (auto refused = pictures_of_request(request, pictures)) return *refused;
    }
    if (pictures.size() > s.pictures) return refusal(413, "http.too_large", "a request holds up to " + std::to_string(s.pictures) + " pictures");

    std::vector<running_picture> running;
    for (const encoded_picture& picture : pictures) running.push_back(begin(s, v, picture));
    json results = json::array();
    std::optional<graft::error> failed;
    std::size_t failures = 0;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
        auto answers = finish(*v, running[i], top);
        if (answers.ok()) {
            results.push_back({{"image", pictures[i].name}, {"top", predictions_json(answers.value())}});
            continue;
        }
        failed = answers.error();
        results.push_back({{"image", pictures[i].name}, {"error", error_json(*failed)}});
        ++failures;
    }
    // One bad picture of several fails alone, as in a folder.
    if (failures == pictures.size()) return refusal(*failed);
    s.metrics->count_pictures(model->name(), static_cast<std::int64_t>(pictures.size() - failures));
    return json_answer({{"results", results},
                        {"model", model->name()},
                        {"version", v->number},
                        {"device", s.device},
                        {"total_ms", 1e3 * (graft::detail::seconds_now() - began)}});
}

}  // namespace program
