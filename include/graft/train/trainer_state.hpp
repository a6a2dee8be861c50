// How a run of training is kept: its settings, its checkpoints, and going on from them.
#pragma once

#include "../core/fnv1a.hpp"
#include "../core/number_text.hpp"
#include "../core/xxhash.hpp"
#include "checkpoint.hpp"
#include "training_run.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Exact to the bit.
inline std::string exact_text(double v) { return number_text("%a", v); }
inline double number_in(const std::string* text) { return text ? read_number(text->c_str()) : 0; }
inline std::int64_t integer_in(const std::string* text) { return text ? std::strtoll(text->c_str(), nullptr, 10) : 0; }

// Indices as text, and back again.
inline std::string indices_text(const std::set<std::int64_t>& indices) {
    std::string out;
    for (std::int64_t i : indices) out += (out.empty() ? "" : " ") + std::to_string(i);
    return out;
}
inline void add_indices(const std::string* text, std::set<std::int64_t>& to) {
    const char* at = text ? text->c_str() : "";
    char* end = nullptr;
    for (long long i = std::strtoll(at, &end, 10); end != at; i = std::strtoll(at, &end, 10)) to.insert(i), at = end;
}

inline double wall_time() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// A hash over the names and labels of a dataset: what the run was begun with.
inline std::string fingerprint(const dataset& data) {
    std::uint64_t hash = fnv1a_basis;
    const auto add = [&](const void* bytes, std::size_t size) { hash = fnv1a(bytes, size, hash); };
    for (const std::string& c : data.classes()) add(c.c_str(), c.size() + 1);
    for (std::int64_t i = 0; i < data.size(); ++i) {
        const std::string name = data.name(i);
        const int label = data.label(i);
        const std::size_t slash = name.find_last_of('/');
        add(name.c_str() + (slash == std::string::npos ? 0 : slash), name.size() - (slash == std::string::npos ? 0 : slash));
        add(&label, sizeof label);
    }
    char text[48];
    std::snprintf(text, sizeof text, "%lld pictures, %016llx", static_cast<long long>(data.size()), static_cast<unsigned long long>(hash));
    return text;
}

// A hash over what the files of a dataset hold, by their tags: of 20,000 of them, evenly drawn, where there are more.
// Errors: memory.oom; what cannot be read has a number of its own.
inline result<std::string> contents_fingerprint(const dataset& data, executor& pool) {
    constexpr std::int64_t most = 20000;
    const std::int64_t step = std::max<std::int64_t>(1, (data.size() + most - 1) / most);
    std::vector<std::uint64_t> tags(static_cast<std::size_t>((data.size() + step - 1) / step));
    std::atomic<bool> starved{false};
    parallel_for(pool, static_cast<std::int64_t>(tags.size()), [&](std::int64_t i) {
        auto tag = data.tag(i * step);
        tags[static_cast<std::size_t>(i)] = tag.ok() ? *tag : 0;
        if (!tag.ok() && tag.error().code() == errc::memory_oom) starved = true;
    });
    if (starved) return out_of_memory("dataset");
    char text[32];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(xxh64(tags.data(), tags.size() * sizeof tags[0])));
    return std::string(text);
}

// A hash over the nodes and constants of a network: what is frozen is in no checkpoint.
inline std::string training_run::network_fingerprint(const graph& g) {
    std::uint64_t hash = fnv1a_basis;
    const auto add = [&](const void* bytes, std::size_t size) { hash = fnv1a(bytes, size, hash); };
    for (const node& n : g.nodes) {
        add(n.op_type.c_str(), n.op_type.size() + 1);
        for (const std::vector<value_id>* ids : {&n.inputs, &n.outputs}) add(ids->data(), ids->size() * sizeof(value_id));
        for (const attribute& a : n.attributes) {
            add(a.name.c_str(), a.name.size() + 1);
            add(&a.integer, sizeof a.integer);
            add(&a.real, sizeof a.real);
            add(a.integers.data(), a.integers.size() * sizeof(std::int64_t));
            add(a.string.c_str(), a.string.size() + 1);
        }
    }
    for (const value& v : g.values)
        if (v.constant && v.constant.bytes()) hash = xxh64(v.constant.storage().unaligned(), v.constant.bytes(), hash);
    char text[48];
    std::snprintf(text, sizeof text, "%lld nodes, %016llx", static_cast<long long>(g.nodes.size()), static_cast<unsigned long long>(hash));
    return text;
}

