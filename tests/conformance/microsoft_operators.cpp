// Nodes of com.microsoft with something missing or out of range: written out, or refused by name.
#include "recorded_tests.hpp"

#include <graft/graft.hpp>
#include <graft/passes/microsoft_operators.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace {

// The graphs of the recorded models.
std::vector<graft::graph> recorded_graphs() {
    recorded_tests::reader r;
    REQUIRE(recorded_tests::read_file(std::string(GRAFT_SOURCE_DIR) + "/tests/conformance/microsoft_operators.bin", r.bytes));
    r.at = std::string("graft node tests 1\n").size();
    std::vector<graft::graph> all;
    while (r.ok && r.at < r.bytes.size()) {
        for (int texts = 0; texts < 4; ++texts) r.part();
        const graft::wire_bytes model = r.part();
        auto g = graft::read_onnx(model.data, model.size, "m", "", {}, nullptr);
        REQUIRE(g.ok());
        all.push_back(*g);
        for (std::uint32_t sets = r.number(); sets && r.ok; --sets)
            for (int side = 0; side < 2; ++side)
                for (std::uint32_t n = r.number(); n && r.ok; --n) r.part();
    }
    REQUIRE(r.ok);
    return all;
}

struct verdicts {
    int loaded = 0, refused = 0;
    void add(graft::graph g) {
        const auto m = graft::load(std::move(g));
        ++(m.ok() ? loaded : refused);
        if (!m.ok()) CHECK(!m.error().detail().empty());
    }
};

}  // namespace

TEST_CASE("operators of com.microsoft with something missing or out of range are written out, or refused by name") {
    verdicts seen;
    for (const graft::graph& whole : recorded_graphs()) {
        REQUIRE(whole.nodes.size() == 1);
        const graft::node& n = whole.nodes[0];
        CAPTURE(n.op_type);
        for (std::size_t i = 0; i < n.inputs.size(); ++i) {
            graft::graph without = whole, shorter = whole, variable = whole;
            without.nodes[0].inputs[i] = graft::no_value;
            shorter.nodes[0].inputs.resize(i);
            seen.add(std::move(without));
            seen.add(std::move(shorter));
            // Weights and scales that a caller gives, of which nothing is known.
            graft::value& v = variable.at(n.inputs[i] == graft::no_value ? n.inputs[0] : n.inputs[i]);
            if (v.constant) v.constant = graft::tensor(), v.has_shape = false, variable.inputs.push_back(n.inputs[i]);
            v.has_shape = false;
            seen.add(std::move(variable));
        }
        for (std::size_t i = 0; i < n.attributes.size(); ++i) {
            graft::graph without = whole;
            without.nodes[0].attributes.erase(without.nodes[0].attributes.begin() + static_cast<std::ptrdiff_t>(i));
            seen.add(std::move(without));
            for (const std::int64_t number : {std::numeric_limits<std::int64_t>::min(), std::int64_t(-1), std::int64_t(0), std::int64_t(1),
                                              std::int64_t(1) << 62, std::numeric_limits<std::int64_t>::max()}) {
                graft::graph other = whole;
                graft::attribute& a = other.nodes[0].attributes[i];
                a.integer = number, a.real = static_cast<float>(number), a.string = "Clip", a.integers.assign(3, number), a.reals.clear();
                seen.add(std::move(other));
            }
        }
        graft::graph more = whole;
        more.nodes[0].outputs.resize(6, graft::no_value);
        seen.add(std::move(more));
    }
    CHECK(seen.loaded > 200);
    CHECK(seen.refused > 200);
}

TEST_CASE("an app's own operators of com.microsoft stay what they are") {
    static constexpr graft::op_row rows[] = {graft::make_op("Gelu", "com.microsoft").inputs(1)};
    for (const graft::graph& g : recorded_graphs()) {
        if (g.nodes[0].op_type != "Gelu") continue;
        graft::graph kept = g, written = g;
        REQUIRE(graft::write_out_microsoft_operators(kept, rows, {}).ok());
        REQUIRE(graft::write_out_microsoft_operators(written, {}, {}).ok());
        CHECK(kept.nodes[0].domain == "com.microsoft");
        CHECK(written.nodes[0].domain.empty());
        CHECK(graft::has_microsoft_operators(kept));
        CHECK(!graft::has_microsoft_operators(written));
        graft::limits few;
        few.nodes = 0;
        const graft::status refused = graft::write_out_microsoft_operators(kept = g, {}, few);
        REQUIRE(!refused.ok());
        CHECK(refused.error().code() == graft::errc::model_too_large);
    }
}
