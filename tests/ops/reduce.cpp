// Reductions, softmax, running sums and places of extremes: empty ones, axes that are wrong, old and new meanings.
#include "one_node.hpp"

#include <doctest/doctest.h>

#include <cmath>

using graft::dtype;
using namespace one_node;
using list = std::vector<double>;

TEST_CASE("reductions of nothing give the neutral element") {
    const graft::tensor none = tensor(dtype::float32, {2, 0}, {}), axis = tensor(dtype::int64, {1}, {1});
    const std::vector<graft::attribute> drop = {integer("keepdims", 0)};
    CHECK(run("ReduceSum", 18, {none, axis}, drop).values() == list{0, 0});
    CHECK(run("ReduceProd", 18, {none, axis}, drop).values() == list{1, 1});
    CHECK(run("ReduceMax", 20, {none, axis}, drop).values() == list{-HUGE_VAL, -HUGE_VAL});
    CHECK(run("ReduceMin", 20, {none, axis}, drop).values() == list{HUGE_VAL, HUGE_VAL});
    CHECK(run("ReduceLogSumExp", 18, {none, axis}, drop).values() == list{-HUGE_VAL, -HUGE_VAL});
    CHECK(std::isnan(run("ReduceMean", 18, {none, axis}, drop).values()[0]));
    CHECK(run("ReduceMax", 20, {tensor(dtype::int8, {1, 0}, {}), axis}).values() == list{-128});
    CHECK(run("ReduceMin", 20, {tensor(dtype::uint8, {1, 0}, {}), axis}).values() == list{255});
    CHECK(run("ReduceMax", 20, {tensor(dtype::boolean, {1, 0}, {}), axis}).values() == list{0});
}

TEST_CASE("without axes everything is reduced, or nothing if that is asked for") {
    const graft::tensor x = tensor(dtype::float32, {2, 2}, {1, 2, 3, 4});
    CHECK(run("ReduceSum", 13, {x}).values() == list{10});
    CHECK(run("ReduceSum", 13, {x}, {integer("noop_with_empty_axes", 1)}).values() == list{1, 2, 3, 4});
    CHECK(run("ReduceSumSquare", 18, {x, tensor(dtype::int64, {0}, {})}, {integer("noop_with_empty_axes", 1)}).values() == list{1, 4, 9, 16});
    CHECK(run("ReduceSum", 11, {x}, {integers("axes", {-1}), integer("keepdims", 0)}).values() == list{3, 7});
}

TEST_CASE("keepdims keeps axes where it is 1, and no other number does, as ONNX's inference and ONNX Runtime read it") {
    const graft::tensor x = tensor(dtype::float32, {2, 2}, {1, 2, 3, 4}), axis = tensor(dtype::int64, {1}, {1});
    for (const std::int64_t given : {1, 0, 2, -1}) {
        const graft::shape wanted = given == 1 ? graft::shape{2, 1} : graft::shape{2};
        const std::vector<graft::attribute> keep = {integer("keepdims", given)};
        CHECK(run("ReduceSum", 13, {x, axis}, keep).outputs.at(0).shape() == wanted);
        CHECK(run("ArgMax", 13, {x}, {integer("axis", 1), integer("keepdims", given)}).outputs.at(0).shape() == wanted);
    }
}

TEST_CASE("axes that are wrong are refused") {
    const graft::tensor x = tensor(dtype::float32, {2, 2}, {1, 2, 3, 4});
    CHECK(run("ReduceSum", 13, {x, tensor(dtype::int64, {1}, {2})}).error == "op.attribute");
    CHECK(run("ReduceSum", 13, {x, tensor(dtype::int64, {2}, {0, -2})}).error == "op.attribute");
    CHECK(run("ReduceSum", 13, {x, tensor(dtype::float32, {1}, {0})}).error == "op.type");
    CHECK(run("ArgMax", 13, {x}, {integer("axis", -3)}).error == "op.attribute");
    CHECK(run("ArgMax", 13, {tensor(dtype::float32, {2, 0}, {})}, {integer("axis", 1)}).error == "op.shape");
    CHECK(run("Softmax", 13, {x}, {integer("axis", 2)}).error == "op.attribute");
    CHECK(run("CumSum", 14, {x, tensor(dtype::int64, {}, {2})}).error == "op.attribute");
    CHECK(run("ReduceLogSum", 28, {tensor(dtype::int32, {1}, {1})}).error == "op.type");
}

