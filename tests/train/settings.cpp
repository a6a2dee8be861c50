// The defaults of training: what the list says is what a run takes, and what is decided by what is trained.
#include "small_steps.hpp"

#include <graft/train.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

namespace {

const graft::training_setting& setting(const std::vector<graft::training_setting>& all, const std::string& option) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const graft::training_setting& s) { return s.option == option; });
    REQUIRE_MESSAGE(found != all.end(), option);
    return *found;
}

// Two layers; `features` says whether the second is a head.
graft::training_network network(bool features, bool trunk_learns, std::int64_t width = 8) {
    graft::builder b;
    graft::linear_options first, second;
    first.name = "trunk", second.name = "head";
    const auto x = b.input("x", graft::dtype::float32, {graft::shape::unknown, 4});
    const auto hidden = b.relu(b.linear(x, width, first));
    b.output(b.linear(hidden, 3, second), "logits");
    graft::training_network n;
    n.graph = small_steps::loaded(b.finish());
    n.logits = graft::logits_of(n.graph);
    n.parameters = graft::parameters_of(n.graph);
    if (features) n.features = n.graph.nodes.back().inputs[0];
    for (graft::parameter& p : n.parameters) p.learns = trunk_learns || p.name.rfind("head", 0) == 0;
    return n;
}

// The same with statistics of batches in its trunk, as far as defaults ask.
graft::training_network normalized(graft::training_network n) {
    n.graph.nodes[0].op_type = "BatchNormalization";
    n.graph.nodes[0].op = nullptr;
    return n;
}

// What a checkpoint keeps of the options, by name.
std::set<std::pair<std::string, std::string>> kept(graft::finetune_options o) {
    std::set<std::pair<std::string, std::string>> all;
    for (const graft::training_setting& s : graft::training_settings(o))
        if (s.position) all.emplace(s.key, s.kept);
    return all;
}

}  // namespace

TEST_CASE("What nobody gives is decided by what is trained, as the list of defaults says") {
    const std::vector<graft::training_setting> finetune = graft::training_settings(), train = graft::training_settings(true);
    const auto says = [&](const char* option, const std::string& text) { return setting(finetune, option).by_default.find(text) != std::string::npos; };
    graft::trainer_options o;
    o.epochs = 10;
    const graft::trainer_options whole = graft::settled(o, network(true, true), 1000);
    CHECK(whole.learning_rate == 0.003);
    CHECK(says("--lr", "0.003"));
    CHECK(whole.step.optimizer.weight_decay == 0.01);
    CHECK(says("--weight-decay", "0.01 with adamw"));
    CHECK(says("--ema", std::to_string(whole.step.optimizer.ema_decay).substr(0, 4)));
    CHECK(whole.step.loss.label_smoothing == 0.1f);
    CHECK(says("--label-smoothing", "0.1 with"));
    CHECK(whole.step.loss.distillation == 0);
    CHECK(whole.unfreeze_epoch == 3);
    CHECK(says("--unfreeze-epoch", "1/3 of the epochs"));
    CHECK(graft::text(*whole.augmentation) == graft::text(graft::default_augmentation()));
    CHECK(says("--augment", graft::text(graft::default_augmentation())));
    CHECK(says("--trunk-rate", "1/30; with batch normalisation 0.1, and 0.3 for fewer than 1000000 weights"));
    CHECK(whole.trunk_rate == 1.0 / 30);
    CHECK(graft::settled(o, normalized(network(true, true)), 1000).trunk_rate == 0.3);
    CHECK(graft::settled(o, normalized(network(true, true, 2000000)), 1000).trunk_rate == 0.1);
    graft::trainer_options frozen = o;
    frozen.step.batch_norm = false;
    CHECK(graft::settled(frozen, normalized(network(true, true)), 1000).trunk_rate == 1.0 / 30);
    CHECK(whole.batch == 32);
    CHECK(graft::settled(o, network(true, true), 500).batch == 16);
    CHECK(graft::settled(o, network(true, true), 40).batch == 8);
    CHECK(says("--batch", "8 to 32"));
    CHECK(graft::settled(o, network(false, true), 40).batch == 32);
    CHECK(says("--epochs", std::to_string(graft::trainer_options().epochs)));

    const graft::trainer_options head = graft::settled(o, network(true, false), 1000);
    CHECK(head.unfreeze_epoch == 0);
    CHECK(!graft::is_random(*head.augmentation));
    CHECK(head.learning_rate == 0.003);

    graft::training_network known = network(true, true);
    known.head_is_trained = true;
    const graft::trainer_options kept_head = graft::settled(o, known, 1000);
    CHECK(kept_head.unfreeze_epoch == 0);
    CHECK(kept_head.learning_rate == doctest::Approx(0.0003));
    CHECK(says("--lr", "0.1 of that where --quantize keeps the head"));

    const graft::trainer_options small = graft::settled(o, network(false, true), 1000), large = graft::settled(o, network(false, true, 20000), 1000);
    CHECK(small.step.optimizer.ema_decay == 0);
    CHECK(small.unfreeze_epoch == 0);
    CHECK(small.learning_rate == 0.003);
    CHECK(large.learning_rate == 0.001);
    CHECK(graft::is_random(*large.augmentation));
    CHECK(setting(train, "--lr").by_default == "0.001, 0.003 for fewer than 100000 weights; 0.01 with sgd");

    o.step.optimizer.kind = graft::optimizer_kind::sgd;
    o.step.loss.kind = graft::loss_kind::mse;
    o.teacher = "teacher.onnx";
    const graft::trainer_options other = graft::settled(o, network(true, true), 1000);
    CHECK(other.learning_rate == 0.01);
    CHECK(other.step.optimizer.weight_decay == 0);
    CHECK(other.step.loss.label_smoothing == 0);
    CHECK(other.step.loss.distillation == 0.5f);
}

