// Files of packed weights: as they are, and with their checksums put right, which few changes of bytes leave right.
#include "target.hpp"

#include <graft/lower/packed_file.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace {

using graft::detail::packed_entry;
using graft::detail::packed_file;
using graft::detail::packed_header;

// The entries that the header promises and the file has room for.
std::vector<packed_entry> entries_of(const std::vector<std::uint8_t>& file) {
    packed_header h;
    if (file.size() < sizeof h) return {};
    std::memcpy(&h, file.data(), sizeof h);
    std::vector<packed_entry> all(std::min<std::size_t>(h.count, (file.size() - sizeof h) / sizeof(packed_entry)));
    if (!all.empty()) std::memcpy(all.data(), file.data() + sizeof h, all.size() * sizeof all[0]);
    return all;
}

std::vector<std::uint8_t> put_right(std::vector<std::uint8_t> file) {
    std::vector<packed_entry> all = entries_of(file);
    packed_header h;
    if (file.size() < sizeof h) return {};
    graft::executor alone;
    std::memcpy(&h, file.data(), sizeof h);
    for (packed_entry& e : all)
        if (e.begin <= file.size() && e.bytes <= file.size() - e.begin) e.contents = packed_file::number_of(file.data() + e.begin, e.bytes, alone);
    h.count = all.size();
    h.size = file.size();
    h.table_number = graft::xxh64(all.data(), all.size() * sizeof(packed_entry));
    std::memcpy(file.data(), &h, sizeof h);
    if (!all.empty()) std::memcpy(file.data() + sizeof h, all.data(), all.size() * sizeof all[0]);
    return file;
}

void look(const std::string& path, const std::vector<std::uint8_t>& bytes) {
    graft::executor alone;
    const std::vector<packed_entry> all = entries_of(bytes);
    packed_file file(path, nullptr);
    if (!fuzz::accepted(file.open())) return;
    const std::size_t most = std::min<std::size_t>(all.size(), 64);
    for (std::size_t i = 0; i < most; ++i) {
        const graft::buffer found = file.find(all[i].constant, all[i].form, all[i].bytes, alone);
        if (!found) continue;
        fuzz::require(found.bytes() == all[i].bytes, "an entry of another length is given");
        // Kernels may read as far behind the end as a buffer has.
        volatile std::uint8_t sum = 0;
        for (std::size_t k = 0; k < found.bytes() + graft::buffer::alignment; ++k) sum = static_cast<std::uint8_t>(sum + std::to_integer<int>(found.data()[k]));
    }
    graft::buffer made;
    if (auto memory = graft::buffer::allocate(100); memory.ok()) made = std::move(memory).value();
    std::memset(made.data(), 7, 100);
    file.add(1, 2, made);
    file.keep(alone);
    packed_file again(path, nullptr);
    fuzz::require(fuzz::accepted(again.open()), "what was written cannot be opened");
    const graft::buffer kept = again.find(1, 2, 100, alone);
    const bool shadowed = std::any_of(all.begin(), all.end(), [](const packed_entry& e) { return e.constant == 1; });
    fuzz::require(shadowed || (kept && std::memcmp(kept.data(), made.data(), 100) == 0), "what was written is not found");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz::folder folder;
    const std::vector<std::uint8_t> given(data, data + size), right = put_right(given);
    for (const auto& bytes : {given, right})
        if (!bytes.empty()) look(folder.write("net.packed", bytes.data(), bytes.size()), bytes);
    return 0;
}
