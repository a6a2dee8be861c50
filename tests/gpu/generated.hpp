// Nodes for generated kernels and how they are run: on the host, by the CUDA simulator's runner, against the reference kernels.
#pragma once

#include "../cuda_simulator/kernel_runner.hpp"
#include "../difference.hpp"
#include "../ops/problems.hpp"

#include <graft/gpu/codegen/prelude.hpp>
#include <graft/gpu/lower/decompose.hpp>
#include <graft/gpu/ops/ops.hpp>
#include <graft/passes/run_reference.hpp>
#include <graft/train.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace generated {

using graft::tensor;
using graft::layout;

inline std::size_t at(graft::value_id id) { return static_cast<std::size_t>(id); }

/// A node with what it is to compute.
struct example {
    std::string name;
    graft::node n;
    std::vector<tensor> in, want;  ///< empty tensors: left out
    std::vector<bool> constant;    ///< by input: whether the generator sees its contents
    std::vector<layout> in_layout, out_layout;
    double near = 0;      ///< allowed difference over the range of what is wanted; 0: by the type
    bool faulty = false;  ///< the kernels are to report a fault
    graft::gpu::program made;
    const char* refused = nullptr;
    bool decomposed = false;  // nodes are made of it
};

/// Runs a node by its reference kernel; what it says where it cannot.
inline std::string reference(example& x) {
    const graft::limits limit;
    graft::executor serial;
    std::vector<graft::tensor_view> in;
    for (const tensor& t : x.in) in.push_back(t ? graft::view(t) : graft::tensor_view{});
    const graft::status s = graft::run_reference(x.n, in.data(), static_cast<int>(in.size()), x.want, {limit, serial, nullptr, 7});
    return s.ok() ? std::string() : s.error().what();
}

/// Asks for the kernels of an example on a device of so many multiprocessors (0: wide packs for the smallest tensor).
inline void generate(example& x, int multiprocessors) {
    const graft::limits limit;
    graft::gpu::device_traits on;
    on.multiprocessors = multiprocessors;
    std::vector<graft::tensor_view> in, out;
    for (std::size_t i = 0; i < x.in.size(); ++i)
        in.push_back(x.in[i] ? graft::tensor_view{x.in[i].type(), x.in[i].shape(), x.constant[i] ? x.in[i].raw() : nullptr} : graft::tensor_view{});
    for (const tensor& t : x.want) out.push_back(t ? graft::tensor_view{t.type(), t.shape(), nullptr} : graft::tensor_view{});
    const graft::op_context c{x.n, in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()), limit};
    const graft::gpu::generated_row row = graft::gpu::find_generated(x.n.op_type.c_str(), x.n.domain.c_str());
    x.made = {};
    x.decomposed = graft::gpu::find_decomposition(c) != nullptr;
    x.refused = row.generate ? row.generate({c, x.in_layout.data(), x.out_layout.data(), on, {}}, x.made) : "no row";
}

/// The text of a program with its entry points renamed and its other names in a namespace, so that many can be compiled at once.
inline std::string renamed(const graft::gpu::program& p, const std::string& prefix) {
    std::string text = p.source;
    std::set<std::string> entries;  // one may be launched several times
    for (const graft::gpu::launch& l : p.launches) entries.insert(l.entry);
    for (const std::string& entry : entries)
        for (std::size_t i = text.find(" " + entry + "("); i != std::string::npos; i = text.find(" " + entry + "(", i + prefix.size() + entry.size()))
            text.insert(i + 1, prefix);
    const std::string open = "namespace graft {\n";
    if (text.compare(0, open.size(), open) != 0) return text;
    text = "namespace graft { namespace " + prefix + " {\n" + text.substr(open.size()) + "}\n";
    for (const std::string& entry : entries) text += "using graft::" + prefix + "::" + prefix + entry + ";\n";
    return text;
}

