// What the communicator over MPI does, among the processes that mpirun started: tests/dist/mpi/run starts it in all its modes.
//   check MODE FOLDER      writes FOLDER/MODE.RANK where all was as it should be; says what was not, and exits with 1
#include <graft/dist/mpi.hpp>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using graft::communicator;
using graft::errc;
using graft::status;

int failures = 0, rank = 0, size = 1;

void expect(bool holds, const char* form, ...) {
    if (holds || ++failures > 20) return;
    char text[400];
    va_list arguments;
    va_start(arguments, form);
    std::vsnprintf(text, sizeof text, form, arguments);
    va_end(arguments);
    std::printf("member %d of %d: %s\n", rank, size, text);
    std::fflush(stdout);
}

void expect_ok(const status& s, const char* what) { expect(s.ok(), "%s: %s", what, s.ok() ? "" : s.error().what()); }

// An error with this code and these words.
void expect_error(const status& s, errc code, std::initializer_list<const char*> words) {
    if (s.ok()) return expect(false, "no error where %s was due", text(code));
    expect(s.error().code() == code, "not %s: %s", text(code), s.error().what());
    for (const char* word : words) expect(std::strstr(s.error().what(), word) != nullptr, "'%s' is not in: %s", word, s.error().what());
    if (rank == 0) std::printf("    %s\n", s.error().what());
}

std::uint32_t mix(std::uint64_t x) {
    x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
    return static_cast<std::uint32_t>(x >> 33);
}
// Of very different sizes, so that another order gives other bits.
float value(int member, std::uint64_t seed, std::int64_t i) {
    const std::uint32_t bits = mix(seed * 1000003 + std::uint64_t(member) * 7919 + std::uint64_t(i) * 0x9e3779b97f4a7c15u);
    return (float(bits & 0xffff) - 32768.0f) * float(1u << (bits >> 16 & 15));
}
float sum(std::uint64_t seed, std::int64_t i) {
    return graft::join_members<float>(
        0, size, [&](int member) { return value(member, seed, i); }, [](float a, float b) { return a + b; });
}
char byte(int member, std::uint64_t seed, std::size_t i) { return char(mix(seed * 31 + std::uint64_t(member) * 1009 + i * 65537)); }

void reduces(communicator& c, const std::vector<std::int64_t>& counts, bool in_place, std::uint64_t seed, std::int64_t stride = 1) {
    std::vector<std::vector<float>> in, out;
    std::vector<const float*> from;
    std::vector<float*> to;
    for (std::size_t a = 0; a < counts.size(); ++a) {
        in.emplace_back(std::size_t(counts[a]) + 1, 77.0f), out.emplace_back(std::size_t(in_place ? 0 : counts[a]) + 1, 99.0f);
        for (std::int64_t i = 0; i < counts[a]; ++i) in[a][std::size_t(i)] = value(rank, seed + a, i);
    }
    for (std::size_t a = 0; a < counts.size(); ++a) from.push_back(in[a].data()), to.push_back(in_place ? in[a].data() : out[a].data());
    expect_ok(c.all_reduce({from.data(), to.data(), counts.data(), int(counts.size())}), "all_reduce");
    std::int64_t wrong = 0, total = 0;
    for (std::size_t a = 0; a < counts.size(); ++a) {
        total += counts[a];
        for (std::int64_t i = 0; i < counts[a]; i += stride) {
            const float wanted = sum(seed + a, i), own = value(rank, seed + a, i);
            wrong += std::memcmp(&to[a][i], &wanted, 4) != 0;
            wrong += !in_place && std::memcmp(&in[a][std::size_t(i)], &own, 4) != 0;
        }
        wrong += in[a].back() != 77.0f || out[a].back() != 99.0f;
    }
    expect(wrong == 0, "all_reduce of %lld elements in %zu arrays%s: %lld are wrong", static_cast<long long>(total), counts.size(), in_place ? " in place" : "",
           static_cast<long long>(wrong));
}

