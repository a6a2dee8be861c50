// Problems of single rows of the op table as examples of generated kernels, with the layouts that a test names.
#pragma once

#include "generated.hpp"
#include "nvrtc.hpp"
#include "../skipped.hpp"

#include <cstring>
#include <set>

namespace generated {

constexpr layout plain = layout::row_major, last = layout::channels_last;

/// The row of an operator: of its versions the newest.
inline const graft::op_row* row_of(const char* name, const char* domain) {
    const graft::op_row* found = nullptr;
    for (const graft::ops::table_list& list : {graft::ops::all_op_tables(), graft::ops::all_training_op_tables()})
        for (const auto& table : list)
            for (const auto& row : table) {
                if (!std::strcmp(row.name, name) && !std::strcmp(row.domain, domain) && (!found || row.since >= found->since)) found = &row;
            }
    return found;
}

/// Layouts for an example: those of rank 3 to 5 get these, the others are row-major.
inline void set_layouts(example& x, layout in, layout out) {
    const auto set = [](const tensor& t, layout to) { return t && t.shape().rank() >= 3 && t.shape().rank() <= 5 ? to : layout::row_major; };
    for (std::size_t i = 0; i < x.in.size(); ++i) x.in_layout[i] = set(x.in[i], in);
    for (std::size_t i = 0; i < x.want.size(); ++i) x.out_layout[i] = set(x.want[i], out);
}

/// Adds a problem; `outputs`: how many the node has, where that is more than the row's least.
inline void add(std::vector<example>& all, const char* domain, const char* op, const std::string& problem, layout in = plain, layout out = plain,
                int outputs = 1) {
    std::string error;
    const graft::op_row* row = row_of(op, domain);
    REQUIRE(row);
    example x = from_problem(*row, problem, error);
    REQUIRE(error == "");
    while (static_cast<int>(x.n.outputs.size()) < outputs) {
        x.n.outputs.push_back(1000 + static_cast<graft::value_id>(x.n.outputs.size()));
        x.out_layout.push_back(plain);
    }
    const std::string failed = reference(x);
    REQUIRE_MESSAGE(failed.empty(), failed);
    set_layouts(x, in, out);
    generate(x, 100);
    if (x.decomposed) return;  // before kernels are made
    CHECK_MESSAGE(!x.refused, x.name, ": ", x.refused);
    if (!x.refused) all.push_back(std::move(x));
}

/// Every problem of the table's rows in each pair of layouts.
template <class Table>
void add_rows(std::vector<example>& all, const Table& rows) {
    for (const auto& kernel : rows) {
        const graft::op_row* row = row_of(kernel.op, kernel.domain);
        REQUIRE(row);
        for (const std::string& problem : problems::split(row->problems, ';')) {
            std::string error;
            const std::vector<tensor> in = from_problem(*row, problem, error).in;
            bool ranked = false;
            for (const tensor& t : in) ranked = ranked || (t && t.shape().rank() >= 3);
            for (const layout i : {plain, last})
                for (const layout o : {plain, last})
                    if (ranked || (i == plain && o == plain)) add(all, row->domain, row->name, problem, i, o, row->min_outputs);
        }
    }
}

/// Runs all on the CUDA simulator.
inline void expect_all(const std::vector<example>& examples) {
#if defined(GRAFT_CUDA_SIMULATOR)
    const std::vector<std::string> wrong = run_all(examples);
    for (std::size_t i = 0; i < wrong.size() && i < 20; ++i) CHECK_MESSAGE(false, wrong[i].substr(0, 8000));
    CHECK(wrong.empty());
#else
    say_skipped("the CUDA simulator is not built here: " + std::to_string(examples.size()) + " programs");
#endif
}

/// Compiles all by the real NVRTC, many in one program: each text for the architecture that knows least, and for one of the newer in turn, since
/// what a text says is the same to all of them.
inline void expect_compiled(const std::vector<example>& examples) {
    std::string why;
    const auto* nvrtc = real_nvrtc::functions(why);
    if (!nvrtc) {
        say_skipped(why);
        return;
    }
    std::set<std::string> seen;
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < examples.size(); ++i)
        if (!examples[i].made.launches.empty() && seen.insert(examples[i].made.source).second)
            texts.push_back(renamed(examples[i].made, "e" + std::to_string(i) + "_"));
    const auto expect_all_compiled = [&](const std::string& arch, std::size_t first, std::size_t step) {
        std::size_t count = 0;
        std::string source;
        for (std::size_t i = first; i < texts.size(); i += step) {
            if (count++ % 100 == 0) source = graft::gpu::prelude();
            source += texts[i];
            if (count % 100 != 0 && i + step < texts.size()) continue;
            const std::string log = real_nvrtc::compile(*nvrtc, source, arch);
            CHECK_MESSAGE(log.empty(), arch, ": ", log.substr(0, 3000));
        }
    };
    expect_all_compiled("sm_75", 0, 1);
    std::size_t turn = 0;
    for (const char* arch : {"sm_80", "sm_90", "sm_100"}) expect_all_compiled(arch, turn++, 3);
    MESSAGE(texts.size(), " texts compiled for two of four architectures each");
}

}  // namespace generated