inline named_texts training_run::settings() const {
    const optimizer_options& p = o_.step.optimizer;
    const loss_options& l = o_.step.loss;
    named_texts s;
    const auto number = [&](const char* key, double v) { s.emplace_back(key, exact_text(v)); };
    const auto integer = [&](const char* key, std::int64_t v) { s.emplace_back(key, std::to_string(v)); };
    s.emplace_back("version", std::to_string(GRAFT_VERSION_MAJOR) + "." + std::to_string(GRAFT_VERSION_MINOR));
    auto level = cpu::active_isa();
    s.emplace_back("isa", level.ok() ? cpu::name(*level) : "");
    s.emplace_back("training data", fingerprint(data_.training));
    s.emplace_back("validation data", fingerprint(data_.validation));
    s.emplace_back("training pictures", training_contents_);
    s.emplace_back("validation pictures", validation_contents_);
    integer("epochs", o_.epochs);
    integer("batch", o_.batch);
    integer("shards", o_.step.shards);
    integer("seed", static_cast<std::int64_t>(o_.seed));
    s.emplace_back("network", network_text_);
    number("lr", o_.learning_rate);
    number("trunk rate", o_.trunk_rate);
    s.emplace_back("rates", rates_text(network_.parameters));
    s.emplace_back("schedule", text(o_.schedule));
    s.emplace_back("optimizer", name(p.kind));
    const std::pair<const char*, double> optimizer[] = {{"momentum", p.momentum}, {"nesterov", double(p.nesterov)}, {"beta1", p.beta1}, {"beta2", p.beta2}, {"epsilon", p.epsilon},
                                                        {"weight decay", p.weight_decay}, {"clip norm", p.clip_norm}, {"ema", p.ema_decay}};
    for (const auto& o : optimizer) number(o.first, o.second);
    s.emplace_back("teacher", teacher_ ? network_fingerprint(teacher_.graph()) + ", " + text(teacher_.view().preprocess) : "");
    s.emplace_back("loss", name(l.kind));
    const std::pair<const char*, float> loss[] = {{"label smoothing", l.label_smoothing}, {"focal gamma", l.gamma}, {"huber delta", l.delta}, {"distillation", l.distillation}, {"temperature", l.temperature}};
    for (const auto& o : loss) number(o.first, static_cast<double>(o.second));
    std::string weights;
    for (float v : l.class_weights) weights += (weights.empty() ? "" : " ") + exact_text(static_cast<double>(v));
    s.emplace_back("class weights", weights);
    s.emplace_back("augmentation", text(*o_.augmentation));
    s.emplace_back("preprocess", text(spec_));
    integer("unfreeze epoch", o_.unfreeze_epoch);
    integer("patience", o_.patience);
    integer("batch norm", o_.step.batch_norm);
    integer("exact", o_.step.exact);
    s.emplace_back("precision", o_.precision);
    // The parts of a batch are equal to the whole to the bit only where sums keep their order.
    if (!o_.step.exact) integer("max ram", o_.max_ram);
    std::string frozen;
    std::int64_t learning = 0;
    for (const parameter& q : network_.parameters) (q.learns ? ++learning : 0), frozen += q.learns ? 'l' : 'f';
    s.emplace_back("weights that learn", std::to_string(learning) + " of " + std::to_string(network_.parameters.size()) + ": " + frozen);
    return s;
}

inline status training_run::save() {
    last_checkpoint_ = seconds_now();
    if (!files_.wanted()) return {};
    checkpoint c;
    GRAFT_TRY(step_.read_state());
    for (const training_state& s : step_.state()) {
        // What is not finite would take the good checkpoint's place.
        if (!all_finite(view(s.value)))
            return diverged(fail(errc::train_diverged, "step " + std::to_string(position_.step), "'" + s.name + "' is no longer finite. A smaller --lr or clipping of gradients may help"));
        c.tensors.emplace_back(s.name, s.value);
    }
    c.settings = settings();
    const auto number = [&](const std::string& key, double v) { c.state.emplace_back(key, exact_text(v)); };
    const auto integer = [&](const std::string& key, std::int64_t v) { c.state.emplace_back(key, std::to_string(v)); };
    integer("epoch", position_.epoch), integer("batch", position_.batch), integer("step", position_.step);
    integer("correct", position_.correct), integer("seen", position_.seen);
    if (o_.step.loss_scaling) number("loss_scale", step_.scaling().factor), integer("loss_scale_steps", step_.scaling().steps), integer("skipped_steps", step_.scaling().skipped);
    number("loss_sum", position_.loss_sum), number("weight_sum", position_.weight_sum);
    integer("stopped", stopped_), integer("best_epoch", result_.best_epoch);
    number("best_top1", result_.best_top1), number("best_loss", result_.best_loss);
    c.state.emplace_back("bad_training", indices_text(bad_training_)), c.state.emplace_back("bad_validation", indices_text(bad_validation_));
    integer("trained_pictures", trained_pictures_);
    number("trained_seconds", trained_seconds_), number("waited_seconds", waited_seconds_);
    c.state.emplace_back("plateau", text(plateau_));
    integer("epochs_done", static_cast<std::int64_t>(result_.history.size()));
    for (std::size_t i = 0; i < result_.history.size(); ++i) {
        const epoch_record& r = result_.history[i];
        const std::string at = "history." + std::to_string(i) + ".";
        integer(at + "step", r.step), integer(at + "best", r.best);
        const double figures[] = {r.training_loss, r.training_top1, r.loss, r.top1, r.top5, r.learning_rate, r.seconds, r.images_per_s, r.wait_share, r.balanced_accuracy, r.majority};
        for (std::size_t k = 0; k < sizeof figures / sizeof figures[0]; ++k) number(at + std::to_string(k), figures[k]);
    }
    GRAFT_TRY(save_checkpoint(files_.checkpoint(), c, checkpoint_verified_));
    checkpoint_verified_ = true;
    good_checkpoint_ = files_.checkpoint();
    return {};
}

