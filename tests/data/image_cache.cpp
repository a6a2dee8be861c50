// The cache of pictures: kept between openings, torn and damaged records, two processes, kill -9, and the same bits as without
// it.
#include "pictures.hpp"

#include <graft/data/loader.hpp>
#include <graft/data/png_encode.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <thread>
#if !defined(_WIN32)
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace graft;

#if !defined(_WIN32)
namespace {

struct cache_folder {
    cache_folder() {
        char name[] = "/tmp/graft-cache-XXXXXX";
        REQUIRE(::mkdtemp(name));
        path = name;
        file = path + "/pictures.graftcache";
    }
    ~cache_folder() {
        ::unlink(file.c_str());
        ::rmdir(path.c_str());
    }
    std::shared_ptr<image_cache> open(std::int64_t most = std::int64_t(1) << 30) const { return image_cache::open(path, most).value(); }
    std::string bytes() const {
        std::ifstream in(file, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    }
    void write(const std::string& content) const { std::ofstream(file, std::ios::binary | std::ios::trunc) << content; }
    std::string path, file;
};

image numbered(int n) {
    image made = noise(5 + n % 4, 7 + n % 5, n % 3 ? 3 : 1);
    for (std::int64_t i = 0; i < made.bytes(); ++i) made.data()[i] = static_cast<std::uint8_t>(made.data()[i] + n);
    return made;
}

image_cache::key key(int n) { return image_cache::key_of(&n, sizeof n, "rule"); }

bool holds(const image_cache& cache, int n) {
    const image found = cache.find(key(n)), expected = numbered(n);
    if (!found) return false;
    CHECK(found.height == expected.height);
    CHECK(found.width == expected.width);
    REQUIRE(found.channels == expected.channels);
    CHECK(crc_of(found) == crc_of(expected));
    return true;
}

}  // namespace

TEST_CASE("what was put is found, now and after opening again") {
    const cache_folder folder;
    {
        const auto cache = folder.open();
        CHECK(!cache->find(key(1)));
        for (int n = 0; n < 50; ++n) cache->put(key(n), numbered(n));
        cache->put(key(3), numbered(4));  // there already
        CHECK(cache->pictures() == 50);
        for (int n = 0; n < 50; ++n) CHECK(holds(*cache, n));
        CHECK(cache->trouble() == "");
        CHECK(cache->bytes() == static_cast<std::int64_t>(folder.bytes().size()));
    }
    const auto cache = folder.open();
    CHECK(cache->pictures() == 50);
    for (int n = 0; n < 50; ++n) CHECK(holds(*cache, n));
    const image kept = cache->find(key(7));
    CHECK(reinterpret_cast<std::uintptr_t>(kept.data()) % 64 == 0);
}

TEST_CASE("a key depends on the bytes and on the rule") {
    const auto differ = [](const image_cache::key& a, const image_cache::key& b) { return a.first != b.first && a.second != b.second; };
    CHECK(differ(image_cache::key_of("abc", 3, "x"), image_cache::key_of("abd", 3, "x")));
    CHECK(differ(image_cache::key_of("abc", 3, "x"), image_cache::key_of("abc", 3, "y")));
    CHECK(differ(image_cache::key_of("abc", 3, "x"), image_cache::key_of("abc", 2, "x")));
}

TEST_CASE("a file that ends anywhere holds the records before, and grows again") {
    const cache_folder folder;
    {
        const auto cache = folder.open();
        for (int n = 0; n < 3; ++n) cache->put(key(n), numbered(n));
    }
    const std::string whole = folder.bytes();
    std::size_t last = whole.size();
    for (std::size_t length = 0; length <= whole.size(); length += 37) {
        folder.write(whole.substr(0, length));
        const auto cache = folder.open();
        const auto n = static_cast<int>(cache->pictures());
        CHECK(n < 4);
        for (int i = 0; i < 3; ++i) CHECK(holds(*cache, i) == (i < n));
        for (int i = 0; i < 3; ++i) cache->put(key(i), numbered(i));
        CHECK(cache->pictures() == 3);
        CHECK(folder.bytes() == whole);
        last = length;
    }
    CHECK(whole.size() - last < 37);
}

TEST_CASE("no byte that is changed gives a wrong picture") {
    const cache_folder folder;
    {
        const auto cache = folder.open();
        for (int n = 0; n < 2; ++n) cache->put(key(n), numbered(n));
    }
    const std::string whole = folder.bytes();
    for (std::size_t at = 0; at < whole.size(); ++at) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x11);
        folder.write(damaged);
        auto opened = image_cache::open(folder.path);
        if (!opened.ok()) {
            CHECK(at < 64);
            CHECK(opened.error().code() == errc::file_open);
            continue;
        }
        const std::shared_ptr<image_cache> cache = std::move(opened).value();
        for (int n = 0; n < 2; ++n) {
            holds(*cache, n);
            cache->put(key(n), numbered(n));
            CHECK(holds(*cache, n));
        }
    }
}