// Sums for one member alone: the others' outputs may be anything, but nothing beside them changes.
void reduces_to(communicator& c, const std::vector<std::int64_t>& counts, int root, std::uint64_t seed) {
    std::vector<std::vector<float>> data;
    std::vector<float*> to;
    for (std::size_t a = 0; a < counts.size(); ++a) {
        data.emplace_back(std::size_t(counts[a]) + 1, 77.0f);
        for (std::int64_t i = 0; i < counts[a]; ++i) data[a][std::size_t(i)] = value(rank, seed + a, i);
    }
    for (std::vector<float>& array : data) to.push_back(array.data());
    expect_ok(c.reduce({to.data(), to.data(), counts.data(), int(counts.size())}, root), "reduce");
    std::int64_t wrong = 0, total = 0;
    for (std::size_t a = 0; a < counts.size(); ++a) {
        total += counts[a];
        for (std::int64_t i = 0; i < counts[a] && rank == root; ++i) {
            const float wanted = sum(seed + a, i);
            wrong += std::memcmp(&to[a][i], &wanted, 4) != 0;
        }
        wrong += data[a].back() != 77.0f;
    }
    expect(wrong == 0, "reduce of %lld elements in %zu arrays to %d: %lld are wrong", static_cast<long long>(total), counts.size(), root,
           static_cast<long long>(wrong));
}

void scatters(communicator& c, std::int64_t count, std::uint64_t seed) {
    std::vector<float> data(std::size_t(count) + 1, 77.0f);
    for (std::int64_t i = 0; i < count; ++i) data[std::size_t(i)] = value(rank, seed, i);
    expect_ok(c.reduce_scatter(data.data(), count), "reduce_scatter");
    int wrong = data.back() != 77.0f;
    for (std::int64_t i = communicator::first_of(count, rank, size); i < communicator::first_of(count, rank + 1, size); ++i) {
        const float wanted = sum(seed, i);
        wrong += std::memcmp(&data[std::size_t(i)], &wanted, 4) != 0;
    }
    expect(wrong == 0, "reduce_scatter of %lld elements: %d are wrong", static_cast<long long>(count), wrong);
}

void gathers(communicator& c, std::size_t bytes, bool in_place, std::uint64_t seed) {
    std::vector<char> own(bytes), all(bytes * std::size_t(size) + 1, 'x');
    char* const from = in_place ? all.data() + bytes * std::size_t(rank) : own.data();
    for (std::size_t i = 0; i < bytes; ++i) from[i] = byte(rank, seed, i);
    expect_ok(c.all_gather(from, bytes, all.data()), "all_gather");
    int wrong = all.back() != 'x';
    for (int q = 0; q < size; ++q)
        for (std::size_t i = 0; i < bytes; ++i) wrong += all[bytes * std::size_t(q) + i] != byte(q, seed, i);
    expect(wrong == 0, "all_gather of %zu bytes: %d are wrong", bytes, wrong);
}

void casts(communicator& c, std::size_t bytes, int from, std::uint64_t seed) {
    std::vector<char> data(bytes + 1, 'x');
    for (std::size_t i = 0; i < bytes && rank == from; ++i) data[i] = byte(from, seed, i);
    expect_ok(c.broadcast(data.data(), bytes, from), "broadcast");
    int wrong = data.back() != 'x';
    for (std::size_t i = 0; i < bytes; ++i) wrong += data[i] != byte(from, seed, i);
    expect(wrong == 0, "broadcast of %zu bytes from member %d: %d are wrong", bytes, from, wrong);
}

std::shared_ptr<communicator> join(double timeout = 30) {
    auto joined = graft::join_mpi({timeout});
    if (!joined.ok()) {
        std::printf("join_mpi: %s\n", joined.error().what());
        std::fflush(stdout);
        graft::abort_mpi(1);
    }
    rank = joined.value()->rank(), size = joined.value()->size();
    return joined.value();
}

