// How the CPU back end takes a node: rows that choose (or refuse, with a reason) once, and run without looking anything up.
#pragma once

#include "../graph/op.hpp"
#include "isa.hpp"

#include <cstring>
#include <type_traits>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// A node with known shapes, asked of a kernel. `in_layout` and `out_layout` tell how each value lies.
struct kernel_query : op_context {
    const layout* in_layout;
    const layout* out_layout;
    isa level;
    bool exact;  ///< no reassociating algorithms

    bool all_row_major() const noexcept {
        for (int i = 0; i < inputs; ++i)
            if (in_layout[i] != layout::row_major) return false;
        for (int i = 0; i < outputs; ++i)
            if (out_layout[i] != layout::row_major) return false;
        return true;
    }
    /// All inputs but the one, and all outputs.
    bool all_float32(int but = -1) const noexcept {
        for (int i = 0; i < inputs; ++i)
            if (i != but && has(i) && in[i].type != dtype::float32) return false;
        for (int i = 0; i < outputs; ++i)
            if (wants(i) && out[i].type != dtype::float32) return false;
        return true;
    }
};

/// What a kernel decided: its parameters, by value, and the scratch memory it needs.
struct kernel_choice {
    alignas(16) unsigned char parameters[512];
    std::int64_t workspace_bytes = 0;
    const char* note = "";  ///< for the placement table: which algorithm, and why

    template <class T>
    void set(const T& value) {
        static_assert(sizeof(T) <= sizeof parameters && std::is_trivially_copyable<T>::value, "parameters are copied as bytes");
        std::memcpy(parameters, &value, sizeof value);
    }
};

/// One run of a chosen kernel. `data` of absent inputs is null.
struct kernel_call {
    const tensor_view* in;
    int inputs;
    tensor_view* out;
    int outputs;
    const kernel_choice& choice;
    void* workspace;
    executor& pool;
    isa level;
    communicator* group = nullptr;  ///< the members of the run, where there are several
    mutable status failed = {};     ///< of a kernel that can fail: those that speak to other members

    template <class T>
    const T& parameters() const noexcept {
        return *reinterpret_cast<const T*>(choice.parameters);
    }
    const float* input(int i) const noexcept { return i < inputs ? in[i].as<const float>() : nullptr; }
    float* output(int i) const noexcept { return out[i].as<float>(); }
};

/// A kernel for an operator. `choose` returns null when it takes the node, else why not.
struct kernel_row {
    const char* op;
    const char* domain;
    const char* (*choose)(const kernel_query&, kernel_choice&);
    void (*run)(const kernel_call&);
    bool in_place;  ///< the output may take the memory of the first input
};

using kernel_rows = row_table<kernel_row>;

}  // namespace cpu
GRAFT_END_NAMESPACE
