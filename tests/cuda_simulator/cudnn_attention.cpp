// The simulated cuDNN's attention: products of matrices and reductions, and the one graph of them that its fused engines know.
#include "cudnn_descriptors.hpp"

namespace graft_simulator {

namespace {

namespace attribute = cudnn::attribute;
namespace mode = cudnn::pointwise;
namespace result = cudnn::result;

const std::vector<std::int64_t>& extents_of(const cudnn_descriptor* t) { return t->integers(attribute::tensor_dimensions); }
bool is_virtual(const cudnn_descriptor* t) { return t->integer(attribute::tensor_is_virtual) != 0; }
int type_of(const cudnn_descriptor* t) { return static_cast<int>(t->integer(attribute::tensor_data_type)); }

// Walks a graph from its last operation to its first.
class attention_reader {
public:
    explicit attention_reader(const cudnn_descriptor& graph) {
        for (const cudnn_pointer& o : graph.find(attribute::operation_graph_operations)->descriptors) operations_.push_back(o.get());
    }

    bool legal() {
        const cudnn_descriptor* last = nullptr;
        for (const cudnn_descriptor* o : operations_)
            if (o->kind == cudnn::matmul_operation_descriptor && !is_virtual(tensors_of(*o).written)) last = o;
        if (!last) return false;
        v_ = last->descriptor(attribute::matmul_operation_b), y_ = last->descriptor(attribute::matmul_operation_c);
        const cudnn_descriptor *weights = last->descriptor(attribute::matmul_operation_a), *divide = pointwise(weights, mode::divide);
        if (!divide) return false;
        const cudnn_descriptor *power = x_of(divide), *sum = b_of(divide), *exp = pointwise(power, mode::exp),
                               *subtract = exp ? pointwise(x_of(exp), mode::subtract) : nullptr;
        if (!subtract) return false;
        const cudnn_descriptor *scores = x_of(subtract), *maximum = b_of(subtract);
        if (!reduces(maximum, scores, cudnn::reduce::maximum) || !reduces(sum, power, cudnn::reduce::add) || !has_statistic(maximum, sum)) return false;
        std::size_t steps = 9;
        const cudnn_descriptor* first = maker(scores);
        for (const int how : {mode::add, mode::multiply})
            if (first && first->kind == cudnn::pointwise_operation_descriptor && mode_of(first) == how && !is_virtual(b_of(first))) {
                if (how == mode::add ? type_of(b_of(first)) != type_of(y_) || extents_of(b_of(first))[2] != extents_of(y_)[2]
                                     : !b_of(first)->integer(attribute::tensor_is_by_value))
                    return false;
                first = maker(x_of(first));
                ++steps;
            }
        if (!first || first->kind != cudnn::matmul_operation_descriptor || operations_.size() != steps) return false;
        q_ = first->descriptor(attribute::matmul_operation_a), k_ = first->descriptor(attribute::matmul_operation_b);
        return type_of(weights) == type_of(y_) && fits();
    }

private:
    static const cudnn_descriptor* x_of(const cudnn_descriptor* o) { return o->descriptor(attribute::pointwise_operation_x); }
    static const cudnn_descriptor* b_of(const cudnn_descriptor* o) { return o->descriptor(attribute::pointwise_operation_b); }
    static int mode_of(const cudnn_descriptor* o) {
        return static_cast<int>(o->descriptor(attribute::pointwise_operation_pointwise)->integer(attribute::pointwise_mode));
    }

