// Every operator's test problems: the reference kernel against the kernels of every instruction set of this machine.
#include "../difference.hpp"
#include "problems.hpp"

#include <doctest/doctest.h>

namespace {

using problems::answer;

answer run(const problems::problem& p, bool reference, int threads) {
    graft::load_options options;
    options.reference = reference;
    return problems::run(p, options, threads);
}

}  // namespace

TEST_CASE("every operator's problems give the reference's answers on every instruction set") {
    const graft::ops::table_list all = graft::ops::all_op_tables();
    const std::string isas = graft::cpu::available_isas();
    int ran = 0;
    for (const auto& table : all)
        for (const auto& row : table) {
            if (row.flags & graft::op_flag::bodies || !row.run) continue;  // GRAFT_OPS leaves functions out
            for (const std::string& text : problems::split(row.problems, ';')) {
                const problems::problem p = problems::read(row, text);
                const std::string name = row.name;
                INFO(name, ": ", text);
                CHECK_MESSAGE(p.error.empty(), p.error);
                unsetenv("GRAFT_ISA");
                const answer want = run(p, true, 1);
                CHECK_MESSAGE(want.error.empty(), want.error);
                ++ran;
                if (row.flags & graft::op_flag::random) continue;
                for (const std::string& isa : problems::split(isas, ',')) {
                    const std::string set = isa.substr(isa.find_first_not_of(' '));
                    setenv("GRAFT_ISA", set.c_str(), 1);
                    const answer got = run(p, false, 2);
                    INFO(set);
                    CHECK_MESSAGE(got.error.empty(), got.error);
                    REQUIRE(got.outputs.size() == want.outputs.size());
                    for (std::size_t i = 0; i < want.outputs.size(); ++i) CHECK(difference(got.outputs[i], want.outputs[i]) <= 2e-5);
                }
                unsetenv("GRAFT_ISA");
            }
        }
#ifndef GRAFT_OPS
    CHECK(ran > 400);
#endif
}