inline status training_run::resume() {
    if (files_.wanted()) {
        GRAFT_TRY_ASSIGN(training_contents_, contents_fingerprint(data_.training, pool_));
        GRAFT_TRY_ASSIGN(validation_contents_, contents_fingerprint(data_.validation, pool_));
    }
    loaded_checkpoint found;
    if (files_.wanted() && o_.resume) GRAFT_TRY_ASSIGN(found, load_checkpoint(files_.checkpoint()));
    if (!found.found) {
        if (files_.wanted()) GRAFT_TRY(remove_run(o_.out));
        return files_.open(-1, wall_time());
    }
    const checkpoint& c = found.contents;
    checkpoint_verified_ = !found.previous;
    good_checkpoint_ = found.previous ? previous_checkpoint(files_.checkpoint()) : files_.checkpoint();
    if (found.previous) observer_.on_warning(found.note);
    status same = compare_settings(c.settings, settings());
    if (!same.ok() && (same.error().where() == "training pictures" || same.error().where() == "validation pictures"))
        return fail(errc::resume_mismatch, same.error().where(),
                    "files of the same names are not what they were when the checkpoint was made (by their sizes and samples of their contents): bring those back, or train into another folder");
    GRAFT_TRY(std::move(same));
    position_.epoch = integer_in(c.find_state("epoch")), position_.batch = integer_in(c.find_state("batch")), position_.step = integer_in(c.find_state("step"));
    position_.correct = integer_in(c.find_state("correct")), position_.seen = integer_in(c.find_state("seen"));
    position_.loss_sum = number_in(c.find_state("loss_sum")), position_.weight_sum = number_in(c.find_state("weight_sum"));
    first_epoch_ = position_.epoch;
    stopped_ = integer_in(c.find_state("stopped")) != 0;
    result_.best_epoch = integer_in(c.find_state("best_epoch"));
    result_.best_top1 = number_in(c.find_state("best_top1")), result_.best_loss = number_in(c.find_state("best_loss"));
    add_indices(c.find_state("bad_training"), bad_training_), add_indices(c.find_state("bad_validation"), bad_validation_);
    count_bad({}, bad_training_);
    trained_pictures_ = integer_in(c.find_state("trained_pictures"));
    trained_seconds_ = number_in(c.find_state("trained_seconds")), waited_seconds_ = number_in(c.find_state("waited_seconds"));
    if (const std::string* p = c.find_state("plateau")) GRAFT_TRY_ASSIGN(plateau_, parse_plateau_state(*p));
    const std::int64_t done = std::min(integer_in(c.find_state("epochs_done")), o_.epochs);
    for (std::int64_t i = 0; i < done; ++i) {
        const std::string at = "history." + std::to_string(i) + ".";
        epoch_record r;
        r.epoch = i;
        r.head_alone = i < o_.unfreeze_epoch;
        r.step = integer_in(c.find_state(at + "step")), r.best = integer_in(c.find_state(at + "best")) != 0;
        double* figures[] = {&r.training_loss, &r.training_top1, &r.loss, &r.top1, &r.top5, &r.learning_rate, &r.seconds, &r.images_per_s, &r.wait_share, &r.balanced_accuracy, &r.majority};
        for (std::size_t k = 0; k < sizeof figures / sizeof figures[0]; ++k) *figures[k] = number_in(c.find_state(at + std::to_string(k)));
        result_.history.push_back(r);
    }
    GRAFT_TRY(unfreeze());
    for (training_state& s : step_.state()) {
        const tensor* from = c.find(s.name);
        if (!from || from->shape() != s.value.shape() || from->type() != s.value.type())
            return fail(errc::resume_mismatch, files_.checkpoint(), "it has no '" + s.name + "' of the shape " + text(s.value.shape()) + ": it is of another network or of other settings");
        if (s.value.bytes()) std::memcpy(s.value.raw(), from->raw(), s.value.bytes());
    }
    step_.state_changed();
    if (o_.step.loss_scaling && c.find_state("loss_scale"))
        step_.scaling() = {number_in(c.find_state("loss_scale")), integer_in(c.find_state("loss_scale_steps")), integer_in(c.find_state("skipped_steps"))};
    return files_.open(position_.step, wall_time());
}

}  // namespace detail
GRAFT_END_NAMESPACE
