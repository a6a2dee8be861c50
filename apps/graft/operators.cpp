// Which operators a network has.
#include "operators.hpp"

#include <graft/io/onnx_read.hpp>
#include <graft/passes/microsoft_operators.hpp>

#include <algorithm>
#include <set>

namespace program {

// Weights are constants of a floating or a quantised type; 64-bit integers are shapes and indices.
void operator_census::add(const graft::graph& g) {
    for (const graft::value& v : g.values) {
        half |= v.type == graft::dtype::float16 || v.type == graft::dtype::bfloat16;
        if (v.constant && v.type != graft::dtype::int64 && v.type != graft::dtype::boolean) {
            parameters += v.constant.elements();
            parameter_bytes += static_cast<std::int64_t>(v.constant.bytes());
        }
    }
    for (const graft::node& n : g.nodes) {
        ++operators[n.domain.empty() || n.domain == "ai.onnx" ? n.op_type : n.domain + "." + n.op_type];
        for (const graft::attribute& a : n.attributes)
            if (a.graph) add(*a.graph);
    }
}

graft::status operator_census::look_at_file(const std::string& file) {
    graft::graph g;
    GRAFT_TRY_ASSIGN(g, graft::read_onnx_file(file));
    written_out |= graft::has_microsoft_operators(g);
    return {};
}

std::vector<std::pair<std::string, std::int64_t>> operator_census::by_number() const {
    std::vector<std::pair<std::string, std::int64_t>> all(operators.begin(), operators.end());
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return all;
}

std::vector<std::string> operator_census::names() const {
    std::set<std::string> once;
    for (const auto& entry : operators) once.insert(entry.first.substr(entry.first.rfind('.') + 1));
    // The CPU computes half precision in float32; a branch that is known beforehand is written out in place.
    if (half) once.insert("Cast");
    if (written_out) once.insert("microsoft");
    if (once.count("If")) once.insert("Identity");
    return {once.begin(), once.end()};
}

std::string operator_census::list() const {
    std::string text;
    for (const std::string& name : names()) text += (text.empty() ? "" : ",") + name;
    return text;
}

}  // namespace program
