// Models are read, checked and swapped.
#include "served_model.hpp"

#include <graft/core/clock.hpp>
#include <graft/train/golden.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

namespace program {
namespace {

// The one input that a caller has to give; -1 where there are none or several.
int only_input(const graft::model& m) {
    int only = -1;
    for (std::size_t i = 0; i < m.inputs().size(); ++i) {
        if (m.inputs()[i].has_default) continue;
        if (only >= 0) return -1;
        only = static_cast<int>(i);
    }
    return only;
}

bool is_open(const graft::value_info& v) { return v.has_shape && v.extents.rank() > 0 && v.extents[0] < 0; }

// The first worker of a worker's device.
std::size_t first_of_device(const served_options& options, std::size_t worker) {
    const auto& devices = options.devices;
    return static_cast<std::size_t>(std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(worker), devices[worker]) - devices.begin());
}

graft::result<std::shared_ptr<model_version>> read_version(const common_options& common, const served_options& options, const std::string& path) {
    auto made = std::make_shared<model_version>();
    made->target = std::make_shared<batch_target>();
    std::vector<graft::model> models;
    for (std::size_t i = 0; i < options.devices.size(); ++i) {
        const std::size_t there = first_of_device(options, i);
        graft::model m;
        if (there < i)
            m = models[there];
        else {
            graft::load_options how = load_options_of(common, options.devices[i]);
            how.open_batch = true;
            GRAFT_TRY_ASSIGN(m, graft::load(path, how));
        }
        graft::session_options session;
        session.threads = common.threads;
        if (i < options.executors.size()) session.pool = options.executors[i].get();
        made->target->sessions.emplace_back(m, session);
        models.push_back(std::move(m));
    }
    made->model = models[0];
    const graft::model& m = made->model;
    made->target->outputs = m.outputs().size();
    const int only = only_input(m);
    made->target->input = static_cast<std::size_t>(std::max(only, 0));
    made->target->merges = only >= 0 && is_open(m.inputs()[made->target->input]) && std::all_of(m.outputs().begin(), m.outputs().end(), is_open);

    graft::classifier_options named;
    GRAFT_TRY_ASSIGN(named, classifier_options_of(common, options.devices[0], options.labels, options.preprocess, options.output));
    auto classifier = graft::classifier::make(m, named);
    if (!classifier.ok()) {
        // Whoever says how pictures are to be named means a classifier.
        if (!options.labels.empty() || !options.preprocess.empty() || !options.output.empty()) return classifier.take_status();
        made->no_classifier = classifier.error();
        return made;
    }
    warn_where_assumed(common, classifier->preprocessing());
    const graft::value_info& input = m.inputs()[made->target->input];
    made->format = {input.type, input.extents, input.has_shape};
    made->preprocess = classifier->preprocessing().spec;
    made->classifier.emplace(std::move(classifier).value());
    return made;
}

// A picture of noise, the same each time.
graft::result<graft::image> noise() {
    graft::image picture;
    GRAFT_TRY_ASSIGN(picture, graft::image::make(256, 256, 3));
    std::uint32_t state = 12345;
    for (std::int64_t i = 0; i < 256 * 256 * 3; ++i) {
        state = state * 1664525u + 1013904223u;
        picture.data()[i] = static_cast<std::uint8_t>(state >> 24);
    }
    return picture;
}

// The same as the network takes it.
graft::result<graft::tensor> prepared_noise(const model_version& v) {
    graft::image picture;
    GRAFT_TRY_ASSIGN(picture, noise());
    return graft::preprocess(picture, v.preprocess, v.format);
}

// Whether the network gives for the golden sample that its file holds what the sample says: weights that were spoilt do not. bfloat16 has eight bits, and what
// a GPU takes for float32 eleven.
graft::status check_golden(const common_options& common, model_version& v, const served_options& options, const std::string& path) {
    constexpr double reduced = 0.2;  // of the answer's range: five times what was seen
    const std::string text = v.model.metadata(graft::golden_key);
    if (text.empty()) return {};
    graft::golden_sample sample;
    GRAFT_TRY_ASSIGN(sample, graft::decode_golden(text, path));
    for (std::size_t w = 0; w < v.target->sessions.size(); ++w) {
        if (first_of_device(options, w) != w) continue;
        graft::golden_sample here = sample;
        if (options.devices[w] || common.precision == "bfloat16") here.tolerance = std::max(here.tolerance, reduced);
        const graft::status answered = graft::check_golden(v.target->sessions[w], here);
        if (!answered.ok())
            return graft::fail(answered.error().code(), path,
                               "it is not the network that was written, as its golden sample shows: " + answered.error().detail() +
                                   "; where it was changed on purpose, take graft.golden out of its metadata");
    }
    return {};
}

graft::status check_version(model_version& v, const model_version* before, const served_options& options, const std::string& path) {
    if (before && (v.model.inputs().size() != before->model.inputs().size() || v.model.outputs().size() != before->model.outputs().size()))
        return graft::fail(graft::errc::input_shape, path, "it has other inputs or outputs than the version that is served: start another server for it");
    if (!v.classifier) return {};
    graft::tensor one, several;
    GRAFT_TRY_ASSIGN(one, prepared_noise(v));
    const std::int64_t pictures = v.target->merges ? 2 : v.pictures_a_run();
    GRAFT_TRY_ASSIGN(several, joined(std::vector<const graft::tensor*>(static_cast<std::size_t>(pictures), &one)));
    std::vector<double> first;
    for (std::size_t w = 0; w < v.target->sessions.size(); ++w) {
        if (first_of_device(options, w) != w) continue;  // workers of one device run one plan
        graft::session& session = v.target->sessions[w];
        GRAFT_TRY(session.set_input(v.target->input, several));
        GRAFT_TRY(session.run());
        std::vector<graft::tensor> outputs;
        for (std::size_t o = 0; o < v.target->outputs; ++o) outputs.push_back(session.output(o));
        for (std::int64_t i = 0; i < pictures; ++i) {
            std::vector<double> given;
            GRAFT_TRY_ASSIGN(given, probabilities_of(v, outputs, i, pictures));
            if (first.empty()) first = given;
            for (std::size_t c = 0; c < given.size(); ++c) {
                if (!std::isfinite(given[c])) return graft::fail(graft::errc::internal, path, "it answers with numbers that are not finite");
                if (first.size() != given.size() || std::fabs(given[c] - first[c]) > 0.01)
                    return graft::fail(graft::errc::internal, path, "it does not answer alike on every device and in every place of a batch");
            }
        }
    }
    const auto names = [](const model_version& m) { return m.classifier ? m.classifier->labels().size() : 0; };
    if (before && before->classifier && names(v) != names(*before))
        return graft::fail(graft::errc::input_shape, path,
                           "it names " + std::to_string(names(v)) + " classes, and the version that is served " + std::to_string(names(*before)) +
                               ": start another server for it");
    return {};
}

// Whether more samples at a time take less time each: measured, as it differs by network and machine. On the CPU small ones run best alone, out of its caches,
// and those of many weights together.
graft::result<std::int64_t> fastest_batch(model_version& v, served_options& options) {
    constexpr std::int64_t most = 16;
    constexpr double worth = 0.95, longest = 1;  // of the time of less; seconds
    if (options.most > 0) return options.most;
    const graft::value_info& input = v.model.inputs()[v.target->input];
    graft::shape extents = input.extents;
    if (v.classifier) {
        graft::tensor one;
        GRAFT_TRY_ASSIGN(one, prepared_noise(v));
        extents = one.shape();
    }
    std::int64_t chosen = 1;
    double least = 0;
    options.requests += 2;  // as it will be where batches are made: each worker on its own thread
    const auto measure = [&]() -> graft::status {
        for (std::int64_t n = 1; n <= most; n *= 2) {
            extents[0] = n;
            graft::tensor given;
            GRAFT_TRY_ASSIGN(given, graft::tensor::zeros(input.type, extents));
            graft::session& session = v.target->sessions[0];
            GRAFT_TRY(session.set_input(v.target->input, given));
            double took = 0;
            for (int run = 0; run < 3; ++run) {
                const double began = graft::detail::seconds_now();
                GRAFT_TRY(session.run());
                const double seconds = graft::detail::seconds_now() - began;
                if (run == 1 || (run == 2 && seconds < took)) took = seconds;  // the first one plans
            }
            const double each = took / static_cast<double>(n);
            if (n == 1 || each < worth * least) chosen = n, least = each;
            if (took > longest / 4) break;
        }
        return {};
    };
    graft::status done = measure();
    options.requests -= 2;
    GRAFT_TRY(std::move(done));
    v.target->sessions[0].trim();
    return chosen;
}

// Whether a batch of any size can be made for it.
bool can_be_measured(const model_version& v) {
    const graft::value_info& input = v.model.inputs()[v.target->input];
    bool known = input.has_shape && input.extents.rank() > 0;
    for (int i = 1; known && i < input.extents.rank(); ++i) known = input.extents[i] > 0;
    return v.target->merges && (known || v.classifier);
}

}  // namespace

