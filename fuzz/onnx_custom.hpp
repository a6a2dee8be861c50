// libFuzzer's hooks for targets that take ONNX files: bends their fields, now and then their bytes.
#pragma once

#include "onnx_mutator.hpp"

#include <algorithm>
#include <cstring>

#if defined(__clang__)
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
    fuzz::field model;
    if (seed % 16 == 0 || !fuzz::read_tree(data, size, model)) return LLVMFuzzerMutate(data, size, most);
    fuzz::onnx_mutator(model, seed).mutate();
    const std::vector<std::uint8_t> out = fuzz::write_tree(model);
    if (out.empty() || out.size() > most) return LLVMFuzzerMutate(data, size, most);
    std::memcpy(data, out.data(), out.size());
    return out.size();
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size, const std::uint8_t* second, std::size_t second_size,
                                                 std::uint8_t* into, std::size_t most, unsigned seed) {
    fuzz::field model, other;
    if (!fuzz::read_tree(first, first_size, model) || !fuzz::read_tree(second, second_size, other)) return 0;
    fuzz::onnx_mutator(model, seed).cross(other);
    const std::vector<std::uint8_t> out = fuzz::write_tree(model);
    if (out.size() > most) return 0;
    std::memcpy(into, out.data(), out.size());
    return out.size();
}
#endif
