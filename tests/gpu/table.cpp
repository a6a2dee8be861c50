// Every operator's test problems through the back end for NVIDIA GPUs, on the CUDA simulator: placement, lowering, text, launches.
#include "placed.hpp"

#include "../cuda_simulator/simulated.hpp"
#include "../ops/wrapped.hpp"

#include <algorithm>
#include <map>

using placed::answer;
using placed::run;

TEST_CASE("every operator's problems give the reference's answers on the CUDA simulator, whichever nodes it takes") {
    const auto device = simulated::exact_device();
    const graft::ops::table_list all = graft::ops::all_op_tables();
    int ran = 0, taken = 0, hosts = 0;
    std::map<std::string, std::string> left;
    for (const auto& table : all)
        for (const auto& row : table) {
            if (row.flags & (graft::op_flag::bodies | graft::op_flag::random)) continue;
            for (const std::string& text : problems::split(row.problems, ';')) {
                const problems::problem p = problems::read(row, text);
                const std::string name = row.name;
                INFO(name, ": ", text);
                const answer want = run(p, nullptr), got = run(p, device);
                CHECK_MESSAGE(want.error.empty(), want.error);
                CHECK_MESSAGE(got.error.empty(), got.error);
                ++ran;
                taken += got.on_device;
                const bool host = got.refusal.empty() || got.refusal.find("it makes nothing") != std::string::npos ||
                                  got.refusal.find("few integers") != std::string::npos || got.refusal.find("only looks at") != std::string::npos;
                hosts += !got.on_device && host;
                if (!got.on_device && !host) left[name] = got.refusal;
                if (!got.error.empty()) continue;
                REQUIRE(got.outputs.size() == want.outputs.size());
                for (std::size_t i = 0; i < want.outputs.size(); ++i) CHECK(difference(got.outputs[i], want.outputs[i]) <= 2e-5);
            }
        }
    MESSAGE(taken << " of " << ran << " problems ran on the simulated device; " << hosts << " are folded, empty, or better on the host");
    for (const auto& l : left) MESSAGE("on the CPU: " << l.first << ": " << l.second);
    CHECK(ran > 400);
    CHECK(taken > 400);
    CHECK(taken > 2 * (ran - hosts - taken));
}

TEST_CASE("between values of bfloat16 every operator runs on the CUDA simulator, and answers to the bits that those have") {
    graft::device_options options;
    options.precision = "bfloat16";
    const auto device = simulated::open(options);
    int ran = 0;
    for (const auto& table : graft::ops::all_op_tables())
        for (const auto& row : table) {
            if (row.flags & (graft::op_flag::bodies | graft::op_flag::random)) continue;
            // of each operator the first problems that numbers of this type can go into
            int left = 2;
            for (const std::string& text : problems::split(row.problems, ';')) {
                if (left == 0) break;
                if (text.find("f32[") == std::string::npos) continue;
                problems::problem p = problems::read(row, text);
                problems::wrap(p, true);
                const answer want = run(p, nullptr);
                if (!want.error.empty()) continue;
                --left;
                const answer got = run(p, device);
                INFO(std::string(row.name), ": ", text);
                CHECK_MESSAGE(got.error.empty(), got.error);
                if (!got.error.empty()) continue;
                ++ran;
                REQUIRE(got.outputs.size() == want.outputs.size());
                for (std::size_t i = 0; i < want.outputs.size(); ++i) CHECK(difference(got.outputs[i], want.outputs[i]) <= 0.05);
            }
        }
    CHECK(ran > 200);
}

TEST_CASE("convolutions run on a simulated device of compute capability 7.5, where cuDNN adds less to them") {
    simulated::set("COMPUTE", "7.5");
    graft::device_options options;
    options.precision = "float32";
    const auto device = simulated::open(options);
    for (const char* op : {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv"}) {
        const graft::op_row* row = graft::ops::find_op("", op, graft::newest_opset);
        REQUIRE(row);
        for (const std::string& text : problems::split(row->problems, ';')) {
            INFO(std::string(op), ": ", text);
            const problems::problem p = problems::read(*row, text);
            REQUIRE(p.error == "");
            const answer want = run(p, nullptr), got = run(p, device);
            REQUIRE_MESSAGE(got.error == want.error, got.error);
            for (std::size_t i = 0; i < want.outputs.size(); ++i) CHECK(difference(got.outputs[i], want.outputs[i]) <= 2e-5);
        }
    }
    simulated::set("COMPUTE", nullptr);
}
