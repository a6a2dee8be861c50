// Kernels of RoiAlign, MaxRoiPool and graft.RoiAlignGrad: each thread gathers what belongs to its elements, in a fixed order.
#pragma once

#include "../codegen/sort.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The kernels of ops/detection.hpp but for NonMaxSuppression, whose output's extents are known only in a run. A region that the reference
/// refuses (a batch index out of range, too large, not finite) is a fault, and what it gives is NaN.
generated_table detection_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/detection.hpp"
#include "scatter.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

constexpr std::int64_t most_regions = std::int64_t(1) << 24;

// Regions of RoiAlign as ops::read_region has them, computed once, in double: a sample more or less would show. grid_h is -1 where the
// reference refuses the region.
inline std::string region_type(const std::string& real) {
    return "struct region { int batch, grid_h, grid_w; " + real + " top, left, bin_h, bin_w; };\n" +
           fill(R"cuda(// A sample's place along an axis: the element before it, the one behind, and how far it is from the first.
struct sample_axis { bool inside; index_t low, high; $real rest; };
__device__ __forceinline__ sample_axis sampled($real at, index_t extent) {
    sample_axis a;
    a.inside = at >= -1 && at <= ($real)extent;
    at = a.inside && at > 0 ? at : ($real)0;
    a.low = (index_t)at;
    const bool last = a.low >= extent - 1;
    if (last) a.low = extent - 1;
    a.high = last ? a.low : a.low + 1;
    a.rest = last ? ($real)0 : at - ($real)a.low;
    return a;
}
__device__ __forceinline__ $real sample_place($real begin, index_t bin, $real size, int i, int grid) { return begin + ($real)bin * size + (($real)i + ($real)0.5) * size / ($real)grid; }
)cuda",
                {{"real", real}});
}
// Adds the kernel that reads regions: `images` [N, C, H, W], `bins` [regions, C, h, w]; regions are input `of`, batch indices the one behind.
inline const char* add_regions(const kernel_query& q, const kernel_body& body, const shape& images, const shape& bins, bool half, int of, program& p) {
    element_emitter e(body, 1);
    const shape& rois = q.in[of].extents;
    const index n = e.counter("i", rois[0], level::thread);
    operand corner[4];
    for (int k = 0; k < 4; ++k) corner[k] = e.value(body.inputs[static_cast<std::size_t>(of)], at_axes(rois, {n, index_of(k)}));
    const operand batch = e.value(body.inputs[static_cast<std::size_t>(of) + 1], at_axes(q.in[of + 1].extents, {n}));
    if (e.failure) return e.failure;
    const std::int64_t ratio = q.integer("sampling_ratio", 0), budget = checked_mul(q.limit.loop_iterations, 32),
                       each = std::max<std::int64_t>(1, images[1] * bins[2] * bins[3]);
    const std::string where = graft::location(q.n), no_batch = e.report(batch.text, {errc::op_index, where, ops::batch_out_of_range, images[0]});
    const std::string too_large = e.report("i", {errc::op_value, where, ops::region_too_large, 0, true}),
                      too_many = e.report("i", {errc::op_limit, where, "region %lld would take too many samples a bin", 0, true});
    const std::string text = fill(R"cuda(    const double left = (double)$from_x * $scale - $offset;
    const double top = (double)$from_y * $scale - $offset;
    const double given_w = (double)$to_x * $scale - $offset - left;
    const double given_h = (double)$to_y * $scale - $offset - top;
    const double bin_w = ($half || given_w > 1 ? given_w : 1.0) / $columns;
    const double bin_h = ($half || given_h > 1 ? given_h : 1.0) / $rows;
    const bool finite = abs(bin_w) < 1e9 && abs(bin_h) < 1e9;
    const long long grid_h = $ratio ? $ratio : finite ? (long long)ceil(bin_h) : 0ll;
    const long long grid_w = $ratio ? $ratio : finite ? (long long)ceil(bin_w) : 0ll;
    const bool some = grid_h > 0 && grid_w > 0;
    const bool named = $batch >= 0 && $batch < $images;
    const bool few = !some || (grid_h <= $most && grid_w <= $most && grid_h * grid_w <= $most);
    const bool taken = named && finite && few;
    if (!taken) {
        if (!named) $no_batch;
        else if (!finite) $too_large;
        else $too_many;
    }
    region r;
    r.batch = named ? (int)$batch : -1;
    r.grid_h = taken ? some ? (int)grid_h : 0 : -1;
    r.grid_w = taken && some ? (int)grid_w : 0;
    r.top = ($real)top;
    r.left = ($real)left;
    r.bin_h = ($real)bin_h;
    r.bin_w = ($real)bin_w;
    regions[i] = r;
)cuda",
                                  {{"from_x", corner[0].text},
                                   {"from_y", corner[1].text},
                                   {"to_x", corner[2].text},
                                   {"to_y", corner[3].text},
                                   {"batch", batch.text},
                                   {"scale", literal(dtype::float64, static_cast<double>(q.real("spatial_scale", 1)))},
                                   {"offset", half ? "0.5" : "0.0"},
                                   {"half", half ? "true" : "false"},
                                   {"columns", decimal(bins[3])},
                                   {"rows", decimal(bins[2])},
                                   {"ratio", decimal(ratio)},
                                   {"images", decimal(images[0])},
                                   {"no_batch", no_batch},
                                   {"too_large", too_large},
                                   {"too_many", too_many},
                                   {"most", decimal(std::min<std::int64_t>(budget < 0 ? INT32_MAX : budget / each, INT32_MAX))},
                                   {"real", compute_name(q.in[of].type)}});
    add_each(q, p, "graft_regions", rois[0], e.parameters(), {}, {{"region* regions", 0}}, e.text(level::thread) + text);
    p.workspace_bytes = rois[0] * 48;
    return nullptr;
}
inline const char* begin_regions(const kernel_query& q, const shape& images, const shape& bins, int of, program& p) {
    if (q.in[of].extents[0] > most_regions || images.elements() > std::int64_t(1) << 38 || bins.elements() > std::int64_t(1) << 38)
        return "more regions or elements than are counted";
    p.source = std::string("namespace graft {\n") + index_definition(2 * std::max(images.elements(), bins.elements()) + (std::int64_t(1) << 24));
    return nullptr;
}
constexpr std::uint32_t all_but_channels = 0xd;

