// graft serve from outside, over sockets: what it answers, whom it refuses, and how it ends.
#if defined(GRAFT_PROGRAM) && GRAFT_SERVE && !defined(_WIN32)
#include "program.hpp"

#include <graft/core/clock.hpp>
#include <graft/dist/store_socket.hpp>
#include <graft/io/onnx_read.hpp>
#include <graft/io/onnx_write.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using graft::detail::seconds_now;
using program_test::graft_program;

const std::string model = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx", pictures = GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/";

std::string json_of(const std::string& out, const std::string& key) {
    const std::size_t at = out.find("\"" + key + "\":");
    return at == std::string::npos ? "" : out.substr(at + key.size() + 3, out.find_first_of(",}", at) - at - key.size() - 3);
}
// The classes and probabilities of one picture.
std::string top_of(const std::string& json) {
    const std::size_t at = json.find("\"top\":");
    return at == std::string::npos ? "none" : json.substr(at, json.find(']', at) - at);
}

struct answer {
    int status = 0;
    std::string head, body;
};

class client {
public:
    explicit client(int port) {
        auto made = graft::detail::connect_to("127.0.0.1", port, seconds_now() + 10);
        if (made.ok()) socket_ = std::move(made).value();
    }
    void send(std::string bytes) {
        std::string why;
        while (!bytes.empty() && socket_.give(bytes, why) == graft::detail::tcp_socket::state::open) wait(POLLOUT);
    }
    void end() { ::shutdown(socket_.get(), SHUT_WR); }
    /// The next answer; of status 0 where the server closes without one.
    answer receive(double seconds = 20) {
        const double until = seconds_now() + seconds;
        std::string why;
        while (seconds_now() < until) {
            const std::size_t head = in_.find("\r\n\r\n");
            if (head != std::string::npos) {
                answer a;
                a.head = in_.substr(0, head + 2);
                a.status = std::atoi(a.head.c_str() + 9);
                const std::size_t at = a.head.find("Content-Length: "),
                                  length = at == std::string::npos ? 0 : std::strtoul(a.head.c_str() + at + 16, nullptr, 10);
                if (in_.size() >= head + 4 + length) {
                    a.body = in_.substr(head + 4, length);
                    in_.erase(0, head + 4 + length);
                    return a;
                }
            }
            if (socket_.receive(in_, 1 << 20, why) == graft::detail::tcp_socket::state::closed && in_.find("\r\n\r\n") == std::string::npos) break;
            wait(POLLIN);
        }
        return {};
    }
    bool closed(double seconds = 5) {
        std::string more, why;
        for (const double until = seconds_now() + seconds; seconds_now() < until; wait(POLLIN))
            if (socket_.receive(more, 4096, why) == graft::detail::tcp_socket::state::closed) return true;
        return false;
    }

private:
    void wait(short events) {
        graft::detail::poll_entry e = {};
        e.fd = socket_.get(), e.events = events;
        graft::detail::poll_sockets(&e, 1, 20);
    }
    graft::detail::tcp_socket socket_;
    std::string in_;
};

