// The bytes of a file, for tests that look at what was written.
#pragma once

#include <cstdio>
#include <string>

/// None where there is no file.
inline std::string file_contents(const std::string& path) {
    std::string bytes;
    if (std::FILE* file = std::fopen(path.c_str(), "rb")) {
        char block[4096];
        for (std::size_t n; (n = std::fread(block, 1, sizeof block, file)) > 0;) bytes.append(block, n);
        std::fclose(file);
    }
    return bytes;
}