TEST_CASE("What is given stays, and what is settled is settled") {
    graft::trainer_options o;
    o.learning_rate = 0.5, o.unfreeze_epoch = 2, o.augmentation = graft::augmentation();
    o.step.optimizer.ema_decay = 0, o.step.optimizer.weight_decay = 0.25, o.step.loss.label_smoothing = 0;
    const graft::trainer_options same = graft::settled(o, network(true, true), 1000), again = graft::settled(same, network(true, true), 1000);
    for (const graft::trainer_options* s : {&same, &again}) {
        CHECK(s->learning_rate == 0.5);
        CHECK(s->unfreeze_epoch == 2);
        CHECK(!graft::is_random(*s->augmentation));
        CHECK(s->step.optimizer.ema_decay == 0);
        CHECK(s->step.optimizer.weight_decay == 0.25);
        CHECK(s->step.loss.label_smoothing == 0);
    }
}

TEST_CASE("A batch that is given for each member is as many times that") {
    struct six final : graft::step_factory {
        int members() const noexcept override { return 6; }
        graft::result<std::unique_ptr<graft::step_engine>> make(graft::graph, graft::value_id, std::vector<graft::parameter>,
                                                                const graft::step_options&) override {
            return graft::fail(graft::errc::usage, "members", "they make nothing here");
        }
    };
    graft::trainer_options o;
    o.batch_per_device = 8;
    CHECK(graft::settled(o, network(true, true), 1000).batch == 8);
    o.step.replicas = std::make_shared<six>();
    const graft::trainer_options once = graft::settled(o, network(true, true), 1000), again = graft::settled(once, network(true, true), 1000);
    for (const graft::trainer_options* s : {&once, &again}) CHECK(s->batch == 48);
    CHECK(graft::members_of(o.step) == 6);
    CHECK(graft::members_of({}) == 1);
}

TEST_CASE("Rates that are given for a batch grow in proportion to it") {
    // Goyal et al. (2017): 0.1 for 256, so 3.2 for 8192.
    graft::trainer_options o;
    o.learning_rate = 0.1, o.batch = 8192, o.reference_batch = 256, o.trunk_rate = 0.5;
    const graft::trainer_options once = graft::settled(o, network(true, true), 1000), again = graft::settled(once, network(true, true), 1000);
    for (const graft::trainer_options* s : {&once, &again}) {
        CHECK(s->learning_rate == doctest::Approx(3.2));
        CHECK(s->trunk_rate == 0.5);  // of that
    }
    o.learning_rate = -1, o.batch = -1, o.reference_batch = 64;
    CHECK(graft::settled(o, network(true, true), 1000).learning_rate == doctest::Approx(0.003 * 32 / 64));
    o.batch_per_device = 128;
    o.schedule = graft::parse_schedule("onecycle=0.2:0.3");
    CHECK(graft::settled(o, network(true, true), 1000).learning_rate == doctest::Approx(0.003 * 2));
    CHECK(graft::settled(o, network(true, true), 1000).schedule.peak == doctest::Approx(0.4));
    CHECK(graft::scale_rates_by_batch(o = graft::trainer_options()) == 1);
    CHECK(o.learning_rate == -1);
}

