// Shared memory: bytes that lie in a file at any address, and what asking for them costs.
#include <graft/core/buffer.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

using graft::buffer;

namespace {

std::vector<std::pair<const void*, std::size_t>> let_go;
void note(const void* bytes, std::size_t size) { let_go.emplace_back(bytes, size); }

// Bytes 0, 1, 2, ... that begin one behind an aligned address, or at one.
struct lent {
    std::shared_ptr<std::vector<unsigned char>> memory = std::make_shared<std::vector<unsigned char>>(4096);
    const unsigned char* bytes;
    buffer shared;
    explicit lent(bool aligned) {
        unsigned char* at = memory->data();
        while (reinterpret_cast<std::uintptr_t>(at) % 64) ++at;
        bytes = at += aligned ? 0 : 1;
        for (int i = 0; i < 1000; ++i) at[i] = static_cast<unsigned char>(i);
        shared = buffer::lend(bytes, 1000, aligned, memory, note).value();
        let_go.clear();
    }
};

}  // namespace

TEST_CASE("unaligned bytes are copied for who asks for them aligned, once for all who share them") {
    lent there(false);
    const buffer other = there.shared;
    CHECK(there.shared);
    CHECK(there.shared.allocated());
    CHECK(there.shared.at_hand() == nullptr);
    CHECK(static_cast<const void*>(there.shared.unaligned()) == there.bytes);
    CHECK(let_go.empty());

    std::vector<std::byte*> seen(8);
    std::vector<std::thread> threads;
    for (std::byte*& s : seen) threads.emplace_back([&] { s = (&s - seen.data()) % 2 ? there.shared.data() : other.data(); });
    for (std::thread& t : threads) t.join();
    for (std::byte* s : seen) CHECK(s == seen[0]);
    CHECK(reinterpret_cast<std::uintptr_t>(seen[0]) % 64 == 0);
    CHECK(std::memcmp(seen[0], there.bytes, 1000) == 0);
    CHECK(other.at_hand() == seen[0]);
    REQUIRE(let_go.size() == 1);
    CHECK(let_go[0] == std::make_pair(static_cast<const void*>(there.bytes), std::size_t(1000)));
}

TEST_CASE("what is read once leaves no copy behind") {
    lent there(false);
    {
        const buffer part = there.shared.to_read_once(8, 100).value();
        CHECK(part.bytes() == 100);
        CHECK(reinterpret_cast<std::uintptr_t>(part.data()) % 64 == 0);
        CHECK(std::memcmp(part.data(), there.bytes + 8, 100) == 0);
        REQUIRE(let_go.size() == 1);
        CHECK(let_go[0] == std::make_pair(static_cast<const void*>(there.bytes + 8), std::size_t(100)));
    }
    CHECK(there.shared.at_hand() == nullptr);
    CHECK(there.memory.use_count() == 2);

    const std::byte* const kept = there.shared.data();
    CHECK(there.shared.to_read_once(8, 100).value().data() == kept + 8);  // the copy is there already
}

TEST_CASE("lent bytes that lie aligned are given as they are, and let go of once they were read") {
    lent there(true);
    CHECK_FALSE(there.shared.allocated());
    CHECK(static_cast<const void*>(there.shared.data()) == there.bytes);
    CHECK(static_cast<const void*>(there.shared.at_hand()) == there.bytes);
    {
        const buffer part = there.shared.to_read_once(64, 10).value();
        CHECK(static_cast<const void*>(part.data()) == there.bytes + 64);
        CHECK(let_go.empty());
    }
    REQUIRE(let_go.size() == 1);
    CHECK(let_go[0] == std::make_pair(static_cast<const void*>(there.bytes + 64), std::size_t(10)));
}

TEST_CASE("lent bytes keep their owner and are known again") {
    lent there(false);
    buffer::watch watch(there.shared);
    CHECK(watch.watches(there.shared));
    lent second(false);
    CHECK_FALSE(watch.watches(second.shared));
    CHECK(watch.hold().unaligned() == there.shared.unaligned());
    there.shared = buffer();
    CHECK(watch.gone());
    CHECK_FALSE(watch.hold());
    CHECK(there.memory.use_count() == 1);
}

namespace {
struct counting final : buffer::maker {
    std::atomic<int>* made;
    bool fails;
    counting(std::atomic<int>* count, bool failing) : made(count), fails(failing) {}
    graft::result<buffer> make() const override {
        ++*made;
        if (fails) return graft::fail(graft::errc::memory_budget, "here", "no room");
        auto b = buffer::allocate(100);
        if (b.ok()) std::memset(b->data(), 7, 100);
        return b;
    }
};
}  // namespace

