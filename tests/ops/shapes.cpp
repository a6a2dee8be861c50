// Every operator's problems with one input bent: its shape not declared, told by the run alone, of rank 0, 1 or one more, or without elements.
// The answer is the same, or an error; reference and kernels agree on which.
#include "../difference.hpp"
#include "../sanitized.hpp"
#include "problems.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace {

using graft::shape;
using graft::tensor;
using graft::value_id;

enum class told { by_the_graph, by_the_input, by_the_run };

// The problem with input `i` of its node (a constant becomes an input) replaced by `t`, whose shape is told there.
problems::problem bent(const problems::problem& p, std::size_t i, const tensor& t, told how) {
    problems::problem b;
    b.g = p.g;
    b.inputs = p.inputs;
    graft::node& n = b.g.nodes[0];
    const value_id id = n.inputs[i];
    std::size_t at = 0;
    while (at < b.g.inputs.size() && b.g.inputs[at] != id) ++at;
    if (at == b.g.inputs.size()) {
        b.g.inputs.push_back(id);
        b.inputs.push_back(t);
    }
    graft::value& v = b.g.at(id);
    v.constant = tensor();
    v.type = t.type();
    v.has_shape = how == told::by_the_graph;
    v.extents = v.has_shape ? t.shape() : shape();
    b.inputs[at] = t;
    if (how != told::by_the_graph)  // nor are those of the others
        for (value_id other : b.g.inputs) b.g.values[static_cast<std::size_t>(other)].has_shape = false;
    if (how != told::by_the_run) return b;
    // A Reshape to what another input holds: neither rank nor extents are known before it has run.
    graft::node reshape;
    reshape.op_type = "Reshape";
    reshape.name = "told";
    graft::attribute zeros;
    zeros.name = "allowzero";
    zeros.kind = graft::attribute_kind::integer, zeros.integer = 1;
    reshape.attributes.push_back(zeros);
    const value_id to = b.g.add_value("to"), made = b.g.add_value("made");
    b.g.at(to).type = graft::dtype::int64;
    b.g.inputs.push_back(to);
    tensor extents = tensor::make(graft::dtype::int64, {t.shape().rank()});
    for (int d = 0; d < t.shape().rank(); ++d) extents.data<std::int64_t>()[d] = t.shape()[d];
    b.inputs.push_back(extents);
    reshape.inputs = {id, to};
    reshape.outputs = {made};
    for (value_id& in : n.inputs)
        if (in == id) in = made;
    b.g.nodes.insert(b.g.nodes.begin(), reshape);
    return b;
}

using problems::answer;

answer run(const problems::problem& p, bool reference) {
    graft::load_options options;
    options.device = "cpu";
    options.reference = reference;
    options.limits.memory_bytes = std::int64_t(1) << 28;
    return problems::run(p, options);
}

tensor of_shape(const tensor& like, const shape& extents) {
    tensor t = tensor::make(like.type(), extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const double v = like.elements() ? graft::element_as_double(like.type(), like.raw(), i % like.elements()) : 1;
        graft::store_from_double(like.type(), t.raw(), i, 1, &v);
    }
    return t;
}

std::vector<shape> other_shapes(const shape& s) {
    std::vector<shape> all = {shape{}, shape{1}, shape{3}, shape{0}};
    shape more{1};
    for (int d = 0; d < s.rank(); ++d) more.push_back(s[d]);
    if (more.rank() <= 7) all.push_back(more);
    for (int d = 0; d < s.rank(); ++d) {
        shape none = s;
        none[d] = 0;
        all.push_back(none);
    }
    return all;
}

}  // namespace

TEST_CASE("operators hold for inputs of any rank and extents, however late these are known") {
    const graft::ops::table_list all = graft::ops::all_op_tables();
    int same = 0, refused = 0, answered = 0;
#if defined(GRAFT_TEST_SANITIZED)
    constexpr int every = 3;  // each shape of an input is told in one of three ways
#else
    constexpr int every = 1;
#endif
    for (const auto& table : all)
        for (const auto& row : table) {
            if (row.flags & graft::op_flag::bodies) continue;
            for (const std::string& text : problems::split(row.problems, ';')) {
                const problems::problem p = problems::read(row, text);
                const std::vector<value_id> ids = p.g.nodes[0].inputs;
                const answer want = run(p, false);
                for (std::size_t i = 0; i < ids.size(); ++i) {
                    if (ids[i] == graft::no_value) continue;
                    tensor given = p.g.at(ids[i]).constant;
                    for (std::size_t k = 0; k < p.g.inputs.size(); ++k)
                        if (p.g.inputs[k] == ids[i]) given = p.inputs[k];
                    INFO(std::string(row.name), ": ", text, ", input ", i);
                    for (const told how : {told::by_the_graph, told::by_the_input, told::by_the_run}) {
                        CAPTURE(static_cast<int>(how));
                        // As it was: only rows that ask for a constant may refuse it.
                        const answer got = run(bent(p, i, given, how), false);
                        if (got.code.empty() && !(row.flags & graft::op_flag::random)) {
                            REQUIRE(got.outputs.size() == want.outputs.size());
                            for (std::size_t o = 0; o < want.outputs.size(); ++o) CHECK(difference(got.outputs[o], want.outputs[o]) <= 2e-5);
                            ++same;
                        }
                        int turn = static_cast<int>(how);
                        for (const shape& s : other_shapes(given.shape())) {
                            if (turn++ % every) continue;
                            CAPTURE(graft::text(s));
                            const problems::problem b = bent(p, i, of_shape(given, s), how);
                            const answer fast = run(b, false), slow = run(b, true);
                            CHECK(fast.code == slow.code);
                            for (std::size_t o = 0; o < std::min(fast.outputs.size(), slow.outputs.size()); ++o)
                                CHECK(fast.outputs[o].shape() == slow.outputs[o].shape());
                            ++(fast.code.empty() ? answered : refused);
                        }
                    }
                }
            }
        }
    MESSAGE(same << " answers as before, " << answered << " to other shapes, " << refused << " refused");
    CHECK(same > 2000);
}
