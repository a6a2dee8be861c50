// Threads that cannot be made, and tasks that throw: loops, batches and runs go on with the workers there are, and the pool stays whole.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "../data/made_dataset.hpp"
#include "../train/small_steps.hpp"

#include <graft/core/executor.hpp>
#include <graft/data/loader.hpp>
#include <graft/data/png_encode.hpp>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::atomic<int> refused_from{0}, refused_count{0}, asked{0};  // threads number refused_from, and refused_count of them, are not made; 0: all are

// From now on the n-th thread that is asked for is not made, nor are `count` - 1 behind it.
void refuse_threads(int n, int count) {
    asked = 0;
    refused_count = count;
    refused_from = n;
}

constexpr int all = 1 << 30;

}  // namespace

// Sanitizers have to see threads being made.
extern "C" __attribute__((weak)) int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) noexcept {
    using function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const function real = __interceptor_pthread_create ? __interceptor_pthread_create : reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pthread_create"));
    const int from = refused_from;
    const int number = ++asked;
    if (from > 0 && number >= from && number - from < refused_count) return EAGAIN;
    return real(thread, attributes, body, argument);
}

namespace {

// How many tasks of a loop did not run exactly once, and by how many threads they were run.
struct loop_outcome {
    int wrong = 0, threads = 0;
};
loop_outcome loop(graft::executor& pool, std::int64_t tasks) {
    std::vector<std::atomic<int>> ran(static_cast<std::size_t>(tasks));
    for (auto& r : ran) r = 0;
    std::mutex lock;
    std::set<std::thread::id> threads;
    graft::parallel_for(pool, tasks, [&](std::int64_t i) {
        ++ran[static_cast<std::size_t>(i)];
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        const std::lock_guard<std::mutex> guard(lock);
        threads.insert(std::this_thread::get_id());
    });
    loop_outcome o;
    for (auto& r : ran) o.wrong += r != 1;
    o.threads = static_cast<int>(threads.size());
    return o;
}

std::string bytes(const graft::tensor& t) { return {reinterpret_cast<const char*>(t.raw()), t.bytes()}; }

// What a network says to a fixed input, computed by so many threads.
std::string answer(int threads) {
    static const graft::model net = graft::load(small_steps::architecture("lenet"));
    graft::session session(net, {threads, nullptr});
    graft::result<graft::tensor> y = session.run(small_steps::numbered(3, {4, 1, 28, 28}));
    return y.ok() ? bytes(*y) : y.error().what();
}

// Every batch of an epoch, in bytes.
std::string epoch_of(graft::loader& loader) {
    const graft::status started = loader.start(0);
    if (!started.ok()) return started.error().what();
    std::string all_bytes;
    graft::batch b;
    for (std::int64_t i = 0; i < loader.batches(); ++i) {
        const graft::status made = loader.next(b);
        if (!made.ok()) return made.error().what();
        all_bytes += bytes(b.inputs);
        for (const std::int64_t index : b.indices) all_bytes += std::to_string(index) + " ";
    }
    return all_bytes;
}

}  // namespace

// A child of fork has a pool of its own, without threads yet. What it returns is what it ends with.
template <class F>
int in_child(const F& f) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        try {
            ::_exit(f());
        } catch (...) {
            ::_exit(99);
        }
    }
    int ended = 0;
    if (child < 0 || ::waitpid(child, &ended, 0) != child || !WIFEXITED(ended)) return -1;
    return WEXITSTATUS(ended);
}

TEST_CASE("A loop runs on the threads that could be made, also on none, and on more when the system gives them again") {
    const std::string alone = answer(1);
    for (int n = 1; n <= 3; ++n)
        for (const int count : {1, all}) {
            CAPTURE(n);
            CAPTURE(count);
            CHECK(in_child([&] {
                      graft::pool_executor pool(4);
                      refuse_threads(n, count);
                      const loop_outcome few = loop(pool, 64);
                      if (few.wrong != 0 || few.threads > n || asked != n) return 1;
                      if (answer(4) != alone) return 2;
                      // Who asks again at once asks the system no more.
                      if (loop(pool, 64).wrong != 0 || asked != n) return 3;
                      refuse_threads(0, 0);
                      std::this_thread::sleep_for(std::chrono::milliseconds(1100));
                      if (loop(pool, 64).wrong != 0 || asked != 3 - (n - 1)) return 4;
                      return answer(4) == alone ? 0 : 5;
                  }) == 0);
        }
}