TEST_CASE("bytes on demand are made by the first who asks, once for all who share them") {
    std::atomic<int> made{0};
    const buffer b = buffer::on_demand(100, std::make_unique<counting>(&made, false)).value(), other = b;
    CHECK(b);
    CHECK(b.bytes() == 100);
    CHECK(b.allocated());
    CHECK(b.at_hand() == nullptr);
    const buffer::watch known(b);
    CHECK(known.watches(other));
    CHECK(made == 0);

    std::vector<const std::byte*> seen(8);
    std::vector<std::thread> threads;
    for (const std::byte*& s : seen)
        threads.emplace_back([&] {
            const auto i = &s - seen.data();
            s = i % 3 == 0 ? b.data() : i % 3 == 1 ? other.unaligned() : other.to_read_once(0, 100).value().data();
        });
    for (std::thread& t : threads) t.join();
    CHECK(made == 1);
    for (const std::byte* s : seen) CHECK(s == seen[0]);
    CHECK(seen[0][99] == std::byte(7));
    CHECK(b.to_read_once(40, 10).value().data() == seen[0] + 40);
    CHECK(known.watches(b));
}

TEST_CASE("bytes that cannot be made say why, and may be asked for again") {
    std::atomic<int> made{0};
    const buffer b = buffer::on_demand(100, std::make_unique<counting>(&made, true)).value();
    for (int i = 1; i <= 2; ++i) {
        const auto got = b.to_read_once(0, 100);
        REQUIRE(!got.ok());
        CHECK(got.error().code() == graft::errc::memory_budget);
        CHECK(made == i);
    }
#ifndef GRAFT_NO_EXCEPTIONS
    CHECK_THROWS_AS((void)b.data(), std::bad_alloc);
#endif
}

TEST_CASE("memory that others have let go of may be written without further ado") {
    // What the thread sanitizer has to say is the test: it sees best what is read and written by words.
    const auto words = [](const buffer& b) { return reinterpret_cast<std::int64_t*>(b.data()); };
    buffer mine = buffer::allocate(64).value();
    std::memset(mine.data(), 0, 64);
    for (int round = 1; round <= 20; ++round) {
        std::int64_t sum = 0;
        std::thread other([&sum, &words, theirs = mine]() mutable {
            for (int i = 0; i < 8; ++i) sum += words(theirs)[i];
            theirs = buffer();
            // That the thread ends must not be what says that it has read.
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        });
        while (!mine.unique()) std::this_thread::yield();
        for (int i = 0; i < 8; ++i) words(mine)[i] = round;
        other.join();
        CHECK(sum == 8 * (round - 1));
    }
}

TEST_CASE("parts of a slab are counted one by one, and each lives as long as somebody holds it") {
    constexpr std::size_t part = 300000;
    const auto budget = std::make_shared<graft::memory_budget>(1 << 20);
    auto slab = std::make_unique<buffer::slab>();
    REQUIRE(slab->allocate(std::size_t(8) << 20, nullptr).ok());  // behind which parts share
    std::vector<buffer> parts;
    for (int i = 0; i < 3; ++i) {
        parts.push_back(slab->allocate(part, budget).value());
        CHECK(parts.back().bytes() == part);
        CHECK(parts.back().allocated());
        CHECK(parts.back().unique());
        CHECK(reinterpret_cast<std::uintptr_t>(parts.back().data()) % buffer::alignment == 0);
        std::memset(parts.back().data(), i, part);
    }
    // They lie behind each other, a line of slack between them.
    CHECK(parts[1].data() - parts[0].data() >= static_cast<std::ptrdiff_t>(part + buffer::alignment));
    CHECK(parts[1].data() - parts[0].data() < static_cast<std::ptrdiff_t>(part + 3 * buffer::alignment));
    CHECK(budget->taken() == std::int64_t(3 * part));
    const auto none = slab->allocate(part, budget);
    REQUIRE(!none.ok());
    CHECK(none.error().code() == graft::errc::memory_budget);

    const buffer::watch first(parts[0]), second(parts[1]);
    parts.erase(parts.begin());
    CHECK(budget->taken() == std::int64_t(2 * part));
    CHECK(first.gone());
    CHECK(!second.gone());
    slab.reset();
    CHECK(parts[0].data()[part - 1] == std::byte(1));
    CHECK(parts[1].data()[0] == std::byte(2));
}

TEST_CASE("a slab shares neither what is small nor what has huge pages of its own") {
    buffer::slab slab;
    const buffer large = slab.allocate(std::size_t(20) << 20, nullptr).value(), small = slab.allocate(1000, nullptr).value();
    CHECK(large.bytes() == std::size_t(20) << 20);
    CHECK(small.bytes() == 1000);
    // Four pages of two megabytes hold thirteen of these.
    std::vector<buffer> parts;
    for (int i = 0; i < 16; ++i) {
        parts.push_back(slab.allocate(600000, nullptr).value());
        std::memset(parts.back().data(), i, parts.back().bytes());
    }
    for (int i = 0; i < 16; ++i) CHECK(parts[static_cast<std::size_t>(i)].data()[parts[0].bytes() - 1] == std::byte(i));
}
