#include <graft/io/npy.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <memory>

using namespace graft;

namespace {

std::string npy(const std::string& dictionary, const std::string& data, int version = 1) {
    std::string file("\x93NUMPY", 6);
    file += static_cast<char>(version);
    file += '\0';
    file += static_cast<char>(dictionary.size() & 255);
    file += static_cast<char>(dictionary.size() >> 8);
    if (version > 1) file += std::string(2, '\0');
    return file + dictionary + data;
}

result<tensor> read(const std::string& file) {
    const std::unique_ptr<char[]> exact(new char[file.size() + 1]);
    file.copy(exact.get(), file.size());
    return read_npy(exact.get(), file.size(), "test");
}

std::string verdict(const std::string& file) {
    const auto array = read(file);
    return array.ok() ? "ok" : text(array.error().code());
}

}  // namespace

TEST_CASE("the header is the one that numpy writes") {
    // np.save of np.zeros((2, 3), 'f4'), up to the data.
    const std::string expected =
        std::string("\x93NUMPY\x01\x00v\x00", 10) + "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + std::string(58, ' ') + "\n";
    CHECK(npy_header(dtype::float32, {2, 3}).value() == expected);
    CHECK(npy_header(dtype::float32, {}).value().find("'shape': (), }") != std::string::npos);
    CHECK(npy_header(dtype::boolean, {4}).value().find("'|b1', 'fortran_order': False, 'shape': (4,), }") != std::string::npos);
    CHECK(npy_header(dtype::int64, shape::filled(16, 1000000000000)).value().size() % 64 == 0);
}

TEST_CASE("types that .npy lacks are refused by name") {
    for (dtype type : {dtype::bfloat16, dtype::float8e4m3fn, dtype::int4, dtype::string, dtype::undefined})
        CHECK(npy_header(type, {1}).error().code() == errc::npy_dtype);
}

TEST_CASE("an array comes back from its file as it went") {
    const std::string path = "graft_test_npy.npy";
    const dtype types[] = {dtype::float32, dtype::float16, dtype::float64, dtype::uint8,  dtype::int8,  dtype::uint16,
                           dtype::int16,   dtype::uint32,  dtype::int32,   dtype::uint64, dtype::int64, dtype::boolean};
    for (dtype type : types)
        for (const shape& extents : {shape{}, shape{3}, shape{2, 0, 5}, shape{2, 3, 4}}) {
            const tensor array = tensor::zeros(type, extents).value();
            for (std::size_t i = 0; i < array.bytes(); ++i) array.raw()[i] = std::byte(type == dtype::boolean ? i & 1 : i * 7);
            REQUIRE(write_npy(path, array).ok());
            const tensor back = read_npy_file(path).value();
            CHECK(back.type() == type);
            CHECK(back.shape() == extents);
            CHECK((array.bytes() == 0 || std::memcmp(array.raw(), back.raw(), array.bytes()) == 0));
        }
    std::remove(path.c_str());
    CHECK(read_npy_file(path).error().code() == errc::file_open);
}

TEST_CASE("Fortran order becomes C order") {
    const tensor array = read(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", std::string("\0\1\2\3\4\5", 6))).value();
    const std::uint8_t expected[6] = {0, 2, 4, 1, 3, 5};
    CHECK(std::memcmp(array.raw(), expected, 6) == 0);
}

TEST_CASE("versions 2 and 3, other key orders and Python 2 are read") {
    CHECK(verdict(npy("{'shape': (2L,), 'fortran_order': False, 'descr': '<i1'}\n", "ab", 2)) == "ok");
    CHECK(verdict(npy("{ \"descr\":\"|u1\",\"shape\":(),\"fortran_order\":False }", "a", 3)) == "ok");
    // One byte has no order, whatever a file says: numpy reads all of these.
    for (const char* order : {"|", "<", ">", "="}) {
        CAPTURE(order);
        const auto array = read(npy(std::string("{'descr': '") + order + "i1', 'fortran_order': False, 'shape': (2,), }", "\x07\xff"));
        REQUIRE(array.ok());
        CHECK(array->type() == dtype::int8);
        CHECK(array->data<std::int8_t>()[1] == -1);
    }
}

TEST_CASE("bool elements are 0 or 1 whatever the file says") {
    const tensor array = read(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", std::string("\0\x07", 2))).value();
    CHECK(static_cast<int>(array.raw()[0]) == 0);
    CHECK(static_cast<int>(array.raw()[1]) == 1);
}

TEST_CASE("malformed files are refused, whatever they claim") {
    const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", std::string(8, 'x'));
    REQUIRE(verdict(good) == "ok");
    for (std::size_t n = 0; n < good.size(); ++n) CHECK(verdict(good.substr(0, n)) != "ok");
    for (const char* dictionary :
         {"", "{}", "{'descr': '<f4', 'shape': (2,), }", "{'descr': '<f4', 'fortran_order': 1, 'shape': (2,), }",
          "{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", "{'descr': '<f4', 'fortran_order': False, 'shape': (2), }",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
          "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } more",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"}) {
        CAPTURE(dictionary);
        CHECK(verdict(npy(dictionary, std::string(8, 'x'))) == "npy.malformed");
    }
    CHECK(verdict(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", std::string(8, 'x'), 4)) == "npy.malformed");
    const auto told = [](const std::string& file) {
        const auto array = read(file);
        return array.ok() ? "ok" : std::string(array.error().what());
    };
    CHECK(told(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3", "")) == "npy.malformed: test: the shape is not a tuple");
    CHECK(told(std::string("\x93NUMPY\2\0\1\0\0", 11)) == "npy.malformed: test: the file ends within its header");
    for (const char* type : {"'>f4'", "'<c8'", "'|O'", "'<U4'", "'|S3'", "'<M8[s]'", "[('a', '<f4')]", "''"}) {
        CAPTURE(type);
        CHECK(verdict(npy(std::string("{'descr': ") + type + ", 'fortran_order': False, 'shape': (2,), }", std::string(16, 'x'))) == "npy.dtype");
    }
}
