// How a run of training is kept: its settings, its checkpoints, and going on from them.
#pragma once

#include "../core/fnv1a.hpp"
#include "../core/number_text.hpp"
#include "../core/xxhash.hpp"
#include "checkpoint.hpp"
#include "settings.hpp"
#include "training_run.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The parts of a run's state on their way into a checkpoint, or out of one: whoever lists them lists them once for both.
class state_parts {
public:
    explicit state_parts(named_texts& into) : into_(&into) {}
    explicit state_parts(const checkpoint& from) : from_(&from) {}

    void part(const std::string& key, double& v) {
        if (const std::string* text = exchanged(key, [&] { return number_text("%a", v); })) v = read_number(text->c_str());
    }
    void part(const std::string& key, std::int64_t& v) {
        if (const std::string* text = exchanged(key, [&] { return std::to_string(v); })) v = std::strtoll(text->c_str(), nullptr, 10);
    }
    void part(const std::string& key, bool& v) {
        std::int64_t number = v;
        part(key, number);
        v = number != 0;
    }
    // Indices are added to those that are there.
    void part(const std::string& key, std::set<std::int64_t>& v) {
        const auto spelt = [&] {
            std::string out;
            for (std::int64_t i : v) out += (out.empty() ? "" : " ") + std::to_string(i);
            return out;
        };
        const std::string* text = exchanged(key, spelt);
        const char* at = text ? text->c_str() : "";
        char* end = nullptr;
        for (long long i = std::strtoll(at, &end, 10); end != at; i = std::strtoll(at, &end, 10)) v.insert(i), at = end;
    }
    status part(const std::string& key, plateau_state& v) {
        if (const std::string* written = exchanged(key, [&] { return text(v); })) GRAFT_TRY_ASSIGN(v, parse_plateau_state(*written));
        return {};
    }

private:
    // Writes the text, or finds what there is to be read; null where there is nothing, which leaves the part as it is.
    template <class Spelt>
    const std::string* exchanged(const std::string& key, Spelt spelt) {
        if (!into_) return from_->find_state(key);
        into_->emplace_back(key, spelt());
        return nullptr;
    }

    named_texts* into_ = nullptr;
    const checkpoint* from_ = nullptr;
};

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
inline result<std::string> training_run::contents_fingerprint(const dataset& data, executor& pool) {
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
    std::vector<std::pair<int, named_texts::value_type>> all;
    finetune_options o;
    static_cast<trainer_options&>(o) = o_;
    for (training_setting& s : training_settings(o))
        if (s.position) all.emplace_back(s.position, named_texts::value_type(s.key, s.kept));
    // Beside the options, what the run was given to work on, by what it is and not by what it is called.
    const auto add = [&](int position, const char* key, std::string value) { all.emplace_back(position, named_texts::value_type(key, std::move(value))); };
    auto level = cpu::active_isa();
    add(1, "version", std::to_string(GRAFT_VERSION_MAJOR) + "." + std::to_string(GRAFT_VERSION_MINOR));
    add(2, "isa", level.ok() ? cpu::name(*level) : "");
    add(3, "training data", fingerprint(data_.training));
    add(4, "validation data", fingerprint(data_.validation));
    add(5, "training pictures", training_contents_);
    add(6, "validation pictures", validation_contents_);
    add(11, "network", network_text_);
    add(14, "rates", rates_text(network_.parameters));
    add(25, "teacher", teacher_ ? network_fingerprint(teacher_.graph()) + ", " + text(teacher_.view().preprocess) : "");
    add(34, "preprocess", text(spec_));
    std::string learn;
    for (const parameter& q : network_.parameters) learn += q.learns ? 'l' : 'f';
    add(41, "weights that learn", std::to_string(std::count(learn.begin(), learn.end(), 'l')) + " of " + std::to_string(learn.size()) + ": " + learn);
    std::sort(all.begin(), all.end());
    named_texts sorted;
    for (auto& s : all) sorted.push_back(std::move(s.second));
    return sorted;
}