/// A tensor on the simulated device: in a layout, with guards around it.
class device_tensor {
public:
    device_tensor(graft::dtype type, const graft::shape& extents, layout order)
        : type_(type), extents_(extents), order_(order), bytes_(static_cast<std::size_t>(graft::bytes_of(type, extents))), memory_(bytes_ + 2 * guard, 0xa5) {
        start_ = memory_.data() + guard;
        start_ += (16 - reinterpret_cast<std::uintptr_t>(start_) % 16) % 16;
    }
    void put(const tensor& t) { copy(reinterpret_cast<unsigned char*>(const_cast<std::byte*>(t.raw())), true); }
    tensor get() const {
        tensor t = tensor::make(type_, extents_);
        const_cast<device_tensor*>(this)->copy(reinterpret_cast<unsigned char*>(t.raw()), false);
        return t;
    }
    void* address() { return start_; }
    bool guards_are_whole() const {
        for (const unsigned char* p = memory_.data(); p < memory_.data() + memory_.size(); ++p)
            if ((p < start_ || p >= start_ + bytes_) && *p != 0xa5) return false;
        return true;
    }

private:
    static constexpr std::size_t guard = 64;
    // Element by element between row-major order and this one's.
    void copy(unsigned char* plain, bool in) {
        const std::size_t size = graft::size_of(type_);
        const std::vector<std::int64_t> strides = graft::gpu::strides_of(extents_, order_);
        std::int64_t index[graft::shape::max_rank] = {};
        for (std::int64_t i = 0, n = extents_.elements(); i < n; ++i) {
            std::int64_t offset = 0;
            for (int d = 0; d < extents_.rank(); ++d) offset += index[d] * strides[static_cast<std::size_t>(d)];
            unsigned char *a = start_ + static_cast<std::size_t>(offset) * size, *b = plain + static_cast<std::size_t>(i) * size;
            std::memcpy(in ? a : b, in ? b : a, size);
            for (int d = extents_.rank() - 1; d >= 0 && ++index[d] == extents_[d]; --d) index[d] = 0;
        }
    }
    graft::dtype type_;
    graft::shape extents_;
    layout order_;
    std::size_t bytes_;
    std::vector<unsigned char> memory_;
    unsigned char* start_;
};

/// How near results of a type have to be.
inline double nearness(graft::dtype type) {
    switch (type) {
    case graft::dtype::float32: return 2e-5;
    case graft::dtype::float16: return 1.0 / 1024;
    case graft::dtype::bfloat16: return 1.0 / 128;
    case graft::dtype::float64: return 1e-7;  // what goes through a table of float32 attributes
    default: return 0;
    }
}

