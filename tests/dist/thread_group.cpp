// Members of a run that are threads: their sums, and how they end.
#include <graft/dist.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

namespace {

using members = std::vector<std::shared_ptr<graft::communicator>>;

// Calls work(member) on a thread for each.
template <class Work>
void each(const members& all, const Work& work) {
    std::vector<std::thread> threads;
    for (const auto& m : all) threads.emplace_back([&work, m] { work(*m); });
    for (std::thread& t : threads) t.join();
}
float number(int member, std::int64_t i) { return std::sin(static_cast<float>(member * 1000 + 7 * i)) * std::pow(10.0f, static_cast<float>(i % 7)); }

}  // namespace

TEST_CASE("sums of members are added by the tree of their shards") {
    for (int size : {1, 2, 3, 4, 5, 8, 13}) {
        const members all = graft::make_thread_group(size);
        const std::vector<std::int64_t> counts{1, 0, 5000, 3};
        std::vector<std::vector<std::vector<float>>> data(static_cast<std::size_t>(size));
        for (int m = 0; m < size; ++m)
            for (std::size_t a = 0; a < counts.size(); ++a) {
                data[static_cast<std::size_t>(m)].emplace_back();
                for (std::int64_t i = 0; i < counts[a]; ++i) data[static_cast<std::size_t>(m)][a].push_back(number(m + 31 * static_cast<int>(a), i));
            }
        const auto before = data;
        std::vector<graft::status> outcome(static_cast<std::size_t>(size));
        each(all, [&](graft::communicator& me) {
            auto& mine = data[static_cast<std::size_t>(me.rank())];
            std::vector<const float*> in;
            std::vector<float*> out;
            for (auto& array : mine) in.push_back(array.data()), out.push_back(array.data());
            outcome[static_cast<std::size_t>(me.rank())] = me.all_reduce({in.data(), out.data(), counts.data(), static_cast<int>(counts.size())});
        });
        for (const graft::status& s : outcome) CHECK(s.ok());
        int wrong = 0;
        for (std::size_t a = 0; a < counts.size(); ++a)
            for (std::size_t i = 0; i < static_cast<std::size_t>(counts[a]); ++i) {
                const float expected = graft::join_members<float>(
                    0, size, [&](int m) { return before[static_cast<std::size_t>(m)][a][i]; }, [](float x, float y) { return x + y; });
                for (const auto& of : data) wrong += of[a][i] != expected;
            }
        CHECK(wrong == 0);
    }
}

TEST_CASE("sums for one member are those for all, and the others keep what they gave") {
    const members all = graft::make_thread_group(3);
    const std::int64_t count = 5000;
    std::vector<std::vector<float>> given(3), sums(3, std::vector<float>(static_cast<std::size_t>(count), 7.0f)), one = sums;
    for (int m = 0; m < 3; ++m)
        for (std::int64_t i = 0; i < count; ++i) given[static_cast<std::size_t>(m)].push_back(number(m, i));
    each(all, [&](graft::communicator& me) {
        const auto r = static_cast<std::size_t>(me.rank());
        const float* in = given[r].data();
        float *everybody = sums[r].data(), *single = one[r].data();
        CHECK(me.all_reduce({&in, &everybody, &count, 1}).ok());
        CHECK(me.reduce({&in, &single, &count, 1}, 1).ok());
    });
    CHECK(one[1] == sums[0]);
    for (std::size_t r : {0u, 2u}) CHECK(one[r] == std::vector<float>(static_cast<std::size_t>(count), 7.0f));
    const float* in = given[0].data();
    float* out = one[0].data();
    CHECK(all[0]->reduce({&in, &out, &count, 1}, 3).error().code() == graft::errc::usage);
    std::vector<std::string> texts(3);
    each(all, [&](graft::communicator& me) {
        const auto r = static_cast<std::size_t>(me.rank());
        const float* mine = given[r].data();
        float* to = one[r].data();
        texts[r] = me.reduce({&mine, &to, &count, 1}, me.rank() == 2 ? 0 : 1).error().what();
    });
    for (const std::string& text : texts) CHECK(text.find("names another member") != std::string::npos);
}

