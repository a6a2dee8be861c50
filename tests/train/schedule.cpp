// Schedules: every rate against torch.optim.lr_scheduler; their texts; plateaus, early stopping, the rate finder and the batch finder.
#include <doctest/doctest.h>
#include <graft/train/schedule.hpp>
#include <graft/train/search.hpp>

#include "golden_metrics.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

TEST_CASE("Every schedule gives the rates of torch's, step for step") {
    for (const golden_schedule& golden : golden_schedules()) {
        CAPTURE(golden.text);
        const graft::schedule s = graft::parse_schedule(golden.text).value();
        const auto total = static_cast<std::int64_t>(golden.rates.size());
        graft::plateau_state state;
        state.rate = 0.1;
        for (std::int64_t i = 0; i < total; ++i) {
            CAPTURE(i);
            const double rate = graft::learning_rate(s, 0.1, {i, total, i / golden.steps_per_epoch}, &state);
            CHECK(rate == doctest::Approx(golden.rates[static_cast<std::size_t>(i)]).epsilon(1e-9));
            if (s.kind != graft::schedule_kind::plateau) continue;
            graft::update_plateau(s, state, golden_plateau_losses()[static_cast<std::size_t>(i)]);
            state = graft::parse_plateau_state(graft::text(state)).value();
        }
    }
}

TEST_CASE("A schedule's text reads back as the same schedule") {
    for (const char* text :
         {"constant", "constant,warmup=100", "step=10:0.1", "multistep=30/60/90:0.2", "cosine", "cosine,warmup=0.05", "cosine,minimum=1e-06,warmup=500",
          "onecycle=0.01:0.3", "onecycle=0:0.4,start_divisor=10,end_divisor=100", "plateau=0.1:3", "plateau=0.5:0,minimum=1e-05,cooldown=2,threshold=0.01"})
        CHECK(graft::text(graft::parse_schedule(text).value()) == text);
    CHECK(graft::text(graft::parse_schedule("step").value()) == "step=10:0.1");
    CHECK(graft::text(graft::parse_schedule("cosine=.001").value()) == "cosine,minimum=0.001");
    CHECK(graft::text(graft::parse_schedule("plateau").value()) == "plateau=0.1:10");
}

TEST_CASE("A wrong schedule is refused with the item that is wrong") {
    const char* wrong[][2] = {{"", "''"},
                              {"linear", "'linear'"},
                              {"cosine=x", "'cosine=x'"},
                              {"cosine=", "'cosine='"},
                              {"cosine,warmup", "'warmup'"},
                              {"cosine,warmup=-1", "'warmup=-1'"},
                              {"cosine,warmup=2.5", "'warmup=2.5'"},
                              {"cosine,warmup=nan", "'warmup=nan'"},
                              {"cosine,cooldown=1", "'cooldown=1'"},
                              {"cosine=1:2", "'cosine=1:2'"},
                              {"constant=1", "'constant=1'"},
                              {"step=0:0.1", "'step=0:0.1'"},
                              {"step=1.5", "'step=1.5'"},
                              {"step=10:2", "'step=10:2'"},
                              {"step=10:", "'step=10:'"},
                              {"multistep", "'multistep'"},
                              {"multistep=5/3", "'multistep=5/3'"},
                              {"multistep=/3", "'multistep=/3'"},
                              {"onecycle=0.1:1.5", "'onecycle=0.1:1.5'"},
                              {"onecycle,start_divisor=0", "'start_divisor=0'"},
                              {"plateau=1:3", "'plateau=1:3'"},
                              {"plateau=0.1:-1", "'plateau=0.1:-1'"},
                              {"plateau,threshold=2", "'threshold=2'"},
                              {"cosine,,warmup=1", "''"},
                              {"cosine,colour=red", "'colour=red'"}};
    for (const auto& w : wrong) {
        CAPTURE(w[0]);
        const auto s = graft::parse_schedule(w[0]);
        REQUIRE(!s.ok());
        CHECK(s.error().code() == graft::errc::usage);
        CHECK(s.error().where() == std::string("schedule item ") + w[1]);
    }
}

TEST_CASE("Warm-up goes before every schedule, and short runs have a rate too") {
    for (const char* text : {"constant", "step=1:0.5", "multistep=1:0.5", "cosine", "onecycle=0.2", "plateau"}) {
        CAPTURE(text);
        graft::schedule s = graft::parse_schedule(text).value();
        const double first = graft::learning_rate(s, 0.1, {0, 1000, 0});
        s.warmup = 4;
        for (int i = 0; i < 4; ++i) CHECK(graft::learning_rate(s, 0.1, {i, 1000, 0}) == doctest::Approx(first * (i + 1) / 4));
        for (const double warmup : {0.0, 0.5, 1.0, 7.0})
            for (int total = 0; total < 5; ++total)
                for (int i = 0; i <= total + 1; ++i) {
                    s.warmup = warmup;
                    const double rate = graft::learning_rate(s, 0.1, {i, total, i});
                    CHECK(std::isfinite(rate));
                    CHECK(rate >= 0);
                }
    }
}