class server {
public:
    explicit server(const std::vector<std::string>& arguments) {
        std::vector<std::string> words{GRAFT_PROGRAM, "serve", "--port", "0"};
        words.insert(words.end(), arguments.begin(), arguments.end());
        std::fflush(nullptr);
        process_ = ::fork();
        if (process_ == 0) {
            std::vector<char*> given;
            for (std::string& w : words) given.push_back(&w[0]);
            given.push_back(nullptr);
            if (!std::freopen((folder_.path + "/err").c_str(), "w", stderr) || !std::freopen((folder_.path + "/out").c_str(), "w", stdout)) ::_exit(9);
            ::execv(given[0], given.data());
            ::_exit(9);
        }
        for (const double until = seconds_now() + 60; port == 0 && seconds_now() < until;) {
            const std::string said = err(), before = "http://127.0.0.1:";
            const std::size_t at = said.find(before);
            if (at != std::string::npos && said.find('\n', at) != std::string::npos) port = std::atoi(said.c_str() + at + before.size());
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    ~server() {
        if (process_ > 0) ::kill(process_, SIGKILL), ::waitpid(process_, nullptr, 0);
    }
    void signal(int which) const { ::kill(process_, which); }
    /// Its exit code, -1 where it does not end.
    int ended(double seconds = 20) {
        int status = 0;
        for (const double until = seconds_now() + seconds; seconds_now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(10)))
            if (::waitpid(process_, &status, WNOHANG) == process_) {
                process_ = -1;
                return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
            }
        return -1;
    }
    std::string err() const { return file_contents(folder_.path + "/err"); }
    std::string out() const { return file_contents(folder_.path + "/out"); }
    answer ask(const std::string& bytes) const {
        client c(port);
        c.send(bytes);
        return c.receive();
    }
    answer get(const std::string& path) const { return ask("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"); }
    answer post(const std::string& path, const std::string& type, const std::string& body, const std::string& more = "") const {
        return ask("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more +
                   "\r\n" + body);
    }
    int port = 0;

private:
    made_folder folder_;
    pid_t process_ = -1;
};

std::string in_base64(const std::string& bytes) {
    const char* const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        for (std::size_t k = 0; k < 4; ++k) text += i + k < bytes.size() + 1 ? digits[group >> (18 - 6 * k) & 63] : '=';
    }
    return text;
}
std::string part(const std::string& name, const std::string& file, const std::string& bytes) {
    return "--edge\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"" + file + "\"\r\nContent-Type: image/png\r\n\r\n" + bytes + "\r\n";
}
std::string in_chunks(const std::string& body, std::size_t size) {
    std::string out;
    for (std::size_t at = 0; at < body.size(); at += size) {
        const std::string some = body.substr(at, size);
        char length[32];
        std::snprintf(length, sizeof length, "%zx", some.size());
        out += std::string(length) + ";note=\"x\"\r\n" + some + "\r\n";
    }
    return out + "0\r\n\r\n";
}
bool has_error(const answer& a) { return a.body.find("\"error\":{\"code\":\"") != std::string::npos; }

}  // namespace

TEST_CASE("serve answers as classify does, however a picture comes") {
    server s({model});
    REQUIRE(s.port > 0);
    const std::string fish = file_contents(pictures + "fish-1.png"),
                      want = top_of(graft_program("classify " + model + " " + pictures + "fish-1.png --json").out);
    const auto same = [&](const answer& a) { return a.status == 200 && top_of(a.body) == want; };
    CHECK(same(s.post("/v1/predict", "image/png", fish)));
    CHECK(same(s.post("/v1/predict?model=model", "application/octet-stream", fish)));
    CHECK(same(s.post("/v1/predict", "multipart/form-data; boundary=edge", part("image", "a.png", fish) + "--edge--\r\n")));
    CHECK(same(s.post("/v1/predict", "application/json", "{\"image\":\"" + in_base64(fish) + "\"}")));
    CHECK(same(s.post("/v1/predict", "application/json", "{\"image\":\"data:image/png;base64," + in_base64(fish) + "\"}")));
    CHECK(same(s.ask("POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n" + in_chunks(fish, 777))));
    const answer two =
        s.post("/v1/predict?top=1", "multipart/form-data; boundary=edge", part("image", "good.png", fish) + part("image", "bad.png", "no") + "--edge--\r\n");
    CHECK(two.status == 200);  // a bad picture beside a good one fails alone
    CHECK(two.body.find("\"image\":\"bad.png\",\"error\":{\"code\":\"image.") != std::string::npos);
    CHECK(two.body.find("\"image\":\"good.png\",\"top\":[{\"index\":") != std::string::npos);
    CHECK(s.get("/").body.find("<html") != std::string::npos);
    CHECK(s.get("/v1/models").body.find("\"name\":\"model\",\"version\":1,\"classifier\":true") != std::string::npos);
    const answer map = s.post("/v1/explain", "image/png", fish);
    CHECK(map.status == 200);
    CHECK(map.body.compare(0, 4, "\x89PNG") == 0);
}

