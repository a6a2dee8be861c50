// Problems for gradients beyond the op table's, a family a block; the language is that of gradients.hpp.
#pragma once

#include "../ops/problems.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace gradients {

struct more_problems {
    const char *domain, *name, *problems;
};

constexpr more_problems more[] = {
    {"", "Clip", "f32[3,17] f32(-1) f32(1); f32[2,5] f32{-0.5} f32{0.25}; f32[2,5] - f32(0.5); f32[7] f32(0.25); f32[3,4]"},
    {"", "PRelu", "f32[2,3,4,5] f32[3,1,1]; f32[4,6] f32[6]; f32[2,3] f32[2,3]; f32[2,4,3] f32[4] @6"},
    {"", "Relu", "f32[2,3,4,5]; f32[1]"},
    {"", "LeakyRelu", "f32[2,3,4] alpha=-0.5; f32[9] alpha=0"},
    {"", "Elu", "f32[4,5] alpha=0.5; f32[6]~-9:1"},
    {"", "Celu", "f32[4,5] alpha=0.5; f32[6]~-9:1 alpha=3"},
    {"", "HardSigmoid", "f32[4,9]~-4:4 alpha=0.3 beta=0.2; f32[9]~-8:8 alpha=-0.2"},
    {"", "HardSwish", "f32[4,9]~-4:4; f32[2,3,5]~-9:9"},
    {"", "Swish", "f32[4,9]~-4:4; f32[9]~-20:20; f32[9] alpha=-1.5"},
    {"", "Gelu", "f32[9]~-8:8; f32[9]~-8:8 approximate=tanh"},
    {"", "Mish", "f32[9]~-30:30"},
    {"", "Softplus", "f32[9]~-30:30"},
    {"", "SwiGLU", "f32[2,3,4] f32[2,3,4]~-9:9 alpha=0.5"},
    {"", "Tanh", "f32[9]~-9:9; f32[2,3,4]"},
    {"", "Sqrt", "f32[2,3,4]~0.5:4"},
    {"", "Erf", "f32[2,3,4]~-4:4"},
    {"", "Tan", "f32[3,4]~-1:1"},

    {"", "Add", "f32[1,3,1] f32[2,1,4]; f32[3] f32[2,4,3]; f32[1] f32[1,1,1]; f32[4,1,2] f32[4,5,2]; f32[] f32[]; f32[2,3,4,5] f32[3] axis=1 broadcast=1 @6"},
    {"", "Sub", "f32[1,3,1] f32[2,1,4]; f32[3] f32[2,4,3]; f32[4,5] f32(2)"},
    {"", "Mul", "f32[2,3,1,1] f32[2,3,4,5]; f32[3] f32[2,4,3]; f32[5] f32[2,1,1]; f32[2,3,4] f32[3] axis=1 broadcast=1 @6; f32[4] f32(3)"},
    {"", "Div", "f32[2,3,4] f32[3,1]~0.5:2; f32[3]~-2:-1 f32[2,4,3]~1:2; f32[2,3] f32[2] axis=0 broadcast=1 @6; f32[5] f32[]~1:2"},
    {"", "Mod", "f32[3,5]~5:9 f32[3,5]~1:2 fmod=1; f32[3,5]~-9:-5 f32[5]~1:2; f32[4]~3:9 f32[2,4]~-2:-1"},
    {"", "Pow",
     "f32[3,4]~0.5:2 f32[3,4]; f32[3,4] f32(2); f32[3,4] f32(3); f32[4]~1:2 f32(-0.5); f32[4] f32(0); f32[5] i64(3); f32[2,1]~0.5:2 f32[1,3]; f32[] f32[2,3]; "
     "f32[3] i32[3]~0:3"},

    {"", "Max", "f32[2,3] f32[3] f32[2,1] f32[]; f32[5]; f32[4,1] f32[1,5]; f32[6] f32(0.5)"},
    {"", "Min", "f32[2,3] f32[3] f32[2,1] f32[]; f32[5]; f32[4,1] f32[1,5]; f32[6] f32(0.5)"},
    {"", "Sum", "f32[2,3] f32[3] f32[2,1] f32[]; f32[4,1] f32[1,5]"},
    {"", "Mean", "f32[2,3] f32[3] f32[2,1] f32[]; f32[4,1] f32[1,5]"},
    {"", "Where", "b[2,1,4] f32[3,1] f32[]; b[5] f32[2,5] f32[1]; b[] f32[3] f32[2,1]"},

    {"", "ReduceSum", "f32[2,3,4] i64{0}; f32[2,3,4] i64{0,2} keepdims=0; f32[7,3] i64{-2}; f32[3,4] axes=0,1 @11"},
    {"", "ReduceMean", "f32[2,3,4,5] i64{2,3} keepdims=0; f32[2,3,4] i64{-1}; f32[2,3,4] i64{0,2} keepdims=0; f32[6,5] i64[0]"},
    {"", "ReduceMax", "f32[2,3,4] i64{0,2} keepdims=0; f32[2,3,4] keepdims=0"},
    {"", "ReduceMin", "f32[2,3,4] i64{0,2} keepdims=0; f32[2,3,4] keepdims=0"},
    {"", "ReduceProd", "f32[2,3,4] i64{0,2} keepdims=0; f32{0,2,3,0.5} i64{0}; f32[2,3,4] i64{1}; f32[2,2,2,2] i64{1,3}; f32{0,0,2}; f32[3,4] keepdims=0"},
    {"", "ReduceL2", "f32[2,3,4] i64{0,2} keepdims=0; f32[5] i64{0}"},
    {"", "ReduceLogSumExp", "f32[2,3,4]~-30:30 i64{2} keepdims=0"},

    {"", "Reshape", "f32[2,3,4] i64{4,-1}; f32[2,3,4] i64{0,0,2,2}; f32[6] shape=2,3 @4"},
    {"", "Flatten", "f32[2,3,4,5] axis=2; f32[4] axis=0"},
    {"", "Squeeze", "f32[2,1,3,1] i64{1}; f32[1,2,1]; f32[1,2,1] axes=2 @12"},
    {"", "Unsqueeze", "f32[2,3] i64{1}; f32[4] i64{0,2}; f32[4] axes=1 @12"},

    {"", "Transpose", "f32[2,3,4,5] perm=0,2,3,1; f32[2,3,4] perm=1,2,0; f32[2,3,4] perm=2,0,1; f32[5] perm=0; f32[3,4]"},
    {"", "Expand", "f32[2,1,3] i64{4,2,5,3}; f32[] i64{2,3}; f32[1,3] i64{2,1,3}"},
    {"", "Tile", "f32[2,3,4] i64{3,1,2}; f32[1,3] i64{4,1}; f32[2,2] i64{1,1}; f32[2,1,2] i64{2,3,2}"},
    {"", "DepthToSpace", "f32[2,8,3,2] blocksize=2 mode=CRD; f32[1,9,2,2] blocksize=3"},
    {"", "SpaceToDepth", "f32[2,3,4,6] blocksize=2; f32[1,2,6,3] blocksize=3"},
    {"", "ReverseSequence", "f32[3,2,4] i64{3,1}; f32[2,3] i64{2,3} batch_axis=0 time_axis=1"},

    {"", "Concat", "f32[2,3] f32[2,3] f32[2,2] axis=1; f32[2] axis=0; f32[2,1,3] f32[2,4,3] axis=-2"},
    {"", "Split",
     "f32[2,7] i64{3,4} axis=1 #2; f32[6,2] num_outputs=3; f32[5,2] num_outputs=2; f32[4,3] axis=-1 split=1,2 @11 #2; f32[4,3] @13 #2; f32[4,5] i64{1,0,3} #3"},
    {"", "Slice",
     "f32[5,6] i64{-1} i64{-100} i64{1} i64{-1}; f32[2,3,4] i64{0} i64{9}; f32[2,9] i64{7} i64{1} i64{1} i64{-3}; f32[4,4] i64{3} i64{2} i64{0}; f32[2,3,8,8] "
     "i64{1,2} i64{7,8} i64{2,3} i64{2,3}; "
     "f32[2,3,8] starts=1 ends=-1 axes=2 @9"},

    {"", "Pad",
     "f32[2,3] i64{0,1,2,0}; f32[2,3] i64{1,-1,0,2} f32(3); f32[2,3] i64{-1,0,0,-1}; f32[1,2,4,5] i64{0,0,1,2,0,0,3,2} mode=reflect; f32[2,4] i64{3,1} - "
     "i64{1} mode=edge; f32[2,4] i64{0,5,0,9} mode=wrap; "
     "f32[4,5] i64{-1,2,1,-1} mode=reflect; f32[4,5] i64{-1,2,1,-2} mode=edge; f32[4] i64{-1,3} mode=wrap; f32[3] i64{7,8} mode=reflect; f32[1] i64{2,2} "
     "mode=reflect; f32[2,3] i64{0,1,0,1} f32{2}; "
     "f32[2,3] pads=1,1,1,1 mode=edge @10"},
    {"", "CenterCropPad", "f32[4,7] i64{7,4}; f32[3,4,2] i64{5,1} axes=0,2; f32[3] i64{3}"},

    {"", "Gather",
     "f32[5,3] i64{1,1,4}; f32[2,5,3] i64[2,2]~0:5 axis=1; f32[2,3,4] i64{3,-1,0,3} axis=2; f32[2,5,3] i64(0) axis=1; f32[2,5,3] i64(-1) axis=-2; f32[5,3] "
     "i32[4]~-5:5; f32[2,5] i64{2} axis=1; f32[4] i64[3]~0:4"},
    {"", "GatherElements", "f32[3,4] i64[2,4]~0:3; f32[3,4] i64[3,2]~-4:4 axis=1; f32[2,3,4] i32[2,5,4]~0:3 axis=1"},
    {"", "GatherND",
     "f32[3,4] i64[5,2]~0:3; f32[3,4,2] i64[2,2,1]~-3:3; f32[2,3,4] i64[2,5,1]~0:3 batch_dims=1; f32[2,3,4] i64[2,3,1]~0:4 batch_dims=2; f32[2,3,4,2] "
     "i64[2,3,2]~0:3 batch_dims=1"},
    {"", "ScatterElements",
     "f32[3,4] i64[2,3]~0:3 f32[2,3]; f32[3,4] i64[3,2]~-4:4 f32[3,2] axis=1; f32[3,4] i64[2,4]~0:3 f32[2,4] reduction=add; f32[5] i64{1,1,1} f32[3]"},
    {"", "ScatterND",
     "f32[3,4] i64[5,2]~0:3 f32[5]; f32[3,4] i64[2,1]~0:3 f32[2,4]; f32[3,4,2] i64[3,2]~0:3 f32[3,2] reduction=add; f32[4,2] i64[3,1]~-1:0 f32[3,2]"},

    {"", "MatMul",
     "f32[2,3,4] f32[4,5]; f32[2,3,4,5] f32[2,3,5,2]; f32[2,1,4,5] f32[3,5,2]; f32[4,5] f32[3,5,2]; f32[3,2,5] f32[5]; f32[5] f32[3,5,2]; f32[5] f32[5]; "
     "f32[5] f32[5,2]; f32[3,4,5] f32[1,5,2]"},
    {"", "Gemm",
     "f32[4,3] f32[3,5] f32[4,5]; f32[3,4] f32[3,5] f32[5] transA=1; f32[4,3] f32[5,3] f32[4,1] transB=1 alpha=0.5; f32[3,4] f32[5,3] f32[1,5] transA=1 "
     "transB=1 beta=3 alpha=2; f32[4,3] f32[3,5]; f32[4,3] f32[3,5] f32[1]"},
    {"", "Softmax", "f32[2,3,4,5] axis=1; f32[2,3,4] axis=-1; f32[3,5]~-30:30; f32[2,3,4] axis=2 @11; f32[2,3,4] axis=0 @11; f32[4,2] axis=-2"},
    {"", "LogSoftmax", "f32[2,3,4,5] axis=1; f32[2,3,4] axis=-1; f32[3,5]~-30:30; f32[2,3,4] axis=2 @11; f32[4,2] axis=-2"},
    {"", "Einsum",
     "f32[2,3,4] f32[4,5] equation=bij,jk->bik; f32[2,3,4] f32[2,5,4] equation=bid,bjd->bij; f32[2,3] f32[4,5] equation=ij,kl->il; f32[3,4] equation=ij->j; "
     "f32[3,4] equation=ij->ji; "
     "f32[2,3,4] f32[1,4,5] equation=...ij,...jk; f32[3,1] f32[1,4] equation=ij,jk->ik; f32[2,3,4,5] f32[5,3] equation=bhwc,ck->bkhw; f32[1,3] f32[2,3] "
     "equation=ij,ij->ij; f32[3,4] f32[4] equation=ij,j; "
     "f32[2,3] f32[3,4] f32[4,2] equation=ab,bc,ca->; f32[2,1,3] f32[4,3] equation=...i,...i->..."},
    {"", "Cast", "f32[3,17] to=11; f32[] to=11"},
    {"", "CastLike", "f32[3,17] f32[2]"},
    {"", "CumSum", "f32[3,4,2] i64(1) reverse=1 exclusive=1; f32[3,4] i64(0) exclusive=1; f32[5] i32(-1)"},
    {"", "TopK", "f32[3,5,2] i64{2} axis=1; f32[4,6] i64{3} largest=0; f32[4,6] i64{3} axis=0 #1"},
    {"", "SoftmaxCrossEntropyLoss",
     "f32[4,5] i64[4]~0:5 #2; f32[4,5] i64[4]~0:5 f32{0.5,1,2,0.1,0.7}; f32[2,5,3] i64[2,3]~0:5 f32{0.5,1,2,0.1,0.7} reduction=none #2; f32[2,3,2,2] "
     "i32[2,2,2]~0:3 reduction=sum ignore_index=1; "
     "f32[6,3] i64[6]~0:3 f32{0.5,1,2} ignore_index=2; f32[3,5] i64{0,-1,2} ignore_index=-1 reduction=none; f32[1,2] i64{1}; f32[3,5] i64{0,255,2} "
     "ignore_index=255"},
    {"", "NegativeLogLikelihoodLoss",
     "f32[4,5] i64[4]~0:5 f32{0.5,1,2,0.1,0.7}; f32[2,5,3] i64[2,3]~0:5 f32{0.5,1,2,0.1,0.7} reduction=none; f32[6,3] i64[6]~0:3 f32{0.5,1,2} ignore_index=2; "
     "f32[3,5] i64{0,-1,2} ignore_index=-1 reduction=sum"},
    {"graft", "Dropout", "f32[3,17] i64{5,0} ratio=0.3 seed=7 #2; f32[4,3,5,5] i64{1,8} ratio=0.1 #2; f32[2,9] i64{0,2} ratio=0.75 seed=-1 #2"},
    {"", "Crop", "f32[2,3,7,8] border=1,2,3,1 @7; f32[1,1,4,4] border=1,0,0,2 scale=2,3 @7"},
    {"", "ImageScaler", "f32[2,2,3,2] scale=0.5 @7"},
};