TEST_CASE("The state of a plateau survives its text, and a broken text is refused") {
    graft::plateau_state fresh;
    fresh.rate = 0.1;
    const auto back = graft::parse_plateau_state(graft::text(fresh)).value();
    CHECK(back.rate == 0.1);
    CHECK(std::isinf(back.best));
    for (const char* wrong : {"", "{}", "[]", "{\"rate\":1}", "{\"rate\":\"1\",\"best\":1,\"bad_epochs\":0,\"cooldown_left\":0}",
                              "{\"rate\":1,\"best\":1,\"bad_epochs\":0.5,\"cooldown_left\":0}"})
        CHECK(!graft::parse_plateau_state(wrong).ok());
}

TEST_CASE("Early stopping waits as long as it was told") {
    graft::early_stopping stop;
    stop.patience = 2;
    stop.min_delta = 0.1;
    CHECK(!stop.update(1.0));
    CHECK(!stop.update(0.95));  // not better by enough
    CHECK(!stop.update(0.8));
    CHECK(stop.bad_epochs == 0);
    CHECK(!stop.update(std::numeric_limits<double>::quiet_NaN()));
    CHECK(stop.update(0.75));
    CHECK(stop.best == 0.8);

    graft::early_stopping accuracy;
    accuracy.patience = 1;
    accuracy.larger_is_better = true;
    CHECK(!accuracy.update(0.5));
    CHECK(!accuracy.update(0.6));
    CHECK(accuracy.update(0.6));

    graft::early_stopping never;
    for (int i = 0; i < 100; ++i) CHECK(!never.update(1));
}

TEST_CASE("The rate finder stops where the loss explodes and suggests where it falls most steeply") {
    const golden_finder& golden = golden_rate_finder();
    graft::rate_finder finder(1e-6, 10, 100);
    CHECK(finder.rate(0) == doctest::Approx(1e-6));
    CHECK(finder.rate(99) == doctest::Approx(10));
    int seen = 0;
    for (const double loss : golden.losses) {
        ++seen;
        if (!finder.add(loss)) break;
    }
    CHECK(seen == golden.seen);
    CHECK(finder.smoothed().back() == doctest::Approx(golden.last_smoothed).epsilon(1e-9));
    CHECK(finder.suggestion() == doctest::Approx(golden.suggestion).epsilon(1e-9));
    graft::rate_finder rising(1e-3, 1, 10);
    for (int i = 0; i < 5; ++i) CHECK(rising.add(1 + i * 0.1));
    CHECK(rising.suggestion() == 0);
    CHECK(!rising.add(std::numeric_limits<double>::infinity()));
    // Behind the explosion the loss may fall more steeply than it did when it learnt.
    graft::rate_finder wild(1e-6, 10, 100);
    for (int i = 0; i < 80; ++i) CHECK(wild.add(i < 60 ? 2 - 0.01 * i : 1.4));
    for (const double loss : {30.0, 30.0, 30.0, 0.0, 0.0}) CHECK(wild.add(loss));
    CHECK(wild.suggestion() > 0);
    CHECK(wild.suggestion() < wild.rate(80));
}

namespace {

// The batch that is found where throughput is what a function says; 0 stands for a batch that does not fit.
template <class Throughput>
std::pair<std::int64_t, std::vector<std::int64_t>> found_batch(std::int64_t most, Throughput throughput) {
    graft::batch_finder finder(most);
    std::vector<std::int64_t> tried;
    while (const std::int64_t batch = finder.next()) {
        tried.push_back(batch);
        finder.add(throughput(static_cast<double>(batch)));
        REQUIRE(tried.size() < 30);
    }
    return {finder.best(), tried};
}
using sizes = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("the batch finder doubles while that pays, and stays below what does not fit") {
    auto found = found_batch(1 << 16, [](double b) { return b / (b + 100); });  // from 2048 to 4096 it rises by 2.4 %
    CHECK(found.second == sizes{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096});
    CHECK(found.first == 2048);
    found = found_batch(1 << 16, [](double b) { return b <= 64 ? b : 0; });
    CHECK(found.first == 64);
    CHECK(found.second == sizes{8, 16, 32, 64, 128});
    found = found_batch(1 << 16, [](double) { return 5.0; });
    CHECK(found.first == 8);
    CHECK(found.second == sizes{8, 16});
    found = found_batch(1 << 16, [](double b) { return b <= 2 ? b : 0; });
    CHECK(found.first == 2);
    CHECK(found.second == sizes{8, 4, 2});
    found = found_batch(1 << 16, [](double) { return 0.0; });
    CHECK(found.first == 0);
    CHECK(found.second == sizes{8, 4, 2, 1});
}

TEST_CASE("the batch finder takes no batch over what there is use for, and ends when it is stopped") {
    const auto always_better = [](double b) { return b; };
    CHECK(found_batch(40, always_better).first == 32);
    CHECK(found_batch(8, always_better).second == sizes{8});
    CHECK(found_batch(5, always_better).second == sizes{4});
    CHECK(found_batch(0, always_better).second == sizes{1});
    graft::batch_finder finder(1 << 16);
    finder.add(10);
    CHECK(finder.next() == 16);
    finder.stop();
    CHECK(finder.next() == 0);
    CHECK(finder.best() == 8);
    CHECK(finder.trials().size() == 1);
}
