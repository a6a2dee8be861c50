// What the server's paths mean.
#pragma once

#include "http_server.hpp"
#include "served_model.hpp"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace program {

/// Lets a number of threads through at a time, however many ask: pictures and JSON take many times their bytes while they are read, and no more
/// threads than cores are read faster.
class turnstile {
public:
    explicit turnstile(int places) : left_(places) {}
    class pass {
    public:
        explicit pass(turnstile& through) : through_(through) { through_.enter(); }
        ~pass() { through_.leave(); }
        pass(const pass&) = delete;
        pass& operator=(const pass&) = delete;

    private:
        turnstile& through_;
    };

private:
    void enter() {
        std::unique_lock<std::mutex> hold(lock_);
        free_.wait(hold, [&] { return left_ > 0; });
        --left_;
    }
    void leave() {
        {
            const std::lock_guard<std::mutex> hold(lock_);
            ++left_;
        }
        free_.notify_one();
    }
    std::mutex lock_;
    std::condition_variable free_;
    int left_;
};

/// What the paths share.
struct service {
    std::vector<std::unique_ptr<served_model>> models;  ///< the first is asked where a request names none
    batch_queue* queue = nullptr;
    server_metrics* metrics = nullptr;
    turnstile* reading = nullptr;  ///< passed by whoever reads pictures or JSON
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
