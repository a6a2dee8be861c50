// Gradients of layers with windows, statistics and interpolation against central differences in double.
#include "../difference.hpp"
#include "gradients.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

namespace {

const graft::op_row* row_of(const std::string& name, const char* domain, int version = graft::newest_opset) {
    for (const graft::op_table& table : gradients::all_tables())
        for (const graft::op_row& row : table)
            if (name == row.name && !std::strcmp(domain, row.domain) && row.since <= version && (!row.until || version <= row.until)) return &row;
    return nullptr;
}

/// Checks problems of one operator: those of its row (where `own`), and more.
struct layer {
    gradients::summary sum;
    const graft::op_row* row;

    explicit layer(const char* name, bool own = true, const char* domain = "", int version = graft::newest_opset) : row(row_of(name, domain, version)) {
        REQUIRE(row);
        if (own)
            for (const std::string& text : problems::split(row->problems, ';')) add(text);
    }
    void add(const std::string& text) { sum.add(*row, text); }
    /// The same where some inputs are constants of the formula (statistics, scales), and only the first output is in the loss. Lists
    /// of values keep their types.
    void add_fixed(const std::string& text, std::initializer_list<std::size_t> fixed = {}) {
        std::string in_double;
        int outputs = 0;
        for (const std::string& word : problems::split(text, ' '))
            in_double += (word.find('{') == std::string::npos ? gradients::in_double(word, outputs) : word) + " ";
        problems::problem p = problems::read(*row, in_double);
        CHECK_MESSAGE(p.error.empty(), p.error);
        gradients::free_constants(p);
        for (std::size_t i : fixed) {
            const graft::value_id id = p.g.nodes[0].inputs[i];
            const auto at = std::find(p.g.inputs.begin(), p.g.inputs.end(), id);
            if (at == p.g.inputs.end()) continue;
            p.g.values[gradients::index(id)].constant = p.inputs[static_cast<std::size_t>(at - p.g.inputs.begin())];
            p.inputs.erase(p.inputs.begin() + (at - p.g.inputs.begin()));
            p.g.inputs.erase(at);
        }
        p.g.outputs.resize(1);
        const gradients::outcome o = gradients::check_graph(p.g, p.inputs);
        if (!o.error.empty()) sum.failures.push_back(text + ": " + o.error);
        sum.problems += o.elements > 0;
        sum.elements += o.elements;
        sum.kinks += o.kinks;
        sum.worst = larger_error(sum.worst, o.worst);
    }
    void finish(std::int64_t least) {
        for (const std::string& failure : sum.failures) FAIL_CHECK(failure);
        CHECK(sum.elements >= least);
        CHECK(sum.kinks * 20 <= sum.elements);
        CHECK(sum.worst <= 1e-6);
        MESSAGE(std::string(row->name) << ": " << sum.problems << " problems, " << sum.elements << " derivatives, worst " << sum.worst << ", " << sum.kinks
                                       << " kinks left out, " << sum.refused << " refused");
    }
};

std::string list(const std::vector<std::int64_t>& v) {
    std::string s;
    for (std::int64_t i : v) s += (s.empty() ? "" : ",") + std::to_string(i);
    return s;
}

/// Random windows that fit: their attributes and the input's spatial extents.
struct random_window {
    problems::numbers& random;
    std::vector<std::int64_t> kernel, strides, dilations, begins, ends, extents;

    std::int64_t from(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(high - low + 1));
    }
    random_window(problems::numbers& r, int rank, bool pool) : random(r) {
        for (int i = 0; i < rank; ++i) {
            kernel.push_back(from(1, 3));
            strides.push_back(from(1, 3));
            dilations.push_back(from(1, 2));
            const std::int64_t span = (kernel.back() - 1) * dilations.back() + 1, most = pool ? span - 1 : 2;
            begins.push_back(from(0, std::min<std::int64_t>(most, 2)));
            ends.push_back(from(0, std::min<std::int64_t>(most, 2)));
            extents.push_back(std::max<std::int64_t>(span - begins.back() - ends.back(), 1) + from(0, rank == 3 ? 2 : 5));
        }
    }
    std::string attributes() const {
        std::vector<std::int64_t> pads = begins;
        pads.insert(pads.end(), ends.begin(), ends.end());
        return " kernel_shape=" + list(kernel) + " strides=" + list(strides) + " dilations=" + list(dilations) + " pads=" + list(pads);
    }
    static std::string tensor(std::vector<std::int64_t> head, const std::vector<std::int64_t>& tail) {
        head.insert(head.end(), tail.begin(), tail.end());
        return "f64[" + list(head) + "]";
    }
};

}  // namespace

