// The descriptors of the simulated cuDNN: what may be set on each kind, and what their completion checks.
#pragma once

#include <graft/gpu/api/cudnn.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace graft_simulator {
namespace cudnn = graft::gpu::api::cudnn;

struct cudnn_descriptor;
using cudnn_pointer = std::shared_ptr<cudnn_descriptor>;

// What one attribute holds, by the type that it was set as.
struct cudnn_value {
    std::vector<std::int64_t> integers;  // enumerations, booleans and pointers too
    std::vector<double> reals;
    std::vector<cudnn_pointer> descriptors;
    std::string text;
};

// An engine of the simulated library, as configurations and plans name it.
struct cudnn_engine {
    std::int64_t index = 0;
    std::vector<int> notes;
    std::int64_t workspace_bytes = 0;
    bool broken = false;  // is proposed, but its plan is never completed
};

struct cudnn_descriptor {
    int kind = 0;
    bool complete = false;
    std::map<int, cudnn_value> attributes;
    cudnn_engine engine;                  // of an engine, a configuration and a plan
    std::vector<cudnn_pointer> proposed;  // of a heuristic
    std::int64_t announced = 0;           // of a heuristic: how many it says that it has

    const cudnn_value* find(int name) const {
        const auto at = attributes.find(name);
        return at == attributes.end() ? nullptr : &at->second;
    }
    std::int64_t integer(int name, std::int64_t otherwise = 0) const {
        const cudnn_value* v = find(name);
        return v && !v->integers.empty() ? v->integers[0] : otherwise;
    }
    double real(int name, double otherwise) const {
        const cudnn_value* v = find(name);
        return v && !v->reals.empty() ? v->reals[0] : otherwise;
    }
    const std::vector<std::int64_t>& integers(int name) const {
        static const std::vector<std::int64_t> none;
        const cudnn_value* v = find(name);
        return v ? v->integers : none;
    }
    const cudnn_descriptor* descriptor(int name) const {
        const cudnn_value* v = find(name);
        return v && !v->descriptors.empty() ? v->descriptors[0].get() : nullptr;
    }
};

// Keeps what cudnnGetLastErrorString tells, and gives back the code.
int cudnn_error(int code, const std::string& why);

// Bytes of an element of a cuDNN type, 0 where the simulator does not know it.
std::size_t cudnn_size(int type);

// Checks a descriptor's attributes and marks it complete.
int complete_descriptor(const cudnn_pointer& d);
// Checks of single kinds, in files of their own.
int complete_operation_graph(cudnn_descriptor& d);
int complete_heuristic(cudnn_descriptor& d);
int complete_engine(cudnn_descriptor& d);
int complete_configuration(cudnn_descriptor& d);
int complete_plan(cudnn_descriptor& d);
// A plan as text, of which a plan can be made again.
std::string text_of_plan(const cudnn_descriptor& d);
// Whether an engine compiles its kernels when its plan is made.
bool compiles(std::int64_t engine);

// What an attribute may be set to: nothing for those that no descriptor of the kind has.
struct cudnn_attribute {
    int kind, name, type;
    std::int64_t least, most;  // elements
    bool needed;
    int type_too;  // another type that is allowed, -1 for none
    int of_kind;   // of a descriptor: the kind that it must be, -1 for any operation
};
const cudnn_attribute* find_attribute(int kind, int name);
bool is_known(int kind);

bool is_operation(int kind);

// The names under which the three convolutions know x, w and y, and which of them is written.
struct convolution_roles {
    int x = 0, w = 0, y = 0, convolution = 0, alpha = 0, beta = 0, written = 0;
};
bool roles_of(int kind, convolution_roles& roles);

// What an operation reads, and the one tensor that it writes.
struct operation_tensors {
    std::vector<const cudnn_descriptor*> read;
    const cudnn_descriptor* written = nullptr;
};
operation_tensors tensors_of(const cudnn_descriptor& operation);
std::int64_t id_of(const cudnn_descriptor* tensor);

// Products of matrices and reductions, which only attention has here.
int complete_matmul_operation(const cudnn_descriptor& d);
int complete_reduction(const cudnn_descriptor& d);
int complete_reduction_operation(const cudnn_descriptor& d);
bool has_matmul(const cudnn_descriptor& graph);
// Whether a graph is the attention that the fused engines know.
bool is_attention(const cudnn_descriptor& graph);

// Runs a plan with the pointers of a variant pack, later, on a stream.
int execute_plan(void* stream, const cudnn_pointer& plan, const cudnn_pointer& pack);

}  // namespace graft_simulator
