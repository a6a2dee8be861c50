// Operators of detectors: NonMaxSuppression, RoiAlign with its gradient, MaxRoiPool.
#pragma once

#include "gradient_common.hpp"
#include "selection.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

struct box_corners {
    float x0, y0, x1, y1;
};
inline box_corners corners(const float* b, bool centred) noexcept {
    if (centred) return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
    return {b[1] < b[3] ? b[1] : b[3], b[0] < b[2] ? b[0] : b[2], b[1] < b[3] ? b[3] : b[1], b[0] < b[2] ? b[2] : b[0]};
}

// Whether intersection over union is above the threshold; in float, so that boxes at the threshold fall as elsewhere.
inline bool overlap(const float* a, const float* b, bool centred, float threshold) noexcept {
    const box_corners p = corners(a, centred), q = corners(b, centred);
    const float width = (p.x1 < q.x1 ? p.x1 : q.x1) - (p.x0 > q.x0 ? p.x0 : q.x0), height = (p.y1 < q.y1 ? p.y1 : q.y1) - (p.y0 > q.y0 ? p.y0 : q.y0);
    if (!(width > 0) || !(height > 0)) return false;
    const float both = width * height, area_p = (p.x1 - p.x0) * (p.y1 - p.y0), area_q = (q.x1 - q.x0) * (q.y1 - q.y0), all = area_p + area_q - both;
    return both > 0 && area_p > 0 && area_q > 0 && all > 0 && both / all > threshold;
}

// NonMaxSuppression-10,11: for each batch and class, boxes in the order of their scores that overlap none chosen before.
inline status non_max_suppression_infer(infer_context& c) {
    for (int i = 0; i < c.inputs; ++i) {
        if (!c.has(i)) continue;
        if (c.in[i].type != (i == 2 ? dtype::int64 : dtype::float32))
            return c.fail(errc::op_type, i == 2 ? "input %lld must be int64" : "input %lld must be float", i);
        if (i >= 2 && elements_of(c.in[i].extents) > 1) return c.fail(errc::op_shape, "input %lld must be a scalar", i);
    }
    const shape &boxes = c.in[0].extents, &scores = c.in[1].extents;
    if (boxes.rank() != 3 || boxes[2] != 4 || scores.rank() != 3 || scores[0] != boxes[0] || scores[2] != boxes[1])
        return c.fail_shapes("boxes must be [batches, boxes, 4] and scores [batches, classes, boxes]");
    const std::int64_t centred = c.integer("center_point_box", 0);
    if (centred != 0 && centred != 1) return c.fail(errc::op_attribute, "center_point_box is %lld", centred);
    GRAFT_TRY(c.set(0, dtype::int64, shape{shape::unknown, 3}));
    return c.defer();
}
inline status non_max_suppression_run(run_context& c) {
    const std::int64_t batches = c.in[0].extents[0], boxes = c.in[0].extents[1], classes = c.in[1].extents[1];
    const bool centred = c.integer("center_point_box", 0) != 0, filtered = c.has(4) && c.in[4].elements();
    std::int64_t most = c.has(2) && c.in[2].elements() ? c.in[2].integer(0) : 0;
    most = most < 0 ? 0 : most > boxes ? boxes : most;
    const float iou = c.has(3) && c.in[3].elements() ? *c.in[3].as<float>() : 0, lowest = filtered ? *c.in[4].as<float>() : 0;
    if (!(iou >= 0 && iou <= 1)) return c.fail(errc::op_value, "the iou_threshold is outside [0, 1]");
    buffer order_memory, chosen_memory;
    GRAFT_TRY_ASSIGN(order_memory, c.scratch(checked_mul(boxes, 16)));
    GRAFT_TRY_ASSIGN(chosen_memory, c.scratch(checked_mul(checked_mul(batches, classes), checked_mul(most, 8))));
    std::int64_t *keys = reinterpret_cast<std::int64_t*>(order_memory.data()), *numbers = keys + boxes;
    std::int64_t *chosen = reinterpret_cast<std::int64_t*>(chosen_memory.data()), total = 0;
    buffer counts_memory;
    GRAFT_TRY_ASSIGN(counts_memory, c.scratch(checked_mul(checked_mul(batches, classes), 8)));
    std::int64_t* counts = reinterpret_cast<std::int64_t*>(counts_memory.data());
    for (std::int64_t g = 0; most && g < batches * classes; ++g) {
        const float *scores = c.in[1].as<float>() + g * boxes, *corner = c.in[0].as<float>() + g / classes * boxes * 4;
        ordering_keys(dtype::float32, scores, 0, boxes, keys);
        for (std::int64_t i = 0; i < boxes; ++i)
            if (keys[i] == INT64_MAX) keys[i] = INT64_MIN;  // NaN scores come last
        sort_rows(numbers, boxes, row_order{keys, 1, true});
        std::int64_t count = 0, *mine = chosen + total;
        for (std::int64_t i = 0; i < boxes && count < most; ++i) {
            const std::int64_t box = numbers[i];
            bool kept = !filtered || scores[box] > lowest;
            for (std::int64_t j = 0; kept && j < count; ++j) kept = !overlap(corner + box * 4, corner + mine[j] * 4, centred, iou);
            if (kept) mine[count++] = box;
        }
        counts[g] = count;
        total += count;
    }
    GRAFT_TRY(c.allocate(0, dtype::int64, shape{total, 3}));
    std::int64_t* to = c.out[0].as<std::int64_t>();
    for (std::int64_t g = 0; most && g < batches * classes; ++g)
        for (std::int64_t i = 0; i < counts[g]; ++i, to += 3) to[0] = g / classes, to[1] = g % classes, to[2] = *chosen++;
    return {};
}

