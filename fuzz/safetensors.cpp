// safetensors files: every tensor of what is read is loaded; what was loaded is written and read again.
#include "target.hpp"

#include <graft/io/safetensors.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto file = graft::read_safetensors(data, size, "input", fuzz::small_limits(), nullptr);
    if (!fuzz::accepted(file)) return 0;
    graft::named_tensors tensors;
    for (const graft::safetensors_entry& e : file->tensors) {
        fuzz::require(e.bytes <= size && e.data >= data && e.data + e.bytes <= data + size, "a tensor lies outside the file");
        auto loaded = file->load(e);
        if (fuzz::accepted(loaded)) tensors.emplace_back(e.name, std::move(loaded).value());
    }
    std::vector<std::uint8_t> out;
    if (!fuzz::accepted(graft::write_safetensors(tensors, file->metadata, out))) return 0;
    const auto again = graft::read_safetensors(out.data(), out.size(), "what was written", graft::limits(), nullptr);
    fuzz::require(again.ok() && again->tensors.size() == tensors.size() && again->metadata == file->metadata, "what was written does not read back");
    return 0;
}
