// Outputs that are left out: what else a node makes stays the same, and a node of which nothing is wanted is as good as not there.
#include "../exec/nets.hpp"

#include <doctest/doctest.h>

namespace {

// The problem with `count` outputs, of which `out` is left out (-1: none); a constant is an output beside them.
graft::graph with_outputs(const problems::problem& p, int count, int out) {
    graft::graph g = p.g;
    graft::node& n = g.nodes[0];
    n.outputs.clear();
    g.outputs.clear();
    for (int i = 0; i < count; ++i) {
        n.outputs.push_back(i == out ? graft::no_value : g.add_value("made" + std::to_string(i)));
        if (i != out) g.outputs.push_back(n.outputs.back());
    }
    g.outputs.push_back(g.add_constant("beside", nets::floats({1})));
    return g;
}

nets::answer answer_of(const graft::graph& g, const std::vector<graft::tensor>& inputs) {
    auto model = graft::load(g);
    return model.ok() ? nets::run(*model, inputs, 1) : nets::answer{{}, model.error().what()};
}

}  // namespace

TEST_CASE("Every operator makes the same where one of its outputs is left out, and does nothing where all are") {
    const graft::ops::table_list all = graft::ops::all_op_tables();
    int compared = 0;
    for (const auto& table : all)
        for (const auto& row : table) {
            if (row.flags & (graft::op_flag::bodies | graft::op_flag::random)) continue;
            for (const std::string& text : problems::split(row.problems, ';')) {
                problems::problem p = problems::read(row, text);
                const int given = static_cast<int>(p.g.outputs.size());
                if (!p.error.empty()) continue;
                // Before opset 14 its outputs behind the first are what says that it trains.
                if (std::string(row.name) == "BatchNormalization" && p.g.version_of("") < 14) continue;
                for (const bool constant : {false, true}) {
                    if (constant) {  // folded while the model is loaded
                        for (std::size_t i = 0; i < p.inputs.size(); ++i) p.g.at(p.g.inputs[i]).constant = p.inputs[i];
                        p.g.inputs.clear();
                        p.inputs.clear();
                    }
                    for (int count = given; count <= std::max(given, row.max_outputs); ++count) {
                        const nets::answer whole = answer_of(with_outputs(p, count, -1), p.inputs);
                        if (!whole.error.empty()) continue;  // an output that these attributes do not have
                        for (int out = 0; out < count; ++out) {
                            INFO(std::string(row.name), " ", text, ": output ", out, " of ", count, std::string(constant ? ", folded" : ""));
                            const nets::answer part = answer_of(with_outputs(p, count, out), p.inputs);
                            CHECK_MESSAGE(part.error.empty(), part.error);
                            nets::answer expected = whole;
                            expected.outputs.erase(expected.outputs.begin() + out);
                            // Without an output a fast kernel may take a node that it did not take before.
                            CHECK((nets::same_bits(part, expected) || nets::difference(part, expected) < 1e-5));
                            ++compared;
                        }
                    }
                }
            }
        }
    CHECK(compared > 1000);
}
