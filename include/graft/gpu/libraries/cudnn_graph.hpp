// cuDNN's backend descriptors with owners: tensors and operations made into an operation graph, and engines asked for it.
#pragma once

#include "../runtime/handles.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The failure that cuDNN's `code` means, with its last message. What it does not support or takes for wrong is op.unsupported, so
/// that the caller can ask for less.
status cudnn_failure(const api::cudnn_functions& functions, int code, const char* what);

/// cuDNN's number of an element type, -1 where it has none.
int cudnn_type(dtype type) noexcept;

/// Owner of one backend descriptor.
class cudnn_descriptor {
public:
    cudnn_descriptor() noexcept {}
    cudnn_descriptor(cudnn_descriptor&& other) noexcept : functions_(other.functions_), raw_(other.raw_), what_(other.what_) { other.raw_ = nullptr; }
    cudnn_descriptor& operator=(cudnn_descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            functions_ = other.functions_, raw_ = other.raw_, what_ = other.what_;
            other.raw_ = nullptr;
        }
        return *this;
    }
    ~cudnn_descriptor() { reset(); }

    /// Makes a descriptor of a kind of api::cudnn; `what` names it in errors and lives for ever.
    status create(const api::cudnn_functions& functions, int kind, const char* what);
    void reset() noexcept;

    status set(int name, int type, std::int64_t count, const void* elements);
    status set_integers(int name, std::int64_t count, const std::int64_t* values);
    status set_integer(int name, std::int64_t value) { return set_integers(name, 1, &value); }
    status set_enumerator(int name, int type, int value) { return set(name, type, 1, &value); }
    status set_float(int name, float value);
    status set_double(int name, double value);
    status set_descriptor(int name, const cudnn_descriptor& value);
    status finalize();
    /// Reads up to `capacity` elements; `count` gets how many were written.
    status get(int name, int type, std::int64_t capacity, std::int64_t& count, void* elements) const;

    void* raw() const noexcept { return raw_; }

private:
    status checked(int code, const char* doing) const;

    const api::cudnn_functions* functions_ = nullptr;
    void* raw_ = nullptr;
    const char* what_ = "";
};

/// What a convolution reads and what it writes; x, w and y are named after the forward convolution.
enum class convolution_direction { forward, backward_data, backward_weight };

/// The spatial axes of a convolution, outermost first; groups follow from the extents of x and w.
struct convolution_axes {
    int rank = 2;
    std::int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad_begin[3] = {}, pad_end[3] = {};
};

/// A pointwise operation of api::cudnn::pointwise, and the parameters that its mode has.
struct pointwise_operation {
    int mode = api::cudnn::pointwise::identity;
    bool clips = false;  ///< of relu: lower, upper and slope count
    double lower = 0, upper = 0, slope = 0;
    double parameter = 1;  ///< alpha of elu, beta of softplus and swish
};

/// A number that a plan is given with the tensors of each call, under the id of a tensor.
struct graph_scalar {
    std::int64_t id;
    float value;
};

/// An engine by its number, and its knobs with their values.
struct engine_choice {
    std::int64_t engine = 0;
    std::vector<std::pair<int, std::int64_t>> knobs;
};

/// An operation graph in the making. Tensors are known by ids from 1 up; what is computed is float32.
class cudnn_graph {
public:
    explicit cudnn_graph(const libraries& with) noexcept : with_(&with) {}

    /// [N, C, spatial...] of rank 4 or 5, channels last. A virtual tensor lies between two operations and has no memory.
    status add_tensor(std::int64_t id, dtype type, const shape& extents, bool is_virtual);
    /// As `add_tensor`, with `strides` in elements, one for each of the extents.
    status add_strided(std::int64_t id, dtype type, const shape& extents, const std::int64_t* strides, bool is_virtual);
    /// A float32 of the host's, which the plan does not depend on: one number for all elements.
    status add_scalar(std::int64_t id, float value);
    status add_convolution(convolution_direction direction, const convolution_axes& axes, std::int64_t x, std::int64_t w, std::int64_t y);
    /// `b`: the second operand, 0 for none.
    status add_pointwise(const pointwise_operation& how, std::int64_t x, std::int64_t b, std::int64_t y);
    /// c = a * b of the matrices in the last two axes.
    status add_matmul(std::int64_t a, std::int64_t b, std::int64_t c);
    /// A reduction of api::cudnn::reduce over the axes where y has the extent 1.
    status add_reduction(int how, std::int64_t x, std::int64_t y);
    status finalize();

    const std::vector<graph_scalar>& scalars() const noexcept { return scalars_; }

    /// Appends the engine configurations that a mode of api::cudnn::heuristic proposes, the best first.
    status propose(int mode, std::vector<cudnn_descriptor>& configs) const;
    /// An engine configuration from its numbers.
    status configure(const engine_choice& choice, cudnn_descriptor& config) const { return configure_on(graph_, choice, config); }
    /// The same for a thread with a handle of its own, which the configuration is bound to.
    status configure(const engine_choice& choice, void* handle, cudnn_descriptor& config) const;

private:
    const cudnn_descriptor* tensor(std::int64_t id) const noexcept;
    status set_tensor(cudnn_descriptor& operation, int name, std::int64_t id);
    status describe_tensor(std::int64_t id, dtype type, const shape& extents, const std::int64_t* strides, int is);
    status join_operations(void* handle, cudnn_descriptor& graph) const;
    status configure_on(const cudnn_descriptor& graph, const engine_choice& choice, cudnn_descriptor& config) const;

    const libraries* with_;
    std::vector<graph_scalar> scalars_;
    std::vector<std::pair<std::int64_t, cudnn_descriptor>> tensors_;
    std::vector<cudnn_descriptor> parameters_, operations_;
    cudnn_descriptor graph_;
};

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "cudnn_graph_body.hpp"
#endif
