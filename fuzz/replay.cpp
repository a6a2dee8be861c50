// The driver of targets that are built without libFuzzer: runs them on the files given, and on those of folders given.
#include "target.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
    std::vector<std::filesystem::path> files;
    for (int i = 1; i < argc; ++i) {
        if (argv[i][0] == '-') continue;  // options of libFuzzer
        if (!std::filesystem::is_directory(argv[i]))
            files.push_back(argv[i]);
        else
            for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
                if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& path : files) {
        std::ifstream file(path, std::ios::binary);
        const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        // Said before, so that what crashes has a name; and a block of exactly that size, so that a read past it is seen.
        std::fprintf(stderr, "%s: %zu bytes\n", path.string().c_str(), bytes.size());
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    }
    std::fprintf(stderr, "%zu files replayed\n", files.size());
    return files.empty();
}
