// What members of a run did, in figures worked out by hand.
#include <doctest/doctest.h>
#include <graft/train/member_record.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using records = std::vector<graft::member_record>;

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("Paces, waiting and efficiency of members are those of the arithmetic") {
    // One works all of ten seconds, the other half of them.
    const records two{{0, "a", 100, 10, 0}, {1, "b", 100, 10, 5}};
    CHECK(two[0].images_per_s() == 10);
    CHECK(two[1].images_per_s() == 20);
    CHECK(two[1].busy_seconds() == 5);
    CHECK(two[1].waiting_share() == 0.5);
    CHECK(graft::waiting_share(two) == 0.25);
    CHECK(graft::unhindered_images_per_s(two) == 30);
    CHECK(graft::reached_images_per_s(two) == 20);
    CHECK(graft::scaling_efficiency(two) == doctest::Approx(2.0 / 3));
    // Alike, and a tenth of the time goes into waiting.
    CHECK(graft::scaling_efficiency({{0, "", 50, 20, 2}, {1, "", 50, 20, 2}}) == doctest::Approx(0.9));
    CHECK(graft::waiting_share({{0, "", 50, 20, 2}, {1, "", 50, 20, 2}}) == doctest::Approx(0.1));

    CHECK(graft::scaling_efficiency({}) == 0);
    CHECK(graft::waiting_share({}) == 0);
    const graft::member_record nothing{0, "", 0, 0, 0}, waited_all{0, "", 0, 3, 4};
    CHECK(nothing.images_per_s() + nothing.waiting_share() + nothing.busy_seconds() == 0);
    CHECK(waited_all.waiting_share() == 1);
    CHECK(waited_all.images_per_s() == 0);

    records sum;
    graft::add_members(sum, two);
    graft::add_members(sum, two);
    CHECK(sum[1].samples == 200);
    CHECK(sum[1].seconds == 20);
    CHECK(sum[1].waited == 10);
    CHECK(graft::member_name(two[1]) == "rank 1 (host b)");
    CHECK(graft::member_name(nothing) == "replica 0");
}

TEST_CASE("A straggler works 1.3 times as long as the others, and longer by a second") {
    const auto of = [](std::vector<double> work, std::vector<std::int64_t> samples = {}) {
        records all;
        for (std::size_t i = 0; i < work.size(); ++i)
            all.push_back({static_cast<int>(i), "h" + std::to_string(i), samples.empty() ? 10 : samples[i], 100, 100 - work[i]});
        return all;
    };
    CHECK(graft::find_straggler(of({50})).rank == -1);
    CHECK(graft::find_straggler(of({10, 12.9})).rank == -1);
    CHECK(graft::find_straggler(of({10, 13.1})).rank == 1);
    CHECK(graft::find_straggler(of({0.4, 1.3})).rank == -1);  // what is over in a moment tells nothing
    CHECK(graft::find_straggler(of({0.25, 1.5})).rank == 1);
    CHECK(graft::find_straggler(of({10, 10, 10, 18})).rank == 3);
    CHECK(graft::find_straggler(of({10, 10, 10, 18})).times == doctest::Approx(1.8));
    CHECK(graft::find_straggler(of({20, 20, 5, 20})).rank == -1);  // one that is faster holds up nobody
    CHECK(graft::straggler_text(of({10, 11})).empty());

    const std::string slow = graft::straggler_text(of({10, 10, 10, 18}));
    CHECK(contains(slow, "rank 3 (host h3) takes 1.8 times as long as the others: 18.0 s of its own work, they 10.0 s"));
    CHECK(contains(slow, "something else running"));
    // Three members of eight shards: one has half of them, and needs twice the time for it.
    const std::string uneven = graft::straggler_text(of({20, 10, 10}, {40, 20, 20}));
    CHECK(contains(uneven, "rank 0 (host h0) takes 2.0 times"));
    CHECK(contains(uneven, "It has 40 of 80 samples"));
    CHECK(!contains(graft::straggler_text(of({40, 10, 10}, {40, 20, 20})), "It has"));
    CHECK(contains(graft::straggler_text(of({0, 10})), "over a hundred times"));
}

