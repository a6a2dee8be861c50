// How runs begin and end: folders that hold one, observers that stop one; and rates by layer in a run.
#include "../difference.hpp"
#include "../core/comma_locale.hpp"
#include "small_runs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

TEST_CASE("A folder that holds a run is refused, its own files are replaced where that is asked for, and nothing else is touched") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/run");
    o.epochs = 1;
    const auto runs = [&] {
        const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
        graft::training_observer watcher;
        return graft::train(small_network("none"), data, o, watcher);
    };
    const auto event_files = [&] {
        const std::vector<std::string> names = graft::run_files(o.out);
        return std::count_if(names.begin(), names.end(), [](const std::string& name) { return name[0] == 'e'; });
    };
    folder.put("run/notes.txt", "mine");
    REQUIRE(runs().ok());
    const std::string model = file(o.out + "/model.onnx"), checkpoint = file(o.out + "/checkpoint.safetensors"), log = file(o.out + "/metrics.jsonl");
    CHECK(event_files() == 1);
    o.seed = 10;
    const auto refused = runs();
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::train_out_in_use);
    CHECK(file(o.out + "/model.onnx") == model);
    CHECK(file(o.out + "/checkpoint.safetensors") == checkpoint);
    CHECK(file(o.out + "/metrics.jsonl") == log);
    // TensorBoard would show the points of both.
    o.overwrite = true;
    REQUIRE(runs().ok());
    CHECK(event_files() == 1);
    CHECK(file(o.out + "/model.onnx") != model);
    CHECK(file(o.out + "/notes.txt") == "mine");
    // What a resumed run adds stands beside what was there.
    o.overwrite = false, o.resume = true;
    REQUIRE(runs().ok());
    CHECK(event_files() == 2);
    // Without its checkpoint a run is over: its model is not replaced by a run that begins anew.
    std::remove((o.out + "/checkpoint.safetensors").c_str());
    std::remove((o.out + "/checkpoint.previous.safetensors").c_str());
    CHECK(runs().error().code() == graft::errc::train_out_in_use);
}

TEST_CASE("A model is written only beside a checkpoint to go on from") {
    // The pictures of the validation part vanish once they are scored, so that writing the model fails behind the first epoch.
    const made_folder folder;
    put_pictures(folder);
    struct remover final : graft::training_observer {
        std::string folder;
        inline void on_validation(std::int64_t done, std::int64_t of) override {
            if (done == of) std::filesystem::remove_all(folder + "/data/val");
        }
    } watcher;
    watcher.folder = folder.path;
    const graft::trainer_options o = small_options(folder.path + "/run");
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    CHECK(!graft::train(small_network("none"), data, o, watcher).ok());
    CHECK(file(o.out + "/model.onnx").empty());
    CHECK(!file(o.out + "/checkpoint.safetensors").empty());
}