TEST_CASE("Conv's gradients are those of its input, its weights and its bias") {
    layer conv("Conv");
    problems::numbers random{1};
    for (int round = 0; round < 40; ++round) {
        random_window w(random, 1 + round % 3, false);
        const std::int64_t groups = w.from(1, 3), ic = w.from(1, 2), oc = w.from(1, 2), n = w.from(1, 3);
        conv.add(random_window::tensor({n, groups * ic}, w.extents) + " " + random_window::tensor({groups * oc, ic}, w.kernel) +
                 (round % 2 ? " f64[" + std::to_string(groups * oc) + "]" : "") + w.attributes() + " group=" + std::to_string(groups));
    }
    for (const char* same : {"SAME_UPPER", "SAME_LOWER", "VALID"}) conv.add(std::string("f64[2,2,7,6] f64[3,2,3,2] f64[3] strides=2,3 auto_pad=") + same);
    conv.finish(3000);
}

TEST_CASE("DeformConv's gradients are those of all its inputs") {
    layer conv("DeformConv");
    conv.add("f64[5,4,4,5] f64[2,2,3,2] f64[5,24,2,5]~-1.5:1.5 f64[2] f64[5,12,2,5] group=2 offset_group=2 strides=2,1 pads=1,1,0,1 dilations=1,2");
    conv.add("f64[2,2,5,5] f64[3,2,3,3] f64[2,18,3,3]");
    conv.finish(400);
}

TEST_CASE("ConvTranspose's gradients are those of its input, its weights and its bias") {
    layer conv("ConvTranspose");
    problems::numbers random{2};
    for (int round = 0; round < 40; ++round) {
        random_window w(random, 1 + round % 3, false);
        const std::int64_t groups = w.from(1, 3), ic = w.from(1, 2), oc = w.from(1, 2), n = w.from(1, 2);
        std::vector<std::int64_t> extra;
        for (std::size_t i = 0; i < w.kernel.size(); ++i) {
            extra.push_back(w.from(0, std::max(w.strides[i], w.dilations[i]) - 1));
            w.begins[i] = w.from(0, 1);
            w.extents[i] = w.from(2, 4);
        }
        conv.add(random_window::tensor({n, groups * ic}, w.extents) + " " + random_window::tensor({groups * ic, oc}, w.kernel) +
                 (round % 2 ? " f64[" + std::to_string(groups * oc) + "]" : "") + w.attributes() + " group=" + std::to_string(groups) +
                 " output_padding=" + list(extra));
    }
    conv.add("f64[1,2,3,4] f64[2,1,3,2] strides=2,2 output_shape=7,12");
    conv.add("f64[1,2,3,4] f64[2,1,3,2] strides=3,2 auto_pad=SAME_LOWER");
    conv.finish(3000);
}

