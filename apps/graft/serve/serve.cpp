// graft serve: models behind HTTP, until a signal ends it.
#include "../verb.hpp"

#if GRAFT_SERVE
#include "endpoints.hpp"

#include "../interrupt.hpp"
#include "../pictures.hpp"
#include "../replicas.hpp"

#include <graft/core/clock.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace program {
namespace {

struct serve_options {
    std::vector<std::string> models;
    std::string host = "127.0.0.1", max_body = "32MiB", access_log;
    int port = 8000, top = 5, handlers = 32, connections = 4096, queue = 512;
    double timeout = 10, batch_wait = 2;
    bool watch = false;
    served_options served;
    spread_options spread;
};

std::atomic<int> reload_asked{0};  // which a handler may write, as it takes no lock
static_assert(std::atomic<int>::is_always_lock_free, "a signal's handler may not wait");
extern "C" void note_reload(int) { reload_asked = 1; }

// "NAME=FILE", or a file, whose name without its folder and ending is the model's.
std::unique_ptr<served_model> model_of(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    if (equals != std::string::npos && equals > 0 && argument.find('/') > equals)
        return std::make_unique<served_model>(argument.substr(0, equals), argument.substr(equals + 1));
    std::string name = base_name(argument);
    if (const std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0) name.resize(dot);
    return std::make_unique<served_model>(name, argument);
}

// Paths as they are counted: what nobody serves is one, so that clients cannot make as many as they like.
std::string counted_path(const std::string& target) {
    const std::string path = target.substr(0, target.find('?'));
    for (const char* known : {"/", "/v1/predict", "/v1/explain", "/v1/models", "/healthz", "/metrics"})
        if (path == known) return path;
    if (path.rfind("/v2/health/", 0) == 0) return "/v2/health";
    if (path.rfind("/v2", 0) == 0) return path.size() > 6 && path.compare(path.size() - 6, 6, "/infer") == 0 ? "/v2/infer" : "/v2";
    return "other";
}

// Lines of JSON, one a request.
class access_log {
public:
    graft::status open(const std::string& path) {
        if (path.empty()) return {};
        file_ = path == "-" ? stdout : std::fopen(path.c_str(), "a");
        if (!file_) return graft::fail(graft::errc::file_write, path, graft::detail::system_message());
        return {};
    }
    access_log() = default;
    ~access_log() {
        if (file_ && file_ != stdout) std::fclose(file_);
    }
    access_log(const access_log&) = delete;
    access_log& operator=(const access_log&) = delete;

    void write(const http_record& r) {
        if (!file_) return;
        char when[40] = "";
        const std::time_t now = std::time(nullptr);
        std::tm parts{};
        if (::gmtime_r(&now, &parts)) std::strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
        const json line{{"time", when},       {"peer", r.peer},         {"method", r.method},       {"target", r.target},
                        {"status", r.status}, {"bytes_in", r.bytes_in}, {"bytes_out", r.bytes_out}, {"ms", 1e3 * r.seconds}};
        std::fprintf(file_, "%s\n", json_text(line).c_str());
        std::fflush(file_);
    }

private:
    std::FILE* file_ = nullptr;
};

// Reads anew what has changed, or all; what cannot be served leaves what is.
void reload(const common_options& common, serve_options& o, service& s, bool all) {
    for (const auto& m : s.models) {
        if (!all && !m->changed()) continue;
        const graft::status done = m->load(common, o.served);
        s.metrics->count_reload(m->name(), done.ok());
        if (done.ok()) {
            if (!common.quiet) std::fprintf(stderr, "graft: %s is served in version %d\n", printable(m->name()).c_str(), m->current()->number);
        } else
            warn(common, m->path() + " cannot take the place of what is served: " + done.error().what());
    }
}

// Reloads in a thread of its own, so that requests go on.
class reloader {
public:
    reloader(const common_options& common, serve_options& o, service& s)
        : thread_([this, &common, &o, &s] {
              for (double last = graft::detail::seconds_now(); !ending_;) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(100));
                  const bool asked = reload_asked != 0, looks = o.watch && graft::detail::seconds_now() - last >= 1;
                  if (!asked && !looks) continue;
                  reload_asked = 0;
                  reload(common, o, s, asked);
                  last = graft::detail::seconds_now();
              }
          }) {}
    ~reloader() {
        ending_ = true;
        thread_.join();
    }
    reloader(const reloader&) = delete;
    reloader& operator=(const reloader&) = delete;

