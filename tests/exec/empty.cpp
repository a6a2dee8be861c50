// Objects that were made and given nothing: each member answers with an error or with nothing, and none crashes.
#include <graft/core/file.hpp>
#include <graft/graft.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

template <class T>
bool says(const graft::result<T>& r, graft::errc code) {
    return !r.ok() && r.error().code() == code && !r.error().detail().empty();
}
bool says(const graft::status& s, graft::errc code) { return !s.ok() && s.error().code() == code && !s.error().detail().empty(); }

}  // namespace

TEST_CASE("an empty model has no inputs, outputs or graph, and what has to run it says so") {
    const graft::model m;
    CHECK(!m);
    CHECK(m.inputs().empty());
    CHECK(m.outputs().empty());
    CHECK(m.graph().nodes.empty());
    CHECK(graft::model().inputs().empty());
    CHECK(graft::model().outputs().empty());
    CHECK(graft::model().graph().nodes.empty());
    CHECK(m.metadata("graft.labels").empty());
    CHECK(std::string(m.device()) == "cpu");
    CHECK(says(m.save("never written.onnx"), graft::errc::usage));
    CHECK(says(m.memory({}), graft::errc::usage));
    CHECK(says(m.placements({}), graft::errc::usage));
    CHECK(!graft::classifier::make(m).ok());
    const graft::model nothing = graft::load(graft::graph()).value();
    CHECK(nothing.outputs().empty());
    CHECK(!graft::session(nothing).run(graft::tensor()).ok());
}

TEST_CASE("a session of an empty model, and one that was moved from, answer with an error") {
    graft::session empty{graft::model()};
    graft::session target = std::move(empty);
    for (graft::session* s : {&empty, &target}) {
        CHECK(says(s->run(), graft::errc::usage));
        CHECK(says(s->run(graft::tensor()), graft::errc::usage));
        CHECK(says(s->run(std::vector<graft::named_tensor>()), graft::errc::usage));
        CHECK(says(s->set_input(0, graft::tensor()), graft::errc::usage));
        CHECK(!s->output(0));
        s->trim();
    }
}

TEST_CASE("an empty tensor, shape and buffer hold nothing") {
    const graft::tensor t;
    CHECK(!t);
    CHECK(t.bytes() == 0);
    CHECK(t.raw() == nullptr);
    CHECK(t.storage().data() == nullptr);
    CHECK(t.shape().rank() == 0);
    CHECK(!t.reshaped({2, 3}));
    CHECK(says(graft::write_npy("never written.npy", t), graft::errc::npy_dtype));
    CHECK(graft::text(graft::shape()) == "[]");
    CHECK(graft::shape().at(3) == 1);
    CHECK(graft::shape().back() == 1);
    CHECK(graft::buffer().bytes() == 0);
    CHECK(!graft::buffer().unique());
}

TEST_CASE("nothing is done to a picture that there is not") {
    const graft::image none;
    CHECK(!none);
    CHECK(none.bytes() == 0);
    CHECK(!graft::to_gray(none).ok());
    CHECK(!graft::crop(none, 0, 0, 1, 1).ok());
    CHECK(!graft::flip_horizontal(none).ok());
    CHECK(!graft::resize(none, 4, 4).ok());
    CHECK(!graft::preprocess(none, graft::preprocess_spec()).ok());
    CHECK(says(graft::to_tensor(none, graft::preprocess_spec()), graft::errc::image_dimensions));
    CHECK(graft::orient(none, 1).ok());
    CHECK(!graft::orient(none, 6).ok());
}

TEST_CASE("an empty builder builds nothing, and says why") {
    graft::builder b;
    CHECK(!b.finish().ok());
    graft::builder other;
    const graft::value_id nothing = other.relu(graft::no_value);
    CHECK(other.shape_of(nothing).rank() == 0);
    CHECK(other.shape_of(graft::no_value).rank() == 0);
    CHECK(other.shape_of(1 << 20).rank() == 0);
    other.conv2d(nothing, 3), other.batch_norm(5), other.linear(nothing, 2), other.add(nothing, nothing), other.concat({});
    other.max_pool(7), other.average_pool(nothing), other.global_average_pool(nothing), other.flatten(nothing), other.softmax(nothing),
        other.clip(nothing, 0, 1);
    other.apply("Relu", {nothing}), other.apply_all("Split", {nothing}, {}, 2);
    other.output(nothing, "y");
    CHECK(!other.finish().ok());
}

TEST_CASE("a file that is not open is not written") {
    graft::atomic_file file;
    CHECK(file.write("", 0).ok());
    CHECK(says(file.write("x", 1), graft::errc::file_write));
    CHECK(says(file.commit(), graft::errc::file_write));
}

TEST_CASE("an empty file of weights has no tensors") {
    const graft::safetensors file;
    CHECK(file.find("w") == nullptr);
    CHECK(file.find_metadata("from") == nullptr);
    CHECK(!file.load(graft::safetensors_entry()).ok());
}

TEST_CASE("a network of which no value has elements runs") {
    // Nothing is held for it: there is no memory to count bytes in, which the undefined-behaviour sanitizer sees.
    graft::builder b("net");
    const graft::value_id x = b.input("x", graft::dtype::float32, {0, 6});
    const graft::attribute axis = graft::integer_attribute("axis", 1);
    const auto parts = b.apply_all("Split", {x}, {axis}, 2);
    b.output(b.apply("Concat", {parts[1], x, parts[0]}, {axis}), "y");
    const graft::model m = graft::load(b.finish());
    graft::session s(m);
    const auto y = s.run(graft::tensor::make(graft::dtype::float32, {0, 6}).value());
    REQUIRE(y.ok());
    CHECK(y->shape() == graft::shape{0, 12});
}