inline const char* generate_roi_align(const kernel_query& q, program& p) {
    const shape &s = q.in[0].extents, &o = q.out[0].extents;
    kernel_body body;
    if (o.elements() == 0) return nullptr;
    if (s.elements() == 0) return "there is nothing to sample";
    if (const char* why = read_body(q, body, &p)) return why;
    if (const char* why = begin_regions(q, s, o, 1, p)) return why;
    const bool average = q.is("mode", "avg", "avg");
    const std::string real = compute_name(q.in[0].type);
    p.source += region_type(real);
    if (const char* why = add_regions(q, body, s, o, ops::regions_start_half(q, q.version()), 1, p)) return why;
    row_kernel k(q, body, all_but_channels, size_of(q.out[0].type));
    const index n = k.e.axis(k.at, 0), c = k.e.axis(k.at, 1), h = k.e.axis(k.at, 2), w = k.e.axis(k.at, 3), batch = k.e.counter("batch", s[0], level::pack);
    operand v[4];
    for (int i = 0; i < 4; ++i) {
        const index y = k.e.counter(i < 2 ? "y.low" : "y.high", s[2], level::pack), x = k.e.counter(i % 2 ? "x.high" : "x.low", s[3], level::pack);
        v[i] = k.e.value(body.inputs[0], at_axes(s, {batch, c, y, x}));
    }
    if (k.e.failure) return k.e.failure;
    const fillings names = {{"real", real},
                            {"lanes", decimal(k.lanes)},
                            {"n", n.text},
                            {"h", h.text},
                            {"w", w.text},
                            {"height", decimal(s[2])},
                            {"width", decimal(s[3])},
                            {"a", v[0].text},
                            {"b", v[1].text},
                            {"c", v[2].text},
                            {"d", v[3].text},
                            {"loads", k.e.text(level::pack)}};
    const std::string take = average ? fill("if (inside) s[lane] += wa * $a + wb * $b + wc * $c + wd * $d;", names)
                                     : fill("const $real value = inside ? largest(wa * $a, wb * $b, wc * $c, wd * $d) : ($real)0;\n        s[lane] = begun && "
                                            "!(value > s[lane]) ? s[lane] : value;",
                                            names);
    if (!average)
        p.source += fill(R"cuda(__device__ __forceinline__ $real largest($real a, $real b, $real c, $real d) {
    $real m = -infinity<$real>();
    m = a > m ? a : m;
    m = b > m ? b : m;
    m = c > m ? c : m;
    return d > m ? d : m;
}
)cuda",
                         names);
    std::string text = fill(R"cuda(    const region r = regions[$n];
    const index_t batch = r.batch;
    $real s[$lanes] = {};
    bool begun = false;
    for (int gy = 0; gy < r.grid_h; ++gy)
        for (int gx = 0; gx < r.grid_w; ++gx) {
            const sample_axis y = sampled(sample_place(r.top, $h, r.bin_h, gy, r.grid_h), $height);
            const sample_axis x = sampled(sample_place(r.left, $w, r.bin_w, gx, r.grid_w), $width);
            const bool inside = y.inside && x.inside;
            const $real wa = (1 - y.rest) * (1 - x.rest);
            const $real wb = (1 - y.rest) * x.rest;
            const $real wc = y.rest * (1 - x.rest);
            const $real wd = y.rest * x.rest;
$loads)cuda",
                            names);
    text += k.each(take) + "            begun = true;\n        }\n";
    k.e.next_loop();
    text += k.each(fill("s[lane] = r.grid_h < 0 ? not_a_number<$real>() : begun ? s[lane]$share : ($real)0;",
                        {{"real", real}, {"share", average ? " / (" + real + ")(r.grid_h * r.grid_w)" : ""}}));
    k.finish(p, text, {{"const region* regions", 0}});
    p.source += "}  // namespace graft\n";
    p.note = "samples gathered by bins";
    return nullptr;
}

