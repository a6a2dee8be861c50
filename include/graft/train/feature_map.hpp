// Where a network's last features still tell the places of the picture apart: what a map of where it looks is made of.
#pragma once

#include "../core/executor.hpp"
#include "../core/limits.hpp"
#include "../graph/graph.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// Features of one picture by place: images [1, K, H, W] or [1, H, W, K], or tokens [1, T, K] (also [T, 1, K]) of which H * W stand for the
/// picture's patches, row by row. Element k of a place p is at first + p * place_stride + k * channel_stride.
struct feature_map {
    value_id features = no_value;
    std::int64_t height = 0, width = 0, channels = 0;
    std::int64_t first = 0, place_stride = 1, channel_stride = 0;  ///< in elements; `first` is behind tokens of classes
    bool tokens = false;
};

/// The last features that everything goes through on the way from the network's first open input to `logits`, that lie by place, and whose
/// places the logits depend on; of a transformer that answers by a class token the tokens as its last attention reads them. `input` is the
/// shape of one picture, [1, C, H, W] or [1, H, W, C]. Which axes are the places is told by the picture's ratio of sides. Errors:
/// explain.features (there are none: a network of dense layers), input.shape (no picture, a batch of several), op.shape and the like.
result<feature_map> find_feature_map(const graph& network, value_id logits, const shape& input, executor& pool, const limits& limit = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/rng.hpp"
#include "../exec/context.hpp"
#include "../passes/differentiate.hpp"
#include "../passes/specialize.hpp"
#include "../tensor/convert.hpp"
#include "execution.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

GRAFT_COLD inline status no_logit_gradient(const graph& g, const std::string& where) {
    bool rounds = false;
    for (const node& n : g.nodes) rounds |= ops::row_of(n).is(op_flag::rounds);
    return fail(errc::train_no_gradient, where,
                rounds ? "no gradient comes back from the logits to these features, since the network rounds between them: explain the float network that this "
                         "one was quantised from"
                       : "no gradient comes back from the logits to these features");
}

// A graph of known shapes with another input, one weight for each of the logits; its outputs are `wanted`, then the gradients of the weighted
// logits' sum for each of those.
inline result<graph> with_logit_gradients(graph g, value_id logits, const std::vector<value_id>& wanted, const limits& limit) {
    const auto at = [&g](value_id id) -> value& { return g.at(id); };
    const shape scores = at(logits).extents;
    const dtype type = at(logits).type;
    const value_id weights = g.add_value("grad_cam/weights");
    at(weights).type = type;
    at(weights).extents = scores;
    at(weights).has_shape = true;
    g.inputs.push_back(weights);
    emitter build(g, ops::find_training_op, limit);
    build.prefix = "grad_cam";
    const value_id score = build.apply_graft("SumTo", {build.mul(logits, weights)}, {integers_attribute("shape", {}), integer_attribute("shards", 1)});
    GRAFT_TRY(std::move(build.failure));
    std::vector<value_id> gradients;
    GRAFT_TRY_ASSIGN(gradients, differentiate(g, score, wanted, 1, limit));
    g.outputs = wanted;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (gradients[i] == no_value) return no_logit_gradient(g, at(wanted[i]).name);
        g.outputs.push_back(gradients[i]);
    }
    drop_unread(g);
    return g;
}

// Such a graph, ready to run.
inline status make_executable(graph g, const limits& limit, executable& what) {
    what.graph = std::move(g);
    GRAFT_TRY_ASSIGN(what.how, host_execution(limit));
    return {};
}

class feature_finder {
public:
    feature_finder(const graph& network, value_id logits, const shape& input, executor& pool, const limits& limit)
        : limit_(limit), pool_(pool), input_(input), known_(network.values.size()), logits_(logits), g_(network) {}