private:
    std::atomic<bool> ending_{false};
    std::thread thread_;
};

// glibc keeps what requests and pictures took, in as many heaps as there are threads. Here there are two, and what is free in them goes back to the system
// once nobody has asked for anything for a moment; to give it back at once took a sixth of the requests a second.
class idle_memory {
public:
    idle_memory() {
#if defined(__GLIBC__)
        mallopt(M_ARENA_MAX, 2);
#endif
    }
    void look(const http_counts& now) {
        const double seconds = graft::detail::seconds_now();
        if (now.answering + now.waiting > 0) {
            busy_ = seconds;
            kept_ = true;
        } else if (kept_ && seconds - busy_ > 0.3) {
            kept_ = false;
#if defined(__GLIBC__)
            malloc_trim(0);
#endif
        }
    }

private:
    double busy_ = 0;
    bool kept_ = true;
};

// One worker for each device; on the CPU one for each thread, which share all threads while there is one request; or as many as --replicas says.
void make_workers(const common_options& common, serve_options& o) {
    constexpr int most = 32;
    const int threads = thread_count(common);
    std::vector<std::shared_ptr<graft::device>>& devices = o.served.devices;
    const bool spreads = o.spread.replicas == 0 && devices.size() == 1 && !on_gpu(devices[0]);
    if (spreads) devices.resize(static_cast<std::size_t>(std::min(threads, most)), devices[0]);
    const int workers = static_cast<int>(devices.size());
    for (int i = 0; i < workers && workers > 1; ++i) {
        if (spreads)
            o.served.executors.push_back(std::make_unique<worker_threads>(threads, o.served.requests));
        else
            o.served.executors.push_back(std::make_unique<graft::dedicated_executor>(graft::detail::share_of_threads(threads, workers, i)));
    }
}