// A thousandth of the calls come late, on one member or another.
void any_calls(communicator& c, std::uint64_t seed, int calls) {
    for (int i = 0; i < calls && !failures; ++i) {
        const std::uint64_t own = seed * 100000 + std::uint64_t(i);
        const std::uint32_t dice = mix(own);
        const std::int64_t n = mix(own + 1) % (dice % 5 == 0 ? 300000 : dice % 3 ? 6000 : 9);
        if (mix(own + 7 + std::uint64_t(rank) * 13) % 97 == 0) usleep(mix(own + 8) % 3000);
        switch (dice >> 8 & 7) {
        case 0: gathers(c, std::size_t(n), dice & 1, own); break;
        case 1: casts(c, std::size_t(n), int(dice % unsigned(size)), own); break;
        case 2: scatters(c, n, own); break;
        case 3: expect_ok(c.barrier(), "barrier"); break;
        case 4: reduces(c, {n}, dice & 1, own); break;
        case 5: reduces_to(c, {n, n / 2, 3}, int(dice % unsigned(size)), own); break;
        default: {
            std::vector<std::int64_t> counts;
            for (std::uint32_t a = 0; a < (dice >> 12) % 40; ++a) counts.push_back(mix(own + 20 + a) % std::uint32_t(a % 4 ? 20 : n / 4 + 1));
            reduces(c, counts, dice & 1, own);
        }
        }
    }
}

void sums() {
    auto c = join();
    expect(std::strcmp(c->name(), "mpi") == 0, "is called %s", c->name());
    std::uint64_t seed = 1;
    for (const std::int64_t n : {0, 1, 2, 3, 4, 5, 999, 4096, 4097, 5000, 16384, 16387, 65536 * 4, 300001, 1048579})
        for (const bool in_place : {false, true}) {
            reduces(*c, {n}, in_place, seed += 100), scatters(*c, n, seed += 100);
            reduces(*c, {n / 3, 0, 1, n - n / 3, 7, n / 2, 0}, in_place, seed += 100);
        }
    for (int root = 0; root < size; ++root)
        for (const std::int64_t n : {1, 5000, 16387, 300001}) reduces_to(*c, {n, 7, n / 3}, root, seed += 100);
    reduces(*c, {}, true, seed += 100);
    std::vector<std::int64_t> many;
    for (int a = 0; a < 700; ++a) many.push_back(mix(std::uint64_t(a)) % (a % 50 ? 300u : 70000u));
    for (const bool in_place : {false, true}) reduces(*c, many, in_place, seed += 1000);
    for (const std::size_t bytes : {0, 1, 2, 63, 3936, 3937, 8064, 8065, 16384, 16385, 1000003}) {
        for (const bool in_place : {false, true}) gathers(*c, bytes, in_place, ++seed);
        for (int from = 0; from < size; ++from) casts(*c, bytes, from, ++seed);
    }
    for (int i = 0; i < 100; ++i) expect_ok(c->barrier(), "barrier");
    any_calls(*c, 7, 400);
    expect_error(c->broadcast(nullptr, 0, size), errc::usage, {"no member"});  // said before anything is sent, so that calls go on
    expect_ok(c->barrier(), "barrier");
    // Who comes late is waited for, and waits for nobody.
    const double before = c->waited_seconds();
    if (rank == size - 1) usleep(300000);
    expect_ok(c->barrier(), "barrier");
    const double waited = c->waited_seconds() - before;
    if (size > 1) expect(rank == size - 1 ? waited < 0.15 : waited > 0.15, "%g s of waiting", waited);
}

void large() {
    auto c = join();
    reduces(*c, {25000000}, true, 3, 29);
    reduces(*c, {12500001, 5, 12499994}, false, 30, 29);
}

void threads() {
    auto a = join(), b = join();
    std::thread other([&] { any_calls(*b, 5, 400); });
    any_calls(*a, 6, 400);
    other.join();
    // They end in another order on each member.
    if (rank % 2) a.reset();
    b.reset();
}

// MPI was there before, and is there afterwards.
void guest() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    for (int times = 0; times < 2; ++times) {
        auto a = join(), b = join();
        std::thread other([&] { any_calls(*b, 8, 100); });
        any_calls(*a, 9, 100);
        other.join();
    }
    int over = 1;
    MPI_Finalized(&over);
    expect(!over, "MPI was finalised by a guest");
    MPI_Finalize();
}

