// Tensors, shapes and types as text and in streams, of the standard library or not.
#include <graft/exec/session.hpp>
#include <graft/tensor/print.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>

using namespace graft;

namespace {

// A stream that the standard library does not know.
struct log_stream {
    std::string text;
};
log_stream& operator<<(log_stream& out, const char* text) { return out.text += text, out; }

}  // namespace

TEST_CASE("a tensor's text is its type, its shape and its first elements") {
    const float values[] = {0.5f, -1, 2.25f, 1e-10f, 0.1f, 6};
    CHECK(to_string(tensor::from(values, {2, 3}).value()) == "float32 [2,3]: 0.5, -1, 2.25, 1e-10, 0.1, 6");
    const std::int64_t many[] = {1, 2, 3, 4, 5, 6, 7, 8, INT64_MIN};
    CHECK(to_string(tensor::from(many, {9}).value()) == "int64 [9]: 1, 2, 3, 4, 5, 6, 7, 8, ...");
    CHECK(to_string(tensor::from(many + 1, {8}).value()) == "int64 [8]: 2, 3, 4, 5, 6, 7, 8, -9223372036854775808");
    const std::uint64_t large = UINT64_MAX;
    CHECK(to_string(tensor::scalar(large).value()) == "uint64 []: 18446744073709551615");
    CHECK(to_string(tensor::scalar(true).value()) == "bool []: 1");
    CHECK(to_string(tensor::zeros(dtype::bfloat16, {0, 4}).value()) == "bfloat16 [0,4]");
    CHECK(to_string(tensor()) == "no tensor");
}

TEST_CASE("an input's text is its name, type and shape, with the names of open extents") {
    const value_info v{"in\nput", dtype::float32, true, {shape::unknown, 3, shape::unknown, 8}, {"N", "", "", ""}, false};
    CHECK(shape_text(v) == "[N,3,?,8]");
    CHECK(to_string(v) == "in\\x0aput float32 [N,3,?,8]");
    CHECK(to_string(value_info{"x", dtype::undefined, false, {}, {}, false}) == "x undefined of any rank");
}

TEST_CASE("what has a text can be written to any stream that takes text") {
    const value_info v{"x", dtype::uint8, true, {1, 4}, {}, false};
    const tensor t = tensor::zeros(dtype::int32, {2});
    std::ostringstream out;
    out << t << '|' << t.shape() << '|' << t.type() << '|' << v;
    CHECK(out.str() == "int32 [2]: 0, 0|[2]|int32|x uint8 [1,4]");
    log_stream log;
    log << t << "|" << t.shape() << "|" << t.type() << "|" << v;
    CHECK(log.text == out.str());
    std::string moved = static_cast<std::ostringstream&&>(std::ostringstream() << t.shape()).str();
    CHECK(moved == "[2]");
}
