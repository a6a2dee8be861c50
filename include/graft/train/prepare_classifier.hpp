// Whatever classifier somebody brings, as a network that can learn: one picture in, one row out, in float32, for any number of pictures.
#pragma once

#include "../data/preprocess.hpp"
#include "../passes/to_float32.hpp"
#include "trunk.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A classifier made ready to learn, still with the head that it came with.
struct prepared_classifier {
    graft::graph graph;            ///< constants are initializers; its one output is the one that was asked for
    input_format picture;          ///< its input, with the batch open
    shape batch;                   ///< the shape of two pictures as it takes them, or of `fixed_batch`
    float32_changes changes;       ///< what was not float32
    bool opened = false;           ///< its batch was fixed, and is open now
    std::int64_t fixed_batch = 0;  ///< above 0: it takes so many pictures at once and no others: training goes through a batch in parts of these
    std::string fixed_because;     ///< why that could not be changed
};

/// The one input that is to be given a picture. Errors: train.head (there is none or more than one, or it is no picture of 1 or 3 channels).
result<input_format> picture_input(const graph& g);

/// Prepares a loaded network for pictures of `spec`, which has to be complete. `output` names the output that is the classifier's; empty: the
/// only one there is. Errors: train.head, op.unsupported, those of shape inference and memory.
result<prepared_classifier> prepare_classifier(graph g, const std::string& output, const preprocess_spec& spec, executor& pool, const limits& limit = {});

/// What was done to a network, in sentences for people; empty where nothing was.
std::vector<std::string> text(const prepared_classifier& made);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../passes/open_batch.hpp"
#include "head.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The names of a graph's outputs, for a message.
inline std::string output_names(const graph& g) {
    std::string all;
    for (std::size_t i = 0; i < g.outputs.size() && i < 12; ++i) all += (i ? ", " : "") + g.at(g.outputs[i]).name;
    return all + (g.outputs.size() > 12 ? ", ..." : "");
}
inline status choose_output(graph& g, const std::string& output) {
    if (g.outputs.empty()) return fail(errc::train_head, g.name, "the network has no output");
    if (output.empty() && g.outputs.size() > 1)
        return fail(errc::train_head, g.name,
                    "the network has " + std::to_string(g.outputs.size()) + " outputs: " + output_names(g) +
                        "; say which one is the classifier's with --output NAME");
    value_id found = no_value;
    for (value_id id : g.outputs)
        if (output.empty() || g.at(id).name == output) found = id;
    if (found == no_value) return fail(errc::input_name, "--output " + output, "the network has no output of that name; it has " + output_names(g));
    g.outputs = {found};
    drop_unread(g);
    return {};
}

// The shape of so many pictures as the network takes them.
inline shape pictures_shape(std::int64_t pictures, const preprocess_spec& spec, std::int64_t height, std::int64_t width) {
    const std::int64_t channels = spec.order == preprocess_spec::channels::gray ? 1 : 3;
    return spec.layout == preprocess_spec::axes::nhwc ? shape{pictures, height, width, channels} : shape{pictures, channels, height, width};
}

}  // namespace detail

GRAFT_INLINE result<input_format> picture_input(const graph& g) GRAFT_MEMORY_TRY {
    const value* input = nullptr;
    for (value_id id : g.inputs) {
        const value& v = g.at(id);
        if (v.constant) continue;
        if (input)
            return fail(errc::train_head, g.name,
                        "the network asks for more than one input ('" + input->name + "', '" + v.name + "'); a classifier takes one picture");
        input = &v;
    }
    if (!input) return fail(errc::train_head, g.name, "the network has no input; a classifier takes a picture");
    const std::string where = "input '" + input->name + "'";
    const shape& e = input->extents;
    if (!input->has_shape || e.rank() != 4)
        return fail(errc::train_head, where,
                    "it is " + (input->has_shape ? text(e) : std::string("of any rank")) +
                        "; pictures have 4 dimensions: [N, channels, height, width] or [N, height, width, channels]");
    const std::int64_t channels = e[detail::is_nhwc(e) ? 3 : 1];
    if (channels >= 0 && channels != 1 && channels != 3)
        return fail(errc::train_head, where, "it is " + text(e) + ": pictures have 1 channel (gray) or 3 (colours), not " + std::to_string(channels));
    return input_format{input->type, e, true};
}
GRAFT_MEMORY_CATCH("picture_input")

GRAFT_INLINE result<prepared_classifier> prepare_classifier(graph g, const std::string& output, const preprocess_spec& spec, executor& pool,
                                                            const limits& limit) GRAFT_MEMORY_TRY {
    prepared_classifier made;
    GRAFT_TRY_ASSIGN(made.picture, picture_input(g));
    detail::drop_default_inputs(g);
    GRAFT_TRY(detail::choose_output(g, output));
    constants_to_initializers(g);
    const shape declared = made.picture.extents;
    const bool nhwc = spec.layout == preprocess_spec::axes::nhwc;
    // What the specification leaves open, such as a whole picture of any size, the network has to tell.
    std::int64_t height = declared[nhwc ? 1 : 2], width = declared[nhwc ? 2 : 3];
    if (spec.crop == preprocess_spec::crop_rule::exact)
        height = spec.crop_height, width = spec.crop_width;
    else if (spec.resize == preprocess_spec::size_rule::exact)
        height = spec.resize_height, width = spec.resize_width;
    if (height < 1 || width < 1)
        return fail(errc::usage_preprocess, text(spec), "`crop` or `resize=HxW` is needed, as neither it nor the network says how large pictures are");
    const std::int64_t fixed = declared[0] > 0 ? declared[0] : 1;
    const shape one = detail::pictures_shape(fixed, spec, height, width);
    GRAFT_TRY_ASSIGN(g, to_float32(std::move(g), one, pool, limit, made.changes));
    auto opened = open_batch(g, one, pool, limit);
    made.batch = detail::pictures_shape(2, spec, height, width);
    if (opened.ok()) {
        status any_batch = takes_any_batch(g, one, pool, limit);
        if (!any_batch.ok() && any_batch.error().code() == errc::memory_oom) return any_batch;
        made.opened = !any_batch.ok();
        g = std::move(opened).value();
    } else if (opened.error().code() == errc::graph_fixed_batch && declared[0] > 0) {
        made.fixed_batch = fixed;
        made.fixed_because = opened.error().where() + ": " + opened.error().detail();
        made.batch = one;
    } else
        return opened.take_status();
    made.graph = std::move(g);
    GRAFT_TRY_ASSIGN(made.picture, picture_input(made.graph));
    return made;
}
GRAFT_MEMORY_CATCH("prepare_classifier")

GRAFT_INLINE std::vector<std::string> text(const prepared_classifier& made) {
    std::vector<std::string> notes;
    if (made.changes.dequantized) notes.push_back("its quantised weights were dequantised: it learns, and is written, in float32");
    if (made.changes.converted != dtype::undefined)
        notes.push_back(std::string("its ") + name(made.changes.converted) + " values were converted: it learns, and is written, in float32");
    if (made.opened) notes.push_back("it was exported for a fixed batch, which is open now");
    if (made.fixed_batch > 0)
        notes.push_back("it only takes " + std::to_string(made.fixed_batch) +
                        " at a time, so that batches are computed in parts of as many and statistics of normalisation stay as they are (" + made.fixed_because +
                        ")");
    return notes;
}

GRAFT_END_NAMESPACE
#endif