    result<feature_map> find() {
        if (input_.rank() != 4 || input_[0] != 1)
            return fail(errc::input_shape, g_.name, "a map takes one picture, [1, C, H, W] or [1, H, W, C]; this network is given " + text(input_));
        const bool last = (input_[3] == 1 || input_[3] == 3) && input_[1] != 1 && input_[1] != 3;
        height_ = input_[last ? 1 : 2], width_ = input_[last ? 2 : 3];
        if (logits_ < 0 || static_cast<std::size_t>(logits_) >= known_) return fail(errc::input_name, g_.name, "the logits are no value of this network");
        g_.outputs = {logits_};
        drop_unread(g_);
        GRAFT_TRY_ASSIGN(g_, specialize_first_input(std::move(g_), input_, pool_, limit_));
        collect();
        const std::size_t all = found_.size();
        dtype other = dtype::undefined;
        found_.erase(std::remove_if(found_.begin(), found_.end(),
                                    [&](const feature_map& m) {
                                        const dtype type = at(m.features).type;
                                        return type != dtype::float32 && (other = type, true);
                                    }),
                     found_.end());
        if (all && found_.empty())
            return fail(errc::input_dtype, at(logits_).name,
                        std::string("the network computes in ") + graft::name(other) + "; maps are made of float32 features: convert it to float32 first");
        // Tokens of classes may be all that is read in the end; whatever has none is read as a whole.
        std::size_t from = found_.size();
        while (from > 0 && (from == found_.size() || found_[from].first > 0) && found_.size() - from < most_tried) --from;
        std::vector<feature_map> tried(found_.begin() + static_cast<std::ptrdiff_t>(from), found_.end());
        while (!tried.empty()) {
            if (tried.back().first == 0) return tried.back();
            std::vector<char> read;
            status probed = probe(tried, read);
            // An operator without a gradient may stand before the ones that matter.
            if (!probed.ok() && probed.error().code() == errc::train_no_gradient && tried.size() > 1) {
                tried.erase(tried.begin(), tried.begin() + static_cast<std::ptrdiff_t>((tried.size() + 1) / 2));
                continue;
            }
            GRAFT_TRY(std::move(probed));
            for (std::size_t i = tried.size(); i-- > 0;)
                if (read[i]) return tried[i];
            return fail(errc::train_no_gradient, at(logits_).name, "these logits do not depend on the places of a picture: every gradient is zero");
        }
        return fail(errc::explain_features, at(logits_).name,
                    "before these logits nothing lies by the places of the picture (images of features, or tokens of patches) behind the first layer, so that "
                    "there is no map of where "
                    "the network looks; a network of dense layers alone has none");
    }

private:
    static constexpr std::size_t most_tried = 24;

    const value& at(value_id id) const { return g_.at(id); }

    static bool weighs(const node& n) {
        const op_role role = ops::row_of(n).traits.role;
        return role == op_role::convolution || role == op_role::product;
    }

    static bool makes_images(const node& n) {
        const op_role role = ops::row_of(n).traits.role;
        return (role == op_role::convolution || role == op_role::pool) && !n.outputs.empty() && n.outputs[0] != no_value;
    }

