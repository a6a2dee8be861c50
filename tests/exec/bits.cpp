// The number of threads never changes a bit, on any instruction set; a later run gives what the first gave.
#include "nets.hpp"

#include <doctest/doctest.h>

namespace {

// One to four threads, three runs each, against one thread.
void check(const graft::model& m, const std::vector<graft::tensor>& inputs, const std::string& what) {
    const nets::answer one = nets::run(m, inputs, 1);
    CHECK_MESSAGE(one.error.empty(), one.error);
    for (int threads = 1; threads <= 4; ++threads) {
        INFO(what, " with ", threads, " threads");
        graft::session s(m, {threads, nullptr});
        for (int again = 0; again < 3; ++again) CHECK(nets::same_bits(nets::run(s, m, inputs), one));
    }
}

}  // namespace

TEST_CASE("one to four threads give the same bits on every instruction set") {
    nets::numbers random{31};
    const std::vector<graft::tensor> image{nets::random_tensor({3, 3, 37, 29}, random)};
    for (const std::string& isa : nets::isas()) {
        const nets::forced_isa forced(isa);
        // A model's plans are made for the instruction set of the first run, so each set gets models of its own.
        graft::model demo = graft::load(nets::demo_model());
        check(demo, nets::inputs_of(demo, 31), "the demo's model on " + isa);
        graft::model net = graft::load(nets::residual_net(31));
        check(net, image, "the residual network on " + isa);
    }
}

TEST_CASE("a model goes on when the instruction set is changed under it") {
    graft::model net = graft::load(nets::residual_net(32));
    nets::numbers random{32};
    const std::vector<graft::tensor> image{nets::random_tensor({1, 3, 19, 19}, random)};
    for (const std::string& isa : nets::isas()) {
        const nets::forced_isa forced(isa);
        check(net, image, isa);
    }
}

TEST_CASE("the answer does not depend on what ran before") {
    nets::numbers random{33};
    graft::model m = graft::load(nets::residual_net(33));
    graft::session s(m, {3, nullptr});
    const std::vector<graft::tensor> inputs{nets::random_tensor({2, 3, 21, 13}, random)};
    const nets::answer first = nets::run(s, m, inputs);
    for (int i = 0; i < 20; ++i) {
        const std::vector<graft::tensor> other{nets::random_tensor({1 + i % 3, 3, 9 + i, 8 + i % 5}, random, -1e6, 1e6)};
        CHECK(nets::run(s, m, other).error.empty());
        CHECK(nets::same_bits(nets::run(s, m, inputs), first));
    }
}