// What was started is added up while other calls go on.
void started(communicator& c, std::uint64_t seed) {
    const std::int64_t counts[] = {1, 5000, 0, 300001, 70000};
    for (int round = 0; round < 4; ++round) {
        std::vector<std::vector<float>> data;
        for (const std::int64_t n : counts) {
            data.emplace_back(std::size_t(n) + 1, -7.0f);
            for (std::int64_t i = 0; i < n; ++i) data.back()[std::size_t(i)] = value(rank, seed + data.size(), i);
        }
        for (std::size_t a = 0; a < data.size(); ++a) {
            if (rank == round) usleep(2000);
            expect_ok(c.start({data[a].data(), counts[a], "sum"}), "start");
            any_calls(c, seed + 50 + a, 7);
        }
        for (const std::size_t a : {3, 0, 1, 4, 2}) {
            expect_ok(c.finish(data[a].data()), "finish");
            for (std::int64_t i = 0; i < counts[a]; ++i)
                if (data[a][std::size_t(i)] != sum(seed + a + 1, i)) return expect(false, "element %lld of sum %zu is another", (long long)(i), a);
            expect(data[a].back() == -7.0f, "what lies behind sum %zu was written", a);
        }
        expect_ok(c.settle(nullptr), "settle");
        seed += 1000;
    }
}

void beside() {
    auto c = join();
    expect(c->overlaps(), "nothing goes on beside other calls");
    started(*c, 11);
    // Who computes while it goes on does not wait for who comes late.
    std::vector<float> data(70000, 1.0f);
    for (const bool computes : {false, true}) {
        expect_ok(c->barrier(), "barrier");
        const double before = c->waited_seconds();
        if (rank == size - 1) usleep(300000);
        expect_ok(c->start({data.data(), 70000, "sum"}), "start");
        if (computes) usleep(rank == size - 1 ? 100000 : 500000);
        expect_ok(c->finish(data.data()), "finish");
        const double waited = c->waited_seconds() - before;
        if (size > 1) expect(rank == size - 1 || computes ? waited < 0.15 : waited > 0.15, "%g s of waiting", waited);
        expect_ok(c->settle(nullptr), "settle");
    }
}

