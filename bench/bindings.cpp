// What a call costs in C++ and in C: bindings MODEL ROUNDS CALLS prints the microseconds of a run in each round, of the processor's time, as JSON.
// bench/bindings.py compiles it.
#include <graft.h>

#include <graft/graft.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

template <class Call>
double microseconds(int calls, const Call& call) {
    const std::clock_t begun = std::clock();
    for (int i = 0; i < calls; ++i) call();
    return static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC / calls * 1e6;
}

void print(const char* name, const std::vector<double>& values, const char* end) {
    std::printf("\"%s\": [", name);
    for (std::size_t i = 0; i < values.size(); ++i) std::printf("%s%.3f", i ? ", " : "", values[i]);
    std::printf("]%s", end);
}

void need(graft_return_code ended, const graft_error* error) {
    if (ended != GRAFT_OK) throw std::runtime_error(graft_error_message(error));
}

}  // namespace

int main(int count, char** arguments) try {
    if (count < 4) return std::fprintf(stderr, "usage: %s MODEL ROUNDS CALLS\n", arguments[0]), 2;
    const int rounds = std::atoi(arguments[2]), calls = std::atoi(arguments[3]);
    const graft::model m = graft::load(arguments[1], graft::on_device(nullptr));
    graft::shape extents = m.inputs()[0].extents;
    if (extents[0] < 0) extents[0] = 1;
    const graft::tensor input = graft::tensor::zeros(m.inputs()[0].type, extents);
    graft::session session(m, {1, nullptr});

    graft_error* error = nullptr;
    graft_options* options = graft_options_new();
    need(graft_options_set(options, "threads", "1", &error), error);
    need(graft_options_set(options, "device", "cpu", &error), error);
    graft_model* model = graft_model_load(arguments[1], options, &error);
    graft_session* c = graft_session_new(model, nullptr, &error);
    if (!c) need(GRAFT_FAILED, error);
    const float* read = nullptr;
    const auto by_cpp = [&] {
        graft::must(session.set_input(0, graft::tensor::borrow(input.data<float>(), extents)));
        graft::must(session.run());
        read = session.output(0).data<float>();
    };
    const auto by_c = [&] {
        need(graft_session_set_input(c, 0, GRAFT_FLOAT32, extents.begin(), extents.rank(), input.raw(), input.bytes(), &error), error);
        need(graft_session_run(c, &error), error);
        read = static_cast<const float*>(graft_tensor_data(graft_session_output(c, 0)));
    };
    std::vector<double> cpp_us, c_us;
    (void)microseconds(calls, by_cpp);
    (void)microseconds(calls, by_c);
    for (int r = 0; r < rounds; ++r) {
        cpp_us.push_back(microseconds(calls, by_cpp));
        c_us.push_back(microseconds(calls, by_c));
    }
    std::printf("{");
    print("cpp", cpp_us, ", ");
    print("c", c_us, "}\n");
    graft_session_free(c);
    graft_model_free(model);
    graft_options_free(options);
    return read == nullptr;
} catch (const std::exception& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
}
