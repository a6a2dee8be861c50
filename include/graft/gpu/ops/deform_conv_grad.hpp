// The kernels of graft.DeformConvGrad: part of deform_conv.hpp.
#pragma once

#include "deform_conv.hpp"
#include "deform_conv_text.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// What comes back to a column is W^T dY, a product of matrices. It is needed twice, for the picture and for the places, which is why it goes
// through the workspace: channels innermost, so that both read it whole, for as many pictures at a time as a bound allows. Places are
// computed once, in double as the reference has them: floor decides which slopes a whole offset has, and zero is where training begins.
class deform_gradient_kernels {
public:
    deform_gradient_kernels(const kernel_query& query, program& made) : q(query), p(made) {}

    const char* generate() {
        const op_context forward{q.n, q.in + 1, 3, nullptr, 0, q.limit};
        if (!ops::read_deform(forward, plan_).ok()) return "its attributes do not fit";
        for (int i = 0; i < q.inputs; ++i)
            if (q.has(i) && !is_generated(q.in[i].type)) return "an element type that generated kernels do not take";
        if (const char* why = read_sizes()) return why;
        p.source = std::string("namespace graft {\n") + index_definition(largest_ + (std::int64_t(1) << 24));
        if (o.elements() == 0 || x.elements() == 0)
            clear();
        else if (const char* why = add_kernels())
            return why;
        p.source += "}  // namespace graft\n";
        p.note = "W^T dY in the workspace, samples sorted by pixel";
        return nullptr;
    }

private:
    bool writes(int i) const { return q.wants(i) && q.out[i].type != dtype::undefined && q.out[i].elements() > 0; }
    bool masked() const { return q.has(4); }
    bool places() const { return writes(2) || writes(3); }
    std::string computed() const { return compute_name(type_); }
    std::int64_t images() const { return o[0]; }
    std::int64_t channels() const { return x[1]; }