TEST_CASE("serve keeps a connection for further requests, those that came early among them") {
    server s({model});
    REQUIRE(s.port > 0);
    client c(s.port);
    const std::string health = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    c.send(health + "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 3\r\n\r\nbad" + health);
    CHECK(c.receive().status == 200);
    CHECK(c.receive().status == 422);
    CHECK(c.receive().status == 200);
    c.send("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    CHECK(c.receive().status == 200);
    CHECK(c.closed());
    // Byte by byte, with an end that comes before the answers.
    client slow(s.port);
    for (const char b : health) slow.send(std::string(1, b));
    slow.send(health);
    slow.end();
    CHECK(slow.receive().status == 200);
    CHECK(slow.receive().status == 200);
    CHECK(slow.closed());
    // A path as long as may be.
    CHECK(s.get("/" + std::string(2000, 'a')).status == 404);
}

TEST_CASE("serve refuses what is not clearly one request, and lives on") {
    server s({model, "--timeout", "1.5", "--max-body", "64K"});
    REQUIRE(s.port > 0);
    const std::string post = "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\n";
    const std::pair<int, std::string> all[] = {
        {400, "GET /healthz HTTP/1.1\r\n\r\n"},
        {400, "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"},
        {400, "GET /healthz HTTP/1.1\nHost: x\n\n"},
        {400, "GET /healthz HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n"},
        {400, "GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n"},
        {400, "GET healthz HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "GET /%0d%0aX:y HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, std::string("\x16\x03\x01\x02\0\1\0\1\xfc", 9)},  // TLS
        {400, std::string("GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", 30)},
        {505, "GET / HTTP/2.0\r\nHost: x\r\n\r\n"},
        {404, "GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n"},
        {404, "GET /..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: x\r\n\r\n"},
        {405, "GET /v1/predict HTTP/1.1\r\nHost: x\r\n\r\n"},
        {414, "GET /" + std::string(20000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"},
        {431, "GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(9000, 'a') + "\r\n\r\n"},
        {431, "GET / HTTP/1.1\r\nHost: x\r\n" +
                  [] {
                      std::string many;
                      for (int i = 0; i < 120; ++i) many += "X: y\r\n";
                      return many;
                  }() +
                  "\r\n"},
        {400, post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
        {400, post + "Content-Length: -1\r\n\r\n"},
        {400, post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {501, post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {400, post + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"},
        {400, post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"},
        {413, post + "Transfer-Encoding: chunked\r\n\r\nfffff\r\n"},
        {413, post + "Content-Length: 99999999999999\r\n\r\nabc"},
        {415, post + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"},
        {417, post + "Expect: miracles\r\nContent-Length: 3\r\n\r\nabc"},
        {415, "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"},
        {400, post + "Content-Length: 0\r\n\r\n"},
        {422, post + "Content-Length: 3\r\n\r\nabc"},
        {400, "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data\r\nContent-Length: 3\r\n\r\nabc"},
        {400, "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"},
        {400, "POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"image\":\"a?b\"}"},
        {404, "POST /v1/predict?model=none HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 3\r\n\r\nabc"},
        {400, "POST /v1/predict?top=-1 HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: 3\r\n\r\nabc"},
    };
    for (const auto& one : all) {
        CAPTURE(one.second.substr(0, 120));
        const answer a = s.ask(one.second);
        CHECK(a.status == one.first);
        CHECK(has_error(a));
    }
    // Who sends a part and waits gets its answer when time is up, who sends nothing none.
    client half(s.port), silent(s.port);
    half.send("GET /healthz HTTP/1.1\r\nHost:");
    CHECK(half.receive(5).status == 408);
    CHECK(silent.closed());
    client continued(s.port);
    continued.send(post + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    CHECK(continued.receive().status == 100);
    continued.send("abc");
    CHECK(continued.receive().status == 422);
    CHECK(s.get("/healthz").status == 200);
}

TEST_CASE("serve speaks the Open Inference Protocol, in numbers and in bytes") {
    server s({"net=" + model});
    REQUIRE(s.port > 0);
    CHECK(s.get("/v2/health/live").status == 200);
    CHECK(s.get("/v2/health/ready").status == 200);
    CHECK(s.get("/v2").body.find("\"binary_tensor_data\"") != std::string::npos);
    CHECK(s.get("/v2/models/net/ready").status == 200);
    CHECK(s.get("/v2/models/other").status == 404);
    CHECK(s.get("/v2/models/net/versions/2").status == 404);
    const std::string about = s.get("/v2/models/net/versions/1").body;
    CHECK(about.find("\"platform\":\"graft_onnx\"") != std::string::npos);
    const std::size_t name_at = about.find("\"inputs\":[{\"name\":\"") + 19;
    const std::string name = about.substr(name_at, about.find('"', name_at) - name_at);
    const std::size_t shape_at = about.find("\"shape\":[") + 9;
    CAPTURE(about);
    const std::string rest = about.substr(about.find(',', shape_at), about.find(']', shape_at) - about.find(',', shape_at));  // behind the batch
    std::int64_t count = 1;
    for (std::size_t at = 0; at != std::string::npos; at = rest.find(',', at + 1)) count *= std::atoll(rest.c_str() + at + 1);
    REQUIRE(count > 0);
    // Two samples: of zeros, and of halves.
    std::string numbers, bytes;
    for (std::int64_t i = 0; i < 2 * count; ++i) {
        const float value = i < count ? 0.0f : 0.5f;
        numbers += (i ? "," : "") + std::string(i < count ? "0" : "0.5");
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    const std::string input = "{\"id\":\"seven\",\"inputs\":[{\"name\":\"" + name + "\",\"datatype\":\"FP32\",\"shape\":[2" + rest + "]";
    const answer plain = s.post("/v2/models/net/infer", "application/json", input + ",\"data\":[" + numbers + "]}]}");
    CAPTURE(plain.body.substr(0, 300));
    CHECK(plain.status == 200);
    CHECK(plain.body.find("\"id\":\"seven\"") != std::string::npos);
    CHECK(plain.body.find("\"datatype\":\"FP32\",\"shape\":[2,") != std::string::npos);
    const std::string head =
        input + ",\"parameters\":{\"binary_data_size\":" + std::to_string(bytes.size()) + "}}],\"parameters\":{\"binary_data_output\":true}}";
    const answer binary =
        s.post("/v2/models/net/infer", "application/octet-stream", head + bytes, "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
    CHECK(binary.status == 200);
    const std::size_t at = binary.head.find("Inference-Header-Content-Length: ");
    REQUIRE(at != std::string::npos);
    const std::size_t json_bytes = std::strtoul(binary.head.c_str() + at + 33, nullptr, 10);
    REQUIRE(binary.body.size() > json_bytes);
    float first = 0;
    std::memcpy(&first, binary.body.data() + json_bytes, sizeof first);
    CHECK(std::fabs(static_cast<double>(first) - std::atof(plain.body.c_str() + plain.body.find("\"data\":[") + 8)) < 1e-5);

    const auto refuses = [&](const std::string& body) {
        CAPTURE(body.substr(0, 200));
        const answer a = s.post("/v2/models/net/infer", "application/json", body);
        CHECK(a.status == 400);
        CHECK(a.body.find("{\"error\":\"") == 0);
    };
    refuses("");
    refuses("{}");
    refuses("[1]");
    refuses("{\"inputs\":[]}");
    refuses("{\"inputs\":[{\"name\":\"other\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1]}]}");
    refuses(input + "}]}");
    refuses(input + ",\"data\":[1,2,3]}]}");
    refuses(input + ",\"data\":[" + numbers + ",1]}]}");
    refuses(input + ",\"data\":\"abc\"}]}");
    refuses("{\"inputs\":[{\"name\":\"" + name + "\",\"datatype\":\"FP31\",\"shape\":[1],\"data\":[1]}]}");
    refuses("{\"inputs\":[{\"name\":\"" + name + "\",\"datatype\":\"FP32\",\"shape\":[-1],\"data\":[1]}]}");
    refuses("{\"inputs\":[{\"name\":\"" + name + "\",\"datatype\":\"FP32\",\"shape\":[1073741824,1073741824,1073741824],\"data\":[1]}]}");
    refuses("{\"inputs\":[{\"name\":\"" + name + "\",\"datatype\":\"FP32\",\"shape\":[1,1],\"data\":[1]}]}");
    refuses(input + ",\"parameters\":{\"binary_data_size\":8}}]}");
    CHECK(s.get("/healthz").status == 200);
}

TEST_CASE("serve swaps a model that changed, and keeps the old one where the new one cannot be served") {
    const made_folder folder;
    const std::string path = folder.path + "/net.onnx", bytes = file_contents(model);
    const auto write = [&](const std::string& what) {
        std::FILE* f = std::fopen((path + ".new").c_str(), "wb");
        REQUIRE(f);
        CHECK(std::fwrite(what.data(), 1, what.size(), f) == what.size());
        std::fclose(f);
        CHECK(std::rename((path + ".new").c_str(), path.c_str()) == 0);
    };
    write(bytes);
    server s({path});
    REQUIRE(s.port > 0);
    const std::string fish = file_contents(pictures + "fish-1.png"), before = top_of(s.post("/v1/predict", "image/png", fish).body);
    const auto version = [&] { return json_of(s.get("/v1/models").body, "version"); };
    const auto comes = [&](const std::string& wanted, const char* where) {
        for (const double until = seconds_now() + 20; seconds_now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(20)))
            if ((*where == 'v' ? version() : s.err()).find(wanted) != std::string::npos) return true;
        return false;
    };
    write(bytes.substr(0, bytes.size() / 2));
    s.signal(SIGHUP);
    CHECK(comes("cannot take the place of what is served", "err"));
    CHECK(version() == "1");
    CHECK(top_of(s.post("/v1/predict", "image/png", fish).body) == before);
    // A file that can be read, of which a layer's weights are not those that were learnt.
    graft::graph spoilt = graft::read_onnx_file(model).value();
    const auto kernel = std::find_if(spoilt.values.begin(), spoilt.values.end(), [](const graft::value& v) { return v.constant && v.extents.rank() == 4; });
    REQUIRE(kernel != spoilt.values.end());
    kernel->constant = graft::tensor(graft::tensor::zeros(kernel->type, kernel->extents));
    std::vector<std::uint8_t> others;
    REQUIRE(graft::write_onnx(spoilt, others).ok());
    write(std::string(others.begin(), others.end()));
    s.signal(SIGHUP);
    CHECK(comes("as its golden sample shows", "err"));
    CHECK(version() == "1");
    write(bytes);
    s.signal(SIGHUP);
    CHECK(comes("2", "version"));
    CHECK(top_of(s.post("/v1/predict", "image/png", fish).body) == before);
    const std::string metrics = s.get("/metrics").body;
    CHECK(metrics.find("graft_reloads_total{model=\"net\",done=\"false\"} 2\n") != std::string::npos);
    CHECK(metrics.find("graft_reloads_total{model=\"net\",done=\"true\"} 1\n") != std::string::npos);
    CHECK(metrics.find("graft_requests_total{path=\"/v1/predict\",status=\"200\"} 3\n") != std::string::npos);
}

TEST_CASE("serve gives each of many clients its own answer, out of batches of all sizes") {
    server s({model, "--max-batch", "5", "--threads", "2"});
    REQUIRE(s.port > 0);
    const std::string names[] = {"fish-1.png", "boat-1.png", "tree-1.png"};
    std::string bytes[3], wanted[3];
    for (int i = 0; i < 3; ++i) {
        bytes[i] = file_contents(pictures + names[i]);
        wanted[i] =
            top_of(s.post("/v1/predict?top=1", "image/png", bytes[i]).body).substr(0, 40);  // the class; the last digits of a probability differ by the batch
    }
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 12; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 40; ++i) {
                const int which = (t + i) % 3;
                const answer a = i % 4 ? s.post("/v1/predict?top=1", "image/png", bytes[which])
                                       : s.post("/v1/predict?top=1", "multipart/form-data; boundary=edge",
                                                part("image", "a", bytes[which]) + part("image", "b", bytes[which]) + "--edge--\r\n");
                right += a.status == 200 && top_of(a.body).compare(0, 40, wanted[which]) == 0;
            }
        });
    for (std::thread& t : threads) t.join();
    CHECK(right == 12 * 40);
    CHECK(s.get("/healthz").status == 200);
    CHECK(s.get("/metrics").body.find("graft_pictures_total{model=\"model\"} 603\n") != std::string::npos);
}

TEST_CASE("serve ends when it is told, after what it has begun, and says where it cannot begin") {
    server s({model, "--access-log", "-"});
    REQUIRE(s.port > 0);
    const std::string fish = file_contents(pictures + "fish-1.png");
    std::vector<answer> answers(8);
    std::vector<std::thread> threads;
    for (answer& a : answers) threads.emplace_back([&] { a = s.post("/v1/predict", "image/png", fish); });
    for (std::thread& t : threads) t.join();
    for (const answer& a : answers) CHECK(a.status == 200);
    client idle(s.port), half(s.port);
    half.send("POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length: " + std::to_string(fish.size()) + "\r\n\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    s.signal(SIGTERM);
    CHECK(idle.closed());
    half.send(fish);
    CHECK(half.receive().status == 200);
    CHECK(s.ended() == 0);
    CHECK(s.out().find("\"method\":\"POST\",\"target\":\"/v1/predict\",\"status\":200,") != std::string::npos);
    CHECK(graft_program("serve").refused("usage"));
    CHECK(graft_program("serve /nowhere.onnx --port 0").refused("file.open"));
    CHECK(graft_program("serve " + model + " " + model + " --port 0").refused("usage"));
    CHECK(graft_program("serve " + model + " --port 0 --host nowhere.invalid").refused("usage"));
}
#endif
