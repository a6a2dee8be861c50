// Operators that put elements elsewhere: what ONNX's own tests do not ask of them.
#include "one_node.hpp"

#include <doctest/doctest.h>

using one_node::integers;

TEST_CASE("the axes of Transpose's perm count from 0, each of them once") {
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    const graft::tensor x = graft::tensor::from(numbers, {2, 3});
    CHECK(one_node::run("Transpose", 25, {x}, {integers("perm", {1, 0})}).values() == std::vector<double>{1, 4, 2, 5, 3, 6});
    for (const std::vector<std::int64_t>& wrong : {std::vector<std::int64_t>{-1, 0}, {1, -2}, {1, 1}, {2, 0}, {0}, {0, 1, 2}})
        CHECK(one_node::run("Transpose", 25, {x}, {integers("perm", wrong)}).error == "op.attribute");
}