// What a run knows beside its tensors.
inline status training_run::visit_state(state_parts& c, loss_scale& scaling) {
    // By their names, so that a new member does not compile before it has a line here.
    auto& [epoch, batch, step, loss_sum, weight_sum, correct, seen] = position_;
    auto& [factor, steps, skipped] = scaling;
    c.part("epoch", epoch), c.part("batch", batch), c.part("step", step);
    c.part("correct", correct), c.part("seen", seen);
    if (o_.step.loss_scaling) c.part("loss_scale", factor), c.part("loss_scale_steps", steps), c.part("skipped_steps", skipped);
    c.part("loss_sum", loss_sum), c.part("weight_sum", weight_sum);
    c.part("stopped", stopped_), c.part("best_epoch", result_.best_epoch);
    c.part("best_top1", result_.best_top1), c.part("best_loss", result_.best_loss);
    c.part("bad_training", bad_training_), c.part("bad_validation", bad_validation_);
    c.part("trained_pictures", trained_pictures_);
    c.part("trained_seconds", trained_seconds_), c.part("waited_seconds", waited_seconds_);
    GRAFT_TRY(c.part("plateau", plateau_));
    std::int64_t done = static_cast<std::int64_t>(result_.history.size());
    c.part("epochs_done", done);
    result_.history.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, std::min(done, o_.epochs))));
    for (std::size_t i = 0; i < result_.history.size(); ++i) {
        const std::string at = "history." + std::to_string(i) + ".";
        auto& [number, updates, training_loss, training_top1, loss, top1, top5, balanced_accuracy, majority, rate, seconds, images_per_s, wait_share, best,
               head_alone, stages, members] = result_.history[i];
        (void)stages, (void)members;  // of the devices and processes that trained it: those that go on may be others, and more or fewer
        number = static_cast<std::int64_t>(i), head_alone = number < o_.unfreeze_epoch;
        c.part(at + "step", updates), c.part(at + "best", best);
        int k = 0;
        for (double* figure : {&training_loss, &training_top1, &loss, &top1, &top5, &rate, &seconds, &images_per_s, &wait_share, &balanced_accuracy, &majority})
            c.part(at + std::to_string(k++), *figure);
    }
    return {};
}

inline status training_run::save() {
    last_checkpoint_ = seconds_now();
    if (!files_.wanted()) return {};
    checkpoint c;
    GRAFT_TRY(step_.read_state());
    for (const training_state& s : step_.state()) {
        // What is not finite would take the good checkpoint's place.
        if (!all_finite(view(s.value)))
            return diverged(fail(errc::train_diverged, "step " + std::to_string(position_.step),
                                 "'" + s.name + "' is no longer finite. A smaller --lr or clipping of gradients may help"));
        c.tensors.emplace_back(s.name, s.value);
    }
    c.settings = settings();
    state_parts parts(c.state);
    GRAFT_TRY(visit_state(parts, step_.scaling()));
    GRAFT_TRY(save_checkpoint(files_.checkpoint(), c, checkpoint_verified_));
    checkpoint_verified_ = true;
    good_checkpoint_ = files_.checkpoint();
    return {};
}

inline status training_run::resume() {
    loaded_checkpoint found;
    if (files_.wanted() && o_.resume) GRAFT_TRY_ASSIGN(found, load_checkpoint(files_.checkpoint()));
    if (found.found) {
        checkpoint_verified_ = !found.previous;
        good_checkpoint_ = found.previous ? previous_checkpoint(files_.checkpoint()) : files_.checkpoint();
        if (found.previous) observer_.on_warning(found.note);
        status same = compare_settings(found.contents.settings, settings());
        if (!same.ok() && (same.error().where() == "training pictures" || same.error().where() == "validation pictures"))
            return fail(errc::resume_mismatch, same.error().where(),
                        "files of the same names are not what they were when the checkpoint was made (by their sizes and samples of their contents): bring "
                        "those back, or train into another folder");
        GRAFT_TRY(std::move(same));
    }
    GRAFT_TRY(members_.share(found.found));
    if (!found.found) {
        if (files_.wanted()) GRAFT_TRY(remove_run(o_.out));
        return files_.open(-1, wall_time());
    }
    GRAFT_TRY(members_.share(found.contents.state));
    const checkpoint& c = found.contents;
    state_parts parts(c);
    loss_scale scaling;
    GRAFT_TRY(visit_state(parts, scaling));
    first_epoch_ = position_.epoch;
    count_bad({}, bad_training_);
    GRAFT_TRY(unfreeze());
    for (training_state& s : step_.state()) {
        if (!members_.leads()) break;  // it comes from the first
        const tensor* from = c.find(s.name);
        if (!from || from->shape() != s.value.shape() || from->type() != s.value.type())
            return fail(errc::resume_mismatch, files_.checkpoint(),
                        "it has no '" + s.name + "' of the shape " + text(s.value.shape()) + ": it is of another network or of other settings");
        if (s.value.bytes()) std::memcpy(s.value.raw(), from->raw(), s.value.bytes());
    }
    GRAFT_TRY(members_.share(step_.state()));
    step_.state_changed();
    step_.scaling() = scaling;
    return files_.open(position_.step, wall_time());
}

}  // namespace detail
GRAFT_END_NAMESPACE