// RoiAlign-10,16,22: regions (x0, y0, x1, y1) cut into bins, each the average (or maximum) of bilinear samples on a regular grid.
inline status roi_align_infer(infer_context& c) {
    static constexpr const char* modes[] = {"avg", "max", nullptr};
    static constexpr const char* coordinates[] = {"half_pixel", "output_half_pixel", nullptr};
    int chosen = 0;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 0, 1));
    GRAFT_TRY(check_index_type(c, 2, false));
    GRAFT_TRY(choose(c, "mode", "avg", modes, chosen));
    GRAFT_TRY(choose(c, "coordinate_transformation_mode", "half_pixel", coordinates, chosen));
    const shape &s = c.in[0].extents, &rois = c.in[1].extents, &batch = c.in[2].extents;
    const std::int64_t height = c.integer("output_height", 1), width = c.integer("output_width", 1), samples = c.integer("sampling_ratio", 0);
    if (height < 1 || width < 1 || samples < 0) return c.fail(errc::op_attribute, "output %lld x %lld with sampling_ratio %lld", height, width, samples);
    if (s.rank() != 4 || rois.rank() != 2 || rois[1] != 4 || batch.rank() != 1 || batch[0] != rois[0])
        return c.fail_shapes("the inputs must be [N, C, H, W], [regions, 4] and [regions]");
    return c.set(0, c.in[0].type, shape{rois[0], s[1], height, width});
}

/// A bilinear sample: four places in a plane and their weights.
struct bilinear {
    std::int64_t at[4];
    double weight[4];
    bool inside;
};
inline bilinear sample_plane(double y, double x, std::int64_t height, std::int64_t width) noexcept {
    bilinear b = {{0, 0, 0, 0}, {0, 0, 0, 0}, y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width)};
    if (!b.inside) return b;
    y = y > 0 ? y : 0;
    x = x > 0 ? x : 0;
    std::int64_t y0 = static_cast<std::int64_t>(y), x0 = static_cast<std::int64_t>(x), y1 = y0 + 1, x1 = x0 + 1;
    if (y0 >= height - 1) y0 = y1 = height - 1, y = static_cast<double>(y0);
    if (x0 >= width - 1) x0 = x1 = width - 1, x = static_cast<double>(x0);
    const double v = y - static_cast<double>(y0), u = x - static_cast<double>(x0);
    return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1}, {(1 - v) * (1 - u), (1 - v) * u, v * (1 - u), v * u}, true};
}

