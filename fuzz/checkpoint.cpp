// Checkpoints: a file as it is, and with its checksums put right, which few changes of bytes leave right.
#include "target.hpp"

#include <graft/train/checkpoint.hpp>

namespace {

// The file with the checksums that it ought to have; empty where it is no safetensors file.
std::vector<std::uint8_t> put_right(const std::uint8_t* data, std::size_t size) {
    std::vector<std::uint8_t> out;
    const auto file = graft::read_safetensors(data, size, "input", fuzz::small_limits(), nullptr);
    if (!file.ok()) return out;
    graft::named_tensors tensors;
    graft::named_texts sums, texts, metadata;
    for (const graft::safetensors_entry& e : file->tensors) {
        auto loaded = file->load(e);
        if (!loaded.ok()) return out;
        sums.emplace_back(e.name, graft::detail::tensor_checksum(e.type_name.c_str(), e.extents.data(), e.extents.size(), e.data, e.bytes));
        tensors.emplace_back(e.name, std::move(loaded).value());
    }
    for (const char* key : {"format", "settings", "state"}) {
        const std::string* value = file->find_metadata(key);
        texts.emplace_back(key, value ? *value : "");
    }
    texts.emplace_back("crc32c", graft::detail::pairs_text(sums));
    metadata = texts;
    metadata.emplace_back("crc32c.metadata", graft::detail::texts_checksum(texts));
    if (!graft::write_safetensors(tensors, metadata, out).ok()) out.clear();
    return out;
}

void load(const std::string& path) {
    const auto loaded = graft::load_checkpoint(path, fuzz::small_limits());
    if (!fuzz::accepted(loaded)) return;
    fuzz::require(loaded->found, "a checkpoint that is there is not found");
    graft::named_texts other = loaded->contents.settings;
    if (!other.empty()) other.back().second += "x";
    fuzz::accepted(graft::compare_settings(loaded->contents.settings, other));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz::folder folder;
    load(folder.write("checkpoint.safetensors", data, size));
    const std::vector<std::uint8_t> right = put_right(data, size);
    if (!right.empty()) load(folder.write("checkpoint.safetensors", right.data(), right.size()));
    return 0;
}