TEST_CASE("pools give their gradients to the elements of their windows") {
    for (const char* name : {"MaxPool", "AveragePool", "LpPool"}) {
        layer pool(name);
        problems::numbers random{3};
        for (int round = 0; round < 40; ++round) {
            random_window w(random, 1 + round % 3, true);
            std::string text = random_window::tensor({w.from(1, 2), w.from(1, 3)}, w.extents) + w.attributes() + " ceil_mode=" + std::to_string(round / 3 % 2);
            if (name[0] == 'A') text += " count_include_pad=" + std::to_string(round / 6 % 2);
            if (name[0] == 'L') text += " p=" + std::to_string(1 + round % 4);
            pool.add(text);
        }
        for (const char* same : {"SAME_UPPER", "SAME_LOWER", "VALID"}) pool.add(std::string("f64[2,2,7,6] kernel_shape=3,2 strides=2,3 auto_pad=") + same);
        pool.finish(1500);
    }
    for (const char* name : {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"}) {
        layer pool(name);
        pool.add("f64[2,3,2,3,4]");
        pool.add("f64[2,3]");
        if (name[6] == 'L')
            for (int p : {1, 2, 4}) pool.add("f64[2,3,3,4] p=" + std::to_string(p));
        pool.finish(100);
    }
}

TEST_CASE("BatchNormalization by running statistics is differentiated as an affine function") {
    layer norm("BatchNormalization", false);
    for (const std::string& text : problems::split(norm.row->problems, ';')) norm.add_fixed(text, {3, 4});
    norm.add_fixed("f64[2,3,2,2,3] f64[3] f64[3] f64{0.5,1,2} f64{0.5,1,2} epsilon=0.1", {3, 4});
    norm.finish(300);
}

TEST_CASE("BatchNormalization by the batch's statistics is differentiated through them") {
    layer norm("BatchNormalizationTraining", false, "graft");
    // Where statistics are given, which a list of values shows, the gradient is refused.
    for (const std::string& text : problems::split(norm.row->problems, ';'))
        if (text.find('{') == std::string::npos) norm.add_fixed(text, {3, 4});
    for (int n = 1; n <= 9; ++n) norm.add_fixed("f64[" + std::to_string(n) + ",2,3,2] f64[2] f64[2] f64[2] f64[2]~0.1:2 shards=8", {3, 4});
    norm.finish(500);
}

TEST_CASE("normalisations of single images are differentiated through their statistics") {
    layer instance("InstanceNormalization");
    instance.add("f64[2,3,2,2,2] f64[3] f64[3] epsilon=0.01");
    instance.finish(150);
    layer group("GroupNormalization");
    group.add("f64[2,4,3] f64[2] f64[2] num_groups=2 @18");
    group.add("f64[2,4,3,2] f64[4] f64[4] num_groups=4");
    group.finish(150);
    layer rows("LayerNormalization");
    rows.add("f64[2,3,4] f64[3,4] f64[3,4] axis=1");
    rows.add("f64[2,3,4] f64[4] f64[3,1] axis=1 epsilon=0.1");
    rows.add("f64[2,3,5] f64[1]");
    rows.finish(200);
    layer squares("RMSNormalization");
    squares.add("f64[2,3,4] f64[3,4] axis=1 epsilon=0.1");
    squares.finish(150);
    layer both("MeanVarianceNormalization");
    both.add("f64[2,3,4] axes=0,2");
    both.finish(100);
}

TEST_CASE("LRN and LpNormalization are differentiated") {
    layer lrn("LRN");
    for (int size = 1; size <= 6; ++size) lrn.add("f64[2,4,3] alpha=0.7 beta=0.6 bias=1.5 size=" + std::to_string(size));
    lrn.finish(200);
    layer lp("LpNormalization");
    lp.add("f64[2,3,4] p=1 axis=0");
    lp.add("f64[2,3,4] p=2 axis=1");
    lp.finish(100);
}

TEST_CASE("Resize's gradient is the interpolation turned around, in every mode") {
    layer resize("Resize", false);
    for (const std::string& text : problems::split(resize.row->problems, ';')) resize.add_fixed(text);
    const char* coordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", "tf_half_pixel_for_nn"};
    const char* roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    for (const char* coordinate : coordinates) {
        const std::string by = std::string(" coordinate_transformation_mode=") + coordinate;
        for (const char* target : {"- i64{1,2,7,4}", "- i64{1,2,2,3}", "f32{1,1,1.7,0.6}", "- i64{1,2,1,5}"}) {
            const std::string text = std::string("f64[1,2,4,5] - ") + target + by;
            const bool plain = std::string(coordinate) != "tf_half_pixel_for_nn";
            for (const char* rounding : roundings) resize.add_fixed(text + " mode=nearest nearest_mode=" + rounding);
            if (!plain) continue;
            resize.add_fixed(text + " mode=linear");
            resize.add_fixed(text + " mode=cubic");
            resize.add_fixed(text + " mode=cubic exclude_outside=1 cubic_coeff_a=-0.5");
            resize.add_fixed(text + " mode=linear antialias=1");
            resize.add_fixed(text + " mode=cubic antialias=1");
        }
    }
    for (const char* mode : {"nearest", "linear", "cubic"})
        resize.add_fixed(
            std::string(
                "f64[1,1,4,5] f32{0.1,-0.2,0.8,1.2} - i64{5,4} axes=2,3 coordinate_transformation_mode=tf_crop_and_resize extrapolation_value=5 mode=") +
            mode);
    resize.add_fixed("f64[1,2,4,5] - - i64{7,7} axes=2,3 keep_aspect_ratio_policy=not_larger mode=linear");
    resize.finish(5000);
    layer ten("Resize", false, "", 10);
    for (const std::string& text : problems::split(ten.row->problems, ';')) ten.add_fixed(text);
    ten.finish(20);
    layer nine("Upsample", false, "", 9);
    for (const std::string& text : problems::split(nine.row->problems, ';')) nine.add_fixed(text);
    nine.add_fixed("f64[1,2,2,3] f32{1,1,1.5,3} mode=linear @9");
    nine.finish(8);
    layer eight("Upsample", true, "", 8);
    eight.finish(20);
}

TEST_CASE("Dropout is a copy without training, and scales what it kept with it") {
    layer copy("Dropout", false);
    copy.add("f64[3,7]");
    copy.add("f64[3,7] f32(0.3) b(0)");
    copy.add("f64[3,7] f32(0) b(1)");
    copy.finish(60);
    layer old("Dropout", true, "", 9);
    old.finish(20);
    layer drop("Dropout", false, "graft");
    for (const std::string& text : problems::split(drop.row->problems, ';')) drop.add(text + " #2");
    drop.finish(150);
}

TEST_CASE("what is quantised in training lets gradients through inside its range") {
    // A staircase has no slope to be measured: where a step is as fine as this, differences over many steps are its slope.
    problems::problem p = problems::read(*row_of("FakeQuantize", "graft"), "f64[3,40]~-2:2 f64{0.011,0.013,0.017} i8{0,5,-7} axis=0 low=-64 high=63");
    gradients::differentiated d = gradients::differentiate_graph(p.g, p.inputs);
    CHECK_MESSAGE(d.error.empty(), d.error);
    REQUIRE(d.gradients.size() == 1);
    std::vector<graft::tensor> values = d.values;
    REQUIRE(gradients::run_nodes(d.g, d.g.nodes.size(), values).empty());
    const double *x = p.inputs[0].data<double>(), *g = values[gradients::index(d.gradients[0])].data<double>(), *dy = d.weights[0].data<double>();
    const double scale[] = {0.011, 0.013, 0.017}, zero[] = {0, 5, -7};
    int inside = 0;
    for (int i = 0; i < 120; ++i) {
        const double code = std::nearbyint(x[i] / scale[i / 40]) + zero[i / 40];
        const bool in = code >= -64 && code <= 63;
        CHECK(g[i] == (in ? dy[i] : 0.0));
        inside += in;
    }
    CHECK(inside > 20);
    CHECK(inside < 100);
}

TEST_CASE("Attention is differentiated for queries, keys, values and an additive mask") {
    layer attention("Attention");
    CHECK(attention.sum.refused == 2);  // those with a cache and with windows
    attention.add("f64[2,4,3,5] f64[2,2,6,5] f64[2,2,6,4] f64[2,4,3,6]");
    attention.add("f64[2,2,3,5] f64[2,2,6,5] f64[2,2,6,4] f64[3,6] softcap=1.5 is_causal=1 scale=0.4");
    attention.add("f64[2,2,3,5] f64[2,2,6,5] f64[2,2,6,4] b[2,1,3,6]");
    attention.add("f64[1,1,3,2] f64[1,1,3,2] f64[1,1,3,2] b{0,0,1}");
    attention.add("f64[2,3,8] f64[2,5,4] f64[2,5,6] q_num_heads=4 kv_num_heads=2");
    attention.add("f64[2,3,8] f64[2,3,8] f64[2,3,8] q_num_heads=2 kv_num_heads=2 is_causal=1");
    attention.finish(900);
}

TEST_CASE("GridSample is differentiated for its input and its grid") {
    layer sample("GridSample");
    for (const char* mode : {"linear", "nearest", "cubic"})
        for (const char* padding : {"zeros", "border", "reflection"})
            for (const char* corners : {"0", "1"}) {
                const std::string by = std::string(" mode=") + mode + " padding_mode=" + padding + " align_corners=" + corners;
                sample.add("f64[2,2,4,5] f64[2,3,2,2]~-1.4:1.4" + by);
                sample.add("f64[1,2,5] f64[1,7,1]~-3:3" + by);
                if (std::string(mode) != "cubic") sample.add("f64[1,2,3,2,4] f64[1,2,2,3,3]~-1.3:1.3" + by);
            }
    sample.finish(2000);
    layer affine("AffineGrid");
    affine.finish(20);
}

TEST_CASE("RoiAlign, Col2Im and MaxUnpool are differentiated for their input") {
    layer align("RoiAlign", false);
    CHECK(align.row);
    align.add_fixed("f64[2,2,6,7] f64[3,4]~0:6 i64{0,1,0} output_height=2 output_width=3 sampling_ratio=2", {1});
    align.add_fixed("f64[2,1,5,5] f64[2,4]~0:9 i64{1,0} coordinate_transformation_mode=output_half_pixel spatial_scale=0.5", {1});
    align.add_fixed("f64[2,1,5,5] f64[2,4]~0:5 i64{1,0} output_height=2 output_width=2 @10", {1});
    align.finish(100);
    layer columns("Col2Im");
    columns.add("f64[1,12,10] i64{5,4} i64{3,2} strides=1,2 pads=1,0,1,1 dilations=1,1");
    columns.add("f64[2,4,3] i64{7} i64{2} strides=2 dilations=2");
    columns.finish(200);
    layer back("MaxUnpool");
    back.add("f64[1,1,2,2] i64[1,1,2,2]~0:15 kernel_shape=2,2 strides=2,2");
    back.add("f64[1,1,2,2] i64[1,1,2,2]~0:15 i64{1,1,5,6} kernel_shape=2,2 strides=2,2");
    back.finish(8);
}

TEST_CASE("gradients in float32 and float16 are those in double, rounded") {
    // Types have to agree in every node that a gradient emits, which double alone does not show.
    const struct {
        const char *name, *problem;
    } layers[] = {
        {"Conv", "[2,4,6,5] [6,2,3,2] [6] group=2 strides=2,1 pads=1,0,1,1"},
        {"ConvTranspose", "[2,4,3,3] [4,3,3,2] [6] group=2 strides=2,2 output_padding=1,0"},
        {"MaxPool", "[2,3,7,6] kernel_shape=3,2 strides=2,2"},
        {"AveragePool", "[2,3,7,6] kernel_shape=3,2 strides=2,2 pads=1,1,1,1"},
        {"LpPool", "[2,3,7,6]~0.5:2 kernel_shape=3,2 strides=2,2 p=3"},
        {"GlobalMaxPool", "[2,3,4,5]"},
        {"GlobalAveragePool", "[2,3,4,5]"},
        {"GlobalLpPool", "[2,3,4,5]~0.5:2"},
        {"BatchNormalization", "[2,3,4,5] [3] [3] [3] [3]~0.5:2"},
        {"InstanceNormalization", "[2,3,4,5] [3] [3]"},
        {"GroupNormalization", "[2,4,4,5] [4] [4] num_groups=2"},
        {"LayerNormalization", "[2,3,9] [9] [9]"},
        {"RMSNormalization", "[2,3,9] [9]"},
        {"MeanVarianceNormalization", "[2,3,4,5]"},
        {"LRN", "[2,5,3,3] size=3 alpha=0.5"},
        {"LpNormalization", "[2,3,4] axis=1"},
        {"Resize", "[1,2,4,5] - - i64{1,2,7,3} mode=linear"},
        {"Attention", "[2,2,3,4] [2,2,5,4] [2,2,5,4] [3,5] softcap=2"},
        {"GridSample", "[1,2,4,5] [1,3,3,2]~-0.9:0.9 align_corners=1"},
        {"Dropout", "[2,9]"},
    };
    for (const auto& l : layers) {
        const graft::op_row& row = *row_of(l.name, "");
        INFO(l.name);
        std::vector<graft::tensor> gradients_of[3];
        const graft::dtype types[] = {graft::dtype::float64, graft::dtype::float32, graft::dtype::float16};
        const char* names[] = {"f64", "f32", "f16"};
        for (int t = 0; t < 3; ++t) {
            std::string text;
            for (const std::string& word : problems::split(l.problem, ' ')) text += (word[0] == '[' ? names[t] : "") + word + " ";
            problems::problem p = problems::read(row, text);
            REQUIRE_MESSAGE(p.error.empty(), p.error);
            gradients::question q;
            q.type = types[t];
            gradients::differentiated d = gradients::differentiate_graph(p.g, p.inputs, q);
            REQUIRE_MESSAGE(d.error.empty(), d.error);
            std::vector<graft::tensor> values = d.values;
            const std::string error = gradients::run_nodes(d.g, d.g.nodes.size(), values);
            REQUIRE_MESSAGE(error.empty(), error);
            for (graft::value_id id : d.gradients)
                if (id != graft::no_value) gradients_of[t].push_back(values[gradients::index(id)]);
        }
        for (int t = 1; t < 3; ++t)
            for (std::size_t i = 0; i < gradients_of[0].size(); ++i) {
                const graft::tensor &want = gradients_of[0][i], &got = gradients_of[t][i];
                REQUIRE(got.type() == types[t]);
                double largest = 1e-3, worst = 0;
                for (std::int64_t k = 0; k < want.elements(); ++k) {
                    largest = std::max(largest, std::fabs(want.data<double>()[k]));
                    worst = larger_error(worst, std::fabs(want.data<double>()[k] - graft::element_as_double(got.type(), got.raw(), k)));
                }
                CHECK(worst <= (t == 1 ? 2e-5 : 5e-2) * largest);
            }
    }
}
