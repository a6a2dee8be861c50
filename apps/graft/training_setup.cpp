// The network that finetune and train begin with: a grafted trunk, or an architecture with random weights.
#include "training.hpp"

#include <algorithm>
#include <regex>

namespace program {
namespace {

constexpr std::size_t longest_matched_name = 4096;

// The shape of a batch as the step will see it.
graft::result<graft::shape> batch_shape(const training_setup& setup, const graft::input_format& format,
                                        const graft::dataset_splits& data, std::int64_t batch) {
    graft::sample_options sample;
    sample.preprocess = setup.preprocess;
    sample.format = format;
    graft::sample_maker samples;
    GRAFT_TRY_ASSIGN(samples, graft::sample_maker::make(data.training, sample));
    return samples.batch_shape(std::min<std::int64_t>(batch, data.training.size()));
}

graft::status freeze_by(const training_options& o, graft::training_network& network, const std::vector<std::string>& head,
                        const graft::shape& batch, graft::executor& pool) {
    const bool number = !o.freeze.empty() && o.freeze.find_first_not_of("0123456789") == std::string::npos;
    if (number || o.freeze == "none" || o.freeze == "trunk") {
        if (number && o.freeze.size() > 6)
            return graft::fail(graft::errc::train_freeze, "--freeze", "the network has not that many stages");
        return graft::freeze(network.graph, network.parameters, o.freeze, head, {}, batch, pool);
    }
    std::vector<std::string> named;
    try {
        const std::regex pattern(o.freeze, std::regex::ECMAScript | std::regex::optimize);
        for (const graft::parameter& p : network.parameters) {
            // libstdc++ matches by recursion, a frame or more for each character.
            if (p.name.size() > longest_matched_name)
                return graft::fail(graft::errc::train_freeze, "--freeze",
                                   "the network has a weight whose name is " + std::to_string(p.name.size()) +
                                       " bytes long, too long for a regular expression; take none, trunk or a number of stages");
            if (std::regex_search(p.name, pattern)) named.push_back(p.name);
        }
    } catch (const std::regex_error& e) {
        return graft::fail(graft::errc::usage, "--freeze",
                           "\"" + printable(o.freeze) + "\" is no regular expression: " + e.what() +
                               "; it takes none, trunk, a number of stages, or a regular expression on weight names");
    }
    if (named.empty())
        return graft::fail(graft::errc::train_freeze, "--freeze",
                           "no weight's name matches \"" + printable(o.freeze) + "\"; the first is \"" +
                               printable(network.parameters.empty() ? "" : network.parameters[0].name) + "\"");
    return graft::freeze(network.graph, network.parameters, "names", head, named, batch, pool);
}

graft::result<training_setup> graft_network(const training_options& o, const graft::dataset_splits& data,
                                            const graft::trainer_options& with) {
    training_setup setup;
    setup.source = o.from;
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(o.from, graft::on_device(nullptr)));
    graft::finetune_options how;
    static_cast<graft::trainer_options&>(how) = with;
    how.preprocessing = o.preprocess.empty() ? "auto" : o.preprocess;
    how.output = o.output;
    how.trunk = o.trunk;
    graft::finetune_setup made;
    GRAFT_TRY_ASSIGN(made, graft::set_up_finetuning(model, data.training, how));
    setup.network = std::move(made.network);
    setup.preprocess = made.preprocess;
    setup.assumed = made.choice.source == graft::preprocess_source::assumed;
    setup.tried = std::move(made.tried);
    setup.notes = std::move(made.notes);
    graft::pool_executor pool(with.threads);
    GRAFT_TRY(freeze_by(o, setup.network, made.head, made.batch, pool));
    return setup;
}

graft::result<training_setup> build_network(const training_options& o, const graft::dataset_splits& data,
                                            const graft::trainer_options& with) {
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
        if (built.error().code() == graft::errc::usage)
            return graft::fail(graft::errc::usage, "--arch", built.error().where() + ": " + built.error().detail());
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
    return setup;
}

} // namespace

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

} // namespace program
