// What the simulated NVRTC gives out as a CUBIN: a few lines and the shared library that g++ made.
#include "cubin.hpp"
#include "kernel_runner.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace graft_simulator {
namespace {

constexpr char magic[] = "graft CUDA simulator 1\n";
constexpr std::size_t most_bytes = 64u << 20;

std::uint64_t sum_of(const char* bytes, std::size_t n) {
    std::uint64_t h = 14695981039346656037ull;
    for (std::size_t i = 0; i < n; ++i) h = (h ^ static_cast<unsigned char>(bytes[i])) * 1099511628211ull;
    return h;
}

}  // namespace

std::string cubin_of(const std::string& path, int arch) {
    std::string library;
    std::FILE* f = std::fopen(path.c_str(), "rb");
    if (!f) return {};
    char block[16384];
    for (std::size_t n; (n = std::fread(block, 1, sizeof block, f)) > 0;) library.append(block, n);
    std::fclose(f);
    char head[256];
    const std::size_t slash = path.rfind('/');
    std::snprintf(head, sizeof head, "%s%d %zu %016llx %.100s\n", magic, arch, library.size(),
                  static_cast<unsigned long long>(sum_of(library.data(), library.size())), path.c_str() + (slash == std::string::npos ? 0 : slash + 1));
    return head + library;
}

bool library_of(const void* image, std::string& path, int& arch) {
    const char* text = static_cast<const char*>(image);
    for (std::size_t i = 0; magic[i]; ++i) {
        if (text[i] != magic[i]) return false;
    }
    text += sizeof magic - 1;
    std::string head;
    while (head.size() < 200 && text[head.size()] != '\n' && text[head.size()] != 0) head += text[head.size()];
    if (text[head.size()] != '\n') return false;
    const char* payload = text + head.size() + 1;
    std::size_t bytes = 0;
    unsigned long long sum = 0;
    char name[101] = {};
    if (std::sscanf(head.c_str(), "%d %zu %llx %100s", &arch, &bytes, &sum, name) != 4 || bytes > most_bytes || sum_of(payload, bytes) != sum) return false;
    path = cache_folder() + "/" + name;
    if (access(path.c_str(), R_OK) == 0) return true;
    const std::string unfinished = path + "." + std::to_string(getpid());
    std::FILE* f = std::fopen(unfinished.c_str(), "wb");
    const bool written = f && std::fwrite(payload, 1, bytes, f) == bytes;
    return (!f || std::fclose(f) == 0) && written && std::rename(unfinished.c_str(), path.c_str()) == 0;
}

}  // namespace graft_simulator
