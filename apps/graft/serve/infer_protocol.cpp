// The Open Inference Protocol, version 2, over HTTP, with the extension for binary tensors that Triton's clients use.
#include "endpoints.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

namespace program {
namespace {

using graft::dtype;

struct named_type {
    dtype type;
    const char* name;
};
constexpr named_type types[] = {{dtype::boolean, "BOOL"},  {dtype::uint8, "UINT8"},  {dtype::uint16, "UINT16"}, {dtype::uint32, "UINT32"},
                                {dtype::uint64, "UINT64"}, {dtype::int8, "INT8"},    {dtype::int16, "INT16"},   {dtype::int32, "INT32"},
                                {dtype::int64, "INT64"},   {dtype::float16, "FP16"}, {dtype::bfloat16, "BF16"}, {dtype::float32, "FP32"},
                                {dtype::float64, "FP64"}};

// What the protocol calls a type; its own name where the protocol has none.
std::string protocol_name(dtype type) {
    for (const named_type& t : types)
        if (t.type == type) return t.name;
    return graft::name(type);
}
dtype type_of(const std::string& protocol) {
    for (const named_type& t : types)
        if (protocol == t.name) return t.type;
    return dtype::undefined;
}

// The protocol's errors are a sentence.
http_answer refused(int status, const std::string& why) {
    http_answer a = refusal(status, "", "");
    a.body = json_text(json{{"error", why}}) + "\n";
    return a;
}
http_answer refused(const graft::error& e) { return refused(status_of(e), e.what()); }

json open_shape(const graft::value_info& v) {
    json extents = json::array();
    for (int i = 0; v.has_shape && i < v.extents.rank(); ++i) extents.push_back(std::max<std::int64_t>(v.extents[i], -1));
    return extents;
}
json tensors_json(const std::vector<graft::value_info>& values) {
    json list = json::array();
    for (const graft::value_info& v : values) list.push_back({{"name", v.name}, {"datatype", protocol_name(v.type)}, {"shape", open_shape(v)}});
    return list;
}

template <class T>
bool fill(T* to, std::int64_t count, std::int64_t& at, const json& data) {
    if (data.is_array()) {
        for (const json& one : data)
            if (!fill(to, count, at, one)) return false;
        return true;
    }
    if (at >= count) return false;
    if constexpr (std::is_same_v<T, bool>) {
        if (!data.is_boolean() && !data.is_number_integer()) return false;
        to[at++] = data.is_boolean() ? data.get<bool>() : data.get<std::int64_t>() != 0;
    } else if constexpr (std::is_integral_v<T>) {
        if (data.is_number_unsigned()) {
            const auto value = data.get<std::uint64_t>();
            if (value > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return false;
            to[at++] = static_cast<T>(value);
        } else {
            if (!data.is_number_integer()) return false;
            const auto value = data.get<std::int64_t>();
            if (std::is_unsigned_v<T> || value < static_cast<std::int64_t>(std::numeric_limits<T>::min())) return false;
            to[at++] = static_cast<T>(value);
        }
    } else {
        if (!data.is_number()) return false;
        to[at++] = static_cast<T>(data.get<double>());
    }
    return true;
}

// The elements of a list, however it nests.
bool fill_tensor(const graft::tensor& to, const json& data) {
    std::int64_t at = 0;
    const std::int64_t n = to.elements();
    const auto all = [&](auto* elements) { return fill(elements, n, at, data) && at == n; };
    switch (to.type()) {
    case dtype::boolean: return all(reinterpret_cast<bool*>(to.raw()));
    case dtype::uint8: return all(reinterpret_cast<std::uint8_t*>(to.raw()));
    case dtype::uint16: return all(reinterpret_cast<std::uint16_t*>(to.raw()));
    case dtype::uint32: return all(reinterpret_cast<std::uint32_t*>(to.raw()));
    case dtype::uint64: return all(reinterpret_cast<std::uint64_t*>(to.raw()));
    case dtype::int8: return all(reinterpret_cast<std::int8_t*>(to.raw()));
    case dtype::int16: return all(reinterpret_cast<std::int16_t*>(to.raw()));
    case dtype::int32: return all(reinterpret_cast<std::int32_t*>(to.raw()));
    case dtype::int64: return all(reinterpret_cast<std::int64_t*>(to.raw()));
    case dtype::float32: return all(reinterpret_cast<float*>(to.raw()));
    case dtype::float64: return all(reinterpret_cast<double*>(to.raw()));
    default: return false;  // halves have no form in JSON
    }
}

template <class T>
json list_of(const graft::tensor& from) {
    const T* values = reinterpret_cast<const T*>(from.raw());
    json list = json::array();
    for (std::int64_t i = 0; i < from.elements(); ++i) list.push_back(values[i]);
    return list;
}
std::optional<json> list_of(const graft::tensor& from) {
    switch (from.type()) {
    case dtype::boolean: return list_of<bool>(from);
    case dtype::uint8: return list_of<std::uint8_t>(from);
    case dtype::uint16: return list_of<std::uint16_t>(from);
    case dtype::uint32: return list_of<std::uint32_t>(from);
    case dtype::uint64: return list_of<std::uint64_t>(from);
    case dtype::int8: return list_of<std::int8_t>(from);
    case dtype::int16: return list_of<std::int16_t>(from);
    case dtype::int32: return list_of<std::int32_t>(from);
    case dtype::int64: return list_of<std::int64_t>(from);
    case dtype::float32: return list_of<float>(from);
    case dtype::float64: return list_of<double>(from);
    default: return std::nullopt;
    }
}

std::optional<graft::shape> shape_of(const json& extents) {
    if (!extents.is_array() || extents.size() > 16) return std::nullopt;
    std::vector<std::int64_t> all;
    for (const json& e : extents) {
        if (!e.is_number_integer() || e.get<std::int64_t>() < 0) return std::nullopt;
        all.push_back(e.get<std::int64_t>());
    }
    return graft::shape::from(all.begin(), all.end());
}

// A request to infer, taken apart.
struct inference {
    std::string id;
    std::vector<graft::tensor> inputs;  // by their places
    std::vector<std::size_t> outputs;   // places of those that are asked for
    std::vector<bool> binary;           // of each of those
};

// The value of a parameter that switches something on.
bool is_on(const json& object, const char* name) {
    if (!object.is_object() || !object.contains("parameters")) return false;
    const json& p = object["parameters"];
    return p.is_object() && p.contains(name) && p[name].is_boolean() && p[name].get<bool>();
}
std::string text_of(const json& object, const char* name) {
    return object.is_object() && object.contains(name) && object[name].is_string() ? object[name].get<std::string>() : "";
}

std::optional<http_answer> read_input(const json& given, const graft::model& m, std::string_view body, std::size_t& at, inference& to) {
    const std::string name = text_of(given, "name"), type_name = text_of(given, "datatype");
    std::size_t place = 0;
    while (place < m.inputs().size() && m.inputs()[place].name != name) ++place;
    if (place == m.inputs().size()) return refused(400, "the model has no input named \"" + name + "\"");
    const std::string what = "input \"" + name + "\"";
    if (to.inputs[place]) return refused(400, what + " is given twice");
    const dtype type = type_of(type_name);
    if (type == dtype::undefined) return refused(400, what + ": datatype \"" + type_name + "\" is none that is taken here");
    const auto extents = given.contains("shape") ? shape_of(given["shape"]) : std::nullopt;
    if (!extents) return refused(400, what + ": its shape is no list of sizes");
    const std::int64_t bytes = graft::bytes_of(type, *extents);
    if (bytes < 0) return refused(400, what + ": its shape is larger than memory can be");
    const json parameters = given.value("parameters", json::object());
    if (parameters.is_object() && parameters.contains("binary_data_size")) {
        const json& size = parameters["binary_data_size"];
        if (!size.is_number_integer() || size.get<std::int64_t>() != bytes || static_cast<std::int64_t>(body.size() - at) < bytes)
            return refused(400, what + ": its shape takes " + std::to_string(bytes) + " bytes, and not what binary_data_size and the body say");
        auto t = graft::tensor::make(type, *extents);
        if (!t.ok()) return refused(t.error());
        if (bytes) std::memcpy(t->raw(), body.data() + at, static_cast<std::size_t>(bytes));
        at += static_cast<std::size_t>(bytes);
        to.inputs[place] = std::move(t).value();
    } else {
        // Each element takes a byte of text at least, and the text was counted.
        if (!given.contains("data") || extents->elements() > static_cast<std::int64_t>(body.size()))
            return refused(400, what + " has not as many elements as its shape says");
        auto t = graft::tensor::make(type, *extents);
        if (!t.ok()) return refused(t.error());
        if (!fill_tensor(t.value(), given["data"]))
            return refused(400, what + ": its data are not " + std::to_string(extents->elements()) + " numbers of " + type_name +
                                    (size_of(type) == 2 ? " (halves go as binary data)" : ""));
        to.inputs[place] = std::move(t).value();
    }
    // A truth value is 0 or 1 in memory.
    if (type == dtype::boolean)
        for (std::int64_t i = 0; i < bytes; ++i) to.inputs[place].raw()[i] = to.inputs[place].raw()[i] != std::byte(0) ? std::byte(1) : std::byte(0);
    return std::nullopt;
}

std::optional<http_answer> read_request(const http_request& request, const graft::model& m, inference& to) {
    const std::string_view body = request.body;
    const std::size_t json_bytes = request.json_bytes < 0 ? body.size() : static_cast<std::size_t>(request.json_bytes);
    if (json_bytes > body.size()) return refused(400, "Inference-Header-Content-Length is more than the body has");
    const json head = parsed_json(body.data(), json_bytes);
    if (!head.is_object() || !head.contains("inputs") || !head["inputs"].is_array()) return refused(400, "the body is no JSON object with a list of inputs");
    to.inputs.resize(m.inputs().size());
    std::size_t at = json_bytes;
    to.id = text_of(head, "id");
    for (const json& given : head["inputs"])
        if (auto wrong = read_input(given, m, body, at, to)) return wrong;
    if (at != body.size()) return refused(400, "the body has " + std::to_string(body.size() - at) + " bytes more than its inputs take");
    for (std::size_t i = 0; i < m.inputs().size(); ++i)
        if (!to.inputs[i] && !m.inputs()[i].has_default) return refused(400, "input \"" + m.inputs()[i].name + "\" is missing");
    const bool all_binary = is_on(head, "binary_data_output");
    const auto want = [&](std::size_t place, bool binary) { to.outputs.push_back(place), to.binary.push_back(binary); };
    if (head.contains("outputs") && head["outputs"].is_array() && !head["outputs"].empty()) {
        for (const json& asked : head["outputs"]) {
            std::size_t place = 0;
            while (place < m.outputs().size() && m.outputs()[place].name != text_of(asked, "name")) ++place;
            if (place == m.outputs().size()) return refused(400, "the model has no output named \"" + text_of(asked, "name") + "\"");
            if (std::find(to.outputs.begin(), to.outputs.end(), place) != to.outputs.end())
                return refused(400, "output \"" + text_of(asked, "name") + "\" is asked for twice");
            const bool told = asked.contains("parameters") && asked["parameters"].is_object() && asked["parameters"].contains("binary_data");
            if (asked.contains("parameters") && asked["parameters"].is_object() && asked["parameters"].contains("classification"))
                return refused(400, "the extension for classification is not spoken here: /v1/predict names pictures");
            want(place, told ? is_on(asked, "binary_data") : all_binary);
        }
    } else {
        for (std::size_t i = 0; i < m.outputs().size(); ++i) want(i, all_binary);
    }
    return std::nullopt;
}

http_answer infer(service& s, const std::shared_ptr<const model_version>& v, const std::string& name, const http_request& request) {
    inference asked;
    {
        const turnstile::pass one(*s.reading);
        if (auto wrong = read_request(request, v->model, asked)) return *wrong;
    }
    const graft::tensor& first = asked.inputs.empty() ? graft::tensor() : asked.inputs[v->target->input];
    const bool merges = v->target->merges && first && first.shape().rank() > 0;
    auto given = s.queue->give(v->target, asked.inputs, merges ? first.shape()[0] : 0).get();
    if (!given.ok()) return refused(given.error());
    json outputs = json::array();
    std::string binary;
    for (std::size_t i = 0; i < asked.outputs.size(); ++i) {
        const graft::tensor& t = given.value()[asked.outputs[i]];
        json one{{"name", v->model.outputs()[asked.outputs[i]].name}, {"datatype", protocol_name(t.type())}, {"shape", shape_json(t.shape())}};
        auto list = asked.binary[i] ? std::nullopt : list_of(t);
        if (list) {
            one["data"] = std::move(*list);
        } else {
            one["parameters"] = {{"binary_data_size", t.bytes()}};
            binary.append(reinterpret_cast<const char*>(t.raw()), t.bytes());
        }
        outputs.push_back(std::move(one));
    }
    json head{{"model_name", name}, {"model_version", std::to_string(v->number)}};
    if (!asked.id.empty()) head["id"] = asked.id;
    head["outputs"] = std::move(outputs);
    http_answer a;
    a.body = json_text(head);
    if (!binary.empty()) {
        a.type = "application/octet-stream";
        a.fields.emplace_back("Inference-Header-Content-Length", std::to_string(a.body.size()));
        a.body += binary;
    }
    return a;
}

std::vector<std::string> parts_of(const std::string& path) {
    std::vector<std::string> parts;
    for (std::size_t at = 1; at <= path.size();) {
        const std::size_t end = std::min(path.find('/', at), path.size());
        parts.push_back(path.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

http_answer index_of(const service& s) {
    json list = json::array();
    for (const auto& m : s.models) list.push_back({{"name", m->name()}, {"version", std::to_string(m->current()->number)}, {"state", "READY"}, {"reason", ""}});
    return json_answer(list);
}

http_answer metadata(const std::string& name, const model_version& v) {
    return json_answer({{"name", name},
                        {"versions", {std::to_string(v.number)}},
                        {"platform", "graft_onnx"},
                        {"inputs", tensors_json(v.model.inputs())},
                        {"outputs", tensors_json(v.model.outputs())}});
}

// /v2/models/NAME[/versions/V][/ready|/infer]
http_answer model_path(service& s, const http_request& request, const std::vector<std::string>& parts) {
    const served_model* const model = parts.size() > 2 && !parts[2].empty() ? s.find(parts[2]) : nullptr;
    if (!model) return refused(404, "there is no model of that name");
    const std::shared_ptr<const model_version> v = model->current();
    std::size_t at = 3;
    if (parts.size() > 4 && parts[3] == "versions") {
        if (parts[4] != std::to_string(v->number)) return refused(404, "version " + std::to_string(v->number) + " is the one that is served");
        at = 5;
    }
    const std::string what = at < parts.size() ? parts[at] : "";
    if (at + 1 < parts.size()) return refused(404, "there is no such path");
    const bool get = request.method == "GET" || request.method == "HEAD", post = request.method == "POST";
    if (what == "infer") return post ? infer(s, v, model->name(), request) : refused(405, "this path takes POST");
    if (!get) return refused(405, "this path takes GET");
    if (what.empty()) return metadata(model->name(), *v);
    if (what == "ready") return json_answer({{"name", model->name()}, {"ready", true}});
    return refused(404, "there is no such path");
}

}  // namespace

http_answer infer_protocol(service& s, const http_request& request) {
    const std::vector<std::string> parts = parts_of(request.path);
    const bool get = request.method == "GET" || request.method == "HEAD";
    if (parts.size() > 1 && parts[1] == "models") return model_path(s, request, parts);
    if (request.path == "/v2/repository/index") return index_of(s);
    if (!get) return refused(parts.size() == 1 ? 405 : 404, "there is no such path, or it takes GET");
    if (parts.size() == 1) return json_answer({{"name", "graft"}, {"version", graft::version()}, {"extensions", {"binary_tensor_data", "model_repository"}}});
    if (request.path == "/v2/health/live") return json_answer({{"live", true}});
    if (request.path == "/v2/health/ready") return s.ready ? json_answer({{"ready", true}}) : refused(503, "the server is ending");
    return refused(404, "there is no such path");
}

}  // namespace program
