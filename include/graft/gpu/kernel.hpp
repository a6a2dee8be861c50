// What the families of gpu/ops make of a lowered node: CUDA C++ and its launches, or calls of a vendor's library.
#pragma once

#include "../graph/op.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// An address in the memory of a device.
using device_address = std::uint64_t;

/// What kernels depend on of the device that they are made for.
struct device_traits {
    std::string name;
    int major = 0, minor = 0;  ///< compute capability
    int multiprocessors = 1;
    int threads_per_multiprocessor = 2048;
    std::int64_t shared_bytes = 48 << 10;  ///< of a block, without opting in to more
    std::int64_t memory_bytes = 0;

    int arch() const noexcept { return major * 10 + minor; }
};

/// What a user chose about numbers.
struct kernel_options {
    bool deterministic = false;  ///< only algorithms that give the same bits every time
    bool tf32 = true;            ///< products of float32 may round their factors to TF32
};

/// A node with known shapes, asked of a family. `in[i].data` is the host's copy of a constant (row-major), else null. The types of
/// inputs and outputs are those of the memory; what is computed is float32 for all but float64 and integers.
struct kernel_query : op_context {
    const layout* in_layout;
    const layout* out_layout;
    const device_traits& on;
    kernel_options options;
    const value_id* memory = nullptr;  ///< of each input the value whose memory it may lie in; null: its own

    /// Whether inputs `i` and `k`, which are there, may lie in the same memory.
    bool shares_memory(int i, int k) const noexcept {
        const value_id* of = memory ? memory : n.inputs.data();
        return of[i] == of[k];
    }
};

/// What a kernel's parameter is filled with.
struct argument {
    enum class from { input, output, workspace, number, faults, fault_seen } kind = from::input;
    std::int64_t index = 0;  ///< of the input or output; for the workspace a byte offset; of a number itself
};

/// A check of values that only a run has, and the reference kernel's error where one does not pass it. Kernels leave such a value in a
/// word of the context's memory, number k of argument::faults for the k-th fault of a program, and set the word of argument::fault_seen,
/// which all kernels of a context share. Of several values the largest word stays, so that a run tells the same one every time.
struct fault {
    errc code;
    std::string where;  ///< the node, as graft::place has it
    const char* text;   ///< for printf: the value, then `limit`
    std::int64_t limit = 0;
    bool counted = false;  ///< the value is a number from 0 on, and the word its complement; else the word is the value, which is not 0
};

/// How many arguments a launch may have: 8 bytes each, of the 4 KiB that drivers take for every device.
constexpr std::size_t most_arguments = 500;

/// One launch of an entry point. Parameters are addresses alone, in the order of `arguments`; everything else is in the text. A table is
/// the exception: one parameter, a struct of an array of `most_arguments` addresses, some of which may be numbers, so that one text serves
/// tensors of any number and size.
struct launch {
    std::string entry;
    unsigned grid[3] = {1, 1, 1};
    unsigned block[3] = {1, 1, 1};
    unsigned shared_bytes = 0;
    bool table = false;
    std::vector<argument> arguments;
};

/// CUDA C++ for one node: compiled at run time, launched in order.
struct program {
    std::string source;  ///< without the prelude (codegen/prelude.hpp), which is put before it
    std::vector<launch> launches;
    std::vector<fault> faults;  ///< what its kernels check
    std::int64_t workspace_bytes = 0;
    bool in_place = false;  ///< output 0 may lie where input 0 lies
    std::string note;       ///< for the placement table
};

/// A row of a family whose kernels are generated. `generate` returns null when it takes the node, else why not.
struct generated_row {
    const char* op;
    const char* domain;  ///< as in the op table: "" or "graft"
    const char* (*generate)(const kernel_query&, program&);
};

/// Rows of a family that writes kernels of its own.
using generated_table = row_table<generated_row>;

/// The vendor's libraries of one device, with their handles; null where a library is not needed or was not found.
struct libraries;

/// One run of a library kernel: everything is put on `stream`.
struct library_call {
    const libraries& with;
    void* stream;
    const device_address* in;
    const device_address* out;
    device_address workspace;
    communicator* group = nullptr;  ///< the members of the run, where there are several
};

/// Work of a node that a vendor's library does. Immutable once made; one thread at a time enqueues on a device.
class library_kernel {
public:
    inline virtual ~library_kernel() {}
    inline virtual status enqueue(const library_call& call) const = 0;

    std::int64_t workspace_bytes = 0;
    bool exchanges = false;  ///< it waits for other members of the run
    std::string note;        ///< for the placement table
};

/// A row of a family that calls a library. `refuse` returns null when it takes the node, else why not.
struct library_row {
    const char* op;
    const char* domain;
    const char* (*refuse)(const kernel_query&);
    result<std::unique_ptr<library_kernel>> (*make)(const kernel_query&, const libraries&);
};

}  // namespace gpu
GRAFT_END_NAMESPACE
