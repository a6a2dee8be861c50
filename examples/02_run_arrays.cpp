// Runs a model on arrays: inputs by name, any batch size, errors as values.
//   build   g++ -std=c++17 -O2 -Iinclude examples/02_run_arrays.cpp -o run_arrays -pthread
//   run     ./run_arrays apps/graft/demo/model.onnx
//   prints  input: float32 [N,3,64,64]
//   prints  batch 1: logits [1,8]
//   prints  batch 5: logits [5,8]
//   prints  picture 3 of 5 scores as it does alone: yes
//   prints  input.shape: input: its shape is [1,1,64,64], the model asks for [?,3,64,64]
#include <graft/graft.hpp>

#include <cmath>
#include <cstdio>

// `batch` pictures of a pattern that begins with the picture `first`.
static graft::tensor pictures(int batch, int first) {
    const graft::shape extents{batch, 3, 64, 64};
    std::vector<float> values(static_cast<std::size_t>(extents.elements()));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = std::sin(0.37f * static_cast<float>(i % 4096) * static_cast<float>(1 + first + static_cast<int>(i / 12288)));
    return graft::tensor::from(values.data(), extents);
}

int main(int count, char** arguments) {
    if (count < 2) return std::fprintf(stderr, "usage: %s MODEL\n", arguments[0]), 2;
    auto loaded = graft::load(arguments[1]);
    if (!loaded.ok()) return std::fprintf(stderr, "%s\n", loaded.error().what()), 1;
    const graft::model net = loaded.value();
    for (const graft::value_info& input : net.inputs()) {
        std::printf("%s: %s [", input.name.c_str(), graft::name(input.type));
        for (int d = 0; d < input.extents.rank(); ++d)
            std::printf("%s%s", d ? "," : "",
                        input.extents[d] < 0 ? input.dimensions[static_cast<std::size_t>(d)].c_str() : std::to_string(input.extents[d]).c_str());
        std::printf("]\n");
    }

    graft::session session(net);
    graft::tensor five, third;
    for (int batch : {1, 5}) {
        auto outputs = session.run({{"input", pictures(batch, 0)}});
        if (!outputs.ok()) return std::fprintf(stderr, "%s\n", outputs.error().what()), 1;
        five = outputs.value()[0].value;
        std::printf("batch %d: %s %s\n", batch, outputs.value()[0].name.c_str(), graft::text(five.shape()).c_str());
    }
    auto alone = session.run(pictures(1, 2));
    if (!alone.ok()) return std::fprintf(stderr, "%s\n", alone.error().what()), 1;
    bool same = true;
    for (int c = 0; c < 8; ++c) same &= std::fabs(five.data<float>()[16 + c] - alone.value().data<float>()[c]) < 1e-4f;
    std::printf("picture 3 of 5 scores as it does alone: %s\n", same ? "yes" : "no");

    auto wrong = session.run({{"input", graft::tensor::zeros(graft::dtype::float32, {1, 1, 64, 64})}});
    if (!wrong.ok()) std::printf("%s\n", wrong.error().what());
}
