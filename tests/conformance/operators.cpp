// What the op table holds, measured: the element types that each row runs on and whether a fast kernel takes it. Written to
// build/conformance/operators.tsv, from which scripts/support_matrix.py makes docs/support-matrix.md.
#include "../ops/problems.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

namespace {

bool runs(const problems::problem& p, bool reference) {
    graft::load_options options;
    options.reference = reference;
    auto model = graft::load(p.g, options);
    if (!model.ok()) return false;
    graft::session session(*model, {1, nullptr});
    for (std::size_t i = 0; i < p.inputs.size(); ++i)
        if (!session.set_input(i, p.inputs[i]).ok()) return false;
    return session.run().ok();
}

// The problem's text with the type of its first input replaced, wherever it stands.
std::string with_type(const std::string& text, const std::string& from, const std::string& to) {
    std::string out;
    for (const std::string& word : problems::split(text, ' ')) {
        const std::size_t open = word.find_first_of("[{(");
        const bool typed = open != std::string::npos && word.find('=') > open && word.substr(0, open) == from;
        out += (out.empty() ? "" : " ") + (typed ? to + word.substr(open) : word);
    }
    return out;
}

// The type of the first input that is more than a condition.
std::string first_type(const std::string& text) {
    std::string found;
    for (const std::string& word : problems::split(text, ' ')) {
        const std::size_t open = word.find_first_of("[{(");
        if (open == std::string::npos || word.find('=') < open || (!found.empty() && found != "b")) continue;
        found = word.substr(0, open);
    }
    return found;
}

// The same problem as networks pose it: everything behind the first input is a constant.
void keep_first_input(problems::problem& p) {
    for (std::size_t i = 1; i < p.inputs.size(); ++i) p.g.at(p.g.inputs[i]).constant = p.inputs[i];
    p.g.inputs.resize(std::min<std::size_t>(p.g.inputs.size(), 1));
}

// fast: kernels took all of a problem; view: nothing has to be done; reference: neither, in any problem.
std::string speed(const graft::op_row& row) {
    std::string best = "reference";
    for (const std::string& text : problems::split(row.problems, ';'))
        for (const bool constants : {false, true}) {
            problems::problem p = problems::read(row, text);
            if (constants) keep_first_input(p);
            auto model = graft::load(p.g);
            if (p.inputs.empty() || !model.ok()) continue;
            auto placed = model->placements(model->inputs());
            if (!placed.ok()) continue;
            bool reference = false;
            for (const graft::placement& n : *placed) reference |= n.kernel == "reference";
            if (!reference && !placed->empty()) best = "fast";
        }
    if (best != "fast" && (row.flags & graft::op_flag::view)) best = "view";
    return best;
}

}  // namespace

TEST_CASE("every row of the op table runs on the types that the support matrix names") {
    const char* types[] = {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "b"};
    const graft::ops::table_list all = graft::ops::all_op_tables();
    std::FILE* file = std::fopen(GRAFT_SOURCE_DIR "/build/conformance/operators.tsv", "w");
    int rows = 0;
    std::set<std::string> names;
    for (const auto& table : all)
        for (const auto& row : table) {
            names.insert(row.name);
            ++rows;
            std::string held;
            const std::vector<std::string> texts = problems::split(row.problems, ';');
            const std::string from = first_type(texts[0]);
            INFO(std::string(row.name), " since ", row.since);
            if (from.empty() || (row.flags & graft::op_flag::bodies))
                held = (row.flags & graft::op_flag::bodies) ? "any" : "";
            else
                for (const char* type : types) {
                    const problems::problem p = problems::read(row, with_type(texts[0], from, type));
                    if (p.error.empty() && runs(p, true))
                        held += (held.empty() ? "" : " ") +
                                std::string(problems::type_named(type) == graft::dtype::undefined ? "" : graft::name(problems::type_named(type)));
                }
            if (!from.empty()) CHECK(!held.empty());
            if (file) std::fprintf(file, "%s\t%s\t%d\t%d\t%s\t%s\n", row.domain, row.name, row.since, row.until, speed(row).c_str(), held.c_str());
        }
    if (file) std::fclose(file);
    CHECK(rows > 200);
    CHECK(names.size() > 150);
}