/// Runs what was generated, from a text that holds it under `prefix`; gives what is wrong, or nothing. In place: output 0 lies where
/// input 0 lies. `got`: takes the outputs.
inline std::string run(const example& x, const std::shared_ptr<graft_simulator::kernel_module>& module, const std::string& prefix, bool in_place,
                       std::vector<tensor>* got = nullptr) {
    std::vector<device_tensor> in, out;
    std::vector<unsigned char> workspace(static_cast<std::size_t>(x.made.workspace_bytes) + 256);
    for (std::size_t i = 0; i < x.in.size(); ++i) {
        in.emplace_back(x.in[i] ? x.in[i].type() : graft::dtype::uint8, x.in[i] ? x.in[i].shape() : graft::shape{0}, x.in_layout[i]);
        if (x.in[i]) in.back().put(x.in[i]);
    }
    for (std::size_t i = 0; i < x.want.size(); ++i)
        out.emplace_back(x.want[i] ? x.want[i].type() : graft::dtype::uint8, x.want[i] ? x.want[i].shape() : graft::shape{0}, x.out_layout[i]);
    if (in_place) std::memcpy(out[0].address(), in[0].address(), static_cast<std::size_t>(graft::bytes_of(x.in[0].type(), x.in[0].shape())));
    std::vector<unsigned long long> faults(x.made.faults.size() + 1);
    for (const graft::gpu::launch& l : x.made.launches) {
        if (l.arguments.size() > graft::gpu::most_arguments) return x.name + ": a launch takes " + std::to_string(l.arguments.size()) + " addresses";
        std::vector<void*> addresses;
        for (const graft::gpu::argument& a : l.arguments) {
            const auto k = static_cast<std::size_t>(a.index);
            const bool over = in_place && k == 0;
            addresses.push_back(a.kind == graft::gpu::argument::from::number           ? reinterpret_cast<void*>(k)
                                : a.kind == graft::gpu::argument::from::workspace      ? static_cast<void*>(workspace.data() + k)
                                : a.kind == graft::gpu::argument::from::faults         ? faults.data() + 1
                                : a.kind == graft::gpu::argument::from::fault_seen     ? faults.data()
                                : a.kind == graft::gpu::argument::from::input && !over ? in[k].address()
                                                                                       : out[k].address());
        }
        std::vector<void*> parameters;
        if (l.table) addresses.resize(graft::gpu::most_arguments);
        for (void*& address : addresses) parameters.push_back(&address);
        const graft_simulator::outcome o =
            graft_simulator::launch(graft_simulator::find(module, prefix + l.entry), l.grid, l.block, l.shared_bytes, parameters.data());
        if (o.kind != graft_simulator::outcome::done) return x.name + ": " + o.message;
    }
    if ((faults[0] != 0) != x.faulty) return x.name + (x.faulty ? ": reports no fault" : ": reports a fault");
    for (std::size_t i = 0; i < x.in.size(); ++i)
        if (!in[i].guards_are_whole()) return x.name + ": wrote beside input " + std::to_string(i);
    for (std::size_t i = 0; i < x.want.size(); ++i) {
        if (!x.want[i]) continue;
        if (!out[i].guards_are_whole()) return x.name + ": wrote beside output " + std::to_string(i);
        if (got) got->push_back(out[i].get());
        if (!x.want[i].elements()) continue;
        const double d = difference(out[i].get(), x.want[i]);
        if (!(d <= (x.near > 0 ? x.near : nearness(x.want[i].type()))))
            return x.name + ": output " + std::to_string(i) + " is off by " + std::to_string(d) + "\n" + x.made.source;
    }
    return {};
}

/// The outputs of one that was generated.
inline std::vector<tensor> answers(const example& x) {
    const graft_simulator::compiled c = graft_simulator::compile(graft::gpu::prelude() + renamed(x.made, "e_"));
    REQUIRE_MESSAGE(c.ok, c.log);
    std::string why;
    std::vector<tensor> got;
    const std::string error = run(x, graft_simulator::load(c.path, why), "e_", false, &got);
    REQUIRE_MESSAGE(error.empty(), error);
    return got;
}

/// Compiles and runs all that were generated, many at a time; gives what went wrong.
inline std::vector<std::string> run_all(const std::vector<example>& examples, std::size_t at_once = 60) {
    std::vector<std::string> wrong;
    for (std::size_t first = 0; first < examples.size(); first += at_once) {
        const std::size_t last = std::min(examples.size(), first + at_once);
        std::string source = graft::gpu::prelude();
        for (std::size_t i = first; i < last; ++i) source += renamed(examples[i].made, "e" + std::to_string(i) + "_");
        const graft_simulator::compiled c = graft_simulator::compile(source);
        std::string why;
        const auto module = c.ok ? graft_simulator::load(c.path, why) : nullptr;
        if (!module) {
            wrong.push_back("does not compile: " + c.log.substr(0, 4000) + why);
            continue;
        }
        for (std::size_t i = first; i < last; ++i) {
            const std::string error = run(examples[i], module, "e" + std::to_string(i) + "_", false);
            if (!error.empty()) wrong.push_back(error);
            if (!examples[i].made.in_place) continue;
            const std::string over = run(examples[i], module, "e" + std::to_string(i) + "_", true);
            if (!over.empty()) wrong.push_back("in place: " + over);
        }
    }
    return wrong;
}

// ---- from the op table ----