/// A region cut into bins, and the grid of samples in each.
struct region_grid {
    std::int64_t batch = 0, grid_h = 0, grid_w = 0, area = 0, columns = 1;
    double top = 0, left = 0, bin_h = 0, bin_w = 0;

    /// Sample i of a bin.
    bilinear sample(std::int64_t bin, std::int64_t i, std::int64_t height, std::int64_t width) const noexcept {
        const double y = top + static_cast<double>(bin / columns) * bin_h, x = left + static_cast<double>(bin % columns) * bin_w;
        return sample_plane(y + (static_cast<double>(i / grid_w) + 0.5) * bin_h / static_cast<double>(grid_h),
                            x + (static_cast<double>(i % grid_w) + 0.5) * bin_w / static_cast<double>(grid_w), height, width);
    }
};
constexpr const char *batch_out_of_range = "batch index %lld is out of range for %lld",
                     *region_batch_out_of_range = "the batch index of region %lld is out of range for %lld",
                     *region_too_large = "region %lld is not finite or too large";
/// Reads region n; `images` are [N, C, H, W], `bins` [regions, C, h, w]. Takes its samples off the budget.
inline status read_region(const op_context& c, const shape& images, const shape& bins, bool half, std::int64_t n, std::int64_t& budget, region_grid& r) {
    const double scale = static_cast<double>(c.real("spatial_scale", 1)), offset = half ? 0.5 : 0;
    const std::int64_t ratio = c.integer("sampling_ratio", 0);
    r.batch = index_at(c.in[2], n);
    if (r.batch < 0 || r.batch >= images[0]) return c.fail(errc::op_index, batch_out_of_range, r.batch, images[0]);
    double roi[4];
    load_as_double(c.in[1].type, c.in[1].data, n * 4, 4, roi);
    for (double& v : roi) v = v * scale - offset;
    double width = roi[2] - roi[0], height = roi[3] - roi[1];
    if (!half) width = width > 1 ? width : 1, height = height > 1 ? height : 1;
    r.left = roi[0], r.top = roi[1], r.columns = bins[3];
    r.bin_h = height / static_cast<double>(bins[2]), r.bin_w = width / static_cast<double>(bins[3]);
    if (!(std::fabs(r.bin_h) < 1e9) || !(std::fabs(r.bin_w) < 1e9)) return c.fail(errc::op_value, region_too_large, n);
    r.grid_h = ratio ? ratio : static_cast<std::int64_t>(std::ceil(r.bin_h)), r.grid_w = ratio ? ratio : static_cast<std::int64_t>(std::ceil(r.bin_w));
    r.area = r.grid_h > 0 && r.grid_w > 0 ? checked_mul(r.grid_h, r.grid_w) : 0;
    const std::int64_t work = checked_mul(r.area, checked_mul(images[1], bins[2] * bins[3]));
    if (r.area < 0 || work < 0 || work > budget) return c.fail(errc::op_limit, "region %lld would take %lld x %lld samples a bin", n, r.grid_h, r.grid_w);
    budget -= work;
    return {};
}
inline bool regions_start_half(const op_context& c, int version) noexcept {
    return version >= 16 && c.is("coordinate_transformation_mode", "half_pixel", "half_pixel");
}

