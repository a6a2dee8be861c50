// A run that finds no memory: an error, again and again, after which the session goes on.
#include "../sanitized.hpp"

#if defined(__linux__) && !defined(GRAFT_TEST_SANITIZED)
#include "../little_memory.hpp"
#include "../skipped.hpp"

#include <graft/graft.hpp>

#include <doctest/doctest.h>

#include <cstring>

#include <sys/wait.h>

namespace {

// [N, 1, 64, 64] through two convolutions.
graft::model small_network() {
    graft::builder b("net", 7);
    graft::conv2d_options o;
    o.kernel = 3, o.padding = 1;
    graft::value_id x = b.input("x", graft::dtype::float32, {"N", 1, 64, 64});
    x = b.relu(b.conv2d(b.relu(b.conv2d(x, 8, o)), 8, o));
    b.output(b.flatten(b.global_average_pool(x)), "y");
    return graft::load(b.finish()).value();
}

// 0 where all is as it should be, else which check failed; 77 where memory cannot be limited.
int starve() {
    graft::session session(small_network(), {1, nullptr});
    graft::tensor one = graft::tensor::zeros(graft::dtype::float32, {1, 1, 64, 64}), many = graft::tensor::zeros(graft::dtype::float32, {1024, 1, 64, 64});
    for (std::int64_t i = 0; i < one.elements(); ++i) one.data<float>()[i] = static_cast<float>(i % 13) - 6;
    graft::result<graft::tensor> before = session.run(one);
    rlimit room{};
    if (!before.ok()) return 1;
    if (!limit_memory(rlim_t(16) << 20, room)) return 77;
    for (int attempt = 0; attempt < 3; ++attempt) {
        graft::result<graft::tensor> none = session.run(many);
        if (none.ok() || none.error().code() != graft::errc::memory_oom) return 2;
    }
    graft::result<graft::tensor> after = session.run(one);
    if (!after.ok() || std::memcmp(after->raw(), before->raw(), before->bytes()) != 0) return 3;
    if (::setrlimit(RLIMIT_AS, &room) != 0) return 77;
    return session.run(many).ok() ? 0 : 4;
}

}  // namespace

TEST_CASE("a run that finds no memory is memory.oom each time, and others follow it") {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(starve());
    int ended = 0;
    REQUIRE(::waitpid(child, &ended, 0) == child);
    REQUIRE(WIFEXITED(ended));
    if (WEXITSTATUS(ended) == 77)
        say_skipped("memory cannot be limited here");
    else
        CHECK(WEXITSTATUS(ended) == 0);
}
#endif