TEST_CASE("Every option that changes what is learnt is kept, and those that do not are not") {
    graft::finetune_options o;
    o.augmentation = graft::default_augmentation();
    // Who adds an option comes by here: it belongs to one of the lists below.
    auto& [epochs, batch, batch_per_device, learning_rate, reference_batch, trunk_rate, schedule, step, augmentation, preprocess, unfreeze_epoch, patience,
           max_ram, bad_share, cache, checkpoint_seconds, seed, threads, workers, out, resume, overwrite, command, precision, trace, teacher] =
        static_cast<graft::trainer_options&>(o);
    auto& [loss, optimizer, shards, batch_norm, step_seed, exact, reference, strict_placement, micro_batches, loss_scaling, recompute, fixed_batch, stages,
           stage_bytes, limits, on, operators, group, central_variables, overlap, recorder, replicas] = step;
    auto& [kind, momentum, nesterov, beta1, beta2, epsilon, weight_decay, clip_norm, ema_decay] = optimizer;
    auto& [loss_kind, label_smoothing, gamma, delta, class_weights, distillation, temperature] = loss;

    // The names under which what is kept changes with a field.
    const auto changed = [&o](auto& field, auto other) {
        const auto before = kept(o);
        const auto was = field;
        field = other;
        std::string names;
        for (const auto& s : kept(o))
            if (!before.count(s)) names += (names.empty() ? "" : ", ") + s.first;
        field = was;
        return names;
    };
    CHECK(changed(epochs, 77) == "epochs");
    CHECK(changed(batch, 77) == "batch");
    CHECK(changed(learning_rate, 0.77) == "lr");
    CHECK(changed(trunk_rate, 0.77) == "trunk rate");
    CHECK(changed(schedule.kind, graft::schedule_kind::plateau) == "schedule");
    CHECK(changed(schedule.warmup, 0.77) == "schedule");
    CHECK(changed(augmentation, graft::augmentation()) == "augmentation");
    CHECK(changed(unfreeze_epoch, 77) == "unfreeze epoch");
    CHECK(changed(patience, 77) == "patience");
    CHECK(changed(max_ram, 77) == "max ram");
    CHECK(changed(seed, 77u) == "seed");
    CHECK(changed(precision, "bfloat16") == "precision");
    CHECK(changed(shards, 77) == "shards");
    CHECK(changed(batch_norm, false) == "batch norm");
    CHECK(changed(exact, true) == "exact");
    CHECK(changed(kind, graft::optimizer_kind::sgd) == "optimizer");
    CHECK(changed(momentum, 0.77) == "momentum");
    CHECK(changed(nesterov, true) == "nesterov");
    CHECK(changed(beta1, 0.77) == "beta1");
    CHECK(changed(beta2, 0.77) == "beta2");
    CHECK(changed(epsilon, 0.77) == "epsilon");
    CHECK(changed(weight_decay, 0.77) == "weight decay");
    CHECK(changed(clip_norm, 0.77) == "clip norm");
    CHECK(changed(ema_decay, 0.77) == "ema");
    CHECK(changed(loss_kind, graft::loss_kind::huber) == "loss");
    CHECK(changed(label_smoothing, 0.77f) == "label smoothing");
    CHECK(changed(gamma, 0.77f) == "focal gamma");
    CHECK(changed(delta, 0.77f) == "huber delta");
    CHECK(changed(class_weights, std::vector<float>{1, 0.77f}) == "class weights");
    CHECK(changed(distillation, 0.77f) == "distillation");
    CHECK(changed(temperature, 0.77f) == "temperature");
    exact = true;  // sums keep their order then, however a batch is cut
    CHECK(changed(max_ram, 77) == "");
    exact = false;

    // The run keeps what they make of its network and its pictures.
    CHECK(changed(teacher, "t.onnx") + changed(preprocess, graft::parse_preprocess("unit,crop=8").value()) == "");
    // Where a run computes and what it writes, and what the trainer sets for itself.
    CHECK(changed(batch_per_device, 77) + changed(reference_batch, 77) + changed(bad_share, 0.77) + changed(cache, nullptr) +
              changed(checkpoint_seconds, 0.77) + changed(threads, 77) + changed(workers, 77) + changed(out, "o") ==
          "");
    CHECK(changed(resume, true) + changed(overwrite, true) + changed(command, "c") + changed(on, nullptr) + changed(limits, graft::limits()) +
              changed(operators, graft::op_table{nullptr, 0}) ==
          "");
    CHECK(changed(step_seed, 77u) + changed(reference, true) + changed(strict_placement, true) + changed(micro_batches, 77) + changed(loss_scaling, true) +
              changed(recompute, true) + changed(fixed_batch, 77) + changed(trace, "t.json") + changed(overlap, false) + changed(central_variables, true) +
              changed(recorder, std::make_shared<graft::trace_recorder>()) ==
          "");
}

TEST_CASE("What is kept has a position and a name of its own, and each option is told once") {
    graft::finetune_options o;
    std::set<int> positions;
    std::set<std::string> keys, options, fields;
    for (const graft::training_setting& s : graft::training_settings(o)) {
        CAPTURE(s.field);
        if (s.position) CHECK(positions.insert(s.position).second);
        if (s.position) CHECK(keys.insert(s.key).second);
        if (!s.option.empty()) CHECK(options.insert(s.option).second);
        if (!s.field.empty()) CHECK(fields.insert(s.field).second);
    }
}
