// Networks in stages over devices of the CUDA simulator, and over the CPU and a device: answers, memory, and what the simulator reports.
#include "../exec/nets.hpp"
#include "simulated_backend.hpp"

#include "../cuda_simulator/simulated.hpp"

namespace {

graft::tensor pictures(const graft::model& m, std::int64_t samples) {
    nets::numbers random{static_cast<std::uint64_t>(samples)};
    graft::shape s = m.inputs()[0].extents;
    for (int d = 0; d < s.rank(); ++d)
        if (s[d] < 0) s[d] = d ? 32 : samples;
    return nets::random_tensor(s, random);
}
double worst(const graft::tensor& a, const graft::tensor& b) {
    REQUIRE(a.shape() == b.shape());
    double most = 0, largest = 0;
    for (std::int64_t i = 0; i < a.elements(); ++i) {
        const double one = static_cast<double>(a.data<float>()[i]), other = static_cast<double>(b.data<float>()[i]);
        most = std::max(most, std::abs(one - other)), largest = std::max(largest, std::abs(other));
    }
    return most / largest;
}

}  // namespace

TEST_CASE("a network in stages over simulated devices, and over the CPU and one, answers as one CPU does, in parts and whole") {
    simulated::prepare();
    graft::device_options options;
    options.precision = "float32";
    const std::shared_ptr<graft::device> first = simulated::open(options, 0), second = simulated::open(options, 1);
    const graft::graph g = graft::load(nets::demo_model()).value().graph();
    const graft::model whole = graft::load(g);
    graft::session host(whole);
    const std::vector<std::vector<std::shared_ptr<graft::device>>> ways{{first, second}, {nullptr, first}, {first, nullptr}, {first, first}};
    const char* names[] = {"cuda:0,cuda:1", "cpu,cuda:0", "cuda:0,cpu", "cuda:0"};
    for (std::size_t way = 0; way < ways.size(); ++way)
        for (const int parts : {1, 3}) {
            INFO(std::string(names[way]) << ", " << parts << " parts");
            simulated::reset();
            {
                graft::load_options o;
                o.stages = ways[way];
                o.parts = parts;
                const graft::model cut = graft::load(g, o);
                CHECK(std::string(cut.device()) == names[way]);
                graft::session session(cut);
                for (const std::int64_t samples : {4, 1, 4}) {
                    const graft::tensor in = pictures(whole, samples);
                    auto ran = session.run(in);
                    REQUIRE_MESSAGE(ran.ok(), std::string(ran.ok() ? "" : ran.error().what()));
                    CHECK(worst(*ran, host.run(in).value()) <= 1e-3);
                }
                const std::vector<graft::stage_use> uses = session.stages();
                REQUIRE(uses.size() == 2);
                for (std::size_t s = 0; s < 2; ++s) {
                    CHECK(uses[s].bytes > 0);
                    CHECK(uses[s].multiply_adds > 0);
                    CHECK((ways[way][s] ? uses[s].busy_seconds < 0 : uses[s].busy_seconds > 0));
                }
            }
            const std::string report = simulated::report();
            CHECK_MESSAGE(simulated::count("problems") == 0, report);
        }
}

TEST_CASE("weights are on a simulated device once, in however many parts a batch goes through") {
    simulated::prepare();
    const std::shared_ptr<graft::device> device = simulated::open();
    const graft::graph g = graft::load(nets::demo_model()).value().graph();
    std::int64_t bytes[2] = {0, 0};
    for (int i = 0; i < 2; ++i) {
        graft::load_options o;
        o.stages = {device, device};
        o.parts = i ? 4 : 1;
        const graft::model cut = graft::load(g, o);
        std::vector<graft::value_info> inputs = cut.inputs();
        inputs[0].extents = pictures(cut, 8).shape();
        bytes[i] = cut.memory(inputs).value().device;
    }
    CHECK(bytes[1] < bytes[0]);
}
