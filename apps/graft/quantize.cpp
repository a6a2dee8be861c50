// graft quantize: a float network as one of eight-bit integers, with its ranges from pictures and its answers held against those of the float one.
#include "pictures.hpp"
#include "verb.hpp"

#include <graft/core/rng.hpp>
#include <graft/data/splits.hpp>
#include <graft/io/onnx_write.hpp>
#include <graft/quantize.hpp>
#include <graft/train/batch_parts.hpp>
#include <graft/train/training_files.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>

namespace program {
namespace {

struct quantize_verb_options {
    std::string model, data, out, method = "minmax", weights = "uint8", labels, preprocess, output;
    std::vector<std::string> keep;
    std::int64_t samples = 256;
    double percentile = 99.99, max_drop = 0.5;
};

constexpr std::size_t compared = 16;                            // pictures that the cost of a node is measured on
constexpr std::size_t at_once = 32;                             // pictures that are scored together,
constexpr std::int64_t pixels_at_once = std::int64_t(1) << 28;  // or fewer, where so many bytes of pixels have been read

// A dataset, or pictures that nobody has labelled.
struct picture_source {
    graft::dataset data;
    std::vector<picture_argument> loose;
    std::int64_t size() const { return loose.empty() ? data.size() : static_cast<std::int64_t>(loose.size()); }
    std::string name(std::int64_t i) const { return loose.empty() ? data.name(i) : loose[static_cast<std::size_t>(i)].path; }
    int label(std::int64_t i) const { return loose.empty() ? data.label(i) : -1; }
    graft::result<graft::image> read(std::int64_t i) const {
        if (loose.empty()) return data.read(i);
        const picture_argument& one = loose[static_cast<std::size_t>(i)];
        if (one.failed) return graft::status(*one.failed);
        return graft::decode_file(one.path);
    }
};

graft::result<picture_source> open_pictures(const common_options& common, const std::string& path) {
    picture_source made;
    graft::dataset_options opening;
    opening.allow_empty = true;
    auto data = graft::open_dataset(path, opening);
    if (data.ok()) made.data = std::move(data).value();
    if (!data.ok() && data.error().code() != graft::errc::data_no_classes) return data.take_status();
    if (made.data.size() == 0) made.loose = pictures_of(common, {path});
    for (const picture_argument& one : made.loose)
        if (one.failed) return graft::status(*one.failed);
    if (made.size() == 0) return graft::fail(graft::errc::data_open, path, "there is no picture in it");
    return made;
}

// `count` of the pictures: of each class in turn the next of those that the seed has shuffled.
std::vector<std::int64_t> chosen(const picture_source& from, std::int64_t count, std::uint64_t seed) {
    std::vector<std::vector<std::int64_t>> by_class(1);
    for (std::int64_t i = 0; i < from.size(); ++i) {
        const std::size_t c = static_cast<std::size_t>(from.label(i) + 1);
        if (c >= by_class.size()) by_class.resize(c + 1);
        by_class[c].push_back(i);
    }
    for (std::size_t c = 0; c < by_class.size(); ++c) {
        const graft::random_stream random(seed, c);
        for (std::size_t i = by_class[c].size(); i > 1; --i) std::swap(by_class[c][i - 1], by_class[c][random.below(i, i)]);
    }
    const auto wanted = static_cast<std::size_t>(std::min(count, from.size()));
    std::vector<std::int64_t> taken;
    for (std::size_t turn = 0; taken.size() < wanted; ++turn)
        for (const std::vector<std::int64_t>& some : by_class)
            if (turn < some.size() && taken.size() < wanted) taken.push_back(some[turn]);
    return taken;
}

// The picture as a batch that the model takes.
graft::result<graft::tensor> batch_of(const graft::image& picture, const graft::classifier& by) {
    std::size_t input = 0;
    while (by.model().inputs()[input].has_default) ++input;
    const graft::value_info& info = by.model().inputs()[input];
    graft::tensor one;
    GRAFT_TRY_ASSIGN(one, graft::preprocess(picture, by.preprocessing().spec, {info.type, info.extents, true}));
    const std::int64_t fixed = info.has_shape && info.extents.rank() > 0 ? info.extents[0] : -1;
    if (fixed > 1) GRAFT_TRY(graft::detail::filled_up(graft::view(one), fixed, true, one));
    return one;
}

using rows = std::vector<std::vector<double>>;

std::size_t likeliest(const std::vector<double>& row) { return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin()); }

// Signal to noise of probabilities, in decibels; infinite where they are equal.
double signal_to_noise(const rows& wanted, const rows& got) {
    double signal = 0, noise = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
        for (std::size_t k = 0; k < got[i].size(); ++k) signal += wanted[i][k] * wanted[i][k], noise += (wanted[i][k] - got[i][k]) * (wanted[i][k] - got[i][k]);
    return noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
}

class quantizing {
public:
    quantizing(const common_options& common, const quantize_verb_options& options, graft::classifier_options how)
        : common_(common), o_(options), how_(std::move(how)) {}