TEST_CASE("what is no cache is refused and left alone") {
    const cache_folder folder;
    const std::string text(1000, 'x');
    folder.write(text);
    CHECK(image_cache::open(folder.path).error().code() == errc::file_open);
    CHECK(folder.bytes() == text);
    CHECK(image_cache::open(folder.path + "/no/where").error().code() == errc::file_open);
    CHECK(image_cache::open(std::string("a\0b", 3)).error().code() == errc::file_open);
    ::unlink(folder.file.c_str());
    REQUIRE(::mkfifo(folder.file.c_str(), 0600) == 0);
    CHECK(image_cache::open(folder.path).error().code() == errc::file_open);
}

TEST_CASE("a full cache says so and keeps what it has") {
    const cache_folder folder;
    const auto cache = folder.open(1000);
    for (int n = 0; n < 10; ++n) cache->put(key(n), numbered(n));
    CHECK(cache->pictures() >= 1);
    CHECK(cache->pictures() < 10);
    CHECK(cache->bytes() <= 1000);
    CHECK(cache->trouble().find("limit") != std::string::npos);
    CHECK(holds(*cache, 0));
}

TEST_CASE("a second one that opens it reads, and adds nothing") {
    const cache_folder folder;
    const auto writer = folder.open();
    writer->put(key(1), numbered(1));
    const auto reader = folder.open();
    CHECK(reader->trouble() != "");
    CHECK(holds(*reader, 1));
    reader->put(key(2), numbered(2));
    CHECK(!holds(*reader, 2));
    writer->put(key(3), numbered(3));
    CHECK(holds(*writer, 3));
    CHECK(holds(*reader, 1));
}

TEST_CASE("many threads put and find at once") {
    const cache_folder folder;
    const auto cache = folder.open();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&cache] {
            for (int n = 0; n < 60; ++n) {
                if (!cache->find(key(n))) cache->put(key(n), numbered(n));
                const image found = cache->find(key(n));
                if (!found || found.height != 5 + n % 4) std::abort();
            }
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(cache->pictures() == 60);
    for (int n = 0; n < 60; ++n) CHECK(holds(*cache, n));
}

TEST_CASE("a process killed while it adds leaves a cache that holds") {
    const cache_folder folder;
    std::int64_t most = 0;
    for (int round = 0; round < 15; ++round) {
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            auto cache = image_cache::open(folder.path);
            for (int n = 0; cache.ok() && n < 100000; ++n) cache.value()->put(key(n), numbered(n));
            ::_exit(0);
        }
        ::usleep(static_cast<useconds_t>(2000 + round * 700));
        ::kill(child, SIGKILL);
        int unused = 0;
        ::waitpid(child, &unused, 0);
        const auto cache = folder.open();
        CHECK(cache->trouble() == "");
        const auto count = static_cast<int>(cache->pictures());
        CHECK(count >= most);
        most = count;
        for (int n = 0; n < count; ++n) REQUIRE(holds(*cache, n));
        CHECK(!holds(*cache, count));
    }
    CHECK(most > 0);
}

TEST_CASE("with a cache, samples are the same bits as without, in the first epoch and in later ones") {
    const cache_folder pictures, folder;
    std::vector<std::string> files;
    for (const char* kind : {"/a", "/b"}) REQUIRE(::mkdir((pictures.path + kind).c_str(), 0777) == 0);
    for (int i = 0; i < 12; ++i) {
        files.push_back(pictures.path + (i % 2 ? "/a/" : "/b/") + std::to_string(i) + ".png");
        std::ofstream(files.back(), std::ios::binary) << encode_png(noise(60 + i * 5, 90 - i, 3)).value();
    }
    const dataset data = open_dataset(pictures.path).value();
    for (const char* augment : {"none", "default", "default,color_jitter=0.4", "horizontal_flip"})
        for (const char* spec : {"imagenet,crop=32", "crop=32,order=bgr,unit,layout=nhwc", "crop=24,order=gray,unit"})
            for (const bool shrink : {false, true}) {
                sample_options o;
                o.preprocess = parse_preprocess(spec).value();
                o.augment = parse_augmentation(augment).value();
                o.shrink = shrink;
                const sample_maker plain = sample_maker::make(data, o).value();
                ::unlink(folder.file.c_str());
                std::vector<std::byte> a(static_cast<std::size_t>(plain.sample_bytes())), b(a.size());
                for (int opening = 0; opening < 2; ++opening) {
                    o.cache = folder.open();
                    const sample_maker cached = sample_maker::make(data, o).value();
                    for (std::int64_t epoch = 0; epoch < 2; ++epoch)
                        for (std::int64_t i = 0; i < data.size(); ++i) {
                            REQUIRE(plain.write(i, epoch, a.data()).ok());
                            REQUIRE(cached.write(i, epoch, b.data()).ok());
                            INFO(std::string(augment), " ", std::string(spec), " ", shrink, " ", epoch, " ", i);
                            CHECK(a == b);
                        }
                    CHECK(o.cache->pictures() == 12);
                    o.cache.reset();
                }
            }
    // Shrunk pictures: the shorter side is ceil(32 / sqrt(0.35)) = 55, and nothing is enlarged.
    sample_options o;
    o.preprocess = parse_preprocess("imagenet,crop=32").value();
    o.augment = default_augmentation();
    o.shrink = true;
    CHECK(shrunk_side(o.augment, 32, 32) == 55);
    for (const std::string& file : files) ::unlink(file.c_str());
    for (const char* kind : {"/a", "/b"}) ::rmdir((pictures.path + kind).c_str());
}
#endif