// Each pixel gathers its share of the bins of the regions around it. Its weight in a bin is a product of one for each axis.
inline const char* generate_roi_align_grad(const kernel_query& q, program& p) {
    const shape &s = q.out[0].extents, &o = q.in[0].extents;
    kernel_body body;
    if (s.elements() == 0) return nullptr;
    if (const char* why = read_body(q, body, &p)) return why;
    if (const char* why = begin_regions(q, s, o, 1, p)) return why;
    const std::string real = compute_name(q.in[0].type);
    p.source += region_type(real) + fill(R"cuda(// The weight of element `own` in the samples of a bin.
__device__ __forceinline__ $real weight_in_bin($real begin, index_t bin, $real size, int grid, index_t own, index_t extent) {
    $real sum = 0;
    for (int i = 0; i < grid; ++i) {
        const sample_axis a = sampled(sample_place(begin, bin, size, i, grid), extent);
        if (!a.inside) continue;
        if (a.low == own) sum += 1 - a.rest;
        if (a.high == own) sum += a.rest;
    }
    return sum;
}
// Whether samples between two places may reach the element: those beside the border count to it.
__device__ __forceinline__ bool reaches($real begin, $real length, index_t own) {
    const $real low = length < 0 ? begin + length : begin;
    const $real high = length < 0 ? begin : begin + length;
    return low <= ($real)(own + 2) && high >= ($real)(own - 2);
}
)cuda",
                                         {{"real", real}});
    if (o.elements())
        if (const char* why = add_regions(q, body, s, o, ops::regions_start_half(q, 16), 1, p)) return why;
    row_kernel k(q, body, all_but_channels, size_of(q.out[0].type));
    const index n = k.e.axis(k.at, 0), c = k.e.axis(k.at, 1), y = k.e.axis(k.at, 2), x = k.e.axis(k.at, 3);
    std::string text = fill("    $real s[$lanes] = {};\n", {{"real", real}, {"lanes", decimal(k.lanes)}});
    if (o.elements()) {
        const index g = k.e.counter("g", o[0], level::pack), row = k.e.counter("row", o[2], level::pack), column = k.e.counter("column", o[3], level::pack);
        const operand dy = k.e.value(body.inputs[0], at_axes(o, {g, c, row, column}));
        if (k.e.failure) return k.e.failure;
        const std::string loads = k.e.text(level::pack), take = k.each("s[lane] += share * " + dy.text + ";");
        k.e.next_loop();
        const std::string none = k.each("s[lane] = not_a_number<" + real + ">();");
        text += fill(R"cuda(    for (index_t g = 0; g < $regions; ++g) {
        const region r = regions[g];
        if (r.batch != $n) continue;
        if (r.grid_h < 0) {
$none        }
        if (r.grid_h <= 0 || !reaches(r.top, r.bin_h * $rows, $y) || !reaches(r.left, r.bin_w * $columns, $x)) continue;
        for (index_t row = 0; row < $rows; ++row) {
            const $real down = weight_in_bin(r.top, row, r.bin_h, r.grid_h, $y, $height);
            if (down == 0) continue;
            for (index_t column = 0; column < $columns; ++column) {
                const $real across = weight_in_bin(r.left, column, r.bin_w, r.grid_w, $x, $width);
                if (across == 0) continue;
                const $real share = down * across / ($real)(r.grid_h * r.grid_w);
$loads$take            }
        }
    }
)cuda",
                     {{"real", real},
                      {"regions", decimal(o[0])},
                      {"n", n.text},
                      {"y", y.text},
                      {"x", x.text},
                      {"rows", decimal(o[2])},
                      {"columns", decimal(o[3])},
                      {"height", decimal(s[2])},
                      {"width", decimal(s[3])},
                      {"none", none},
                      {"loads", loads},
                      {"take", take}});
    }
    k.finish(p, text, o.elements() ? std::vector<workspace_parameter>{{"const region* regions", 0}} : std::vector<workspace_parameter>());
    p.source += "}  // namespace graft\n";
    p.note = "gathered by the picture's elements";
    return nullptr;
}

