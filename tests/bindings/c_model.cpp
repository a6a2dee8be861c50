// graft.h: models and sessions give what the C++ interface gives, to the bit, and every failure is an error.
#include "c_handles.hpp"

#include "file_contents.hpp"

#include <graft/gpu.hpp>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

std::vector<float> numbers(std::size_t count, int seed) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(seed) * 101) % 255) / 128.0f - 1;
    return values;
}
constexpr std::size_t one_picture = 3 * 64 * 64;

graft_return_code give(graft_session* session, const std::vector<float>& values, std::int64_t batch, failure& error) {
    const std::int64_t shape[] = {batch, 3, 64, 64};
    return graft_session_set_input(session, 0, GRAFT_FLOAT32, shape, 4, values.data(), values.size() * sizeof(float), error.out());
}
std::vector<float> floats(const graft_tensor* t) {
    const auto* data = static_cast<const float*>(graft_tensor_data(t));
    return {data, data + graft_tensor_bytes(t) / sizeof(float)};
}
std::vector<float> by_cpp(const std::vector<float>& values, std::int64_t batch) {
    const graft::model m = graft::load(demo_file("model.onnx"), graft::on_device(nullptr));
    graft::session session(m);
    const graft::tensor out = session.run(graft::tensor::borrow(values.data(), {batch, 3, 64, 64})).value();
    return {out.data<float>(), out.data<float>() + out.elements()};
}

}  // namespace