    const char* read_sizes() {
        x = q.in[1].extents, w = q.in[2].extents, o = q.in[0].extents;
        type_ = q.in[0].type == dtype::float64 ? dtype::float64 : dtype::float32;
        taps_ = plan_.kernel[0] * plan_.kernel[1], pixels_ = o[2] * o[3], maps_ = w[0] / plan_.group;
        largest_ = 0;
        for (int i = 0; i < q.inputs; ++i)
            if (q.has(i)) largest_ = std::max(largest_, q.in[i].elements());
        if (o.elements() == 0 || x.elements() == 0) return nullptr;
        per_offset_ = channels() / plan_.offset_group;
        constexpr std::int64_t most_elements = std::int64_t(1) << 38, farthest = std::int64_t(1) << 28;
        for (int d = 0; d < 2; ++d)
            if (checked_mul(o[2 + d], plan_.strides[d]) > farthest || plan_.pads[d] > farthest || checked_mul(plan_.kernel[d], plan_.dilations[d]) > farthest ||
                x[2 + d] > farthest)
                return "places that are too far away";
        samples_ = q.in[3].elements() / 2;
        const std::int64_t columns = checked_mul(checked_mul(pixels_, taps_), channels());
        if (largest_ > most_elements || columns < 0 || columns > most_columns) return "more columns of a picture than the workspace has room for";
        const std::int64_t room = std::min(most_workspace, q.on.memory_bytes / 32);
        at_once_ = std::min(images(), std::max<std::int64_t>(1, room / (columns * bytes())));
        largest_ = std::max({largest_, 4 * samples_, 2 * at_once_ * columns, images() * pixels_, 2 * most_sorted});
        return nullptr;
    }
    std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(type_)); }
    std::int64_t room_for(std::int64_t count) {
        const std::int64_t at = (p.workspace_bytes + 255) / 256 * 256;
        p.workspace_bytes = at + count;
        return at;
    }

    // Without samples every gradient is zero.
    void clear() {
        for (int i = 0; i < q.outputs; ++i)
            if (writes(i))
                add_each(q, p, ("graft_deform_clear" + decimal(i)).c_str(), q.out[i].elements(), {}, {i}, {},
                         "    out" + decimal(i) + "[i] = stored<" + memory_name(q.out[i].type) + ">(0.0f);\n");
    }

    void name_all() {
        const std::string pixel = "pixel / " + decimal(o[3]), column = "pixel % " + decimal(o[3]), kernel_w = decimal(plan_.kernel[1]);
        const shape& offset = q.in[3].extents;
        const std::string tap = "(g * " + decimal(taps_) + " + tap)";
        const auto map = "group * " + decimal(maps_) + " + m";
        const auto offsets = [&](layout order, const char* behind) { return offset_text(offset, order, {"n", tap + behind, pixel, column}); };
        const auto weight = [&](layout order) {
            return offset_text(w, order, {map, "k % " + decimal(w[1]), "k / " + decimal(w[1]) + " / " + kernel_w, "k / " + decimal(w[1]) + " % " + kernel_w});
        };
        const bool dy_last = is_channels_last(o, q.in_layout[0]);
        names_ = {
            {"type", computed()},
            {"pixels", decimal(pixels_)},
            {"maps", decimal(maps_)},
            {"taps", decimal(taps_)},
            {"depth", decimal(w[1] * taps_)},
            {"within", decimal(w[1])},
            {"channels", decimal(channels())},
            {"groups", decimal(plan_.offset_group)},
            {"per_offset", decimal(per_offset_)},
            {"images", decimal(images())},
            {"height", decimal(x[2])},
            {"width", decimal(x[3])},
            {"out_w", decimal(o[3])},
            {"columns", kernel_w},
            {"stride_h", decimal(plan_.strides[0])},
            {"stride_w", decimal(plan_.strides[1])},
            {"pad_h", decimal(plan_.pads[0])},
            {"pad_w", decimal(plan_.pads[1])},
            {"dilation_h", decimal(plan_.dilations[0])},
            {"dilation_w", decimal(plan_.dilations[1])},
            {"offsets", memory_name(q.in[3].type)},
            {"align", decimal(type_ == dtype::float64 ? 8 : 16)},
            {"offset_h", offsets(q.in_layout[3], " * 2")},
            {"offset_w", offsets(q.in_layout[3], " * 2 + 1")},
            {"weight", weight(q.in_layout[2])},
            {"gradient", offset_text(o, q.in_layout[0], {"n", map, pixel, column})},
            {"picture", picture_last() ? "in1" : "picture"},
            {"at_once", decimal(at_once_)},
            {"slice_map", dy_last ? "i % 16" : "i / 64"},
            {"slice_pixel", dy_last ? "i / 16" : "i % 64"},
            {"tile_map", dy_last ? "i % 64" : "i / 16"},
            {"tile_pixel", dy_last ? "i / 64" : "i % 16"},
            {"mask", masked() ? "($type)load(in4 + " + offset_text(q.in[4].extents, q.in_layout[4], {"n", tap, pixel, column}) + ")" : std::string("1")},
            {"begin", at_once_ < images() ? "*begun" : "0"},
        };
        for (auto& n : names_)
            if (n.first == std::string("mask")) n.second = fill(n.second.c_str(), {{"type", computed()}});
    }
    std::int64_t picture_blocks() const { return (x[2] * x[3] + 31) / 32 * ((channels() + 31) / 32) * images(); }
    bool picture_last() const { return is_channels_last(x, q.in_layout[1]); }

    const char* add_kernels() {
        if (plan_.group > 65535 || (w[1] * taps_ + 63) / 64 > 65535 || 4 * samples_ > most_rows || picture_blocks() > INT32_MAX)
            return "more pictures, groups or channels than a launch has blocks for";
        name_all();
        add_sampling();
        std::vector<workspace_parameter> sorted;
        if (writes(0)) {
            // Each picture's groups by themselves: no two have a pixel in common.
            const updates to{4 * samples_,
                             images() * plan_.offset_group * x[2] * x[3],
                             {3},
                             fill(R"cuda(        const sample one = sample_of(u / 4, in3);
        const index_t y = one.row + (int)(u % 4) / 2;
        const index_t x = one.column + (int)(u % 4) % 2;
        const long long row = y >= 0 && y < $height && x >= 0 && x < $width ? ((long long)(u / (4 * $taps * $pixels)) * $height + y) * $width + x : -1ll;
)cuda",
                                  names_),
                             images() * plan_.offset_group};
            if (!to.fit() || to.rows > most_rows || to.count > most_rows) return "more samples or pixels than are counted";
            sorted = add_sorted_updates(q, p, to);
            items_ = to.items();
        }
        look_ = {"const sample* samples", room_for(samples_ * (8 + 2 * bytes()))};
        add_each(q, p, "graft_deform_samples", samples_, {3}, {}, {{"sample* samples", look_.offset}}, "    samples[i] = sample_of(i, in3);\n");
        if ((places() || writes(1)) && !picture_last()) add_picture();
        if (writes(1))
            if (const char* why = add_weight()) return why;
        if (writes(0) || places()) return add_pictures(sorted);
        return nullptr;
    }

    void add_sampling() { p.source += fill(deform_sampling, names_) + fill(deform_product, names_); }

    void add(const char* entry, std::int64_t blocks, std::int64_t down, std::int64_t deep, const std::vector<int>& inputs, const std::vector<int>& outputs,
             const std::vector<workspace_parameter>& workspace, const char* text, bool again) {
        launch l;
        l.entry = entry;
        l.block[0] = 256;
        l.grid[0] = static_cast<unsigned>(blocks), l.grid[1] = static_cast<unsigned>(down), l.grid[2] = static_cast<unsigned>(deep);
        const std::string made = entry_point(q, l, inputs, outputs, workspace, fill(text, names_));
        if (!again) p.source += made;
        p.launches.push_back(std::move(l));
    }

    // The picture with its channels innermost, turned in tiles.
    void add_picture() {
        picture_ = {std::string("const ") + memory_name(q.in[1].type) + "* picture", room_for(x.elements() * static_cast<std::int64_t>(size_of(q.in[1].type)))};
        const std::int64_t plane = x[2] * x[3], wide = (plane + 31) / 32, high = (channels() + 31) / 32;  // a block a tile
        const fillings own = {{"stored", memory_name(q.in[1].type)},
                              {"plane", decimal(plane)},
                              {"wide", decimal(wide)},
                              {"high", decimal(high)},
                              {"channels", decimal(channels())}};
        add("graft_deform_picture", picture_blocks(), 1, 1, {1}, {}, {{std::string(memory_name(q.in[1].type)) + "* picture", picture_.offset}},
            fill(R"cuda(    __shared__ $stored tile[32][33];
    const index_t block = blockIdx.x;
    const index_t n = block / ($wide * $high);
    const index_t first_channel = block / $wide % $high * 32;
    const index_t first_pixel = block % $wide * 32;
    for (int i = (int)threadIdx.x; i < 1024; i += 256)
        if (first_channel + i / 32 < $channels && first_pixel + i % 32 < $plane) tile[i / 32][i % 32] = in1[(n * $channels + first_channel + i / 32) * $plane + first_pixel + i % 32];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 1024; i += 256)
        if (first_channel + i % 32 < $channels && first_pixel + i / 32 < $plane) picture[(n * $plane + first_pixel + i / 32) * $channels + first_channel + i % 32] = tile[i % 32][i / 32];
)cuda",
                 own)
                .c_str(),
            false);
    }
    void read_picture(std::vector<int>& inputs, std::vector<workspace_parameter>& workspace) const {
        if (picture_last())
            inputs.push_back(1);
        else
            workspace.push_back(picture_);
        if (masked()) inputs.push_back(4);
    }

    // dW: a product over pixels and pictures, in pieces that are added up in their order.
    const char* add_weight() {
        const std::int64_t depth = w[1] * taps_, tiles = (maps_ + 63) / 64 * ((depth + 63) / 64), inner = images() * pixels_;
        // By the shapes alone, so that the sums are the same on every device: two blocks for each multiprocessor of a large one, twice.
        const std::int64_t wanted = std::max<std::int64_t>(1, std::min(512 / (tiles * plan_.group), inner / 128));
        const std::int64_t share = (inner + wanted - 1) / wanted, pieces = (inner + share - 1) / share;
        if (tiles > INT32_MAX || w.elements() > INT32_MAX) return "more weights than are counted";
        const workspace_parameter partial = {computed() + "* partial", room_for(pieces * w.elements() * bytes())};
        names_.push_back({"across", decimal((depth + 63) / 64)});
        names_.push_back({"share", decimal(share)});
        names_.push_back({"inner", decimal(inner)});
        names_.push_back({"all", decimal(w[0])});
        std::vector<int> inputs{0};
        std::vector<workspace_parameter> workspace{look_, partial};
        read_picture(inputs, workspace);
        add("graft_deform_weight", tiles, pieces, plan_.group, inputs, {}, workspace, deform_weight, false);
        const fillings own = {{"type", computed()},
                              {"depth", decimal(depth)},
                              {"pieces", decimal(pieces)},
                              {"count", decimal(w.elements())},
                              {"within", decimal(w[1])},
                              {"stored", memory_name(q.out[1].type)},
                              {"to", offset_text(w, q.out_layout[1],
                                                 {"m", "k % " + decimal(w[1]), "k / " + decimal(w[1]) + " / " + decimal(plan_.kernel[1]),
                                                  "k / " + decimal(w[1]) + " % " + decimal(plan_.kernel[1])})}};
        add_each(q, p, "graft_deform_sum", w.elements(), {}, {1}, {{"const " + computed() + "* partial", partial.offset}},
                 fill(R"cuda(    const index_t m = i / $depth;
    const index_t k = i % $depth;
    $type sum = 0;
    for (int piece = 0; piece < $pieces; ++piece) sum += partial[(index_t)piece * $count + i];
    out1[$to] = stored<$stored>(sum);
)cuda",
                      own));
        return nullptr;
    }

    // dX and the gradients of places, some pictures at a time.
    const char* add_pictures(const std::vector<workspace_parameter>& sorted) {
        const std::int64_t depth = w[1] * taps_, columns = pixels_ * taps_ * channels(), width = std::min<std::int64_t>(32, power_of_two(per_offset_));
        int lanes = type_ == dtype::float64 ? 2 : 4;
        while (per_offset_ % lanes) lanes /= 2;
        const std::int64_t blocks[3] = {(at_once_ * pixels_ + 63) / 64, (at_once_ * x[2] * x[3] * channels() / lanes + 255) / 256,
                                        (at_once_ * plan_.offset_group * taps_ * pixels_ * width + 255) / 256};
        for (std::int64_t b : blocks)
            if (b > INT32_MAX) return "more pixels than a launch has blocks for";
        if (images() / at_once_ > most_launches) return "more pictures than it goes through one by one";
        std::vector<workspace_parameter> counted, back{{"const " + computed() + "* back", room_for(at_once_ * columns * bytes())}},
            made{{computed() + "* back", back[0].offset}};
        const std::int64_t begun = room_for(4);
        if (at_once_ < images()) {
            counted = {{"const int* begun", begun}};
            add("graft_deform_begin", 1, 1, 1, {}, {}, {{"int* begun", begun}}, "    if (threadIdx.x == 0) *begun = 0;\n", false);
        }
        const auto with = [&](std::vector<workspace_parameter> all, const std::vector<workspace_parameter>& more) {
            all.insert(all.end(), more.begin(), more.end());
            return all;
        };
        std::vector<workspace_parameter> of_picture = with(with(back, counted), sorted), of_places = with(back, counted);
        of_picture.push_back(look_), of_places.push_back(look_);
        std::vector<int> picture_inputs, places_inputs;
        if (masked()) picture_inputs = {4};
        read_picture(places_inputs, of_places);
        std::vector<int> written;
        for (int i : {2, 3})
            if (writes(i)) written.push_back(i);
        names_.insert(names_.end(), {{"lanes", decimal(lanes)}, {"items", decimal(items_)}, {"wide", decimal(width)}, {"half", decimal(width / 2)}});
        const std::string places_text = std::string(deform_places) + store_places();
        const std::string picture_text = deform_gather + store_picture(lanes);
        for (std::int64_t first = 0; first < images(); first += at_once_) {
            if (first) add("graft_deform_next", 1, 1, 1, {}, {}, {{"int* begun", begun}}, "    if (threadIdx.x == 0) *begun += $at_once;\n", first > at_once_);
            add("graft_deform_back", blocks[0], (depth + 63) / 64, plan_.group, {0, 2}, {}, with(made, counted), deform_back, first > 0);
            if (writes(0)) add("graft_deform_gather", blocks[1], 1, 1, picture_inputs, {0}, of_picture, picture_text.c_str(), first > 0);
            if (places()) add("graft_deform_places", blocks[2], 1, 1, places_inputs, written, of_places, places_text.c_str(), first > 0);
        }
        return nullptr;
    }
    std::string store_picture(int lanes) const {
        const std::string stored = memory_name(q.out[0].type);
        const auto to = [&](const char* channel) {
            return offset_text(x, q.out_layout[0], {"n", channel, "at / " + decimal(x[3]) + " % " + decimal(x[2]), "at % " + decimal(x[3])});
        };
        const std::string each = "#pragma unroll\n    for (int lane = 0; lane < " + decimal(lanes) + "; ++lane) ";
        if (!is_channels_last(x, q.out_layout[0])) return each + "out0[" + to("channel + lane") + "] = stored<" + stored + ">(sum[lane]);\n";
        return "    pack<" + stored + ", " + decimal(lanes) + "> whole;\n" + each + "whole.at[lane] = stored<" + stored + ">(sum[lane]);\n    store_pack<" +
               decimal(lanes) + ">(out0 + " + to("channel") + ", whole);\n";
    }
    std::string store_places() const {
        const std::string tap = "(g * $taps + tap)", row = "pixel / $out_w", column = "pixel % $out_w";
        std::string s;
        if (writes(2))
            for (const char* axis : {"h", "v"})
                s += "    out2[" + offset_text(q.in[3].extents, q.out_layout[2], {"n", tap + (*axis == 'h' ? " * 2" : " * 2 + 1"), row, column}) +
                     "] = stored<" + memory_name(q.out[2].type) + ">(by_" + axis + " * $mask);\n";
        if (writes(3))
            s += "    out3[" + offset_text(q.in[4].extents, q.out_layout[3], {"n", tap, row, column}) + "] = stored<" + memory_name(q.out[3].type) +
                 ">(by_mask);\n";
        return s;
    }

    static constexpr std::int64_t most_workspace = std::int64_t(1) << 28, most_columns = std::int64_t(1) << 29, most_launches = 4096;

    const kernel_query& q;
    program& p;
    ops::deform_plan plan_;
    shape x, w, o;
    dtype type_ = dtype::float32;
    std::int64_t taps_ = 0, pixels_ = 0, maps_ = 0, per_offset_ = 0, samples_ = 0, largest_ = 0, at_once_ = 0, items_ = 0;
    fillings names_;
    workspace_parameter look_, picture_;
};

inline const char* generate_deform_conv_grad(const kernel_query& q, program& p) { return deform_gradient_kernels(q, p).generate(); }

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