/// The inputs of a problem in another floating type: all that are float32, or those only whose contents are not part of the problem.
inline void retype(example& x, graft::dtype type, bool constants_too) {
    for (std::size_t i = 0; i < x.in.size(); ++i) {
        if (!x.in[i] || x.in[i].type() != graft::dtype::float32 || (x.constant[i] && !constants_too)) continue;
        tensor t = tensor::make(type, x.in[i].shape());
        for (std::int64_t k = 0; k < t.elements(); ++k) {
            const double v = static_cast<double>(x.in[i].data<float>()[k]);
            graft::store_from_double(type, t.raw(), k, 1, &v);
        }
        x.in[i] = t;
    }
}

/// A problem as an example; `error` where its text is wrong.
inline example from_problem(const graft::op_row& row, const std::string& text, std::string& error) {
    problems::problem p = problems::read(row, text);
    example x;
    x.name = std::string(row.name) + ": " + text;
    x.n = p.g.nodes[0];
    x.n.op = &row;
    x.n.version = p.g.opsets[0].version;
    if (row.domain[0]) x.n.version = 1;
    error = p.error;
    for (graft::value_id id : x.n.inputs) {
        tensor t = id == graft::no_value ? tensor() : p.g.values[at(id)].constant;
        x.constant.push_back(static_cast<bool>(t));
        for (std::size_t i = 0; i < p.g.inputs.size(); ++i)
            if (p.g.inputs[i] == id) t = p.inputs[i];
        x.in.push_back(t);
    }
    x.in_layout.assign(x.in.size() + 1, layout::row_major);
    x.out_layout.assign(x.n.outputs.size() + 1, layout::row_major);
    return x;
}

inline void draw_layouts(example& x, problems::numbers& random) {
    const auto draw = [&](const tensor& t, layout& l) {
        if (t && t.shape().rank() >= 3 && t.shape().rank() <= 5) l = random.next() & 1 ? layout::channels_last : layout::row_major;
    };
    for (std::size_t i = 0; i < x.in.size(); ++i) draw(x.in[i], x.in_layout[i]);
    for (std::size_t i = 0; i < x.want.size(); ++i) draw(x.want[i], x.out_layout[i]);
}

/// Every problem of the op table and of training's whose operator has a rule, in float16 and bfloat16 too, with layouts drawn at random.
/// `refusals` lists what is refused, and why.
inline std::vector<example> table_examples(std::vector<std::string>& refusals) {
    std::vector<example> all;
    problems::numbers random{7};
    for (const graft::ops::table_list& list : {graft::ops::all_op_tables(), graft::ops::all_training_op_tables()})
        for (const auto& table : list)
            for (const auto& row : table) {
                if (!row.run || !graft::gpu::find_rule(row.name, row.domain)) continue;
                for (const std::string& text : problems::split(row.problems, ';')) {
                    const graft::dtype types[] = {graft::dtype::float32, graft::dtype::float16, graft::dtype::bfloat16};
                    for (const graft::dtype type : types) {
                        std::string error;
                        example x = from_problem(row, text, error);
                        REQUIRE_MESSAGE(error.empty(), error);
                        // Integers are known to the generator in one of the variants: indices have to be.
                        for (std::size_t i = 0; i < x.in.size(); ++i)
                            if (x.in[i] && graft::is_integer(x.in[i].type()) && type != graft::dtype::float16) x.constant[i] = true;
                        if (type != graft::dtype::float32) {
                            const example plain = x;
                            retype(x, type, true);
                            if (!reference(x).empty()) x = plain, retype(x, type, false);
                            x.name += std::string(" in ") + graft::name(type);
                        }
                        const std::string failed = reference(x);
                        if (type != graft::dtype::float32 && !failed.empty()) continue;  // an operator of float32 alone
                        REQUIRE_MESSAGE(failed.empty(), failed);
                        draw_layouts(x, random);
                        generate(x, static_cast<int>(random.next() % 2));
                        if (x.refused) {
                            refusals.push_back(x.name + " - " + x.refused);
                            continue;
                        }
                        all.push_back(std::move(x));
                    }
                }
            }
    return all;
}

}  // namespace generated