// Where one process may use MPI by one thread alone, all do without the other thread.
void funneled() {
    const char* const own = std::getenv("OMPI_COMM_WORLD_RANK") ? std::getenv("OMPI_COMM_WORLD_RANK") : std::getenv("PMI_RANK");
    const bool odd = own && std::strcmp(own, "0") == 0;
    int level = 0, least = 0;
    MPI_Init_thread(nullptr, nullptr, odd ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE, &level);
    MPI_Allreduce(&level, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    {
        auto c = join();
        expect(c->overlaps() == (least >= MPI_THREAD_SERIALIZED), "with level %d it %s on beside other calls", least, c->overlaps() ? "goes" : "does not go");
        if (rank == 0) std::printf("    MPI grants level %d, and %d of all\n", level, least);
        started(*c, 12);
    }
    MPI_Finalize();
}

void mismatch() {
    std::vector<float> data(300000, 1.0f);
    float* const to = data.data();
    const float* const from = data.data();
    auto c = join();
    const std::string last = "member " + std::to_string(size - 1);
    const bool odd = rank == size - 1;
    const std::int64_t few = 10, other = 11, many = 300000;
    expect_error(c->all_reduce({&from, &to, odd ? &other : &few, 1}), errc::dist_mismatch, {last.c_str(), "10 elements", "11 elements"});
    expect_error(c->barrier(), errc::dist_mismatch, {"11 elements"});  // the first error stays
    c = join();
    expect_error(c->all_reduce({&from, &to, odd ? &few : &many, 1}), errc::dist_mismatch, {"300000 elements", "10 elements"});
    c = join();
    const std::int64_t cut[] = {4, 6}, cut_else[] = {6, 4};
    const float* const froms[] = {from, from + 10};
    float* const tos[] = {to, to + 10};
    expect_error(c->all_reduce({froms, tos, odd ? cut : cut_else, 2}), errc::dist_mismatch, {"lengths"});
    c = join();
    expect_error(odd ? c->barrier() : c->all_gather(data.data(), 8, data.data() + 1000), errc::dist_mismatch, {"calls barrier", "all_gather of 8 bytes"});
    c = join();
    expect_error(odd ? c->all_reduce({&from, &to, &many, 1}) : c->all_gather(data.data(), 15000, data.data() + 1000), errc::dist_mismatch,
                 {"all_reduce of 300000", "all_gather of 15000"});
    c = join();
    expect_error(c->broadcast(data.data(), 8000, odd ? 1 : 0), errc::dist_mismatch, {"from member 0", "from member 1"});
    c = join();
    expect_error(c->reduce({&from, &to, &many, 1}, odd ? 1 : 0), errc::dist_mismatch, {"reduce of 300000", "to member 0", "to member 1"});
    c = join();
    for (int i = 0; i < 50; ++i) expect_ok(c->barrier(), "barrier");
    expect_error(odd ? c->reduce_scatter(to, many) : c->all_reduce({&from, &to, &many, 1}), errc::dist_mismatch, {"call 51", "reduce_scatter of 300000"});
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A call that the last member does not come to. Ends with this error after `low` to `high` seconds.
void alone(communicator& c, errc code, std::initializer_list<const char*> words, double low, double high) {
    std::vector<float> data(300000, 1.0f);
    float* const to = data.data();
    const float* const from = data.data();
    const std::int64_t many = 300000;
    const double start = seconds();
    expect_error(c.all_reduce({&from, &to, &many, 1}), code, words);
    const double took = seconds() - start;
    expect(took >= low && took <= high, "the error came after %.3f s, not %.3f to %.3f s", took, low, high);
    expect_error(c.barrier(), code, words);
}

void leaves() {
    auto c = join(), other = join();
    expect_ok(c->barrier(), "barrier");
    const std::string last = "member " + std::to_string(size - 1) + " has left";
    if (rank == size - 1) {
        usleep(100000);
        c->leave(graft::error(errc::memory_oom, "trainer", "no memory for a batch"));
        expect_error(c->barrier(), errc::dist_peer_lost, {"this member"});
    } else
        alone(*c, errc::dist_peer_lost, {last.c_str(), "no memory for a batch"}, 0.05, 1);
    // Who has done its part may leave: the others have all that they need.
    if (rank == size - 1) {
        gathers(*other, 9000, false, 3);
        other->leave(graft::error(errc::memory_oom, "trainer", "later"));
    } else {
        usleep(100000);
        gathers(*other, 9000, false, 3);
        expect_error(other->barrier(), errc::dist_peer_lost, {"later"});
    }
}

// The same of what was started, which would go on for ever.
void leaves_beside() {
    auto c = join();
    expect_ok(c->barrier(), "barrier");
    std::vector<float> data(300000, 1.0f), more = data;
    const double start = seconds();
    if (rank == size - 1) {
        expect_ok(c->start({data.data(), 300000, "first"}), "start");
        usleep(100000);
        const graft::error why(errc::op_value, "node 'last'", "it refuses what it is given");
        expect_error(c->settle(&why), errc::dist_peer_lost, {"this member has left"});
    } else {
        usleep(300000);
        expect_ok(c->start({data.data(), 300000, "first"}), "start");
        expect_ok(c->start({more.data(), 300000, "second"}), "start");
        const status failed = c->finish(more.data());
        expect_error(failed, errc::dist_peer_lost, {"has left", "it refuses what it is given"});
        expect_error(c->settle(&failed.error()), errc::dist_peer_lost, {"has left"});
        expect_error(c->barrier(), errc::dist_peer_lost, {"has left"});
    }
    expect(seconds() - start < 1.5, "the end came after %.3f s", seconds() - start);
}

void silent_beside() {
    auto c = join(0.5);
    expect_ok(c->barrier(), "barrier");
    std::vector<float> data(300000, 1.0f);
    if (rank == size - 1) return void(usleep(1500000));
    const std::string last = "member " + std::to_string(size - 1) + " did not come to call 1 (all_reduce of 300000 elements";
    const double start = seconds();
    expect_ok(c->start({data.data(), 300000, "sum"}), "start");
    const status failed = c->finish(data.data());
    expect_error(failed, errc::dist_timeout, {last.c_str(), "within 0.5 s"});
    (void)c->settle(failed.ok() ? nullptr : &failed.error());
    expect(seconds() - start > 0.45 && seconds() - start < 1.4, "the end came after %.3f s", seconds() - start);
}

// A member comes to its end while others go on.
void ends() {
    auto c = join();
    expect_ok(c->barrier(), "barrier");
    if (rank == size - 1)
        graft::detail::mpi_process::here().failed = true, c.reset();  // does not wait for the others, who would keep it
    else
        alone(*c, errc::dist_peer_lost, {"has ended"}, 0, 1);
}

void silent() {
    auto c = join(0.5);
    expect_ok(c->barrier(), "barrier");
    const std::string last = "member " + std::to_string(size - 1) + " did not come to call 2 (all_reduce of 300000 elements";
    if (rank == size - 1)
        usleep(1500000);
    else
        alone(*c, errc::dist_timeout, {last.c_str(), "within 0.5 s"}, 0.45, 1.2);
}

// Does not come back: the others end it, and themselves.
void stopped() {
    auto c = join(0.5);
    expect_ok(c->barrier(), "barrier");
    const std::string last = "member " + std::to_string(size - 1) + " did not";
    if (rank == size - 1) std::raise(SIGSTOP);
    alone(*c, errc::dist_timeout, {last.c_str()}, 0.45, 1.2);
}

// Of the processes that are left some may see an error, if mpirun does not end them before.
void killed() {
    auto c = join(1);
    expect_ok(c->barrier(), "barrier");
    std::vector<float> data(300000, 1.0f);
    float* const to = data.data();
    const float* const from = data.data();
    const std::int64_t many = 300000;
    for (int i = 0;; ++i) {
        if (i == 20 && rank == size - 1) std::raise(SIGKILL);
        const status s = c->all_reduce({&from, &to, &many, 1});
        if (s.ok()) continue;
        expect(s.error().code() == errc::dist_timeout || s.error().code() == errc::dist_peer_lost, "%s", s.error().what());
        std::printf("    %s\n", s.error().what());
        std::fflush(stdout);
        return;
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 3) return std::fprintf(stderr, "usage: %s MODE FOLDER\n", arguments[0]), 2;
    const std::string mode = arguments[1];
    struct {
        const char* name;
        void (*check)();
        bool together;  // all processes get to the end, though MPI is not finalised by then
    } const modes[] = {{"sums", sums, false},
                       {"large", large, false},
                       {"threads", threads, false},
                       {"guest", guest, false},
                       {"mismatch", mismatch, true},
                       {"leaves", leaves, true},
                       {"ends", ends, true},
                       {"silent", silent, true},
                       {"stopped", stopped, false},
                       {"killed", killed, false},
                       {"beside", beside, false},
                       {"funneled", funneled, false},
                       {"leaves_beside", leaves_beside, true},
                       {"silent_beside", silent_beside, true}};
    for (const auto& each : modes) {
        if (mode != each.name) continue;
        each.check();
        if (!failures) {
            if (std::FILE* const file = std::fopen((std::string(arguments[2]) + "/" + mode + "." + std::to_string(rank)).c_str(), "w")) std::fclose(file);
        }
        std::fflush(stdout);
        if (each.together) MPI_Barrier(MPI_COMM_WORLD);
        if (mode == "stopped" || mode == "killed") usleep(300000), graft::abort_mpi(3);
        if (each.together || mode == "killed") graft::abort_mpi(failures ? 1 : 3);
        return failures ? 1 : 0;
    }
    return std::fprintf(stderr, "no mode %s\n", mode.c_str()), 2;
}