TEST_CASE("More members, or fewer, are predicted as bench/scaling does: by the ends of its model that are all bytes and all messages") {
    // bench/scaling --step-ms 100 --batch 8 --gradients 40MB --latency-us 0.000001 --bandwidth 1GB/s --devices 1,2,4,8,16 --algorithms ring --json, and
    // --gradients 1MB --latency-us 10000 --bandwidth 1000000GB/s: both of them 160 ms with four devices.
    struct told {
        int members;
        double bytes_efficiency, bytes_pace, messages_efficiency, messages_pace;
    };
    const told script[] = {{1, 1, 80, 1, 80},
                           {2, 1 / 1.4, 114.2857142857, 1 / 1.2, 133.3333333333},
                           {4, 0.625, 200, 0.625, 200},
                           {8, 0.5882352941, 376.4705882353, 0.4166666667, 266.6666666667},
                           {16, 0.5714285714, 731.4285714286, 0.25, 320}};
    records four;
    for (int r = 0; r < 4; ++r) four.push_back({r, "", 80, 1.6, 0.6});  // ten steps of 8 samples and 160 ms, 60 ms of them waiting
    const std::vector<graft::scaling_row> rows = graft::scaling_table(four);
    REQUIRE(rows.size() == 5);
    for (std::size_t i = 0; i < 5; ++i) {
        const told& t = script[i];
        CAPTURE(t.members);
        CHECK(rows[i].members == t.members);
        CHECK(rows[i].measured == (t.members == 4));
        CHECK(rows[i].least_efficiency == doctest::Approx(std::min(t.bytes_efficiency, t.messages_efficiency)).epsilon(1e-6));
        CHECK(rows[i].most_efficiency == doctest::Approx(std::max(t.bytes_efficiency, t.messages_efficiency)).epsilon(1e-6));
        CHECK(rows[i].least_images_per_s == doctest::Approx(std::min(t.bytes_pace, t.messages_pace)).epsilon(1e-6));
        CHECK(rows[i].most_images_per_s == doctest::Approx(std::max(t.bytes_pace, t.messages_pace)).epsilon(1e-6));
    }
    // The line of this run is what it measured, also where members are unlike and no power of two.
    const records three{{0, "a", 200, 10, 0}, {1, "b", 100, 10, 5}, {2, "c", 100, 10, 2}};
    bool there = false;
    for (const graft::scaling_row& r : graft::scaling_table(three)) {
        if (r.members != 3) CHECK(!r.measured);
        if (r.members != 3) continue;
        there = true;
        CHECK(r.measured);
        CHECK(r.least_images_per_s == doctest::Approx(graft::reached_images_per_s(three)));
        CHECK(r.most_efficiency == doctest::Approx(graft::scaling_efficiency(three)));
    }
    CHECK(there);
    CHECK(graft::scaling_table({}).empty());
    CHECK(graft::scaling_table({{0, "", 10, 1, 0}}).empty());
    CHECK(graft::scaling_table({{0, "", 0, 1, 1}, {1, "", 0, 1, 1}}).empty());
}

TEST_CASE("What stages did adds up, and what one of them does not measure stays unknown") {
    std::vector<graft::stage_record> sum;
    graft::add_stages(sum, {{"cpu:0", 10, 4, 100}, {"cuda:0", 10, -1, 200}});
    graft::add_stages(sum, {{"cpu:0", 10, 8, 150}, {"cuda:0", 10, -1, 200}});
    REQUIRE(sum.size() == 2);
    CHECK(sum[0].busy == 12);
    CHECK(sum[0].seconds == 20);
    CHECK(sum[0].bytes == 150);
    CHECK(sum[0].waiting_share() == doctest::Approx(0.4));
    CHECK(sum[1].busy < 0);
    CHECK(sum[1].waiting_share() < 0);
}
