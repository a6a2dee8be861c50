// Element-wise operators where languages and machines disagree: integers that overflow, NaN, division by zero, old broadcasting.
#include "one_node.hpp"

#include <doctest/doctest.h>

#include <cmath>

using graft::dtype;
using namespace one_node;
using list = std::vector<double>;

TEST_CASE("integer division by zero gives zero and the smallest by minus one wraps") {
    const graft::tensor x = tensor(dtype::int32, {4}, {7, -7, -2147483648.0, 5}), y = tensor(dtype::int32, {4}, {0, 2, -1, -3});
    CHECK(run("Div", 14, {x, y}).values() == list{0, -3, -2147483648.0, -1});
    CHECK(run("Mod", 13, {x, y}).values() == list{0, 1, 0, -1});
    CHECK(run("Mod", 13, {x, y}, {integer("fmod", 1)}).values() == list{0, -1, 0, 2});
    const std::int64_t low[] = {INT64_MIN}, minus_one[] = {-1};
    const graft::tensor a = graft::tensor::from(low, {1}), b = graft::tensor::from(minus_one, {1});
    CHECK(run("Div", 14, {a, b}).values() == list{-9223372036854775808.0});
    CHECK(run("Neg", 13, {a}).values() == list{-9223372036854775808.0});
    CHECK(run("Abs", 13, {a}).values() == list{-9223372036854775808.0});
}

TEST_CASE("unsigned 64-bit integers are compared and divided as unsigned") {
    const std::uint64_t large[] = {UINT64_MAX, 1}, small[] = {2, 2};
    const graft::tensor x = graft::tensor::from(large, {2}), y = graft::tensor::from(small, {2});
    CHECK(run("Greater", 13, {x, y}).values() == list{1, 0});
    CHECK(run("Div", 14, {x, y}).outputs[0].data<std::uint64_t>()[0] == UINT64_MAX / 2);
    CHECK(run("Max", 13, {x, y}).outputs[0].data<std::uint64_t>()[0] == UINT64_MAX);
    CHECK(run("Min", 13, {x, y}).outputs[0].data<std::uint64_t>()[0] == 2);
    CHECK(run("BitShift", 11, {x, tensor(dtype::uint64, {1}, {63})}, {text("direction", "RIGHT")}).values() == list{1, 0});
    CHECK(run("BitShift", 11, {x, tensor(dtype::uint64, {1}, {64})}, {text("direction", "LEFT")}).values() == list{0, 0});
}

TEST_CASE("NaN passes through maxima, clipping and rectifiers") {
    const graft::tensor x = tensor(dtype::float32, {3}, {NAN, 1, -1}), y = tensor(dtype::float32, {3}, {0, NAN, 0});
    for (const char* op : {"Max", "Min"}) {
        const list v = run(op, 13, {x, y}).values();
        CHECK(std::isnan(v[0]));
        CHECK(std::isnan(v[1]));
    }
    CHECK(std::isnan(run("Clip", 13, {x, tensor(dtype::float32, {}, {-1}), tensor(dtype::float32, {}, {1})}).values()[0]));
    CHECK(std::isnan(run("Relu", 13, {x}).values()[0]));
    CHECK(run("Clip", 13, {tensor(dtype::float32, {3}, {-5, 0, 5}), tensor(dtype::float32, {}, {2}), tensor(dtype::float32, {}, {1})}).values() ==
          list{1, 1, 1});
}

TEST_CASE("before opset 7 the second input is broadcast at an axis, and only if asked for") {
    const graft::tensor x = tensor(dtype::float32, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), y = tensor(dtype::float32, {2}, {10, 20});
    CHECK(run("Add", 6, {x, y}, {integer("broadcast", 1), integer("axis", 1)}).values() == list{10, 11, 22, 23, 14, 15, 26, 27});
    CHECK(run("Add", 6, {x, y}, {integer("broadcast", 1)}).values() == list{10, 21, 12, 23, 14, 25, 16, 27});
    CHECK(run("Add", 6, {x, y}).error == "op.shape");
    CHECK(run("Add", 6, {x, y}, {integer("broadcast", 1), integer("axis", 3)}).error == "op.attribute");
    CHECK(run("PRelu", 6, {tensor(dtype::float32, {1, 2, 2}, {-1, -1, -1, -1}), y}).values() == list{-10, -10, -20, -20});
}

TEST_CASE("inputs that do not fit are refused by name") {
    const graft::tensor x = tensor(dtype::float32, {2, 3}, {1, 2, 3, 4, 5, 6}), i = tensor(dtype::int32, {2, 3}, {1, 2, 3, 4, 5, 6});
    CHECK(run("Add", 14, {x, tensor(dtype::float32, {2}, {1, 2})}).error == "op.shape");
    CHECK(run("Add", 14, {x, i}).error == "op.type");
    CHECK(run("Exp", 13, {i}).error == "op.type");
    CHECK(run("And", 7, {x, x}).error == "op.type");
    CHECK(run("BitwiseNot", 18, {x}).error == "op.type");
    CHECK(run("BitShift", 11, {i, i}, {text("direction", "UP")}).error == "op.attribute");
    CHECK(run("Mod", 13, {i, i}, {integer("fmod", 2)}).error == "op.attribute");
    CHECK(run("Gelu", 20, {x}, {text("approximate", "fast")}).error == "op.attribute");
    CHECK(run("Celu", 12, {x}, {real("alpha", 0)}).error == "op.attribute");
    CHECK(run("PRelu", 16, {tensor(dtype::float32, {3}, {1, 2, 3}), x}).error == "op.shape");
    CHECK(run("Clip", 13, {x, tensor(dtype::float32, {2}, {0, 1})}).error == "op.shape");
    CHECK(run("Where", 16, {x, x, x}).error == "op.type");
}

TEST_CASE("powers keep the type of the base") {
    const graft::tensor x = tensor(dtype::int32, {5}, {2, -1, -1, 0, 3}), y = tensor(dtype::int64, {5}, {-1, -3, -4, 0, 40});
    const list v = run("Pow", 13, {x, y}).values();
    CHECK(v == list{0, -1, 1, 1, static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(12157665459056928801ull)))});
    CHECK(run("Pow", 13, {x, tensor(dtype::float32, {1}, {2})}).values() == list{4, 1, 1, 0, 9});
}

TEST_CASE("operands of many shapes are broadcast as numpy does") {
    const graft::tensor x = tensor(dtype::float32, {2, 1, 3}, {0, 1, 2, 3, 4, 5}), y = tensor(dtype::float32, {2, 1}, {10, 20});
    const outcome o = run("Add", 14, {x, y});
    CHECK(o.outputs[0].shape() == graft::shape{2, 2, 3});
    CHECK(o.values() == list{10, 11, 12, 20, 21, 22, 13, 14, 15, 23, 24, 25});
    CHECK(run("Add", 14, {x, tensor(dtype::float32, {0, 1, 1, 3}, {})}).outputs[0].shape() == graft::shape{0, 2, 1, 3});
    CHECK(run("Mul", 14, {tensor(dtype::float32, {}, {3}), tensor(dtype::float32, {}, {4})}).values() == list{12});
    CHECK(run("Where", 16, {tensor(dtype::boolean, {2, 1}, {1, 0}), tensor(dtype::int64, {3}, {1, 2, 3}), tensor(dtype::int64, {}, {9})}).values() ==
          list{1, 2, 3, 9, 9, 9});
}