TEST_CASE("the C interface tells of a model what the C++ interface tells") {
    failure error;
    const model_handle m(graft_model_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    REQUIRE_MESSAGE(m, error.message());
    const graft::model same = graft::load(demo_file("model.onnx"), graft::on_device(nullptr));
    REQUIRE(graft_model_input_count(m.get()) == same.inputs().size());
    REQUIRE(graft_model_output_count(m.get()) == same.outputs().size());
    const graft_value* input = graft_model_input(m.get(), 0);
    const graft::value_info& info = same.inputs()[0];
    CHECK(graft_value_name(input) == info.name);
    CHECK(graft_value_dtype(input) == GRAFT_FLOAT32);
    CHECK(std::string(graft_dtype_name(graft_value_dtype(input))) == "float32");
    REQUIRE(graft_value_rank(input) == info.extents.rank());
    for (int i = 0; i < info.extents.rank(); ++i) CHECK(graft_value_extent(input, i) == info.extents[i]);
    CHECK(graft_value_extent(input, 0) == -1);
    CHECK(graft_value_dimension(input, 0) == info.dimensions[0]);
    CHECK(graft_value_has_default(input) == 0);
    CHECK(graft_value_extent(input, 4) == -1);
    CHECK(graft_model_input(m.get(), 1) == nullptr);
    CHECK(graft_value_name(graft_model_output(m.get(), 0)) == same.outputs()[0].name);
    CHECK(std::string(graft_model_device(m.get())) == "cpu");
    REQUIRE(graft_model_metadata_count(m.get()) == same.graph().metadata.size());
    for (std::size_t i = 0; i < same.graph().metadata.size(); ++i) {
        CHECK(graft_model_metadata_key(m.get(), i) == same.graph().metadata[i].first);
        CHECK(graft_model_metadata_value(m.get(), i) == same.graph().metadata[i].second);
    }
    CHECK(graft_abi_version() == GRAFT_ABI_VERSION);
    CHECK(std::string(graft_version()) == graft::version());
}

TEST_CASE("a run by the C interface has the bits of one by the C++ interface, from a file and from memory") {
    failure error;
    const std::string bytes = file_contents(demo_file("model.onnx"));
    const model_handle from_file(graft_model_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    const model_handle from_memory(graft_model_load_bytes(bytes.data(), bytes.size(), on_cpu().get(), error.out()));
    for (const model_handle* m : {&from_file, &from_memory}) {
        REQUIRE_MESSAGE(*m, error.message());
        const session_handle session(graft_session_new(m->get(), nullptr, error.out()));
        REQUIRE_MESSAGE(session, error.message());
        CHECK(graft_session_output(session.get(), 0) == nullptr);
        for (std::int64_t batch : {1, 5, 1}) {
            const std::vector<float> in = numbers(one_picture * static_cast<std::size_t>(batch), static_cast<int>(batch));
            REQUIRE_MESSAGE(give(session.get(), in, batch, error) == GRAFT_OK, error.message());
            REQUIRE_MESSAGE(graft_session_run(session.get(), error.out()) == GRAFT_OK, error.message());
            const graft_tensor* out = graft_session_output(session.get(), 0);
            REQUIRE(graft_tensor_rank(out) == 2);
            CHECK(graft_tensor_shape(out)[0] == batch);
            CHECK(graft_tensor_shape(out)[1] == 8);
            CHECK(graft_tensor_dtype(out) == GRAFT_FLOAT32);
            CHECK(floats(out) == by_cpp(in, batch));
            CHECK(graft_session_output(session.get(), 1) == nullptr);
        }
    }
}

TEST_CASE("an output that is shared stays as it is: past the next run, the session and the model") {
    failure error;
    model_handle m(graft_model_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    session_handle session(graft_session_new(m.get(), nullptr, error.out()));
    const std::vector<float> first = numbers(one_picture, 1), second = numbers(one_picture, 2);
    REQUIRE(give(session.get(), first, 1, error) == GRAFT_OK);
    REQUIRE(graft_session_run(session.get(), error.out()) == GRAFT_OK);
    const tensor_handle kept(graft_tensor_share(graft_session_output(session.get(), 0), error.out()));
    REQUIRE(kept);
    CHECK(graft_tensor_data(kept.get()) == graft_tensor_data(graft_session_output(session.get(), 0)));
    REQUIRE(give(session.get(), second, 1, error) == GRAFT_OK);
    REQUIRE(graft_session_run(session.get(), error.out()) == GRAFT_OK);
    CHECK(floats(graft_session_output(session.get(), 0)) == by_cpp(second, 1));
    session.reset();
    m.reset();
    CHECK(floats(kept.get()) == by_cpp(first, 1));
}

TEST_CASE("a session forgets its inputs when it has run") {
    failure error;
    const model_handle m(graft_model_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    const session_handle session(graft_session_new(m.get(), nullptr, error.out()));
    REQUIRE(give(session.get(), numbers(one_picture, 1), 1, error) == GRAFT_OK);  // a temporary that is gone
    const std::vector<float> in = numbers(one_picture, 3);
    REQUIRE(give(session.get(), in, 1, error) == GRAFT_OK);
    REQUIRE(graft_session_run(session.get(), error.out()) == GRAFT_OK);
    CHECK(graft_session_run(session.get(), error.out()) == GRAFT_FAILED);
    CHECK(error.code() == "input.name");
    CHECK(graft_session_output(session.get(), 0) == nullptr);
}

TEST_CASE("inputs that do not fit are refused, and the session goes on") {
    failure error;
    const model_handle m(graft_model_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    const session_handle session(graft_session_new(m.get(), nullptr, error.out()));
    const std::vector<float> in = numbers(one_picture + 1, 1);
    const std::int64_t good[] = {1, 3, 64, 64}, small[] = {1, 3, 32, 32}, negative[] = {-1, 3, 64, 64}, huge[] = {std::int64_t(1) << 40, 1 << 20, 1 << 20, 1};
    const std::size_t bytes = one_picture * sizeof(float);
    const auto refused = [&](std::size_t index, graft_dtype dtype, const std::int64_t* shape, int rank, const void* data, std::size_t size) {
        CHECK(graft_session_set_input(session.get(), index, dtype, shape, rank, data, size, error.out()) != GRAFT_OK);
        CHECK(!error.message().empty());
        return error.code();
    };
    CHECK(refused(1, GRAFT_FLOAT32, good, 4, in.data(), bytes) == "input.name");
    CHECK(refused(0, GRAFT_INT32, good, 4, in.data(), bytes) == "input.dtype");
    CHECK(refused(0, GRAFT_FLOAT32, small, 4, in.data(), bytes / 4) == "input.shape");
    CHECK(refused(0, GRAFT_FLOAT32, good, 3, in.data(), 3 * 64 * sizeof(float)) == "input.shape");
    CHECK(refused(0, GRAFT_FLOAT32, good, 4, in.data(), bytes - 1) == "tensor.bytes");
    CHECK(refused(0, GRAFT_FLOAT32, good, 4, nullptr, bytes) == "usage");
    CHECK(refused(0, GRAFT_FLOAT32, nullptr, 4, in.data(), bytes) == "usage");
    CHECK(refused(0, GRAFT_FLOAT32, negative, 4, in.data(), bytes) == "tensor.shape");
    CHECK(refused(0, GRAFT_FLOAT32, huge, 4, in.data(), bytes) == "tensor.overflow");
    CHECK(refused(0, GRAFT_FLOAT32, good, 17, in.data(), bytes) == "tensor.shape");
    CHECK(refused(0, GRAFT_FLOAT32, good, -1, in.data(), bytes) == "tensor.shape");
    CHECK(refused(0, GRAFT_UNDEFINED, good, 4, in.data(), bytes) == "tensor.dtype");
    CHECK(refused(0, 8, good, 4, in.data(), bytes) == "tensor.dtype");
    CHECK(refused(0, 99, good, 4, in.data(), bytes) == "tensor.dtype");
    CHECK(refused(0, GRAFT_FLOAT32, good, 4, reinterpret_cast<const char*>(in.data()) + 1, bytes) == "usage");
    REQUIRE(graft_session_set_input(session.get(), 0, GRAFT_FLOAT32, good, 4, in.data(), bytes, error.out()) == GRAFT_OK);
    CHECK(graft_session_run(session.get(), error.out()) == GRAFT_OK);
}

TEST_CASE("a file that is cut or is none is the same error as in C++") {
    failure error;
    const std::string bytes = file_contents(demo_file("model.onnx"));
    REQUIRE(bytes.size() > 1000);
    for (std::size_t size : {std::size_t(1), bytes.size() / 7, bytes.size() / 2, bytes.size() - 1}) {
        CHECK(!graft_model_load_bytes(bytes.data(), size, on_cpu().get(), error.out()));
        const auto same = graft::load(bytes.data(), size, graft::on_device(nullptr));
        REQUIRE(!same.ok());
        CHECK(error.message() == same.error().what());
        CHECK(error.code() == graft::text(same.error().code()));
        CHECK(error.where() == same.error().where());
        CHECK(error.detail() == same.error().detail());
    }
    CHECK(!graft_model_load("there/is/none.onnx", on_cpu().get(), error.out()));
    CHECK(error.code() == "file.open");
    CHECK(!graft_model_load("there/is/none.onnx", on_cpu().get(), nullptr));
}

TEST_CASE("an option that there is not, or that takes another value, is named") {
    failure error;
    const auto refused = [&](const char* name, const char* value) {
        const options_handle options(graft_options_new());
        REQUIRE(graft_options_set(options.get(), name, value, error.out()) == GRAFT_OK);
        CHECK(!graft_model_load(demo_file("model.onnx").c_str(), options.get(), error.out()));
        CHECK(error.code() == (std::strcmp(name, "device") ? "usage" : "device.unavailable"));
        return error.message();
    };
    CHECK(refused("thread", "2").find("did you mean threads?") != std::string::npos);
    CHECK(refused("threads", "two").find("usage: threads: it takes a whole number from 0 to 1024, not \"two\"") == 0);
    for (const char* wrong : {"", "-1", "1025", "2x", "99999999999999999999"}) CHECK(refused("threads", wrong).find("usage: threads") == 0);
    CHECK(refused("exact", "yes").find("true, 1, false or 0") != std::string::npos);
    CHECK(refused("precision", "float31").find("float31") != std::string::npos);
    CHECK(refused("device", "abacus").find("cuda, cpu") != std::string::npos);
    const options_handle options(graft_options_new());
    for (const char* value : {"abacus", "cpu"}) CHECK(graft_options_set(options.get(), "device", value, error.out()) == GRAFT_OK);
    CHECK(graft_options_set(options.get(), "open-batch", "true", error.out()) == GRAFT_OK);
    CHECK(model_handle(graft_model_load(demo_file("model.onnx").c_str(), options.get(), error.out())));
}

TEST_CASE("eight threads run one model, a session each") {
    failure error;
    const model_handle m(graft_model_load(demo_file("model.onnx").c_str(), on_cpu().get(), error.out()));
    std::vector<std::vector<float>> in, expected, found(8);
    for (int i = 0; i < 8; ++i) in.push_back(numbers(one_picture, i)), expected.push_back(by_cpp(in.back(), 1));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 8; ++i)
        threads.emplace_back([&, i] {
            failure own;
            const session_handle session(graft_session_new(m.get(), nullptr, own.out()));
            for (int round = 0; round < 20; ++round)
                if (give(session.get(), in[i], 1, own) != GRAFT_OK || graft_session_run(session.get(), own.out()) != GRAFT_OK) return;
            found[i] = floats(graft_session_output(session.get(), 0));
        });
    for (std::thread& t : threads) t.join();
    for (std::size_t i = 0; i < 8; ++i) CHECK(found[i] == expected[i]);
}

TEST_CASE("NULL is an error or nothing, for models and sessions") {
    failure error;
    CHECK(!graft_model_load(nullptr, nullptr, error.out()));
    CHECK(error.code() == "usage");
    CHECK(!graft_model_load_bytes(nullptr, 5, nullptr, error.out()));
    CHECK(error.code() == "usage");
    CHECK(!graft_session_new(nullptr, nullptr, error.out()));
    CHECK(error.code() == "usage");
    CHECK(graft_session_set_input(nullptr, 0, GRAFT_FLOAT32, nullptr, 0, nullptr, 0, error.out()) == GRAFT_USAGE);
    CHECK(graft_session_run(nullptr, error.out()) == GRAFT_USAGE);
    CHECK(!graft_tensor_share(nullptr, error.out()));
    CHECK(graft_options_set(nullptr, "threads", "1", error.out()) == GRAFT_USAGE);
    const options_handle options(graft_options_new());
    CHECK(graft_options_set(options.get(), nullptr, "1", error.out()) == GRAFT_USAGE);
    CHECK(graft_options_set(options.get(), "threads", nullptr, error.out()) == GRAFT_USAGE);
    CHECK(graft_model_input_count(nullptr) + graft_model_output_count(nullptr) + graft_model_metadata_count(nullptr) == 0);
    CHECK(graft_model_input(nullptr, 0) == nullptr);
    CHECK(graft_model_metadata_key(nullptr, 0) == nullptr);
    CHECK(graft_value_rank(nullptr) == -1);
    CHECK(std::string(graft_value_name(nullptr)).empty());
    CHECK(std::string(graft_model_device(nullptr)).empty());
    CHECK(graft_session_output(nullptr, 0) == nullptr);
    CHECK(graft_tensor_data(nullptr) == nullptr);
    CHECK(graft_tensor_bytes(nullptr) == 0);
    CHECK(std::string(graft_error_message(nullptr)).empty());
    graft_model_free(nullptr), graft_session_free(nullptr), graft_tensor_free(nullptr), graft_options_free(nullptr), graft_error_free(nullptr);
}