inline const char* generate_max_roi_pool(const kernel_query& q, program& p) {
    const shape &s = q.in[0].extents, &o = q.out[0].extents, &rois = q.in[1].extents;
    kernel_body body;
    if (o.elements() == 0) return nullptr;
    if (const char* why = read_body(q, body, &p)) return why;
    if (const char* why = begin_regions(q, s, o, 1, p)) return why;
    const std::string real = compute_name(q.in[0].type);
    row_kernel k(q, body, all_but_channels, size_of(q.out[0].type));
    const index n = k.e.axis(k.at, 0), c = k.e.axis(k.at, 1), h = k.e.axis(k.at, 2), w = k.e.axis(k.at, 3);
    std::string corner[5], head;
    for (int i = 0; i < 5; ++i) corner[i] = k.e.value(body.inputs[1], at_axes(rois, {n, index_of(i)})).text;
    const operand v = k.e.value(
        body.inputs[0], at_axes(s, {k.e.counter("batch", s[0], level::pack), c, k.e.counter("y", s[2], level::pack), k.e.counter("x", s[3], level::pack)}));
    if (k.e.failure) return k.e.failure;
    p.source += R"cuda(// Halves away from zero.
__device__ __forceinline__ double nearest(double x) { return with_sign(floor(abs(x) + 0.5), x); }
// Where bin i of n begins or ends, kept inside of the picture.
__device__ __forceinline__ index_t bin_begin(double start, double end, index_t i, double n, double extent) {
    const double size = end - start + 1 > 1 ? end - start + 1 : 1.0;
    return (index_t)clamped<double>(floor((double)i * (size / n)) + start, extent);
}
__device__ __forceinline__ index_t bin_end(double start, double end, index_t i, double n, double extent) {
    const double size = end - start + 1 > 1 ? end - start + 1 : 1.0;
    return (index_t)clamped<double>(ceil((double)(i + 1) * (size / n)) + start, extent);
}
)cuda";
    const std::string where = graft::location(q.n), too_large = k.e.report(n.text, {errc::op_value, where, ops::region_too_large, 0, true});
    const std::string no_batch = k.e.report(n.text, {errc::op_index, where, ops::region_batch_out_of_range, s[0], true});
    const fillings names = {{"too_large", too_large},
                            {"no_batch", no_batch},
                            {"real", real},
                            {"lanes", decimal(k.lanes)},
                            {"scale", literal(dtype::float64, static_cast<double>(q.real("spatial_scale", 1)))},
                            {"images", decimal(s[0])},
                            {"of", corner[0]},
                            {"left", corner[1]},
                            {"top", corner[2]},
                            {"right", corner[3]},
                            {"bottom", corner[4]},
                            {"h", h.text},
                            {"w", w.text},
                            {"rows", decimal(o[2])},
                            {"columns", decimal(o[3])},
                            {"height", decimal(s[2])},
                            {"width", decimal(s[3])},
                            {"loads", k.e.text(level::pack)},
                            {"take", k.each("s[lane] = maximum(s[lane], " + v.text + ");")}};
    k.e.next_loop();
    const std::string text = fill(R"cuda(    const double left = nearest((double)$left * $scale);
    const double top = nearest((double)$top * $scale);
    const double right = nearest((double)$right * $scale);
    const double bottom = nearest((double)$bottom * $scale);
    const bool finite = abs(left) < 1e9 && abs(top) < 1e9 && abs(right) < 1e9 && abs(bottom) < 1e9;
    const bool taken = finite && $of >= 0 && $of < $images;
    if (!taken) {
        if (!finite) $too_large;
        else $no_batch;
    }
    const index_t batch = taken ? (index_t)$of : 0;
    const index_t y0 = taken ? bin_begin(top, bottom, $h, $rows, $height) : 0;
    const index_t y1 = taken ? bin_end(top, bottom, $h, $rows, $height) : 0;
    const index_t x0 = taken ? bin_begin(left, right, $w, $columns, $width) : 0;
    const index_t x1 = taken ? bin_end(left, right, $w, $columns, $width) : 0;
    $real s[$lanes];
)cuda",
                                  names) +
                             k.each(fill("s[lane] = !taken ? not_a_number<$real>() : y1 > y0 && x1 > x0 ? -infinity<$real>() : ($real)0;", names)) +
                             fill("    for (index_t y = y0; y < y1; ++y)\n        for (index_t x = x0; x < x1; ++x) {\n$loads$take        }\n", names);
    k.finish(p, text, {});
    p.source += "}  // namespace graft\n";
    p.note = "windows gathered by bins";
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE generated_table detection_rows() {
    static constexpr generated_row rows[] = {
        {"RoiAlign", "", detail::generate_roi_align},
        {"RoiAlignGrad", "graft", detail::generate_roi_align_grad},
        {"MaxRoiPool", "", detail::generate_max_roi_pool},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
