// The file that scripts/export_node_tests.py and scripts/record_microsoft_operators.py write.
#pragma once

#include <graft/core/protobuf.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace recorded_tests {

// The file, read front to back.
struct reader {
    std::vector<char> bytes;
    std::size_t at = 0;
    bool ok = true;
    std::uint32_t number() {
        std::uint32_t n = 0;
        if (bytes.size() - at < 4) return ok = false, 0;
        for (unsigned i = 0; i < 4; ++i) n |= std::uint32_t(static_cast<unsigned char>(bytes[at + i])) << 8 * i;
        at += 4;
        return n;
    }
    graft::wire_bytes part() {
        const std::uint32_t n = number();
        if (bytes.size() - at < n) return ok = false, graft::wire_bytes{};
        const graft::wire_bytes view{reinterpret_cast<const std::uint8_t*>(bytes.data() + at), n};
        at += n;
        return view;
    }
    std::string text() { return part().string(); }
};

inline bool read_file(const std::string& path, std::vector<char>& out) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (!file) return false;
    std::fseek(file, 0, SEEK_END);
    out.resize(static_cast<std::size_t>(std::ftell(file)));
    std::rewind(file);
    const bool whole = std::fread(out.data(), 1, out.size(), file) == out.size();
    std::fclose(file);
    return whole;
}

}  // namespace recorded_tests