/// Problems with random shapes and attributes, ten or more a family, the same on every machine.
class random_problems {
public:
    using list = std::vector<std::pair<std::string, std::string>>;  // operator and problem
    list made;

    random_problems() {
        for (int i = 0; i < 12; ++i) {
            broadcast();
            reduction();
            movement();
            borders();
            indices();
            products();
            lines();
        }
    }

private:
    using extents = std::vector<std::int64_t>;

    std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_.next() % static_cast<std::uint64_t>(n)); }
    bool coin() { return below(2) != 0; }
    template <class T, std::size_t N>
    T any(const T (&choices)[N]) {
        return choices[below(static_cast<std::int64_t>(N))];
    }
    extents shape(std::int64_t rank, std::int64_t most = 4) {
        extents s;
        while (static_cast<std::int64_t>(s.size()) < rank) s.push_back(1 + below(most));
        return s;
    }
    static std::string join(const extents& s) {
        std::string text;
        for (std::int64_t e : s) text += (text.empty() ? "" : ",") + std::to_string(e);
        return text;
    }
    static std::string real(const extents& s) { return "f32[" + join(s) + "]"; }
    static std::string ints(const extents& s) { return s.empty() ? "i64[0]" : "i64{" + join(s) + "}"; }
    // Some of its axes 1, some left out in front.
    extents thinned(extents s) {
        for (std::int64_t& e : s)
            if (below(3) == 0) e = 1;
        s.erase(s.begin(), s.begin() + below(static_cast<std::int64_t>(s.size()) + 1));
        return s;
    }
    extents order(std::int64_t n) {
        extents p;
        for (std::int64_t i = 0; i < n; ++i) p.insert(p.begin() + below(i + 1), i);
        return p;
    }
    void add(const char* name, const std::string& text) { made.emplace_back(name, text); }

    void broadcast() {
        const char* two[] = {"Add", "Sub", "Mul", "Div", "Pow", "PRelu"};
        const char* many[] = {"Max", "Min", "Sum", "Mean"};
        const extents s = shape(1 + below(4));
        const std::string name = any(two), range = name == "Pow" || name == "Div" ? "~0.5:2" : "";
        if (name == "PRelu" || coin())
            add(name.c_str(), real(s) + range + " " + real(thinned(s)) + range);
        else
            add(name.c_str(), real(thinned(s)) + range + " " + real(thinned(s)) + range);
        add(any(many), real(thinned(s)) + " " + real(thinned(s)) + " " + real(thinned(s)));
        add("Where", "b[" + join(thinned(s)) + "] " + real(thinned(s)) + " " + real(thinned(s)));
        add("Expand", real(thinned(s)) + " " + ints(s));
        extents repeats = shape(static_cast<std::int64_t>(s.size()), 3);
        add("Tile", real(s) + " " + ints(repeats));
    }
    void reduction() {
        const char* names[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
                               "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};
        const extents s = shape(1 + below(4)), axes = order(static_cast<std::int64_t>(s.size()));
        const std::string name = any(names);
        add(name.c_str(), real(s) + (name == "ReduceLogSum" ? "~0.2:2 " : " ") +
                              ints(extents(axes.begin(), axes.begin() + below(static_cast<std::int64_t>(axes.size())) + 1)) + (coin() ? " keepdims=0" : "") +
                              (coin() ? " noop_with_empty_axes=1" : ""));
    }
    void movement() {
        const extents s = shape(1 + below(5), 3);
        const std::int64_t rank = static_cast<std::int64_t>(s.size());
        add("Transpose", real(s) + " perm=" + join(order(rank)));
        add("Flatten", real(s) + " axis=" + std::to_string(below(rank + 1)));
        const std::int64_t axis = below(rank);
        extents other = s;
        other[static_cast<std::size_t>(axis)] = 1 + below(4);
        add("Concat", real(s) + " " + real(other) + (coin() ? " " + real(s) : "") + " axis=" + std::to_string(axis));
        extents whole = s;
        whole[static_cast<std::size_t>(axis)] = 2 + below(4);
        const std::int64_t first = below(whole[static_cast<std::size_t>(axis)] + 1);
        add("Split", real(whole) + " " + ints({first, whole[static_cast<std::size_t>(axis)] - first}) + " axis=" + std::to_string(axis) + " #2");
    }
    void borders() {
        const extents s = shape(1 + below(3), 5);
        extents starts, ends, steps, pads(2 * s.size());
        for (std::int64_t e : s) {
            const bool back = coin();
            starts.push_back(back ? e - 1 - below(e) : below(e));
            ends.push_back(back ? -100 : 100);
            steps.push_back((1 + below(3)) * (back ? -1 : 1));
        }
        add("Slice", real(s) + " " + ints(starts) + " " + ints(ends) + " - " + ints(steps));
        const char* modes[] = {"constant", "reflect", "edge", "wrap"};
        for (std::int64_t& p : pads) p = below(5) - 1;
        for (std::size_t d = 0; d < s.size(); ++d)
            if (s[d] < 3) pads[d] = std::max<std::int64_t>(pads[d], 0), pads[d + s.size()] = std::max<std::int64_t>(pads[d + s.size()], 0);
        add("Pad", real(s) + " " + ints(pads) + " mode=" + any(modes));
    }
    void indices() {
        const extents s = shape(1 + below(3));
        const std::int64_t rank = static_cast<std::int64_t>(s.size()), axis = below(rank), extent = s[static_cast<std::size_t>(axis)];
        const std::string range = "~" + std::to_string(-extent) + ":" + std::to_string(extent), at = " axis=" + std::to_string(axis);
        add("Gather", real(s) + " i64[" + join(shape(below(3))) + "]" + range + at);
        extents fewer = s;
        for (std::int64_t& e : fewer) e = 1 + below(e);
        add("GatherElements", real(s) + " i64[" + join(fewer) + "]" + range + at);
        add("ScatterElements", real(s) + " i64[" + join(fewer) + "]" + range + " " + real(fewer) + at + (coin() ? " reduction=add" : ""));
        add("CumSum", real(s) + " i64(" + std::to_string(axis) + ")" + (coin() ? " reverse=1" : "") + (coin() ? " exclusive=1" : ""));
        add("TopK", real(s) + " i64{" + std::to_string(1 + below(extent)) + "}" + at + (coin() ? " largest=0" : ""));
        const std::int64_t k = 1 + below(rank), lowest = *std::min_element(s.begin(), s.begin() + k);
        extents places = shape(1 + below(2)), updates = places;
        places.push_back(k);
        updates.insert(updates.end(), s.begin() + k, s.end());
        const std::string where = " i64[" + join(places) + "]~0:" + std::to_string(lowest);
        add("GatherND", real(s) + where);
        add("ScatterND", real(s) + where + " " + real(updates) + (coin() ? " reduction=add" : ""));
    }
    void products() {
        const std::int64_t m = 1 + below(5), k = 1 + below(5), n = 1 + below(5);
        extents batch = shape(below(3), 3), a = thinned(batch), b = thinned(batch);
        a.insert(a.end(), {m, k});
        b.insert(b.end(), {k, n});
        add("MatMul", real(a) + " " + real(b));
        const bool ta = coin(), tb = coin();
        const extents bias = thinned({m, n});
        add("Gemm", real(ta ? extents{k, m} : extents{m, k}) + " " + real(tb ? extents{n, k} : extents{k, n}) + " " + real(bias) + (ta ? " transA=1" : "") +
                        (tb ? " transB=1" : "") + (coin() ? " alpha=0.5" : "") + (coin() ? " beta=2" : ""));
        const char* equations[] = {"abc,acd->abd", "abc,adc->bd", "abc,acd", "abc,acd->", "abc,acd->dcba", "abc,acd->a", "abc,acd->bcd"};
        const std::string equation = any(equations);
        const std::int64_t c = 1 + below(3);
        add("Einsum", real({c, m, k}) + " " + real(equation[5] == 'd' ? extents{c, n, k} : extents{c, k, n}) + " equation=" + equation);
    }
    void lines() {
        const char* names[] = {"Softmax", "LogSoftmax"};
        const extents s = shape(1 + below(4));
        const std::int64_t rank = static_cast<std::int64_t>(s.size());
        add(any(names), real(s) + "~-9:9 axis=" + std::to_string(below(2 * rank) - rank) + (coin() ? " @13" : " @11"));
        const extents few = shape(2 + below(2));
        extents targets = few;
        targets.erase(targets.begin() + 1);
        const char* reductions[] = {"none", "sum", "mean"};
        add(coin() ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss",
            real(few) + " i64[" + join(targets) + "]~0:" + std::to_string(few[1]) + " reduction=" + any(reductions) + (coin() ? " ignore_index=0" : ""));
    }

    problems::numbers random_{23};
};

}  // namespace gradients
