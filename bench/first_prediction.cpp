// The smallest program that predicts: loads a model, runs it once on zeros, prints the likeliest class. bench/footprint measures it.
// Compiled with PACKED, it keeps the weights' form in a file for the next start.
#include <graft/graft.hpp>

#include <cstdio>

int main(int count, char** arguments) {
    if (count < 2) return std::fprintf(stderr, "usage: %s MODEL [PACKED]\n", arguments[0]), 2;
    graft::load_options options;
#ifdef PACKED
    if (count > 2) options.packed = graft::open_packed_weights(arguments[2]).value();
#endif
    auto net = graft::load(arguments[1], options);
    if (!net.ok()) return std::fprintf(stderr, "%s\n", net.error().what()), 1;
    graft::session session(net.value());
    std::vector<graft::named_tensor> inputs;
    for (const graft::value_info& input : net->inputs()) {
        if (input.has_default) continue;
        graft::shape extents = input.extents;
        for (int d = 0; d < extents.rank(); ++d)
            if (extents[d] < 0) extents[d] = d < 2 ? 1 : 224;
        auto zeros = graft::tensor::zeros(input.type, extents);
        if (!zeros.ok()) return std::fprintf(stderr, "%s\n", zeros.error().what()), 1;
        inputs.push_back({input.name, zeros.value()});
    }
    auto outputs = session.run(inputs);
    if (!outputs.ok()) return std::fprintf(stderr, "%s\n", outputs.error().what()), 1;
    const graft::tensor& scores = outputs.value()[0].value;
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < scores.elements(); ++i)
        if (graft::element_as_double(scores.type(), scores.raw(), i) > graft::element_as_double(scores.type(), scores.raw(), best)) best = i;
    std::printf("class %lld\n", static_cast<long long>(best));
}