    // Values that everything which depends on the picture goes through, by what is still to be read behind each node.
    void collect() {
        std::vector<std::size_t> last(g_.values.size(), 0);
        std::vector<char> depends(g_.values.size(), 0);
        std::vector<value_id> ids;
        const auto inputs_of = [&ids](const node& n) {
            ids = n.inputs;
            append_captures(n, ids);
        };
        for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
            inputs_of(g_.nodes[i]);
            for (value_id id : ids)
                if (id != no_value) last[id] = i;
        }
        last[static_cast<std::size_t>(logits_)] = g_.nodes.size();
        std::int64_t open = 0;  // values that depend on the picture and are read further on
        for (value_id id : g_.inputs)
            if (!at(id).constant) depends[id] = 1, ++open;
        bool behind_layer = false;
        for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
            const node& n = g_.nodes[i];
            inputs_of(n);
            std::sort(ids.begin(), ids.end());
            ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
            bool any = false;
            for (value_id id : ids) {
                if (id == no_value || !depends[id]) continue;
                any = true;
                open -= last[id] == i;
            }
            if (!any) continue;
            behind_layer = behind_layer || weighs(n);
            value_id made = no_value;
            for (value_id id : n.outputs)
                if (id != no_value && last[id] > i) depends[id] = 1, ++open, made = id;
            if (makes_images(n) && at(made).has_shape && at(made).extents.rank() == 4 && at(made).extents.known() &&
                is_grid(at(made).extents[2], at(made).extents[3]))
                grids_.push_back({at(made).extents[2], at(made).extents[3]});
            feature_map m;
            if (open != 1 || !behind_layer || made == no_value || made == logits_) continue;
            add_layer_inputs(first_node_, i);
            first_node_ = i;
            passed_ = made;
            if (static_cast<std::size_t>(made) < known_ && lies_by_place(made, m)) found_.push_back(m);
        }
    }

    // Tokens as the first layers behind the value that all goes through read them: normalised, most often. Those do not depend on the scale of
    // what the normalisation reads, so that the product of that and its gradient is nothing.
    void add_layer_inputs(std::size_t from, std::size_t to) {
        feature_map m;
        if (passed_ == no_value || !lies_by_place(passed_, m) || !m.tokens) return;
        std::vector<value_id> derived{passed_}, read;
        const auto is_derived = [&derived](value_id id) { return id != no_value && std::find(derived.begin(), derived.end(), id) != derived.end(); };
        for (std::size_t i = from + 1; i < to; ++i) {
            const node& n = g_.nodes[i];
            const auto input = std::find_if(n.inputs.begin(), n.inputs.end(), is_derived);
            if (input == n.inputs.end()) continue;
            if (!weighs(n))
                derived.insert(derived.end(), n.outputs.begin(), n.outputs.end());
            else if (*input != passed_ && std::find(read.begin(), read.end(), *input) == read.end())
                read.push_back(*input);
        }
        for (value_id id : read)
            if (static_cast<std::size_t>(id) < known_ && lies_by_place(id, m) && m.tokens) found_.push_back(m);
    }

    // How far the ratio of sides is from the picture's, as a factor of at least 1.
    double distortion(std::int64_t h, std::int64_t w) const {
        const double r = static_cast<double>(h) * static_cast<double>(width_) / (static_cast<double>(w) * static_cast<double>(height_));
        return r < 1 ? 1 / r : r;
    }
    bool is_grid(std::int64_t h, std::int64_t w) const { return h >= 1 && w >= 1 && h * w > 1 && h <= height_ && w <= width_ && distortion(h, w) <= 2; }

    bool lies_by_place(value_id id, feature_map& m) const {
        const value& v = at(id);
        if (!v.has_shape || !v.extents.known()) return false;
        m = {};
        m.features = id;
        const shape& e = v.extents;
        return e.rank() == 4 && e[0] == 1 ? are_images(e, m) : e.rank() == 3 && (e[0] == 1 || e[1] == 1) && are_tokens(e[0] == 1 ? e[1] : e[0], e[2], m);
    }

    bool are_images(const shape& e, feature_map& m) const {
        const bool first = is_grid(e[2], e[3]), last = is_grid(e[1], e[2]), nchw = first && (!last || distortion(e[2], e[3]) <= distortion(e[1], e[2]));
        if (!first && !last) return false;
        m.height = e[nchw ? 2 : 1], m.width = e[nchw ? 3 : 2], m.channels = e[nchw ? 1 : 3];
        m.place_stride = nchw ? 1 : m.channels;
        m.channel_stride = nchw ? m.height * m.width : 1;
        return true;
    }

    // Tokens stand for a grid that images of features had before them, else for one of the picture's ratio, with few others beside.
    bool are_tokens(std::int64_t tokens, std::int64_t channels, feature_map& m) const {
        constexpr std::int64_t most_extra = 16;
        std::int64_t extra = most_extra + 1;
        const auto consider = [&](std::int64_t h, std::int64_t w) {
            if (h * w < 4 || h * w > tokens || tokens - h * w >= extra) return;
            m.height = h, m.width = w, extra = tokens - h * w;
        };
        for (const grid& g : grids_) consider(g.height, g.width);
        for (const grid& g : grids_)
            if (extra > most_extra && g.height * g.width == channels) {  // [1, K, H * W]
                m.height = g.height, m.width = g.width, m.channels = tokens;
                m.channel_stride = channels;
                return true;
            }
        if (extra > most_extra)
            for (std::int64_t h = 1; h <= height_ && h <= tokens; ++h)
                if (h * width_ % height_ == 0) consider(h, h * width_ / height_);
        m.tokens = true;
        m.channels = m.place_stride = channels;
        m.channel_stride = 1;
        m.first = leading_tokens(tokens, extra) * channels;
        return extra <= most_extra;
    }

    // How many of the tokens beside the patches stand before them: told by where both were joined, else all.
    std::int64_t leading_tokens(std::int64_t tokens, std::int64_t extra) const {
        for (const node& n : g_.nodes) {
            if (!extra || ops::row_of(n).traits.moves != motion::join || n.outputs.empty() || !at(n.outputs[0]).has_shape) continue;
            const shape& e = at(n.outputs[0]).extents;
            const int axis = e.rank() == 3 ? (e[0] == 1 && e[1] == tokens ? 1 : e[1] == 1 && e[0] == tokens ? 0 : -1) : -1;
            std::int64_t before = 0;
            for (value_id id : n.inputs) {
                if (axis < 0 || id == no_value || !at(id).has_shape || at(id).extents.rank() != 3) break;
                if (at(id).extents[axis] == tokens - extra) return before;
                before += at(id).extents[axis];
            }
        }
        return extra;
    }

    // Which of the features have a gradient at any place, for a picture of noise and random weights of the logits.
    status probe(const std::vector<feature_map>& maps, std::vector<char>& read) const {
        std::vector<value_id> wanted;
        for (const feature_map& m : maps) wanted.push_back(m.features);
        graph g;
        GRAFT_TRY_ASSIGN(g, with_logit_gradients(g_, logits_, wanted, limit_));
        tensor inputs[2];
        for (std::size_t i = 0; i < 2; ++i) {
            const value& v = g.at(g.inputs[i]);
            GRAFT_TRY_ASSIGN(inputs[i], tensor::make(v.type, v.extents));
            const random_stream noise(1, i);
            for (std::int64_t k = 0; k < inputs[i].elements(); ++k) {
                const double x =
                    is_float(v.type) ? 2 * noise.uniform(static_cast<std::uint64_t>(k)) - 1 : std::floor(100 * noise.uniform(static_cast<std::uint64_t>(k)));
                store_from_double(v.type, inputs[i].raw(), k, 1, &x);
            }
        }
        executable what;
        GRAFT_TRY(make_executable(std::move(g), limit_, what));
        context runner(what, pool_);
        const tensor_view views[] = {view(inputs[0]), view(inputs[1])};
        GRAFT_TRY(runner.run(views));
        read.assign(maps.size(), 0);
        for (std::size_t i = 0; i < maps.size(); ++i) {
            const feature_map& m = maps[i];
            const tensor& gradient = runner.output(maps.size() + i);
            std::vector<double> values(static_cast<std::size_t>(m.height * m.width * m.channels));
            load_as_double(gradient.type(), gradient.raw(), m.first, m.height * m.width * m.channels, values.data());
            for (double v : values)
                if (v != 0) read[i] = 1;
        }
        return {};
    }

    struct grid {
        std::int64_t height, width;
    };
    const limits& limit_;
    executor& pool_;
    shape input_;
    std::size_t known_;  // values of the network itself: specialisation may add others
    value_id logits_;
    graph g_;
    std::int64_t height_ = 0, width_ = 0;  // of the picture
    std::vector<grid> grids_;              // of images of features so far
    std::vector<feature_map> found_;       // in the order of the network
    value_id passed_ = no_value;           // the last value that everything goes through
    std::size_t first_node_ = 0;           // that makes it
};

}  // namespace detail

GRAFT_INLINE result<feature_map> find_feature_map(const graph& network, value_id logits, const shape& input, executor& pool,
                                                  const limits& limit) GRAFT_MEMORY_TRY {
    return detail::feature_finder(network, logits, input, pool, limit).find();
}
GRAFT_MEMORY_CATCH("find_feature_map")

GRAFT_END_NAMESPACE
#endif