inline status roi_align_run(run_context& c) {
    const shape &s = c.in[0].extents, &o = c.out[0].extents;
    if (o.elements() == 0) return {};
    if (s[2] == 0 || s[3] == 0) return c.fail_shapes("there is nothing to sample");
    const bool half = regions_start_half(c, c.version()), average = c.is("mode", "avg", "avg");
    const std::int64_t channels = s[1], plane = s[2] * s[3];
    std::int64_t budget = checked_mul(c.limit.loop_iterations, 32);
    buffer memory;
    GRAFT_TRY_ASSIGN(memory, c.scratch(checked_mul(channels, 8)));
    double* sums = reinterpret_cast<double*>(memory.data());
    for (std::int64_t n = 0; n < o[0]; ++n) {
        region_grid r;
        GRAFT_TRY(read_region(c, s, o, half, n, budget, r));
        for (std::int64_t bin = 0; bin < o[2] * o[3]; ++bin) {
            for (std::int64_t k = 0; k < channels; ++k) sums[k] = 0;
            for (std::int64_t i = 0; i < r.area; ++i) {
                const bilinear b = r.sample(bin, i, s[2], s[3]);
                for (std::int64_t k = 0; k < channels; ++k) {
                    double value = average ? 0 : -HUGE_VAL;
                    for (int q = 0; q < 4; ++q) {
                        const double v = b.weight[q] * c.in[0].real((r.batch * channels + k) * plane + b.at[q]);
                        value = average ? value + v : v > value ? v : value;
                    }
                    if (!b.inside) value = 0;
                    sums[k] = average ? sums[k] + value : i == 0 || value > sums[k] ? value : sums[k];
                }
            }
            for (std::int64_t k = 0; k < channels; ++k) {
                const double value = average && r.area ? sums[k] / static_cast<double>(r.area) : sums[k];
                store_from_double(c.out[0].type, c.out[0].data, (n * channels + k) * o[2] * o[3] + bin, 1, &value);
            }
        }
    }
    return {};
}

// graft.RoiAlignGrad(dY, regions, batch indices): every sample of a bin gives its share of dY to the four places that it was made of.
// Regions get no gradient, as in torchvision.
inline status roi_align_grad_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 0, 1));
    GRAFT_TRY(check_index_type(c, 2, false));
    const shape &dy = c.in[0].extents, &rois = c.in[1].extents, &batch = c.in[2].extents;
    const integer_list list = c.integers("shape");
    const shape x = shape::from(list.begin(), list.end());
    if (x.rank() != 4 || elements_of(x) < 0) return c.fail(errc::op_attribute, "shape must be that of pictures, [N, C, H, W]");
    if (c.integer("sampling_ratio", 0) < 0) return c.fail(errc::op_attribute, "sampling_ratio %lld", c.integer("sampling_ratio", 0));
    if (dy.rank() != 4 || rois.rank() != 2 || rois[1] != 4 || batch.rank() != 1 || batch[0] != rois[0] || dy[0] != rois[0] || dy[1] != x[1])
        return c.fail_shapes("the inputs must be [regions, C, h, w], [regions, 4] and [regions]");
    return c.set(0, c.in[0].type, x);
}
inline status roi_align_grad_run(run_context& c) {
    const shape &s = c.out[0].extents, &o = c.in[0].extents;
    const std::int64_t elements = s.elements(), channels = s[1], plane = s[2] * s[3];
    if (elements == 0) return {};
    std::int64_t budget = checked_mul(c.limit.loop_iterations, 32);
    buffer memory;
    GRAFT_TRY_ASSIGN(memory, c.scratch(checked_mul(elements, 8)));
    double* dx = reinterpret_cast<double*>(memory.data());
    std::fill(dx, dx + elements, 0.0);
    for (std::int64_t n = 0; o.elements() && n < o[0]; ++n) {
        region_grid r;
        GRAFT_TRY(read_region(c, s, o, regions_start_half(c, 16), n, budget, r));
        for (std::int64_t bin = 0; bin < o[2] * o[3]; ++bin)
            for (std::int64_t i = 0; i < r.area; ++i) {
                const bilinear b = r.sample(bin, i, s[2], s[3]);
                for (std::int64_t k = 0; b.inside && k < channels; ++k) {
                    const double share = c.in[0].real((n * channels + k) * o[2] * o[3] + bin) / static_cast<double>(r.area);
                    for (int q = 0; q < 4; ++q) dx[(r.batch * channels + k) * plane + b.at[q]] += b.weight[q] * share;
                }
            }
    }
    store_from_double(c.out[0].type, c.out[0].data, 0, elements, dx);
    return {};
}
inline status roi_align_gradient(gradient_context& c) {
    if (!c.wants(0)) return {};
    if (const attribute* mode = c.n.find("mode"))
        if (mode->string != "avg") return c.refuse("only its mode avg has a gradient: freeze what lies before it");
    std::vector<attribute> attributes;
    for (const char* name : {"sampling_ratio", "spatial_scale"}) c.copy_attribute(name, attributes);
    const attribute* coordinates = c.n.find("coordinate_transformation_mode");
    attributes.push_back(string_attribute("coordinate_transformation_mode", c.n.version < 16 ? "output_half_pixel"
                                                                            : coordinates    ? coordinates->string
                                                                                             : "half_pixel"));
    const shape x = c.extents(c.in(0));
    attributes.push_back(integers_attribute("shape", std::vector<std::int64_t>(x.begin(), x.end())));
    c.give(0, c.build.apply_graft("RoiAlignGrad", {c.dy(), c.in(1), c.in(2)}, std::move(attributes)));
    return {};
}