TEST_CASE("A loader with fewer threads than it asked for, and with none, makes the same batches") {
    const made_folder folder;
    for (const char* name : {"a", "b"})
        for (int i = 0; i < 7; ++i) {
            const graft::image picture = graft::image::make(6, 5, 3);
            for (std::int64_t p = 0; p < picture.bytes(); ++p) picture.data()[p] = static_cast<std::uint8_t>(p * 7 + i * 31 + name[0]);
            folder.put(std::string(name) + "/" + std::to_string(i) + ".png", graft::encode_png(picture));
        }
    const graft::dataset data = graft::open_dataset(folder.path);
    graft::loader_options options;
    options.batch_size = 4;
    options.workers = 3;
    options.ahead = 2;
    options.sample.preprocess = graft::parse_preprocess("imagenet,resize=5x6");
    graft::loader loader = graft::loader::make(data, options);
    const std::string expected = epoch_of(loader);
    REQUIRE(expected.size() > 14 * 90 * 4);
    for (int n = 1; n <= 3; ++n)
        for (const int count : {1, all}) {
            CAPTURE(n);
            CAPTURE(count);
            refuse_threads(n, count);
            const bool same = epoch_of(loader) == expected;
            CHECK(same);
            CHECK(asked == n);  // it asks no further
            refuse_threads(0, 0);
            CHECK(epoch_of(loader) == expected);
        }
}

TEST_CASE("What a task throws comes out of the loop once, and the pool is whole") {
    for (const int threads : {1, 2, 4}) {
        graft::pool_executor pool(threads);
        for (int round = 0; round < 50; ++round) {
            int caught = 0;
            std::atomic<int> running{0};
            try {
                graft::parallel_for(pool, 40, [&](std::int64_t i) {
                    ++running;
                    if (i % 3 == round % 3) {
                        --running;
                        throw std::runtime_error("task " + std::to_string(i));
                    }
                    std::this_thread::yield();
                    --running;
                });
            } catch (const std::runtime_error& e) {
                ++caught;
                CHECK(std::string(e.what()).compare(0, 5, "task ") == 0);
            }
            CHECK(caught == 1);
            CHECK(running == 0);  // none is left behind that still uses what the caller had
            CHECK(loop(pool, 8).wrong == 0);
        }
    }
}

namespace {

// An app's executor, with threads that know of no exceptions.
struct own_threads : graft::executor {
    int threads() const noexcept override { return 2; }
    void run(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) override {
        std::thread other([=]() noexcept {
            for (std::int64_t i = 1; i < tasks; i += 2) body(context, i);
        });
        for (std::int64_t i = 0; i < tasks; i += 2) body(context, i);
        other.join();
    }
};

enum class trouble { none, no_memory, runtime_error };
trouble wanted = trouble::none;

graft::status twice_shape(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }
// y = 2 x, by tasks, one of which throws where that is wanted.
graft::status twice_run(graft::run_context& c) {
    const float* x = c.in[0].as<float>();
    float* y = c.out[0].as<float>();
    graft::parallel_for(c.pool, c.in[0].elements(), [&](std::int64_t i) {
        if (i == 5 && wanted == trouble::no_memory) throw std::bad_alloc();
        if (i == 5 && wanted == trouble::runtime_error) throw std::runtime_error("the app's own");
        y[i] = 2 * x[i];
    });
    return {};
}
const graft::op_row rows[] = {graft::make_op("Twice", "my.app").inputs(1).functions(twice_shape, twice_run).problems("f32[2,3]")};

}  // namespace

TEST_CASE("Tasks that throw on an app's executor end nobody's thread") {
    own_threads pool;
    for (const std::int64_t thrower : {0, 1, 6, 7}) {
        int caught = 0;
        try {
            graft::parallel_for(pool, 8, [&](std::int64_t i) {
                if (i == thrower) throw std::bad_alloc();
            });
        } catch (const std::bad_alloc&) {
            ++caught;
        }
        CHECK(caught == 1);
    }
}

TEST_CASE("An app's operator whose tasks throw: want of memory is memory.oom, all else reaches the app, and the session goes on") {
    graft::builder b("custom");
    const graft::value_id x = b.input("x", graft::dtype::float32, {"N"});
    b.output(b.apply("Twice", {x}), "y");
    graft::graph g = b.finish();
    g.opsets.push_back({"my.app", 1});
    g.nodes[0].domain = "my.app";
    graft::load_options options;
    options.operators = rows;
    const graft::model net = graft::load(std::move(g), options);
    const graft::tensor in = small_steps::numbered(1, {16});
    own_threads apps_own;
    for (graft::executor* pool : {static_cast<graft::executor*>(nullptr), static_cast<graft::executor*>(&apps_own)})
        for (const int threads : {1, 3}) {
            graft::session session(net, {threads, pool});
            wanted = trouble::none;
            const std::string expected = bytes(session.run(in).value());
            for (int round = 0; round < 5; ++round) {
                wanted = trouble::no_memory;
                CHECK(code_of(session.run(in)) == "memory.oom");
                wanted = trouble::runtime_error;
                std::string caught;
                try {
                    (void)session.run(in);
                } catch (const std::runtime_error& e) {
                    caught = e.what();
                }
                CHECK(caught == "the app's own");
                wanted = trouble::none;
                CHECK(bytes(session.run(in).value()) == expected);
            }
        }
}