    graft::result<int> run() {
        auto loaded = graft::classifier::load(o_.model, how_);
        if (!loaded.ok()) return loaded.take_status();
        graft::classifier by = std::move(loaded).value();
        warn_where_assumed(common_, by.preprocessing());
        GRAFT_TRY_ASSIGN(pictures_, open_pictures(common_, o_.data));
        for (const graft::dataset_problem& p : pictures_.data.problems()) warn(common_, p.path + ": " + p.detail);
        GRAFT_TRY(name_outputs(by));

        graft::quantize_options options;
        options.method = o_.method == "entropy"      ? graft::calibration_method::entropy
                         : o_.method == "percentile" ? graft::calibration_method::percentile
                                                     : graft::calibration_method::minmax;
        options.percentile = o_.percentile;
        options.weights = o_.weights == "int8" ? graft::dtype::int8 : graft::dtype::uint8;
        options.load = how_.load;
        options.session = how_.session;
        const std::vector<graft::value_info> inputs = assumed_inputs(by.model(), 1);
        if (inputs.size() == 1) options.input = inputs[0].extents;
        auto opened = graft::quantizer::make(by.model().graph(), options);
        if (!opened.ok()) return opened.take_status();
        graft::quantizer quantizer = std::move(opened).value();
        if (quantizer.converted() != graft::dtype::undefined) {
            warn(common_, o_.model + " is of " + graft::name(quantizer.converted()) + ": it is quantised as the float32 network that it stands for");
            auto in_float32 = classifier_of(quantizer.prepared());
            if (!in_float32.ok()) return in_float32.take_status();
            by = std::move(in_float32).value();
        }
        for (const std::string& name : o_.keep) GRAFT_TRY(known(quantizer, name));
        GRAFT_TRY(observe(quantizer, by));
        GRAFT_TRY_ASSIGN(float_, scores("float", by, pictures_.size()));
        graft::graph made;
        std::vector<std::string> keep = o_.keep;
        GRAFT_TRY(attempt(quantizer, keep, made));
        if (drop_ > o_.max_drop) GRAFT_TRY(keep_costly(quantizer, keep, made));
        if (drop_ > o_.max_drop) {
            char text[200];
            std::snprintf(text, sizeof text, "%s falls by %.2f points, more than --max-drop %g allows, with %d of its layers in float; no file was written",
                          measure(), drop_, o_.max_drop, static_cast<int>(keep.size()));
            return graft::fail(graft::errc::quantize_accuracy, o_.model, text);
        }
        GRAFT_TRY(renew_golden(by.model(), made));
        GRAFT_TRY(graft::write_onnx_file(made, o_.out));
        tell(made, keep);
        return exit_done;
    }

private:
    // The picture of the float network's golden sample, with the quantised one's answer.
    graft::status renew_golden(const graft::model& of, graft::graph& made) const {
        const std::string text = of.metadata(graft::golden_key);
        if (text.empty()) return {};
        graft::golden_sample sample;
        GRAFT_TRY_ASSIGN(sample, graft::decode_golden(text, o_.model));
        GRAFT_TRY_ASSIGN(sample, graft::add_golden(made, sample.input, common_.threads));
        return {};
    }
    graft::status observe(graft::quantizer& quantizer, const graft::classifier& by) {
        const std::vector<std::int64_t> seen = chosen(pictures_, o_.samples, common_.seed);
        progress bar("calibrate", static_cast<std::int64_t>(seen.size()), common_.quiet);
        std::int64_t done = 0;
        for (std::int64_t i : seen) {
            auto picture = pictures_.read(i);
            if (!picture.ok())
                warn(common_, pictures_.name(i) + ": left out: " + picture.error().detail());
            else {
                graft::tensor batch;
                GRAFT_TRY_ASSIGN(batch, batch_of(*picture, by));
                GRAFT_TRY(quantizer.observe(batch));
                ++observed_;
            }
            bar.step(++done);
        }
        if (!observed_) return graft::fail(graft::errc::data_too_many_bad, o_.data, "none of the pictures chosen can be read");
        return {};
    }
    const char* measure() const { return labelled_ ? "top-1" : "agreement of top-1 with the float network"; }
    static graft::status known(const graft::quantizer& q, const std::string& name) {
        const std::vector<std::string> all = q.nodes();
        if (std::find(all.begin(), all.end(), name) != all.end()) return {};
        const std::string meant = graft::nearest_name(name, all);
        return graft::fail(graft::errc::input_name, "--keep " + name,
                           meant.empty() ? "no node of that name can be quantised; graft info --placement lists the nodes"
                                         : "there is no such node; did you mean " + meant + "?");
    }
    // Which output stands for each class of the dataset, by name; without all of them the pictures count as not labelled.
    graft::status name_outputs(graft::classifier& by) {
        std::vector<std::string> names;
        GRAFT_TRY_ASSIGN(names, by.class_names());
        labelled_ = pictures_.loose.empty();
        std::string missing;
        for (const std::string& c : pictures_.data.classes()) {
            const auto at = std::find(names.begin(), names.end(), c);
            if (at == names.end() && missing.empty()) missing = c;
            labelled_ = labelled_ && at != names.end();
            output_of_.push_back(static_cast<std::size_t>(at - names.begin()));
        }
        constexpr const char* instead = "how often the quantised network names what the float one does is measured in place of top-1";
        if (!pictures_.loose.empty())
            warn(common_, o_.data + ": its pictures have no labels: " + instead + "; a folder for each class, named as the model names it, gives them labels");
        else if (!labelled_)
            warn(common_, o_.data + ": its class \"" + missing + "\" is none of the model's: " + instead + "; --labels names the model's classes");
        return {};
    }
    // A row for each picture that can be read, of the first `count`; empty for the others.
    graft::result<rows> scores(const char* what, graft::classifier& by, std::int64_t count) {
        rows made(static_cast<std::size_t>(count));
        progress bar(what, count, common_.quiet);
        std::vector<graft::image> some;
        std::vector<std::size_t> which;
        std::int64_t bytes = 0;
        for (std::int64_t i = 0; i < count; ++i) {
            auto picture = pictures_.read(i);
            if (picture.ok()) {
                bytes += picture->height * picture->width * 3;
                some.push_back(std::move(picture).value());
                which.push_back(static_cast<std::size_t>(i));
            }
            if (some.size() < at_once && bytes < pixels_at_once && i + 1 < count) continue;
            rows answers;
            GRAFT_TRY_ASSIGN(answers, by.probabilities(some));
            for (std::size_t k = 0; k < which.size(); ++k) made[which[k]] = std::move(answers[k]);
            some.clear();
            which.clear();
            bytes = 0;
            bar.step(i + 1);
        }
        return made;
    }
    graft::result<graft::classifier> classifier_of(const graft::graph& g) {
        graft::load_options how = how_.load;
        how.open_batch = true;
        graft::model m;
        GRAFT_TRY_ASSIGN(m, graft::load(g, how));
        return graft::classifier::make(m, how_);
    }
    // Quantises with these nodes in float, and measures by how much it is worse.
    graft::status attempt(graft::quantizer& q, const std::vector<std::string>& keep, graft::graph& made) {
        GRAFT_TRY_ASSIGN(made, q.finish(keep));
        auto by = classifier_of(made);
        if (!by.ok()) return by.take_status();
        rows got;
        GRAFT_TRY_ASSIGN(got, scores("quantised", *by, pictures_.size()));
        std::int64_t count = 0, float_right = 0, right = 0, agree = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            if (got[i].empty() || float_[i].empty()) continue;
            ++count;
            const std::size_t a = likeliest(float_[i]), b = likeliest(got[i]);
            agree += a == b;
            const int label = pictures_.label(static_cast<std::int64_t>(i));
            if (!labelled_ || label < 0) continue;
            float_right += output_of_[static_cast<std::size_t>(label)] == a;
            right += output_of_[static_cast<std::size_t>(label)] == b;
        }
        const auto share = [&](std::int64_t n) { return count ? static_cast<double>(n) / static_cast<double>(count) : 0; };
        images_ = count;
        float_top1_ = share(float_right), top1_ = share(right), agreement_ = share(agree);
        // Of whole numbers, so that a drop of the points allowed is none above them.
        drop_ = count ? static_cast<double>(100 * (labelled_ ? float_right - right : count - agree)) / static_cast<double>(count) : 0;
        return {};
    }
    // The nodes whose quantisation costs most, found by leaving out one at a time, stay in float: 1, 2, 4, ... of them until it is good enough, and then,
    // by halves, as few as are.
    graft::status keep_costly(graft::quantizer& q, std::vector<std::string>& keep, graft::graph& made) {
        std::vector<std::pair<double, std::string>> costly;
        const std::vector<std::string> all = q.nodes();
        std::vector<graft::image> few;
        rows wanted;
        for (std::int64_t i : chosen(pictures_, pictures_.size(), common_.seed)) {
            if (few.size() == compared) break;
            auto picture = pictures_.read(i);
            if (!picture.ok() || float_[static_cast<std::size_t>(i)].empty()) continue;
            few.push_back(std::move(picture).value());
            wanted.push_back(float_[static_cast<std::size_t>(i)]);
        }
        progress bar("layers", static_cast<std::int64_t>(all.size()), common_.quiet);
        std::int64_t done = 0;
        for (const std::string& name : all) {
            bar.step(++done);
            if (std::find(keep.begin(), keep.end(), name) != keep.end()) continue;
            std::vector<std::string> without = keep;
            without.push_back(name);
            auto one = q.finish(without);
            if (!one.ok() && one.error().code() == graft::errc::quantize_nothing) continue;
            if (!one.ok()) return one.take_status();
            auto by = classifier_of(*one);
            if (!by.ok()) return by.take_status();
            rows got;
            GRAFT_TRY_ASSIGN(got, by->probabilities(few));
            costly.push_back({signal_to_noise(wanted, got), name});
        }
        bar.finish();
        std::stable_sort(costly.begin(), costly.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
        const std::vector<std::string> given = keep;
        const auto leave = [&](std::size_t n) {
            keep = given;
            for (std::size_t i = 0; i < n; ++i) keep.push_back(costly[i].second);
            return attempt(q, keep, made);
        };
        std::size_t enough = 0, too_few = 0;
        for (std::size_t n = 1; !enough && too_few + 1 < costly.size(); n = std::min(2 * n, costly.size() - 1)) {
            graft::status tried = leave(n);
            if (!tried.ok() && tried.error().code() == graft::errc::quantize_nothing) break;
            GRAFT_TRY(std::move(tried));
            (drop_ > o_.max_drop ? too_few : enough) = n;
        }
        while (too_few + 1 < enough) {
            const std::size_t n = (too_few + enough) / 2;
            GRAFT_TRY(leave(n));
            (drop_ > o_.max_drop ? too_few : enough) = n;
        }
        return enough && keep.size() != given.size() + enough ? leave(enough) : graft::status();
    }
    void tell(const graft::graph& made, const std::vector<std::string>& keep) const {
        std::int64_t pairs = 0;
        for (const graft::node& n : made.nodes) pairs += n.op_type == "QuantizeLinear";
        if (common_.json) {
            json kept = json::array();
            for (const std::string& name : keep) kept.push_back(name);
            json said{{"out", o_.out},     {"method", o_.method},     {"samples", observed_},
                      {"images", images_}, {"labelled", labelled_},   {"agreement", agreement_},
                      {"drop", drop_},     {"max_drop", o_.max_drop}, {"quantized_activations", pairs},
                      {"kept", kept}};
            if (labelled_) said["float_top1"] = float_top1_, said["top1"] = top1_;
            print(said);
            return;
        }
        text_table table({"network", labelled_ ? ">top-1" : ">agreement of top-1"});
        table.add({"float", percent_text(labelled_ ? float_top1_ : 1)});
        table.add({"quantised", percent_text(labelled_ ? top1_ : agreement_)});
        table.print(look_at(stdout, common_.color));
        std::printf("\n%s %s by %.2f points on %lld pictures; ranges by %s of %lld pictures\n", measure(), drop_ < 0 ? "rises" : "falls", std::fabs(drop_),
                    static_cast<long long>(images_), o_.method.c_str(), static_cast<long long>(observed_));
        for (const std::string& name : keep) std::printf("stays float: %s\n", printable(name).c_str());
        std::printf("written: %s\n", printable(o_.out).c_str());
    }

    const common_options& common_;
    const quantize_verb_options& o_;
    graft::classifier_options how_;
    picture_source pictures_;
    std::vector<std::size_t> output_of_;  // by class of the dataset
    bool labelled_ = false;
    rows float_;
    std::int64_t observed_ = 0, images_ = 0;
    double float_top1_ = 0, top1_ = 0, agreement_ = 0, drop_ = 0;
};

action declare(option_list& list) {
    auto o = std::make_shared<quantize_verb_options>();
    list.add("MODEL", o->model, "The float network").required();
    list.add("DATA", o->data, "Image folder, IDX or CIFAR files, a CSV file, or a folder of pictures without labels").required();
    list.add("--out", o->out, "The file to write", "FILE").required();
    list.add("--samples", o->samples, "Pictures that ranges are taken from, of every class as many (default: 256)", "N");
    list.add("--method", o->method, "How a range is chosen: minmax, percentile or entropy (default: minmax)", "M").one_of({"minmax", "percentile", "entropy"});
    list.add("--percentile", o->percentile, "What --method percentile keeps of the values (default: 99.99)", "P").within(50.0, 100.0);
    list.add("--weights", o->weights, "Type of the weights: uint8, around 128, or int8 (default: uint8)", "T").one_of({"uint8", "int8"});
    list.add("--max-drop", o->max_drop, "Points of top-1 that may be lost (default: 0.5)", "P").within(0.0, 100.0);
    list.add("--keep", o->keep, "A node that stays float; may be given again", "NAME").repeatable();
    list.add("--labels", o->labels, "Names of the model's classes, one a line (default: the model's own)", "FILE");
    list.add("--preprocess", o->preprocess, "How pictures become tensors (default: the model's own)", "SPEC");
    list.add("--output", o->output, "The output that names classes (default: the first)", "NAME");
    return [o](const common_options& common) -> graft::result<int> {
        if (o->samples < 1) return graft::fail(graft::errc::usage, "--samples", "at least one picture is needed");
        graft::classifier_options how;
        GRAFT_TRY_ASSIGN(how, classifier_options_of(common, nullptr, o->labels, o->preprocess, o->output));
        return quantizing(common, *o, std::move(how)).run();
    };
}

}  // namespace

verb quantize_verb() { return {"Makes a float network one of eight-bit integers, and measures what that costs", declare}; }

}  // namespace program
