// The network that finetune and train begin with: a grafted trunk, or an architecture with random weights.
#include "training.hpp"

#include <algorithm>
#include <cstdlib>
#include <regex>

namespace program {
namespace {

constexpr std::size_t longest_matched_name = 4096;

// The shape of a batch as the step will see it.
graft::result<graft::shape> batch_shape(const training_setup& setup, const graft::input_format& format, const graft::dataset_splits& data, std::int64_t batch) {
    graft::sample_options sample;
    sample.preprocess = setup.preprocess;
    sample.format = format;
    graft::sample_maker samples;
    GRAFT_TRY_ASSIGN(samples, graft::sample_maker::make(data.training, sample));
    return samples.batch_shape(std::min<std::int64_t>(batch, data.training.size()));
}

// The names that a regular expression matches; `takes` says what the option may be given.
graft::result<std::vector<std::string>> matching(const char* option, const std::string& text, const char* takes, graft::errc none,
                                                 const std::vector<graft::parameter>& parameters) {
    std::vector<std::string> named;
    try {
        const std::regex pattern(text, std::regex::ECMAScript | std::regex::optimize);
        for (const graft::parameter& p : parameters) {
            // libstdc++ matches by recursion, a frame or more for each character.
            if (p.name.size() > longest_matched_name)
                return graft::fail(
                    none, option, "the network has a weight whose name is " + std::to_string(p.name.size()) + " bytes long, too long for a regular expression");
            if (std::regex_search(p.name, pattern)) named.push_back(p.name);
        }
    } catch (const std::regex_error& e) {
        return graft::fail(graft::errc::usage, option, "\"" + printable(text) + "\" is no regular expression: " + e.what() + "; it takes " + takes);
    }
    if (!named.empty()) return named;
    std::string some;
    for (std::size_t i = 0; i < parameters.size(); i += parameters.size() / 4 + 1) some += (i ? ", " : "") + printable(parameters[i].name);
    return graft::fail(none, option, "no weight's name matches \"" + printable(text) + "\"; some of them are " + some);
}

// Rates by layer, as --rate and --layer-decay have them.
graft::status set_rates(const training_options& o, graft::training_network& network, const std::vector<std::string>& head, const graft::shape& batch,
                        graft::executor& pool) {
    std::vector<graft::named_rate> rates;
    for (const std::string& given : o.rates) {
        const std::size_t at = given.rfind('=');
        char* end = nullptr;
        graft::named_rate r;
        if (at != std::string::npos) r.factor = std::strtod(given.c_str() + at + 1, &end);
        if (!end || end == given.c_str() + at + 1 || *end || !(r.factor >= 0 && r.factor <= 1e6))
            return graft::fail(graft::errc::usage, "--rate",
                               "it takes a regular expression on weight names and a factor from 0 on, such as 'layer1=0.1', not \"" + printable(given) + "\"");
        GRAFT_TRY_ASSIGN(r.names, matching("--rate", given.substr(0, at), "REGEX=FACTOR", graft::errc::usage, network.parameters));
        rates.push_back(std::move(r));
    }
    GRAFT_TRY(graft::scale_rates(network.parameters, rates));
    return o.with.layer_decay == 1 ? graft::status() : graft::decay_rates(network.graph, network.parameters, o.with.layer_decay, head, batch, pool);
}

graft::status freeze_by(const training_options& o, graft::training_network& network, const std::vector<std::string>& head, const graft::shape& batch,
                        graft::executor& pool) {
    const bool number = !o.with.freeze.empty() && o.with.freeze.find_first_not_of("0123456789") == std::string::npos;
    if (number || o.with.freeze == "none" || o.with.freeze == "trunk") {
        if (number && o.with.freeze.size() > 6) return graft::fail(graft::errc::train_freeze, "--freeze", "the network has not that many stages");
        return graft::freeze(network.graph, network.parameters, o.with.freeze, head, {}, batch, pool);
    }
    std::vector<std::string> named;
    GRAFT_TRY_ASSIGN(named, matching("--freeze", o.with.freeze, "none, trunk, a number of stages, or a regular expression on weight names",
                                     graft::errc::train_freeze, network.parameters));
    return graft::freeze(network.graph, network.parameters, "names", head, named, batch, pool);
}

graft::result<training_setup> graft_network(const training_options& o, const graft::dataset_splits& data, const graft::trainer_options& with) {
    training_setup setup;
    setup.source = o.from;
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(o.from, graft::on_device(nullptr)));
    graft::finetune_options how = o.with;
    static_cast<graft::trainer_options&>(how) = with;
    how.preprocessing = o.preprocess.empty() ? "auto" : o.preprocess;
    graft::finetune_setup made;
    GRAFT_TRY_ASSIGN(made, graft::set_up_finetuning(model, data.training, how));
    setup.network = std::move(made.network);
    setup.preprocess = made.preprocess;
    setup.assumed = made.choice.source == graft::preprocess_source::assumed;
    setup.tried = std::move(made.tried);
    setup.notes = std::move(made.notes);
    graft::pool_executor pool(with.threads);
    GRAFT_TRY(freeze_by(o, setup.network, made.head, made.batch, pool));
    GRAFT_TRY(set_rates(o, setup.network, made.head, made.batch, pool));
    return setup;
}

graft::result<training_setup> build_network(const training_options& o, const graft::dataset_splits& data, const graft::trainer_options& with) {
    training_setup setup;
    setup.source = o.arch;
    const std::string spec = o.preprocess.empty() ? graft::default_preprocess(o.arch) : o.preprocess;
    graft::preprocess_spec wanted;
    GRAFT_TRY_ASSIGN(wanted, graft::parse_preprocess(spec));
    graft::architecture_options how;
    how.classes = static_cast<std::int64_t>(data.training.classes().size());
    how.seed = with.seed;
    using rules = graft::preprocess_spec;
    if (wanted.order != rules::channels::model) how.channels = wanted.order == rules::channels::gray ? 1 : 3;
    if (wanted.crop == rules::crop_rule::exact)
        how.height = wanted.crop_height, how.width = wanted.crop_width;
    else if (wanted.resize == rules::size_rule::exact)
        how.height = wanted.resize_height, how.width = wanted.resize_width;
    auto built = graft::build_architecture(o.arch, how);
    if (!built.ok()) {
        if (built.error().code() == graft::errc::usage) return graft::fail(graft::errc::usage, "--arch", built.error().where() + ": " + built.error().detail());
        return built.take_status();
    }
    graft::training_network& network = setup.network;
    graft::model verified;
    GRAFT_TRY_ASSIGN(verified, graft::load(std::move(built).value()));
    network.graph = verified.graph();
    graft::input_format format;
    GRAFT_TRY_ASSIGN(format, graft::picture_input(network.graph));
    GRAFT_TRY_ASSIGN(setup.preprocess, graft::complete(wanted, format));
    network.logits = graft::logits_of(network.graph);
    network.parameters = graft::parameters_of(network.graph);
    graft::pool_executor pool(with.threads);
    graft::shape batch;
    GRAFT_TRY_ASSIGN(batch, batch_shape(setup, format, data, with.batch));
    GRAFT_TRY(set_rates(o, network, {}, batch, pool));
    return setup;
}

}  // namespace

int maker_of(const graft::graph& g, graft::value_id id) {
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        for (graft::value_id out : g.nodes[i].outputs)
            if (out == id && id != graft::no_value) return static_cast<int>(i);
    return -1;
}

graft::result<graft::shape> batch_shape_of(const training_setup& setup, const graft::dataset_splits& data, std::int64_t batch) {
    graft::input_format format;
    GRAFT_TRY_ASSIGN(format, graft::picture_input(setup.network.graph));
    return batch_shape(setup, format, data, batch);
}

graft::result<training_setup> set_up_training(const training_options& options, const graft::dataset_splits& data, const graft::trainer_options& with) {
    return options.from_scratch ? build_network(options, data, with) : graft_network(options, data, with);
}

}  // namespace program
