// Jobs that several workers do at once: their order, who does them, what workers see ahead, and errors.
#include <graft/core/ordered_jobs.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <set>

namespace {

struct job {
    int number = 0;
    int done_by = -1;
};

// Takes longer for some jobs than for others, and fails at those of `bad`.
class worker {
public:
    worker(int number, bool ahead, std::set<int> bad, std::atomic<int>* at_work) : number_(number), ahead_(ahead), bad_(std::move(bad)), at_work_(at_work) {}
    bool looks_ahead() const { return ahead_; }
    graft::status work(job& j, const job* coming) {
        ++*at_work_;
        if (!ahead_ && coming) return graft::fail(graft::errc::internal, "worker", "it did not want to look ahead");
        if (expected_ >= 0 && expected_ != j.number) return graft::fail(graft::errc::internal, "worker", "another job came than it was told of");
        expected_ = coming ? coming->number : -1;
        std::this_thread::sleep_for(std::chrono::microseconds((j.number * 7919 + number_ * 104729) % 900));
        j.done_by = number_;
        --*at_work_;
        return bad_.count(j.number) ? graft::fail(graft::errc::usage, "worker", std::to_string(j.number)) : graft::status();
    }

private:
    int number_;
    bool ahead_;
    std::set<int> bad_;
    std::atomic<int>* at_work_;
    int expected_ = -1;
};

using jobs = graft::detail::ordered_jobs<job, worker>;

std::vector<std::unique_ptr<worker>> workers(int count, bool ahead, const std::set<int>& bad, std::atomic<int>* at_work) {
    std::vector<std::unique_ptr<worker>> all;
    for (int i = 0; i < count; ++i) all.push_back(std::make_unique<worker>(i, ahead, bad, at_work));
    return all;
}

}  // namespace

TEST_CASE("jobs come back in their order, whoever does them") {
    for (const int count : {1, 2, 5})
        for (const bool ahead : {false, true}) {
            std::atomic<int> at_work{0};
            jobs all(workers(count, ahead, {}, &at_work), 3);
            REQUIRE(all.start().ok());
            std::set<int> by;
            for (int given = 0, taken = 0; taken < 200; ++taken) {
                while (given < 200 && !all.full()) all.give({given++, -1});
                CHECK(given - taken <= count + 3);
                job j;
                REQUIRE(all.take(j).ok());
                CHECK(j.number == taken);
                by.insert(j.done_by);
            }
            CHECK(all.empty());
            CHECK((by.size() > 1) == (count > 1));
        }
}

TEST_CASE("the earliest error is told behind the jobs before it, and the rest is not begun") {
    for (const int count : {1, 2, 5})
        for (const bool ahead : {false, true})
            for (int round = 0; round < 20; ++round) {
                std::atomic<int> at_work{0};
                jobs all(workers(count, ahead, {6, 7, 9}, &at_work), 20);
                REQUIRE(all.start().ok());
                for (int i = 0; i < 20; ++i) all.give({i, -1});
                job j;
                for (int i = 0; i < 6; ++i) {
                    REQUIRE(all.take(j).ok());
                    CHECK(j.number == i);
                }
                for (int i = 0; i < 2; ++i) {
                    const graft::status failed = all.take(j);
                    REQUIRE(!failed.ok());
                    CHECK(failed.error().detail() == "6");
                }
            }
}

TEST_CASE("jobs that nobody takes are left when their holder goes, and those at work are done") {
    std::atomic<int> at_work{0};
    for (int round = 0; round < 50; ++round) {
        jobs all(workers(3, round % 2 == 0, {}, &at_work), 9);
        REQUIRE(all.start().ok());
        for (int i = 0; i < 12; ++i) all.give({i, -1});
    }
    CHECK(at_work == 0);
    jobs none(workers(2, false, {}, &at_work), 0);
    job j;
    CHECK(none.take(j).error().code() == graft::errc::usage);
}
