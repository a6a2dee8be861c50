// Networks in code: a builder that writes ONNX operators (opset 17, IR 8) and initialises what it is not given.
#pragma once

#include "graph.hpp"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// An extent of an input: a number, or a name for one that is open ("N").
struct dimension {
    std::int64_t extent = shape::unknown;
    std::string name;
    dimension(std::int64_t n) : extent(n) {}
    dimension(int n) : extent(n) {}
    dimension(const char* open) : name(open) {}
};

/// Attributes for `builder::apply`.
attribute integer_attribute(std::string name, std::int64_t value);
attribute real_attribute(std::string name, float value);
attribute string_attribute(std::string name, std::string value);
attribute integers_attribute(std::string name, std::vector<std::int64_t> value);
attribute reals_attribute(std::string name, std::vector<float> value);
attribute tensor_attribute(std::string name, tensor value);
attribute graph_attribute(std::string name, graph value);

/// Options of `builder::conv2d`. Without a weight it is drawn as He et al. have it: normal, variance 2 / fan-in; biases are 0.
struct conv2d_options {
    std::int64_t kernel = 1;  ///< height and width
    std::int64_t stride = 1;
    std::int64_t padding = 0;  ///< on all four sides
    std::int64_t dilation = 1;
    std::int64_t groups = 1;
    bool bias = true;
    std::string name = {};    ///< of the node and, with ".weight" and ".bias", of its constants; made up where empty
    tensor weight = {};       ///< [channels, inputs / groups, kernel, kernel]
    tensor bias_values = {};  ///< [channels]
};
/// Options of `builder::linear`.
struct linear_options {
    bool bias = true;
    std::string name = {};
    tensor weight = {};       ///< [features, inputs]
    tensor bias_values = {};  ///< [features]
};
/// Options of `builder::batch_norm`. Scale and variance begin at 1, bias and mean at 0.
struct batch_norm_options {
    float epsilon = 1e-5f;
    float momentum = 0.9f;  ///< of the running statistics, as ONNX has it: the old value's share
    std::string name = {};
};
/// Options of the pooling layers.
struct pool_options {
    std::int64_t kernel = 2;
    std::int64_t stride = 0;  ///< 0: as the kernel
    std::int64_t padding = 0;
    bool ceil = false;           ///< whether a last, partial window counts
    bool count_padding = false;  ///< average_pool only: whether padding counts in the mean
};

/// Builds a graph of image layers in NCHW. The first mistake is kept, everything after it does nothing, and `finish` returns it.
/// `b.conv2d(x, 64, {.kernel = 3, .stride = 2})` in C++20.
class builder {
public:
    explicit builder(std::string graph_name = "graph", std::uint64_t seed = 0);

    value_id input(std::string name, dtype type, std::initializer_list<dimension> extents);
    value_id constant(std::string name, tensor data);
    /// Any operator with one output; its shape stays unknown to the builder, and its type is taken for that of the first input until the
    /// graph is loaded: save the model, not the graph, where another type is an output.
    value_id apply(const std::string& op_type, std::vector<value_id> inputs, std::vector<attribute> attributes = {});
    /// Any operator with `count` outputs.
    std::vector<value_id> apply_all(const std::string& op_type, std::vector<value_id> inputs, std::vector<attribute> attributes, int count);

    /// [N,C,H,W] to [N,channels,H',W'].
    value_id conv2d(value_id x, std::int64_t channels, const conv2d_options& options = {});
    value_id batch_norm(value_id x, const batch_norm_options& options = {});
    value_id relu(value_id x);
    /// min(max(x, low), high).
    value_id clip(value_id x, float low, float high);
    value_id max_pool(value_id x, const pool_options& options = {});
    value_id average_pool(value_id x, const pool_options& options = {});
    /// [N,C,H,W] to [N,C,1,1].
    value_id global_average_pool(value_id x);
    /// Joins the extents before `axis`, and those from it on: a matrix.
    value_id flatten(value_id x, std::int64_t axis = 1);
    /// [N,F] to [N,features].
    value_id linear(value_id x, std::int64_t features, const linear_options& options = {});
    /// a + b, broadcast.
    value_id add(value_id a, value_id b);
    value_id concat(const std::vector<value_id>& parts, std::int64_t axis = 1);
    value_id softmax(value_id x, std::int64_t axis = -1);
    /// Makes x an output of that name.
    void output(value_id x, const std::string& name);

    /// Extents as far as the builder knows them; rank 0 where it does not.
    shape shape_of(value_id x) const;
    /// The graph; the builder is empty afterwards. Errors: op.shape, op.type, graph.no_output, memory.oom.
    result<graph> finish();

private:
    bool known(value_id x, int rank, const char* layer);
    void mistake(errc code, const std::string& where, const std::string& what);
    std::string fresh(const char* stem);
    value_id layer(const char* op_type, std::string name, std::vector<value_id> inputs, std::vector<attribute> attributes, const shape* extents);
    value_id parameter(const std::string& name, const tensor& given, const shape& extents, double deviation, float fill);
    value_id pool(value_id x, const char* op_type, const char* stem, const pool_options& options);

    graph graph_;
    status failure_;
    std::uint64_t seed_ = 0, drawn_ = 0;
    std::vector<std::pair<std::string, int>> counters_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "builder_body.hpp"
#endif
