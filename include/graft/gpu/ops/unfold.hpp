// Kernels of Col2Im and MaxUnpool: each element gathers what windows or pooled elements put there.
#pragma once

#include "../codegen/sort.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The kernels of ops/unfold.hpp.
generated_table unfold_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/unfold.hpp"
#include "pool.hpp"
#include "scatter.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// The places of MaxUnpool count over the unpooled tensor, which the output holds in its corner.
inline const char* generate_max_unpool(const kernel_query& q, program& p) {
    const shape& x = q.in[0].extents;
    scattering s;
    kernel_body body;
    shape unpooled, out;
    if (!is_known(q, 2)) return "its output shape is computed in the graph";
    if (!ops::read_unpooled(q, unpooled, out).ok()) return "its attributes do not fit";
    const std::int64_t places = elements_of(unpooled);
    if (places < 0) return "a shape that is too large";
    if (places == 0 && x.elements()) return "there is nothing that its indices could name";
    for (std::int64_t i = 0; i < (q.in[1].data ? x.elements() : 0); ++i)
        if (ops::index_at(q.in[1], i) < 0 || ops::index_at(q.in[1], i) >= places) return out_of_range;
    if (const char* why = read_body(q, body, &p)) return why;
    s.data = -1;
    s.update = 0;
    s.k = x.rank();
    s.lead = x;
    s.to.rows = out.elements();
    if (x.elements() == 0) return generate_scattering(q, body, s, p);
    row_text to(body, x);
    const operand rest = to.e.value(body.inputs[1], walk(x, layout::row_major, to.u));
    to.inside = to.e.make(dtype::boolean, ("% >= 0 && % < " + decimal(places)).c_str(), {rest, rest});
    if (!is_known(q, 1)) to.e.demand(to.inside, rest, {errc::op_index, graft::location(q.n), ops::index_out_of_range, places});
    std::int64_t inner = 1;
    const std::vector<std::int64_t> strides = strides_of(out, layout::row_major);
    for (int d = x.rank() - 1; d >= 0; inner *= unpooled[d--])
        if (unpooled[d] > 1)
            to.sum += " + " + rest.text + " / " + decimal(inner) + " % " + decimal(unpooled[d]) + " * " + decimal(strides[static_cast<std::size_t>(d)]);
    if (to.e.failure) return to.e.failure;
    s.to = to.finish(x.elements(), s.to.rows);
    return generate_scattering(q, body, s, p);
}

// Each pixel adds up the windows that hold it.
inline const char* generate_col2im(const kernel_query& q, program& p) {
    const shape &x = q.in[0].extents, &o = q.out[0].extents;
    ops::window_grid g;
    kernel_body body;
    if (!is_known(q, 1) || !is_known(q, 2)) return "its shapes are computed in the graph";
    if (!ops::read_windows(q, g).ok()) return "its attributes do not fit";
    if (q.out[0].type == dtype::boolean) return "it adds truth values";
    if (g.image.size > 3) return "windows of more than three axes";
    if (const char* why = read_body(q, body)) return why;
    if (o.elements() == 0) return nullptr;
    if (o.elements() > most_pool_elements || x.elements() > most_pool_elements) return "more elements than a launch has blocks for";
    ops::window w;
    w.rank = g.image.size;
    for (int d = 0; d < w.rank; ++d) {
        ops::window_axis& a = w.axis[d];
        a.input = g.image[d], a.output = g.windows[d], a.kernel = g.block[d], a.stride = g.strides[d], a.dilation = g.dilations[d];
        a.pad_begin = g.pads[d], a.pad_end = g.pads[w.rank + d];
    }
    begin_program(p, largest_index(w, x, o));
    window_kernel k(q, body, w, o, q.out_layout[0], false, size_of(q.out[0].type));
    k.loop_over_windows();
    std::string window = "0";
    for (int d = 0; d < w.rank; ++d) window = "(" + window + " * " + decimal(w.axis[d].output) + " + x" + decimal(d) + ")";
    const index plane = k.e.add(k.e.multiply(k.own[1], g.kernel), k.e.counter("tap", g.kernel, level::pack));
    const operand v = k.e.value(body.inputs[0], at_axes(x, {k.own[0], plane, k.e.counter("window", x[2], level::pack)}));
    if (k.e.failure) return k.e.failure;
    const bool real = is_float(q.out[0].type);
    const std::string type = memory_name(compute_type(q.out[0].type));
    const std::string inside = "    const index_t tap = " + k.tap() + ";\n    const index_t window = " + window + ";\n" + k.e.text(level::pack) +
                               k.each(real ? "s[lane] += " + v.text + ";" : "s[lane] = wrapping_add(s[lane], " + v.text + ");");
    const std::string start = "    " + type + " s[1] = {};\n", end = k.store(0, "s[lane]");
    k.finish(p, "graft_gather", start, inside, end, {0}, {});
    return end_program(p, "gathered by the picture's elements");
}

}  // namespace detail

GRAFT_INLINE generated_table unfold_rows() {
    static constexpr generated_row rows[] = {
        {"Col2Im", "", detail::generate_col2im},
        {"MaxUnpool", "", detail::generate_max_unpool},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