graft::result<std::vector<double>> probabilities_of(const model_version& v, const std::vector<graft::tensor>& outputs, std::int64_t picture,
                                                    std::int64_t pictures) {
    const std::size_t place = v.classifier->output();
    const graft::tensor& scores = outputs[place];
    if (graft::classes_in(scores.shape(), pictures) < 1)
        return graft::fail(graft::errc::classify_output, v.model.outputs()[place].name,
                           "what the network gives is not one number a class: " + graft::text(scores.shape()));
    return graft::class_probabilities(v.model.graph(), scores, picture, pictures, place);
}

served_model::stamp served_model::stamp_of_file() const {
    struct stat about {};
    stamp s;
    if (::stat(path_.c_str(), &about) != 0) return s;
    s.time = static_cast<std::int64_t>(about.st_mtim.tv_sec) * 1000000000 + about.st_mtim.tv_nsec;
    s.bytes = about.st_size;
    return s;
}

bool served_model::changed() const {
    const stamp now = stamp_of_file();
    const std::lock_guard<std::mutex> hold(lock_);
    return now.bytes >= 0 && !(now == read_);
}

graft::status served_model::load(const common_options& common, served_options& options) {
    const stamp now = stamp_of_file();
    const std::shared_ptr<const model_version> before = current();
    {
        // A file that is refused is not tried again before it changes.
        const std::lock_guard<std::mutex> hold(lock_);
        read_ = now;
    }
    std::shared_ptr<model_version> made;
    GRAFT_TRY_ASSIGN(made, read_version(common, options, path_));
    GRAFT_TRY(check_golden(common, *made, options, path_));
    graft::status checked = check_version(*made, before.get(), options, path_);
    if (!checked.ok() && checked.error().code() == graft::errc::classify_output && options.labels.empty() && options.preprocess.empty() &&
        options.output.empty()) {
        // A network whose file did not tell that it names nothing: it is served by arrays.
        made->no_classifier = checked.error();
        made->classifier.reset();
        checked = check_version(*made, before.get(), options, path_);
    }
    GRAFT_TRY(std::move(checked));
    if (can_be_measured(*made))
        GRAFT_TRY_ASSIGN(made->target->most, fastest_batch(*made, options));
    else
        made->target->most = std::max(options.most, 1);
    made->number = before ? before->number + 1 : 1;
    const std::lock_guard<std::mutex> hold(lock_);
    current_ = std::move(made);
    return {};
}

}  // namespace program
