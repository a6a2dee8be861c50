// A model as it is put into an app.
#include "embedded_network.hpp"

#include "../operators.hpp"

#include <graft/core/json.hpp>
#include <graft/io/onnx_write.hpp>
#include <graft/train/golden.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace program {
namespace {

// g++ takes 11 bytes of memory for each of these, clang++ 80.
constexpr std::int64_t most_bytes = std::int64_t(256) << 20;

// Numbers in the place of names, but for those of inputs and outputs, which callers use.
void drop_names(graft::graph& g) {
    std::set<std::string> used;
    std::vector<char> keeps(g.values.size(), 0);
    for (const auto* ends : {&g.inputs, &g.outputs})
        for (const graft::value_id id : *ends) {
            keeps[static_cast<std::size_t>(id)] = 1;
            used.insert(g.at(id).name);
        }
    std::size_t next = 0;
    for (std::size_t i = 0; i < g.values.size(); ++i) {
        if (keeps[i]) continue;
        std::string name = std::to_string(next++);
        while (used.count(name)) name = std::to_string(next++);
        g.values[i].name = std::move(name);
    }
    for (graft::node& n : g.nodes) n.name.clear();
}

// Weights in half precision, each with a Cast behind it, which folding does away with when the network is loaded. What half precision has no number for
// stays as it is, and so does what is too small to matter.
graft::status store_in_half(graft::graph& g) {
    constexpr std::size_t least_bytes = 1024;
    constexpr double largest = 65504;
    std::vector<char> given(g.values.size(), 0);
    for (const graft::value_id id : g.inputs) given[static_cast<std::size_t>(id)] = 1;
    std::vector<graft::node> casts;
    for (std::size_t i = 0; i < given.size(); ++i) {
        const graft::tensor whole = g.values[i].constant;
        if (given[i] || !whole || whole.type() != graft::dtype::float32 || whole.bytes() < least_bytes) continue;
        std::vector<double> numbers(static_cast<std::size_t>(whole.elements()));
        graft::load_as_double(whole.type(), whole.raw(), 0, whole.elements(), numbers.data());
        if (!std::all_of(numbers.begin(), numbers.end(), [&](double d) { return std::fabs(d) <= largest; })) continue;
        graft::tensor half;
        GRAFT_TRY_ASSIGN(half, graft::tensor::make(graft::dtype::float16, whole.shape()));
        graft::store_from_double(half.type(), half.raw(), 0, half.elements(), numbers.data());
        graft::node cast;
        cast.op_type = "Cast";
        cast.inputs = {g.add_constant(g.values[i].name + "_half", std::move(half))};
        cast.outputs = {static_cast<graft::value_id>(i)};
        cast.attributes = {graft::integer_attribute("to", static_cast<std::int64_t>(graft::dtype::float32))};
        casts.push_back(std::move(cast));
        g.values[i].constant = {};
    }
    g.nodes.insert(g.nodes.begin(), casts.begin(), casts.end());
    return {};
}

// Whether a network that fails so is none that takes a picture and gives a number a class, rather than a classifier with wrong labels.
bool names_nothing(const graft::error& e) {
    constexpr graft::errc kinds[] = {graft::errc::classify_output, graft::errc::input_name, graft::errc::input_shape, graft::errc::input_dtype,
                                     graft::errc::op_shape,        graft::errc::op_value,   graft::errc::op_index};
    return std::find(std::begin(kinds), std::end(kinds), e.code()) != std::end(kinds);
}

graft::status learn_classes(const graft::model& model, const graft::classifier_options& with, embedded_network& made) {
    auto named = graft::classifier::make(model, with);
    if (!named.ok()) return named.take_status();
    GRAFT_TRY_ASSIGN(made.classes, named->classes());
    if (!named->labels().empty()) {
        // All are as likely, so that they come in their order; a "background" that the names leave out among them.
        const auto count = static_cast<std::size_t>(made.classes);
        std::vector<graft::prediction> all;
        GRAFT_TRY_ASSIGN(all, named->best(std::vector<double>(count, 0), static_cast<int>(count)));
        for (graft::prediction& one : all) made.labels.push_back(std::move(one.label));
    }
    made.preprocessing = named->preprocessing();
    return {};
}

}  // namespace

graft::result<embedded_network> embed_network(const common_options& common, const embedding_options& options) {
    graft::classifier_options with;
    GRAFT_TRY_ASSIGN(with, classifier_options_of(common, nullptr, options.labels, options.preprocess, options.output));
    graft::model model, opened;
    GRAFT_TRY_ASSIGN(model, graft::load(options.model, with.load));
    // As classify does, and the header of a classifier too. The file is what goes into the header, for opening makes float weights of integers.
    with.load.open_batch = true;
    GRAFT_TRY_ASSIGN(opened, graft::load(options.model, with.load));
    embedded_network made;
    const graft::status learnt = learn_classes(opened, with, made);
    const bool told = !options.labels.empty() || !options.preprocess.empty() || !options.output.empty();
    if (!learnt.ok() && (told || !names_nothing(learnt.error()))) return learnt.error();
    if (!learnt.ok()) made.unfit = learnt.error();

    graft::graph g = model.graph();
    for (const graft::value_info& v : model.inputs())
        if (!v.has_default) made.inputs.push_back(graft::to_string(v));
    for (const graft::value_info& v : model.outputs()) made.outputs.push_back(graft::to_string(v));
    operator_census census;
    census.add(g);
    made.parameters = census.parameters;
    census.add(opened.graph());
    if (options.float16) {
        GRAFT_TRY(store_in_half(g));
        census.add(g);
    }
    made.operators = census.names();

    g.description.clear();
    g.drop_metadata(graft::golden_key);
    if (!made.unfit) {
        g.set_metadata("graft.preprocess", made.preprocessing.text);
        if (!made.labels.empty()) {
            graft::json_writer labels;
            labels.begin_array();
            for (const std::string& label : made.labels) labels.string(label);
            g.set_metadata("graft.labels", labels.end_array().text());
            g.drop_metadata("class_names");  // the same for other tools
        }
    }
    if (!options.keep_names) drop_names(g);
    GRAFT_TRY(graft::write_onnx(g, made.bytes));
    if (static_cast<std::int64_t>(made.bytes.size()) > most_bytes)
        return graft::fail(graft::errc::model_too_large, options.model,
                           "the model takes " + bytes_text(static_cast<std::int64_t>(made.bytes.size())) + ", and " + bytes_text(most_bytes) +
                               " is what a compiler can be given as one header: ship it as a file, or make it a quarter by graft quantize");
    return made;
}

}  // namespace program
