// The paths of the server, and what their errors are over HTTP.
#include "endpoints.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace program {
namespace {

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

http_answer wrong_method(const char* allowed) {
    http_answer a = refusal(405, "http.method", std::string("this path takes ") + allowed);
    a.fields.emplace_back("Allow", allowed);
    return a;
}

http_answer metrics_text(const service& s) {
    server_gauges now;
    const http_counts counts = s.counts();
    now.connections = counts.connections, now.requests_waiting = counts.waiting, now.requests_answering = counts.answering;
    now.batches_waiting = s.queue->waiting();
    now.start_time = s.start_time;
    for (const auto& m : s.models) now.models.push_back({m->name(), s.device, m->current()->number});
    http_answer a;
    a.type = "text/plain; version=0.0.4; charset=utf-8";
    a.body = s.metrics->text(now);
    return a;
}

http_answer models_list(const service& s) {
    json list = json::array();
    for (const auto& m : s.models) {
        const auto now = m->current();
        json one{{"name", m->name()},
                 {"version", now->number},
                 {"classifier", now->classifier.has_value()},
                 {"max_batch", now->target->merges ? now->target->most : 1}};
        if (now->classifier) {
            one["classes"] = now->classifier->labels();
            one["preprocess"] = graft::text(now->preprocess);
        }
        list.push_back(one);
    }
    return json_answer({{"models", list}, {"device", s.device}});
}

http_answer page() {
    http_answer a;
    a.type = "text/html; charset=utf-8";
    a.body = page_text();
    // Nothing from elsewhere, and no page of somebody else around it.
    a.fields.emplace_back(
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' blob: data:; media-src blob:; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    a.fields.emplace_back("X-Content-Type-Options", "nosniff");
    a.fields.emplace_back("Referrer-Policy", "no-referrer");
    return a;
}

http_answer health(const service& s) {
    if (!s.ready) return refusal(503, "http.busy", "the server is ending");
    return json_answer({{"status", "ok"}});
}

}  // namespace

served_model* service::find(const std::string& name) const {
    if (name.empty() && !models.empty()) return models[0].get();
    for (const auto& m : models)
        if (m->name() == name) return m.get();
    return nullptr;
}

int status_of(const graft::error& e) {
    const std::string code = graft::text(e.code());
    if (begins(code, "image.") || begins(code, "preprocess.")) return 422;
    if (begins(code, "input.") || begins(code, "usage") || begins(code, "json.") || code == "classify.output" || begins(code, "op.")) return 400;
    if (code == "memory.budget") return 413;
    if (code == "memory.oom" || begins(code, "device.")) return 503;
    return 500;
}

http_answer refusal(const graft::error& e) { return refusal(status_of(e), graft::text(e.code()), (e.where().empty() ? "" : e.where() + ": ") + e.detail()); }

json parsed_json(const char* bytes, std::size_t size) {
    constexpr int deepest = 32;  // what reads it calls itself for each level
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < size; ++i) {
        const char c = bytes[i];
        if (quoted && c == '\\')
            ++i;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{') && ++depth > deepest)
            return json(json::value_t::discarded);
        else if (!quoted && (c == ']' || c == '}'))
            --depth;
    }
    return json::parse(bytes, bytes + size, nullptr, false);
}

http_answer json_answer(const json& object) {
    http_answer a;
    a.body = json_text(object) + "\n";
    return a;
}

http_answer answer(service& s, const http_request& request) {
    const std::string& path = request.path;
    const bool get = request.method == "GET" || request.method == "HEAD", post = request.method == "POST";
    if (path == "/v1/predict") return post ? predict(s, request) : wrong_method("POST");
    if (path == "/v1/explain") return post ? explain(s, request) : wrong_method("POST");
    if (path == "/v2" || begins(path, "/v2/")) return infer_protocol(s, request);
    if (path == "/") return get ? page() : wrong_method("GET");
    if (path == "/healthz") return get ? health(s) : wrong_method("GET");
    if (path == "/metrics") return get ? metrics_text(s) : wrong_method("GET");
    if (path == "/v1/models") return get ? models_list(s) : wrong_method("GET");
    return refusal(404, "http.not_found", "there is no such path; there are /, /v1/predict, /v1/explain, /v1/models, /v2, /healthz and /metrics");
}

}  // namespace program
