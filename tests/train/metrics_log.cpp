// metrics.jsonl: lines as they are written, and what a resumed run keeps of them.
#include "../file_contents.hpp"

#include <doctest/doctest.h>
#include <graft/train/metrics_log.hpp>

#include <cstdio>
#include <limits>
#include <string>

namespace {

struct temporary_log {
    std::string path = "graft_metrics_log.test.jsonl";
    ~temporary_log() { std::remove(path.c_str()); }
    std::string contents() const { return file_contents(path); }
    void append(const std::string& bytes) const {
        std::FILE* f = std::fopen(path.c_str(), "ab");
        REQUIRE(f);
        CHECK(std::fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size());
        std::fclose(f);
    }
};

const char *const first = "{\"step\":1,\"epoch\":0,\"split\":\"train\",\"loss\":0.5,\"lr\":0.1}\n",
                  *const second = "{\"step\":2,\"epoch\":0,\"split\":\"val\",\"loss\":null}\n", *const third = "{\"step\":3,\"epoch\":1,\"split\":\"train\"}\n";

void write_three(const std::string& path) {
    graft::metrics_log log = graft::metrics_log::open(path, -1).value();
    REQUIRE(log.append(1, 0, "train", {{"loss", 0.5}, {"lr", 0.1}}).ok());
    REQUIRE(log.append(2, 0, "val", {{"loss", std::numeric_limits<double>::quiet_NaN()}}).ok());
    REQUIRE(log.append(3, 1, "train", {}).ok());
    CHECK(log.close().ok());
    CHECK(!log.append(4, 1, "train", {}).ok());
}

}  // namespace

TEST_CASE("Metrics are JSON lines, each there as soon as it is written") {
    const temporary_log file;
    write_three(file.path);
    CHECK(file.contents() == std::string(first) + second + third);
    graft::metrics_log log = graft::metrics_log::open(file.path, -1).value();
    CHECK(file.contents().empty());
    REQUIRE(log.append(1, 0, "train", {{"loss", 0.5}, {"lr", 0.1}}).ok());
    CHECK(file.contents() == first);
}

TEST_CASE("What members of a run did is an array of their line") {
    const temporary_log file;
    graft::metrics_log log = graft::metrics_log::open(file.path, -1).value();
    REQUIRE(log.append(8, 1, "train", {{"loss", 0.5}}, {{0, "a \"b\"", 16, 4, 2, "cuda:1", 4096}, {1, "", 16, 4, 2}}).ok());
    CHECK(file.contents() == "{\"step\":8,\"epoch\":1,\"split\":\"train\",\"loss\":0.5,\"members\":["
                             "{\"rank\":0,\"host\":\"a \\\"b\\\"\",\"samples\":16,\"images_per_s\":8,\"busy_seconds\":2,\"waiting_share\":0.5,"
                             "\"device\":\"cuda:1\",\"bytes\":4096},"
                             "{\"rank\":1,\"samples\":16,\"images_per_s\":8,\"busy_seconds\":2,\"waiting_share\":0.5}],\"scaling\":["
                             "{\"members\":1,\"kind\":\"predicted\",\"images_per_s\":[8,8],\"efficiency\":[1,1]},"
                             "{\"members\":2,\"kind\":\"measured\",\"images_per_s\":[8,8],\"efficiency\":[0.5,0.5]},"
                             "{\"members\":4,\"kind\":\"predicted\",\"images_per_s\":[8,12.8],\"efficiency\":[0.25,0.4]},"
                             "{\"members\":8,\"kind\":\"predicted\",\"images_per_s\":[8,23.272727272727273],\"efficiency\":[0.125,0.36363636363636365]}]}\n");
}

TEST_CASE("What stages did is an array of their line, null where it was not measured") {
    const temporary_log file;
    graft::metrics_log log = graft::metrics_log::open(file.path, -1).value();
    REQUIRE(log.append(8, 1, "train", {}, {}, {{"cpu:0", 4, 3, 100}, {"cuda:0", 4, -1, 200}}).ok());
    CHECK(file.contents() == "{\"step\":8,\"epoch\":1,\"split\":\"train\",\"stages\":["
                             "{\"device\":\"cpu:0\",\"busy_seconds\":3,\"waiting_share\":0.25,\"bytes\":100},"
                             "{\"device\":\"cuda:0\",\"busy_seconds\":null,\"waiting_share\":null,\"bytes\":200}]}\n");
}

TEST_CASE("A run that resumes keeps the lines up to its checkpoint, and no broken one") {
    for (const int step : {0, 1, 2, 3, 100}) {
        const temporary_log file;
        write_three(file.path);
        file.append("{\"step\":4,\"ep");  // killed while writing
        graft::metrics_log log = graft::metrics_log::open(file.path, step).value();
        std::string want;
        if (step >= 1) want += first;
        if (step >= 2) want += second;
        if (step >= 3) want += third;
        CHECK(file.contents() == want);
        REQUIRE(log.append(step + 1, 1, "train", {}).ok());
        CHECK(file.contents().size() > want.size());
    }
    const temporary_log absent;
    CHECK(graft::metrics_log::open(absent.path, 7).ok());
}

TEST_CASE("A log that cannot be written says so") {
    auto log = graft::metrics_log::open("absent_folder/metrics.jsonl", -1);
    REQUIRE(!log.ok());
    CHECK(log.error().code() == graft::errc::file_write);
    CHECK(log.error().where() == "absent_folder/metrics.jsonl");
}