TEST_CASE("members' shares of a batch are branches of the tree of shards, and all of it") {
    for (int shards : {1, 2, 8, 32})
        for (int size = 1; size <= shards; ++size) {
            int next = 0;
            for (int m = 0; m < size; ++m) {
                const graft::member_shards own = graft::member_shards::of(m, size, shards);
                CHECK(own.first == next);
                CHECK(own.first % own.count == 0);
                CHECK(own.count >= graft::member_shards::least(size, shards));
                next += own.count;
            }
            CHECK(next == shards);
        }
}

TEST_CASE("gathering, giving to all, and scattered sums") {
    const members all = graft::make_thread_group(3);
    std::vector<std::string> gathered(3, std::string(6, ' ')), given{"first", "other", "third"};
    std::vector<std::vector<float>> sums(3, std::vector<float>(10, 1.5f));
    each(all, [&](graft::communicator& me) {
        const auto r = static_cast<std::size_t>(me.rank());
        const char own[2] = {static_cast<char>('a' + r), '.'};
        CHECK(me.all_gather(own, 2, &gathered[r][0]).ok());
        CHECK(me.broadcast(&given[r][0], 5, 1).ok());
        CHECK(me.reduce_scatter(sums[r].data(), 10).ok());
        CHECK(me.barrier().ok());
    });
    for (std::size_t r = 0; r < 3; ++r) {
        CHECK(gathered[r] == "a.b.c.");
        CHECK(given[r] == "other");
        for (std::int64_t i = graft::communicator::first_of(10, static_cast<int>(r), 3); i < graft::communicator::first_of(10, static_cast<int>(r) + 1, 3); ++i)
            CHECK(sums[r][static_cast<std::size_t>(i)] == 4.5f);
    }
}

TEST_CASE("members tell how long they waited for others, and what they did themselves is no waiting") {
    const members all = graft::make_thread_group(3);
    std::vector<double> waited(3);
    for (int late : {0, 2}) {
        each(all, [&](graft::communicator& me) {
            const double before = me.waited_seconds();
            if (me.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(400));
            CHECK(me.barrier().ok());
            waited[static_cast<std::size_t>(me.rank())] = me.waited_seconds() - before;
        });
        CHECK(waited[static_cast<std::size_t>(late)] < 0.2);
        for (int r : {1, 2 - late}) {
            CHECK(waited[static_cast<std::size_t>(r)] > 0.2);
            CHECK(waited[static_cast<std::size_t>(r)] < 5);
        }
    }
}

TEST_CASE("a member that does not come, leaves, or asks for something else ends the calls of all") {
    std::vector<graft::errc> codes(3);
    std::vector<std::string> texts(3);
    const auto keep = [&](const graft::communicator& me, const graft::status& s) {
        REQUIRE(!s.ok());
        codes[static_cast<std::size_t>(me.rank())] = s.error().code();
        texts[static_cast<std::size_t>(me.rank())] = s.error().what();
    };
    SUBCASE("it does not come") {
        const auto began = std::chrono::steady_clock::now();
        each(graft::make_thread_group(3, 0.2), [&](graft::communicator& me) {
            if (me.rank() != 1) keep(me, me.barrier());
        });
        CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() < 5);
        for (int r : {0, 2}) CHECK(codes[static_cast<std::size_t>(r)] == graft::errc::dist_timeout);
        CHECK(texts[0].find("member 1 did not come") != std::string::npos);
    }
    SUBCASE("it leaves") {
        each(graft::make_thread_group(3), [&](graft::communicator& me) {
            if (me.rank() == 1)
                me.leave(graft::error(graft::errc::file_open, "photo.jpg", "it is gone"));
            else
                keep(me, me.barrier());
        });
        for (int r : {0, 2}) CHECK(codes[static_cast<std::size_t>(r)] == graft::errc::dist_peer_lost);
        CHECK(texts[2].find("photo.jpg: it is gone") != std::string::npos);
    }
    SUBCASE("it asks for something else") {
        each(graft::make_thread_group(3), [&](graft::communicator& me) {
            char room[12] = {};
            keep(me, me.broadcast(room, me.rank() == 1 ? 8 : 4, 0));
        });
        for (const graft::errc code : codes) CHECK(code == graft::errc::dist_mismatch);
    }
}
