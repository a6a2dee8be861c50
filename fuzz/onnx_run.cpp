// Loading an ONNX file, planning it and running it, by the fast kernels and by the reference ones.
#include "made_inputs.hpp"
#include "onnx_custom.hpp"
#include "target.hpp"

namespace {

constexpr std::int64_t most_elements = 4096, most_multiply_adds = 1 << 22;

void run(const graft::model& model, std::uint64_t seed, std::int64_t open) {
    std::vector<graft::tensor> inputs;
    if (!fuzz::make_inputs(model.inputs(), seed, open, most_elements, inputs)) return;
    std::vector<graft::value_info> shapes = model.inputs();
    for (std::size_t i = 0; i < shapes.size(); ++i)
        if (!shapes[i].has_default) shapes[i].extents = inputs[i].shape(), shapes[i].has_shape = true;
    const auto needs = model.memory(shapes);
    if (!fuzz::accepted(needs) || needs->multiply_adds > most_multiply_adds) return;
    graft::session session(model, {1, nullptr});
    for (std::size_t i = 0; i < inputs.size(); ++i)
        if (!shapes[i].has_default && !fuzz::accepted(session.set_input(i, inputs[i]))) return;
    if (!fuzz::accepted(session.run())) return;
    for (std::size_t i = 0; i < model.outputs().size(); ++i) {
        // Every byte of an output is there to be read.
        const graft::tensor& y = session.output(i);
        unsigned sum = 0;
        for (std::size_t b = 0; b < y.bytes(); ++b) sum += static_cast<unsigned char>(y.raw()[b]);
        fuzz::require(sum < 0xffffffffu, "an output cannot be summed");
    }
    fuzz::accepted(session.run());  // once more, on memory that has been used
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    graft::load_options options;
    options.limits = fuzz::small_limits();
    options.device = "cpu";
    // The file's length decides what it does not: which kernels, and what open extents are.
    options.reference = size % 4 == 3;
    options.open_batch = size % 8 == 1;
    const auto model = graft::load(data, size, options);
    if (fuzz::accepted(model)) run(*model, size, static_cast<std::int64_t>(size % 3) + 1);
    return 0;
}
