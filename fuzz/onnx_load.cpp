// Loading an ONNX file: reading, verifying, folding. What loads is printed and written, and what was written loads again.
#include "onnx_custom.hpp"
#include "target.hpp"

#include <graft/graft.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    graft::load_options options;
    options.limits = fuzz::small_limits();
    options.device = "cpu";
    const auto model = graft::load(data, size, options);
    if (!fuzz::accepted(model)) return 0;
    for (const graft::value_info& v : model->inputs()) (void)to_string(v);
    (void)dump(model->graph());
    (void)dump_dot(model->graph());
    std::vector<std::uint8_t> written;
    if (!fuzz::accepted(graft::write_onnx(model->graph(), written))) return 0;
    options.limits.model_bytes *= 4;  // names that were made up, and numbers that were packed
    const auto again = graft::load(written.data(), written.size(), options);
    if (!again.ok()) std::fprintf(stderr, "%s\n", again.error().what());
    fuzz::require(again.ok(), "what was loaded and written does not load");
    return 0;
}