    const cudnn_descriptor* maker(const cudnn_descriptor* tensor) const {
        for (const cudnn_descriptor* o : operations_)
            if (id_of(tensors_of(*o).written) == id_of(tensor)) return o;
        return nullptr;
    }
    const cudnn_descriptor* pointwise(const cudnn_descriptor* tensor, int how) const {
        const cudnn_descriptor* o = maker(tensor);
        return o && o->kind == cudnn::pointwise_operation_descriptor && mode_of(o) == how ? o : nullptr;
    }
    bool reduces(const cudnn_descriptor* y, const cudnn_descriptor* x, int how) const {
        const cudnn_descriptor* o = maker(y);
        return o && o->kind == cudnn::reduction_operation_descriptor && id_of(o->descriptor(attribute::reduction_operation_x)) == id_of(x) &&
               o->descriptor(attribute::reduction_operation_reduction)->integer(attribute::reduction_operator) == how;
    }
    // maximum + log(sum): where it is missing, the real library takes a factor of the scores for one of dropout.
    bool has_statistic(const cudnn_descriptor* maximum, const cudnn_descriptor* sum) const {
        for (const cudnn_descriptor* o : operations_) {
            if (o->kind != cudnn::pointwise_operation_descriptor || mode_of(o) != mode::add || id_of(x_of(o)) != id_of(maximum)) continue;
            const cudnn_descriptor* log = pointwise(b_of(o), mode::log);
            return log && id_of(x_of(log)) == id_of(sum);
        }
        return false;
    }
    // Heads of a multiple of 8 elements that lie side by side, of one half.
    bool fits() const {
        if (type_of(y_) != cudnn::data::float16 && type_of(y_) != cudnn::data::bfloat16) return false;
        for (const cudnn_descriptor* t : {q_, k_, v_, y_}) {
            const std::size_t size = t == k_ ? 2 : 3;
            if (is_virtual(t) || type_of(t) != type_of(y_) || extents_of(t).size() != 4) return false;
            if (extents_of(t)[size] % 8 || t->integers(attribute::tensor_strides)[size] != 1) return false;
        }
        return true;
    }

    std::vector<const cudnn_descriptor*> operations_;
    const cudnn_descriptor *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *y_ = nullptr;
};

}  // namespace

int complete_matmul_operation(const cudnn_descriptor& d) {
    const auto &a = extents_of(d.descriptor(attribute::matmul_operation_a)), &b = extents_of(d.descriptor(attribute::matmul_operation_b)),
               &c = extents_of(d.descriptor(attribute::matmul_operation_c));
    const std::size_t rank = c.size();
    if (rank < 3 || a.size() != rank || b.size() != rank) return cudnn_error(result::bad_parameter, "tensors of a product of matrices differ in rank");
    for (std::size_t i = 0; i + 2 < rank; ++i)
        if (a[i] != c[i] || a[i] % b[i]) return cudnn_error(result::bad_parameter, "factors of a product have numbers of matrices that do not fit");
    const bool fits = a[rank - 2] == c[rank - 2] && a[rank - 1] == b[rank - 2] && b[rank - 1] == c[rank - 1];
    return fits ? result::success : cudnn_error(result::bad_parameter, "matrices of a product do not fit");
}

int complete_reduction(const cudnn_descriptor& d) {
    const std::int64_t how = d.integer(attribute::reduction_operator);
    return how == cudnn::reduce::add || how == cudnn::reduce::maximum ? result::success
                                                                      : cudnn_error(result::not_supported, "the simulator has not this reduction");
}

int complete_reduction_operation(const cudnn_descriptor& d) {
    const auto &x = extents_of(d.descriptor(attribute::reduction_operation_x)), &y = extents_of(d.descriptor(attribute::reduction_operation_y));
    if (x.size() != y.size()) return cudnn_error(result::bad_parameter, "x and y of a reduction differ in rank");
    for (std::size_t i = 0; i < x.size(); ++i)
        if (y[i] != 1 && y[i] != x[i]) return cudnn_error(result::bad_parameter, "y of a reduction has an extent that is neither 1 nor that of x");
    return result::success;
}

bool has_matmul(const cudnn_descriptor& graph) {
    for (const cudnn_pointer& o : graph.find(attribute::operation_graph_operations)->descriptors)
        if (o->kind == cudnn::matmul_operation_descriptor) return true;
    return false;
}

bool is_attention(const cudnn_descriptor& graph) { return has_matmul(graph) && attention_reader(graph).legal(); }

}  // namespace graft_simulator
