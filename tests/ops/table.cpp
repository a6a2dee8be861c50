// Every operator's test problems: the reference kernel against the kernels of every instruction set of this machine.
#include "../difference.hpp"
#include "problems.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace {

struct answer {
    std::vector<graft::tensor> outputs;
    std::string error;
};

answer run(const problems::problem& p, bool reference, int threads) {
    graft::load_options options;
    options.reference = reference;
    auto model = graft::load(p.g, options);
    if (!model.ok()) return {{}, model.error().what()};
    graft::session session(model.value(), {threads, nullptr});
    for (std::size_t i = 0; i < p.inputs.size(); ++i) {
        auto s = session.set_input(i, p.inputs[i]);
        if (!s.ok()) return {{}, s.error().what()};
    }
    auto s = session.run();
    if (!s.ok()) return {{}, s.error().what()};
    answer a;
    for (std::size_t i = 0; i < model->outputs().size(); ++i) a.outputs.push_back(session.output(i));
    return a;
}

}  // namespace

TEST_CASE("every operator's problems give the reference's answers on every instruction set") {
    const graft::ops::table_list all = graft::ops::all_op_tables();
    const std::string isas = graft::cpu::available_isas();
    int ran = 0;
    for (int t = 0; t < all.size; ++t)
        for (int r = 0; r < all.tables[t].size; ++r) {
            const graft::op_row& row = all.tables[t].rows[r];
            if (row.flags & graft::op_flag::bodies) continue;
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
    CHECK(ran > 400);
}
