// What the server's paths mean.
#pragma once

#include "http_server.hpp"
#include "served_model.hpp"
#include "turnstile.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace program {

/// What the paths share.
struct service {
    std::vector<std::unique_ptr<served_model>> models;  ///< the first is asked where a request names none
    batch_queue* queue = nullptr;
    server_metrics* metrics = nullptr;
    turnstile* reading = nullptr;  ///< passed by whoever reads pictures or JSON, which take many times their bytes meanwhile
    std::string device;
    graft::classifier_options explains;  ///< how maps are made: on the CPU
    int top = 5;
    std::size_t pictures = 64;            ///< that one request may hold at most
    std::atomic<bool> ready{false};       ///< cleared when the server begins to end
    std::function<http_counts()> counts;  ///< of the server
    double start_time = 0;                ///< seconds since 1970

    /// The model of that name, the first where there is no name, null where there is none.
    served_model* find(const std::string& name) const;
};

/// Sends a request to what answers it.
http_answer answer(service& s, const http_request& request);

/// POST /v1/predict: pictures in, the object of `classify --json` out.
http_answer predict(service& s, const http_request& request);
/// POST /v1/explain: a picture in, and out the same under a map of the places that spoke for a class.
http_answer explain(service& s, const http_request& request);
/// The page at /.
const char* page_text();
/// Everything below /v2: the Open Inference Protocol, version 2, with its binary tensors.
http_answer infer_protocol(service& s, const http_request& request);

/// The answer that an error of the engine becomes: whose fault it is says the status.
http_answer refusal(const graft::error& e);
int status_of(const graft::error& e);
/// The JSON of some bytes; discarded where it is none, or nests deeper than a request has reason to.
json parsed_json(const char* bytes, std::size_t size);
/// An answer of 200.
http_answer json_answer(const json& object);

}  // namespace program