// MaxRoiPool-1,22: regions (batch, x0, y0, x1, y1), rounded to pixels, cut into bins; each the maximum inside, 0 where empty.
inline status max_roi_pool_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 0, 1));
    const shape &s = c.in[0].extents, &rois = c.in[1].extents;
    const integer_list pooled = c.integers("pooled_shape");
    if (pooled.size != 2 || pooled[0] < 1 || pooled[1] < 1) return c.fail(errc::op_attribute, "pooled_shape must be two positive extents");
    if (s.rank() != 4 || rois.rank() != 2 || rois[1] != 5) return c.fail_shapes("the inputs must be [N, C, H, W] and [regions, 5]");
    return c.set(0, c.in[0].type, shape{rois[0], s[1], pooled[0], pooled[1]});
}

/// Pixels [first, last) of bin i of n over the region [start, end], kept inside `extent`.
inline void roi_bin(double start, double end, std::int64_t i, std::int64_t n, std::int64_t extent, std::int64_t& first, std::int64_t& last) noexcept {
    const double size = end - start + 1 > 1 ? end - start + 1 : 1, step = size / static_cast<double>(n), high = static_cast<double>(extent);
    const double low = std::floor(static_cast<double>(i) * step) + start, top = std::ceil(static_cast<double>(i + 1) * step) + start;
    first = static_cast<std::int64_t>(low > 0 ? (low < high ? low : high) : 0);
    last = static_cast<std::int64_t>(top > 0 ? (top < high ? top : high) : 0);
}
inline status max_roi_pool_run(run_context& c) {
    const shape &s = c.in[0].extents, &o = c.out[0].extents;
    const double scale = static_cast<double>(c.real("spatial_scale", 1));
    for (std::int64_t n = 0; n < o[0]; ++n) {
        double roi[5];
        load_as_double(c.in[1].type, c.in[1].data, n * 5, 5, roi);
        for (int i = 1; i < 5; ++i) {
            roi[i] = std::round(roi[i] * scale);
            if (!(std::fabs(roi[i]) < 1e9)) return c.fail(errc::op_value, region_too_large, n);
        }
        if (!(roi[0] >= 0 && roi[0] < static_cast<double>(s[0]))) return c.fail(errc::op_index, region_batch_out_of_range, n, s[0]);
        const std::int64_t batch = static_cast<std::int64_t>(roi[0]);
        for (std::int64_t k = 0; k < s[1]; ++k)
            for (std::int64_t bin = 0; bin < o[2] * o[3]; ++bin) {
                std::int64_t y0, y1, x0, x1;
                roi_bin(roi[2], roi[4], bin / o[3], o[2], s[2], y0, y1);
                roi_bin(roi[1], roi[3], bin % o[3], o[3], s[3], x0, x1);
                double most = y1 > y0 && x1 > x0 ? -HUGE_VAL : 0;
                for (std::int64_t y = y0; y < y1; ++y)
                    for (std::int64_t x = x0; x < x1; ++x) {
                        const double v = c.in[0].real(((batch * s[1] + k) * s[2] + y) * s[3] + x);
                        most = v > most || v != v ? v : most;
                    }
                store_from_double(c.out[0].type, c.out[0].data, (n * s[1] + k) * o[2] * o[3] + bin, 1, &most);
            }
    }
    return {};
}