TEST_CASE("interleaved axes are summed in every layout") {
    std::vector<double> values;
    for (int i = 0; i < 2 * 3 * 4 * 5; ++i) values.push_back(i);
    const graft::tensor x = tensor(dtype::float64, {2, 3, 4, 5}, values);
    for (unsigned mask = 0; mask < 16; ++mask) {
        std::vector<double> axes, want;
        for (int a = 0; a < 4; ++a)
            if (mask >> a & 1) axes.push_back(a);
        std::vector<double> sums(120, 0.0);
        const int extents[] = {2, 3, 4, 5};
        int places = 1;
        for (int a = 0; a < 4; ++a) places *= mask >> a & 1 ? 1 : extents[a];
        for (int i = 0; i < 120; ++i) {
            const int index[] = {i / 60, i / 20 % 3, i / 5 % 4, i % 5};
            int at = 0;
            for (int a = 0; a < 4; ++a)
                if (!(mask >> a & 1)) at = at * extents[a] + index[a];
            sums[static_cast<std::size_t>(at)] += i;
        }
        sums.resize(static_cast<std::size_t>(places));
        CHECK(run("ReduceSum", 13, {x, tensor(dtype::int64, {static_cast<std::int64_t>(axes.size())}, axes)}, {integer("noop_with_empty_axes", 1)}).values() ==
              sums);
    }
}

TEST_CASE("softmax before opset 13 takes everything from the axis on as one line") {
    const graft::tensor x = tensor(dtype::float32, {1, 2, 2}, {0, 0, 0, 0});
    CHECK(run("Softmax", 11, {x}).values() == list{0.25, 0.25, 0.25, 0.25});
    CHECK(run("Softmax", 13, {x}).values() == list{0.5, 0.5, 0.5, 0.5});
    CHECK(run("Hardmax", 13, {tensor(dtype::float32, {4}, {1, 3, 3, 2})}).values() == list{0, 1, 0, 0});
    const list huge = run("LogSoftmax", 13, {tensor(dtype::float32, {2}, {1e30, 0})}).values();
    CHECK(huge[0] == 0);
}

TEST_CASE("places of extremes prefer NaN, and the last of equals if asked for") {
    const graft::tensor x = tensor(dtype::float32, {5}, {1, 3, 3, 0, 0});
    CHECK(run("ArgMax", 13, {x}).values() == list{1});
    CHECK(run("ArgMax", 13, {x}, {integer("select_last_index", 1)}).values() == list{2});
    CHECK(run("ArgMin", 13, {x}, {integer("select_last_index", 1)}).values() == list{4});
    CHECK(run("ArgMax", 13, {tensor(dtype::float32, {3}, {1, NAN, 9})}).values() == list{1});
}

TEST_CASE("running sums go forwards, backwards, and without the element itself") {
    const graft::tensor x = tensor(dtype::int32, {4}, {1, 2, 3, 4}), zero = tensor(dtype::int64, {}, {0});
    CHECK(run("CumSum", 14, {x, zero}).values() == list{1, 3, 6, 10});
    CHECK(run("CumSum", 14, {x, zero}, {integer("exclusive", 1)}).values() == list{0, 1, 3, 6});
    CHECK(run("CumSum", 14, {x, zero}, {integer("exclusive", 1), integer("reverse", 1)}).values() == list{9, 7, 4, 0});
    CHECK(run("CumProd", 26, {x, zero}, {integer("reverse", 1)}).values() == list{24, 24, 12, 4});
}
