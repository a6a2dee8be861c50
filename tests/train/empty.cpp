// Objects of training that were made and given nothing: each member answers with an error or with nothing, and none crashes.
#include <graft/train.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>

namespace {

template <class T>
bool says(const graft::result<T>& r, graft::errc code) {
    return !r.ok() && r.error().code() == code && !r.error().detail().empty();
}
bool says(const graft::status& s, graft::errc code) { return !s.ok() && s.error().code() == code && !s.error().detail().empty(); }

}  // namespace

TEST_CASE("an empty training step has no state and does not run") {
    graft::training_step step;
    graft::executor serial;
    CHECK(says(step.prepare({1, 3, 4, 4}, serial), graft::errc::usage));
    CHECK(says(step.run({}, serial), graft::errc::usage));
    CHECK(says(step.network(), graft::errc::usage));
    CHECK(step.loss() == 0);
    CHECK(step.scaling().skipped == 0);
    CHECK(!step.logits());
    CHECK(step.state().empty());
    step.state_changed();
    CHECK(step.read_state().ok());
    CHECK(!graft::training_step::make({}, graft::no_value, {}, {}).ok());
}

TEST_CASE("an empty dataset and its loader have no samples") {
    const graft::dataset data;
    CHECK(data.size() == 0);
    CHECK(data.classes().empty());
    CHECK(graft::dataset().classes().empty());
    CHECK(data.problems().empty());
    CHECK(graft::dataset().problems().empty());
    CHECK(data.class_counts().empty());
    CHECK(data.subset({0, 5}).size() == 0);
    for (std::int64_t i : {-1, 0, 7}) {
        CHECK(data.label(i) == -1);
        CHECK(data.name(i).empty());
        CHECK(says(data.fetch(i), graft::errc::data_open));
        CHECK(says(data.read(i), graft::errc::data_open));
    }
    CHECK(data.caps().image_pixels == graft::limits().image_pixels);
    CHECK(!graft::dataset::decode({}, "nothing").ok());

    graft::loader batches;
    graft::batch batch;
    CHECK(batches.batches() == 0);
    CHECK(!batches.start(0).ok());
    CHECK(!batches.next(batch).ok());
    batches.stop();
    CHECK(batches.waited_seconds() == 0);
    CHECK(batches.elapsed_seconds() == 0);
    CHECK(batch.size() == 0);
    const graft::sample_maker& samples = batches.samples();
    CHECK(samples.batch_shape(2)[0] == 2);
    CHECK(samples.sample_bytes() == 0);
    CHECK(!samples.pixels(0, 0).ok());
    CHECK(!samples.write(0, 0, nullptr).ok());
}

TEST_CASE("empty metrics count nothing") {
    graft::classification_metrics m;
    CHECK(m.classes() == 0);
    CHECK(m.samples() == 0);
    CHECK(m.confusion(0, 0) == 0);
    CHECK(m.score(0).support == 0);
    CHECK(m.macro_f1() == 0);
    CHECK(m.loss() == 0);
    CHECK(m.top1() == 0);
    CHECK(m.top_k() == 0);
    CHECK(m.calibration(0).samples == 0);
    CHECK(m.calibration_error() == 0);
    CHECK(!m.add(graft::tensor(), graft::tensor()).ok());
    CHECK(m.add(nullptr, nullptr, 0).ok());
    CHECK(m.merge(graft::classification_metrics()).ok());
    CHECK(graft::exact_sum().value() == 0);
}

TEST_CASE("logs that are not open, and what they are written from, say so") {
    graft::metrics_log log;
    CHECK(says(log.append(0, 0, "train", {{"loss", 1.0}}), graft::errc::file_write));
    CHECK(log.close().ok());
    graft::event_writer events;
    CHECK(says(events.scalar("loss", 0, 1, 0), graft::errc::file_write));
    CHECK(!events.picture("p", 0, "", 1, 1, 3, 0).ok());
    CHECK(events.path().empty());
    CHECK(events.close().ok());
}

TEST_CASE("a picture that there is not stays away under every augmentation") {
    const graft::image none;
    graft::random_sequence random{graft::random_stream(1, 2)};
    std::vector<graft::result<graft::image>> all;
    all.push_back(graft::adjust_brightness(none, 0.5));
    all.push_back(graft::adjust_contrast(none, 0.5));
    all.push_back(graft::adjust_saturation(none, 0.5));
    all.push_back(graft::adjust_hue(none, 0.1));
    all.push_back(graft::adjust_sharpness(none, 0.5));
    all.push_back(graft::posterize(none, 3));
    all.push_back(graft::solarize(none, 100));
    all.push_back(graft::autocontrast(none));
    all.push_back(graft::equalize(none));
    all.push_back(graft::invert(none));
    all.push_back(graft::flip_vertical(none));
    all.push_back(graft::rotate(none, 30));
    all.push_back(graft::apply(graft::auto_augment(), none, random));
    all.push_back(graft::augment_pixels(none, graft::augmentation(), random));
    for (const auto& made : all) CHECK((!made.ok() || !made.value()));
}

TEST_CASE("what is made from nothing is refused") {
    graft::grad_cam maps;
    CHECK(says(maps.map(graft::tensor(), 0), graft::errc::usage));
    graft::executor serial;
    graft::training_observer observer;
    CHECK(!graft::train({}, {}, {}, observer).ok());
    CHECK(!graft::evaluate(graft::model(), {}, {}, {}, {}).ok());
    CHECK(!graft::find_trunk({}, "", {1, 3, 8, 8}, serial).ok());
    CHECK(!graft::replace_head({}, {}, 2, 0).ok());
    CHECK(graft::parameters_of({}).empty());
    CHECK(graft::running_statistics({}, {}).empty());
    CHECK(!graft::encode_png({}).ok());
    CHECK(!graft::encode_golden({}).ok());
    CHECK(!graft::check_golden({}, graft::tensor()).ok());
    CHECK(graft::checkpoint().find("w") == nullptr);
    CHECK(graft::checkpoint().find_state("step") == nullptr);
    CHECK(graft::compare_settings({}, {}).ok());
    CHECK(graft::copy_tensors({}).ok());
    CHECK(graft::stages_of({}, {}, {}, serial).value().empty());
    CHECK(std::isfinite(graft::learning_rate({}, 0.1, {})));
    CHECK(!graft::overlay_heat_map({}, nullptr, 0, 0).ok());
}