inline gradient_table detection_gradients() {
    static constexpr gradient_row rows[] = {{"NonMaxSuppression", "", nullptr}, {"RoiAlign", "", roi_align_gradient}};
    return rows;
}
inline op_table detection_training_ops() {
    static constexpr op_row rows[] = {
        own("RoiAlignGrad")
            .inputs(3)
            .functions(roi_align_grad_infer, roi_align_grad_run)
            .exact_inputs(1)
            .checks(0, 1, 2)
            .attributes("coordinate_transformation_mode:s sampling_ratio:i shape:is spatial_scale:f")
            .problems("f32[3,2,2,3] f32[3,4]~0:6 i64{0,0,0} shape=1,2,6,7 sampling_ratio=2; f32[2,1,1,1] f32[2,4]~0:5 i64{1,0} shape=2,1,5,5 "
                      "coordinate_transformation_mode=output_half_pixel; "
                      "f64[0,1,1,1] f64[0,4] i64[0] shape=1,1,4,4"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline op_table detection_ops() {
    static constexpr op_row rows[] = {
        onnx("NonMaxSuppression")
            .opsets(10)
            .inputs(2, 5)
            .functions(non_max_suppression_infer, non_max_suppression_run)
            .allocates()
            .combines()
            .attributes("center_point_box:i")
            .problems("f32[1,7,4]~0:1 f32[1,2,7] i64{3} f32{0.5} f32{0.1}; f32[2,4,4]~0:1 f32[2,1,4] i64(4) f32(0.3); f32[1,5,4]~0:1 "
                      "f32[1,1,5] i64{5} - - center_point_box=1; "
                      "f32[1,3,4] f32[1,1,3]; f32[1,0,4] f32[1,2,0] i64{2}"),
        onnx("RoiAlign")
            .opsets(10, 15)
            .inputs(3)
            .functions(roi_align_infer, roi_align_run)
            .combines()
            .exact_inputs(1)
            .checks(0, 1, 2)
            .attributes("coordinate_transformation_mode:s mode:s output_height:i output_width:i sampling_ratio:i spatial_scale:f")
            .problems("f32[1,1,4,4] f32[1,4] i64{0} @10"),
        onnx("RoiAlign")
            .opsets(16)
            .inputs(3)
            .functions(roi_align_infer, roi_align_run)
            .combines()
            .exact_inputs(1)
            .checks(0, 1, 2)
            .attributes("coordinate_transformation_mode:s mode:s output_height:i output_width:i sampling_ratio:i spatial_scale:f")
            .problems("f32[1,2,6,7] f32[3,4]~0:6 i64{0,0,0} output_height=2 output_width=3 sampling_ratio=2; "
                      "f32[2,1,5,5] f32[2,4]~0:5 i64{1,0} mode=max coordinate_transformation_mode=output_half_pixel; f32[1,1,4,4] "
                      "f32[0,4] i64[0]"),
        onnx("MaxRoiPool")
            .inputs(2)
            .functions(max_roi_pool_infer, max_roi_pool_run)
            .combines()
            .exact_inputs(1)
            .checks(0, 1)
            .attributes("pooled_shape:is spatial_scale:f")
            .problems("f32[1,2,6,7] f32[2,5]~0:0.9 pooled_shape=2,3 spatial_scale=6; f32[1,1,3,3] f32[0,5] pooled_shape=1,1"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