graft::result<int> serve(const common_options& common, serve_options& o) {
    GRAFT_TRY(be_alone("serve"));
    idle_memory memory;
    http_server_options listening;
    GRAFT_TRY_ASSIGN(listening.limits.body_bytes, size_of_text(o.max_body, "--max-body"));
    GRAFT_TRY_ASSIGN(o.served.devices, replica_devices(common, o.spread, nullptr));
    make_workers(common, o);
    access_log log;
    GRAFT_TRY(log.open(o.access_log));
    server_metrics metrics;
    service s;
    s.metrics = &metrics, s.top = o.top, s.device = devices_text(o.served.devices);
    s.start_time = static_cast<double>(std::time(nullptr));
    for (const std::string& argument : o.models) {
        auto model = model_of(argument);
        if (model->name().empty() || s.find(model->name()))
            return graft::fail(graft::errc::usage, argument, "two models have the name \"" + printable(model->name()) + "\": say NAME=FILE");
        GRAFT_TRY(model->load(common, o.served));
        s.models.push_back(std::move(model));
    }
    common_options on_cpu = common;
    on_cpu.device = "cpu";
    GRAFT_TRY_ASSIGN(s.explains, classifier_options_of(on_cpu, nullptr, o.served.labels, o.served.preprocess, o.served.output));
    turnstile reading(thread_count(common));
    s.reading = &reading;
    batch_queue queue(o.batch_wait, o.served.devices.size(), metrics, o.served.requests);
    s.queue = &queue;

    listening.host = o.host, listening.port = o.port, listening.handlers = o.handlers;
    listening.limits.request_seconds = o.timeout;
    listening.limits.connections = static_cast<std::size_t>(o.connections);
    listening.limits.waiting = static_cast<std::size_t>(o.queue);
    listening.handler = [&s](const http_request& request) { return answer(s, request); };
    listening.log = [&](const http_record& r) {
        metrics.count_request(counted_path(r.target), r.status, r.seconds);
        log.write(r);
    };
    std::unique_ptr<http_server> server;
    GRAFT_TRY_ASSIGN(server, http_server::listen(std::move(listening)));
    s.counts = [&server] { return server->counts(); };
    s.ready = true;

    const interrupt_guard guard("");
    std::signal(SIGPIPE, SIG_IGN);  // a reader of the log that has gone
    std::signal(SIGHUP, note_reload);
    const reloader reloads(common, o, s);
    if (!common.quiet) {
        std::fprintf(stderr, "graft: http://%s serves", server->address().c_str());
        for (const auto& m : s.models) std::fprintf(stderr, "%s %s", m == s.models.front() ? "" : ",", printable(m->name()).c_str());
        std::fprintf(stderr, " on %s; SIGTERM or Ctrl-C ends it, SIGHUP reads its models anew\n", s.device.c_str());
    }
    GRAFT_TRY(server->run([&] {
        memory.look(server->counts());
        if (guard.caught()) s.ready = false;
        return guard.caught() != 0;
    }));
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<serve_options>();
    list.add("MODEL", o->models, "ONNX file, or NAME=FILE; the first answers where a request names none").required();
    list.add("--port", o->port, "Where to listen; 0: a port that is free (default: 8000)", "P").within(0, 65535);
    list.add("--host", o->host, "At which address; 0.0.0.0 or :: for all of this machine (default: 127.0.0.1)", "H");
    list.add("--labels", o->served.labels, "Text file with one class name a line (default: the model's own)", "FILE");
    list.add("--preprocess", o->served.preprocess, "How pictures become tensors (default: as the model says)", "SPEC");
    list.add("--output", o->served.output, "The output that names classes (default: the first)", "NAME");
    list.add("--top", o->top, "Classes of an answer (default: 5)", "K").within(1, 1000000);
    list.add("--max-batch", o->served.most, "Samples that run together; 1: each alone (default: as many as make each faster, measured as it starts)", "N")
        .within(1, 1024);
    list.add("--batch-wait", o->batch_wait, "Milliseconds that a batch waits for pictures that are being read (default: 2)", "MS").within(0.0, 1000.0);
    list.add("--max-body", o->max_body, "What a request may hold at most (default: 32MiB)", "SIZE");
    list.add("--timeout", o->timeout, "Seconds in which a request has to be whole (default: 10)", "S").within(0.1, 3600.0);
    list.add("--connections", o->connections, "Connections at once; who comes then waits (default: 4096)", "N").within(1, 100000);
    list.add("--queue", o->queue, "Requests that wait at most; more are told to come again, by status 503 (default: 512)", "N").within(1, 100000);
    list.add("--handlers", o->handlers, "Threads that read pictures and wait for their answers (default: 32)", "N").within(1, 1024);
    list.add("--access-log", o->access_log, "A line of JSON for each request, to a file or - for standard output", "FILE");
    list.add("--watch", o->watch, "Read a model anew when its file has changed, as SIGHUP asks for");
    list.add("--replicas", o->spread.replicas, "Copies of each model that answer beside each other (default: one a device)", "N").within(0, 256);
    return [o](const common_options& common) { return serve(common, *o); };
}

}  // namespace
#else

namespace program {
namespace {

action declare(option_list& list) {
    auto words = std::make_shared<std::vector<std::string>>();
    list.add("MODEL", *words, "ONNX file");
    return [words](const common_options&) -> graft::result<int> {
        return graft::fail(
            graft::errc::usage, "serve",
            "this build has no server: cpp-httplib was not there when it was configured (Debian: apt-get install libcpp-httplib-dev), or GRAFT_SERVE is OFF");
    };
}

}  // namespace

#endif

verb serve_verb() { return {"Answers over HTTP what is in pictures, and runs any model", declare}; }

}  // namespace program
