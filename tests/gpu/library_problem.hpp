// A node of the op table as the families of library kernels see it: in a device's types and layouts, with the reference's answer.
#pragma once

#include "../ops/problems.hpp"

#include <graft/gpu/runtime/handles.hpp>
#include <graft/passes/run_reference.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace library_problem {

using graft::dtype;
using graft::tensor;

inline tensor converted(const tensor& t, dtype type) {
    if (!t || !graft::is_float(t.type()) || t.type() == type) return t;
    tensor to = tensor::make(type, t.shape());
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const double v = graft::element_as_double(t.type(), t.raw(), i);
        graft::store_from_double(type, to.raw(), i, 1, &v);
    }
    return to;
}

// Numbers that every floating type holds exactly, so that types can be compared.
inline tensor numbers(dtype type, const graft::shape& s, std::uint64_t seed) {
    problems::numbers random{seed};
    tensor t = tensor::make(type, s);
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const double v = std::floor(random.uniform(-16, 17)) / 8;
        graft::store_from_double(type, t.raw(), i, 1, &v);
    }
    return t;
}

// The bytes of a tensor in a layout, and back: channels-last brings axis 1 to the end.
inline std::vector<unsigned char> laid_out(const tensor& t, graft::layout l, bool back) {
    const std::size_t size = graft::size_of(t.type());
    std::vector<unsigned char> bytes(t.bytes());
    const auto* from = reinterpret_cast<const unsigned char*>(t.raw());
    const graft::shape& s = t.shape();
    if (l == graft::layout::row_major || s.rank() < 3) {
        bytes.assign(from, from + t.bytes());
        return bytes;
    }
    const std::int64_t channels = s[1], plane = s.product(2, s.rank());
    for (std::int64_t n = 0; n < s[0]; ++n)
        for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t i = 0; i < plane; ++i) {
                const std::size_t rows = static_cast<std::size_t>((n * channels + c) * plane + i) * size,
                                  last = static_cast<std::size_t>((n * plane + i) * channels + c) * size;
                std::memcpy(bytes.data() + (back ? rows : last), from + (back ? last : rows), size);
            }
    return bytes;
}

struct problem {
    graft::node n;
    std::vector<tensor> inputs;  // row-major, in the device's types
    std::vector<tensor> wanted;  // row-major, float64 where the result is a float
    dtype result = dtype::undefined;
    graft::layout in_layout[8] = {}, out_layout[2] = {};
    std::string error;
};

// Computes what is wanted by a row's reference kernel, in double.
inline void answer(problem& p, const graft::op_row& row) {
    graft::node n = p.n;
    n.op = &row;
    n.version = row.domain[0] ? 1 : graft::newest_opset;
    std::vector<tensor> wide;
    std::vector<graft::tensor_view> in;
    for (const tensor& t : p.inputs) wide.push_back(converted(t, dtype::float64));
    for (const tensor& t : wide) in.push_back(t ? graft::view(t) : graft::tensor_view{});
    const graft::limits limit;
    graft::executor serial;
    const graft::status s = graft::run_reference(n, in.data(), static_cast<int>(in.size()), p.wanted, {limit, serial, nullptr, 0});
    if (!s.ok()) p.error = s.error().what();
}

// One of a row's test problems with all floats in `type`, images and weights in `l`.
inline problem of(const graft::op_row& row, const std::string& text, dtype type, graft::layout l) {
    problem p;
    problems::problem read = problems::read(row, text);
    p.error = read.error;
    p.n = read.g.nodes[0];
    p.n.version = row.domain[0] ? 1 : graft::newest_opset;
    std::size_t next = 0;
    for (const graft::value_id id : p.n.inputs) {
        tensor t;
        if (id != graft::no_value) {
            const tensor& constant = read.g.at(id).constant;
            t = constant ? constant : numbers(read.inputs[next].type(), read.inputs[next].shape(), next + 1);
            if (!constant) ++next;
        }
        p.inputs.push_back(converted(t, type));
    }
    p.result = type;
    std::fill(std::begin(p.in_layout), std::end(p.in_layout), l);
    std::fill(std::begin(p.out_layout), std::end(p.out_layout), l);
    if (p.error.empty()) answer(p, row);
    return p;
}

// The views that a query points to.
struct asked {
    graft::limits limit;
    std::vector<graft::tensor_view> in, out;
    graft::gpu::kernel_query query;

    asked(const problem& p, const graft::gpu::device_traits& device, graft::gpu::kernel_options options)
        : in(views(p)), out(results(p)), query{{p.n, in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()), limit},
                                               p.in_layout,
                                               p.out_layout,
                                               device,
                                               options} {}

    static std::vector<graft::tensor_view> views(const problem& p) {
        std::vector<graft::tensor_view> v;
        for (const tensor& t : p.inputs) v.push_back(t ? graft::tensor_view{t.type(), t.shape(), nullptr} : graft::tensor_view{});
        return v;
    }
    static std::vector<graft::tensor_view> results(const problem& p) {
        std::vector<graft::tensor_view> v;
        for (const tensor& t : p.wanted) v.push_back({graft::is_float(t.type()) ? p.result : t.type(), t.shape(), nullptr});
        return v;
    }
};

// Largest difference over the range of what is wanted.
inline double difference(const tensor& got, const tensor& want) {
    if (got.shape() != want.shape()) return HUGE_VAL;
    double worst = 0, largest = 1;
    for (std::int64_t i = 0; i < want.elements(); ++i) {
        const double w = graft::element_as_double(want.type(), want.raw(), i), g = graft::element_as_double(got.type(), got.raw(), i);
        if (!(std::fabs(g - w) <= 1e30)) return HUGE_VAL;
        largest = std::max(largest, std::fabs(w)), worst = std::max(worst, std::fabs(g - w));
    }
    return worst / largest;
}

}  // namespace library_problem
