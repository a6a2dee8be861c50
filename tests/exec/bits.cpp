// The number of threads never changes a bit, on any instruction set; a later run gives what the first gave.
#include "nets.hpp"

#include <doctest/doctest.h>

namespace {

void check(const graft::model& m, const std::vector<graft::tensor>& inputs, const std::string& name) {
    for (const std::string& isa : nets::isas()) {
        const nets::forced_isa forced(isa);
        INFO(name, " on ", isa);
        const nets::answer one = nets::run(m, inputs, 1);
        CHECK_MESSAGE(one.error.empty(), one.error);
        for (int threads = 1; threads <= 4; ++threads) {
            graft::session s(m, {threads, nullptr});
            for (int again = 0; again < 3; ++again) CHECK(nets::same_bits(nets::run(s, m, inputs), one));
        }
    }
}

}  // namespace

TEST_CASE("one to four threads give the same bits on every instruction set") {
    // A model's plans are made for the instruction set of the first run, so each set gets a model of its own.
    nets::numbers random{31};
    for (const std::string& isa : nets::isas()) {
        const nets::forced_isa forced(isa);
        graft::model demo = graft::load(nets::demo_model());
        graft::model net = graft::load(nets::residual_net(31));
        const std::vector<graft::tensor> image{nets::random_tensor({3, 3, 37, 29}, random)};
        for (const auto& [model, inputs, name] : {std::make_tuple(&demo, nets::inputs_of(demo, 31), "demo"), std::make_tuple(&net, image, "residual net")}) {
            const nets::answer one = nets::run(*model, inputs, 1);
            CHECK_MESSAGE(one.error.empty(), one.error);
            for (int threads = 1; threads <= 4; ++threads) {
                graft::session s(*model, {threads, nullptr});
                INFO(name, " on ", isa, " with ", threads, " threads");
                for (int again = 0; again < 3; ++again) CHECK(nets::same_bits(nets::run(s, *model, inputs), one));
            }
        }
    }
}

TEST_CASE("a model goes on when the instruction set is changed under it") {
    graft::model net = graft::load(nets::residual_net(32));
    nets::numbers random{32};
    check(net, {nets::random_tensor({1, 3, 19, 19}, random)}, "residual net");
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
