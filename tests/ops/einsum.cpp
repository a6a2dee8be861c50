// Einsum: contraction, diagonals, ellipses, implicit outputs, and equations that are wrong.
#include "one_node.hpp"

#include <doctest/doctest.h>

namespace {
using graft::dtype;
using one_node::run;
using one_node::tensor;

one_node::outcome einsum(const char* equation, const std::vector<graft::tensor>& inputs) {
    return run("Einsum", 12, inputs, {one_node::text("equation", equation)});
}
const graft::tensor matrix() { return tensor(dtype::float32, {2, 2}, {1, 2, 3, 4}); }
const graft::tensor vector_of_two() { return tensor(dtype::float32, {2}, {10, 100}); }
}  // namespace

TEST_CASE("Einsum contracts, transposes, takes diagonals and sums") {
    CHECK(einsum("ij,j->i", {matrix(), vector_of_two()}).values() == std::vector<double>{210, 430});
    CHECK(einsum("ij->ji", {matrix()}).values() == std::vector<double>{1, 3, 2, 4});
    CHECK(einsum("ii->i", {matrix()}).values() == std::vector<double>{1, 4});
    CHECK(einsum("ii", {matrix()}).values() == std::vector<double>{5});
    CHECK(einsum("ba", {matrix()}).values() == std::vector<double>{1, 3, 2, 4});
    CHECK(einsum("ij->", {matrix()}).values() == std::vector<double>{10});
    CHECK(einsum("i,j,k->", {vector_of_two(), vector_of_two(), vector_of_two()}).values() == std::vector<double>{110.0 * 110 * 110});
    CHECK(einsum(" ... j , j -> ... ", {matrix(), vector_of_two()}).values() == std::vector<double>{210, 430});
    CHECK(einsum("...,...", {matrix(), vector_of_two()}).values() == std::vector<double>{10, 200, 30, 400});
}

TEST_CASE("Einsum over an empty axis gives zeros") {
    CHECK(einsum("ij,jk->ik", {tensor(dtype::float32, {2, 0}, {}), tensor(dtype::float32, {0, 1}, {})}).values() == std::vector<double>{0, 0});
}

TEST_CASE("Einsum refuses equations that do not fit") {
    for (const char* equation : {"", "ij,jk", "i j -", "ij-<i", "i1->i", "ij->k", "ij->ii", "i..j", "......", "ij.."}) {
        CAPTURE(equation);
        CHECK(einsum(equation, {matrix()}).error.substr(0, 3) == "op.");
    }
    CHECK(einsum("i", {matrix()}).error == "op.shape");
    CHECK(einsum("ijk", {matrix()}).error == "op.shape");
    CHECK(einsum("ij,j->i", {matrix(), tensor(dtype::float32, {3}, {1, 2, 3})}).error == "op.shape");
}
