// What a machine can do at most: the measuring kernels compute what they say, and the meter counts what they did.
#include "sets.hpp"

#include <graft/cpu/peak.hpp>
#include <graft/cpu/peak_dispatch.hpp>

#include <cmath>
#include <new>
#include <vector>

TEST_CASE("chains of products and sums are those of a plain loop, on every instruction set") {
    kernel_test::on_every_isa([](graft::cpu::isa set) {
        const graft::cpu::peak_kernels& k = graft::cpu::measuring_kernels(set);
        REQUIRE(k.chain_floats > 0);
        REQUIRE(k.chain_floats <= graft::cpu::most_chain_floats);
        std::vector<float> start(graft::cpu::most_chain_floats);
        for (std::size_t i = 0; i < start.size(); ++i) start[i] = 1 + static_cast<float>(i % 13) - 6;
        for (const std::int64_t rounds : {0, 1, 3, 7}) {
            double want = 0;
            for (int i = 0; i < k.chain_floats; ++i) {
                double x = static_cast<double>(start[static_cast<std::size_t>(i)]);
                for (std::int64_t r = 0; r < rounds; ++r) x = x * 0.5 + 0.5;
                want += x;
            }
            CHECK(static_cast<double>(k.multiply_add(start.data(), rounds)) == doctest::Approx(want).epsilon(1e-5));
        }
    });
}

TEST_CASE("a read adds up all that it was given, on every instruction set") {
    kernel_test::on_every_isa([](graft::cpu::isa set) {
        const graft::cpu::peak_kernels& k = graft::cpu::measuring_kernels(set);
        for (const std::int64_t n : {0, 1, 2, 5}) {
            const std::int64_t floats = n * graft::cpu::most_chain_floats;
            std::vector<float> from(static_cast<std::size_t>(floats) + 1, 1e9f);  // what stands behind the last is not read
            double want = 0;
            for (std::int64_t i = 0; i < floats; ++i) {
                from[static_cast<std::size_t>(i)] = static_cast<float>(i % 7) / 4;
                want += static_cast<double>(from[static_cast<std::size_t>(i)]);
            }
            CHECK(static_cast<double>(k.read(from.data(), floats)) == doctest::Approx(want));
        }
    });
}

TEST_CASE("a meter keeps the fastest of its pieces") {
    graft::pool_executor pool(2);
    kernel_test::on_every_isa([&](graft::cpu::isa set) {
        auto made = graft::cpu::peak_meter::make(set, pool);
        REQUIRE(made.ok());
        graft::cpu::peak_meter meter = std::move(made).value();
        CHECK(meter.best().flop_per_second == 0);
        CHECK(meter.best().read_per_second == 0);
        graft::cpu::machine_peak before;
        for (int piece = 0; piece < 2; ++piece) {
            meter.measure();
            const graft::cpu::machine_peak now = meter.best();
            CHECK(now.level == set);
            CHECK(now.threads == 2);
            CHECK((std::isfinite(now.flop_per_second) && now.flop_per_second > 0));
            CHECK((std::isfinite(now.read_per_second) && now.read_per_second > 0));
            CHECK(now.flop_per_second >= before.flop_per_second);
            CHECK(now.read_per_second >= before.read_per_second);
            before = now;
        }
    });
}

TEST_CASE("a meter needs memory, and says where there is none") {
    // An executor of an app that throws: nothing of it comes out of the library.
    struct throwing final : graft::executor {
        int threads() const noexcept override { return 2; }
        void run(std::int64_t, void (*)(void*, std::int64_t), void*) override {
#if defined(__cpp_exceptions)
            throw std::bad_alloc();
#endif
        }
    } pool;
#if defined(__cpp_exceptions)
    auto made = graft::cpu::peak_meter::make(graft::cpu::isa::baseline, pool);
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::memory_oom);
#else
    CHECK(pool.threads() == 2);
#endif
}