TEST_CASE("A run that its observer stops keeps a checkpoint and goes on to the bytes of one that was not") {
    struct stopper final : graft::training_observer {
        std::int64_t steps = 0, epochs = 0;  // left
        inline graft::training_verdict on_step(const graft::trainer_progress&) override {
            return --steps == 0 ? graft::training_verdict::stop : graft::training_verdict::go_on;
        }
        inline graft::training_verdict on_epoch(const graft::epoch_record&) override {
            return --epochs == 0 ? graft::training_verdict::stop : graft::training_verdict::go_on;
        }
    };
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/whole");
    o.unfreeze_epoch = 1;
    const outcome whole = trained(folder, o, small_network("none"));
    CHECK(!whole.result.stopped);
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    // Five steps an epoch: in the middle of the first, at its last step, behind its end, and in the middle of the second.
    const struct { std::int64_t steps, epochs, done; } stops[] = {{2, 0, 0}, {5, 0, 0}, {0, 1, 1}, {7, 0, 1}};
    for (const auto& at : stops) {
        CAPTURE(at.steps);
        CAPTURE(at.epochs);
        graft::trainer_options with = o;
        with.out = folder.path + "/stopped" + std::to_string(at.steps);
        stopper watcher;
        watcher.steps = at.steps, watcher.epochs = at.epochs;
        auto stopped = graft::train(small_network("none"), data, with, watcher);
        REQUIRE(stopped.ok());
        CHECK(stopped->stopped);
        CHECK(stopped->epochs == at.done);
        CHECK(stopped->network.values.empty() == (at.done == 0));
        CHECK(stopped->images_per_s > 0);
        const graft::loaded_checkpoint kept = graft::load_checkpoint(with.out + "/checkpoint.safetensors");
        REQUIRE(kept.found);
        CHECK(*kept.contents.find_state("step") == std::to_string(at.steps ? at.steps : 5));
        with.resume = true;
        // What a checkpoint holds is read alike whatever locale the program has set since.
        std::optional<comma_locale> elsewhere;
        if (at.steps == 7) elsewhere.emplace();
        const outcome resumed = trained(folder, with, small_network("none"));
        CHECK(!resumed.result.stopped);
        CHECK(resumed.model == whole.model);
        CHECK(resumed.result.history.size() == 3);
    }
    // Without a folder there is what the epochs before have found; behind the last one there is nothing to stop.
    o.out = "";
    stopper watcher;
    watcher.epochs = 2;
    const auto second = graft::train(small_network("none"), data, o, watcher);
    REQUIRE(second.ok());
    CHECK(second->stopped);
    CHECK(second->epochs == 2);
    CHECK(!second->network.values.empty());
    watcher.epochs = 3;
    CHECK(!graft::train(small_network("none"), data, o, watcher)->stopped);
}

TEST_CASE("Rates by layer scale what each weight learns, beside the trunk's rate and from the epoch at which it joins") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options("");
    o.epochs = 1, o.batch = 24;  // one update
    o.step.optimizer.kind = graft::optimizer_kind::sgd, o.step.optimizer.momentum = 0, o.step.optimizer.weight_decay = 0;
    o.schedule = graft::parse_schedule("constant");
    const auto moved = [&](const graft::trainer_options& with, graft::training_network n, const char* name) {
        double most = 0;
        std::vector<float> before;
        for (const graft::value& v : n.graph.values)
            if (v.name == name) before.assign(v.constant.data<float>(), v.constant.data<float>() + v.constant.elements());
        const graft::training_result made = trained(folder, with, std::move(n)).result;
        for (const graft::value& v : made.network.values)
            for (std::size_t i = 0; v.name == name && i < before.size(); ++i)
                most = larger_error(most, std::fabs(static_cast<double>(v.constant.data<float>()[i] - before[i])));
        return most;
    };
    const auto scaled = [](double first, double second) {
        graft::training_network n = small_network("none");
        REQUIRE(graft::scale_rates(n.parameters, {{{"conv1.weight", "conv1.bias"}, first}, {{"fc.weight"}, second}}).ok());
        return n;
    };
    const double conv = moved(o, small_network("none"), "conv1.weight"), fc = moved(o, small_network("none"), "fc.weight");
    CHECK(conv > 0);
    CHECK(moved(o, scaled(10, 0.5), "conv1.weight") == doctest::Approx(10 * conv).epsilon(1e-2));
    CHECK(moved(o, scaled(10, 0.5), "fc.weight") == doctest::Approx(0.5 * fc).epsilon(1e-2));
    CHECK(moved(o, scaled(0, 1), "conv1.weight") == 0);
    CHECK(moved(o, scaled(0, 1), "conv2.weight") == doctest::Approx(moved(o, small_network("none"), "conv2.weight")));
    // The trunk joins at the second epoch, with its factors.
    o.epochs = 2, o.unfreeze_epoch = 1;
    const double joined = moved(o, small_network("none"), "conv1.weight");
    CHECK(joined > 0);
    CHECK(moved(o, scaled(10, 1), "conv1.weight") == doctest::Approx(10 * joined).epsilon(1e-2));
    // Other rates are another run.
    o.out = folder.path + "/run";
    (void)trained(folder, o, scaled(10, 1));
    o.resume = true;
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    graft::training_observer watcher;
    const auto other = graft::train(scaled(5, 1), data, o, watcher);
    REQUIRE(!other.ok());
    CHECK(other.error().where() == "rates");
    CHECK(trained(folder, o, scaled(10, 1)).result.epochs == 2);
}
