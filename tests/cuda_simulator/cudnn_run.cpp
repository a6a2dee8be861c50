// The simulated cuDNN's arithmetic: convolutions, products of matrices, reductions and pointwise operations over any strides, each sum in double, one element
// at a time.
#include "cudnn_descriptors.hpp"
#include "simulator.hpp"

#include <graft/core/dtype.hpp>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

namespace graft_simulator {

namespace {

namespace attribute = cudnn::attribute;
namespace note = cudnn::numerical_note;
namespace result = cudnn::result;
namespace mode = cudnn::pointwise;

// What an engine does to factors and sums.
struct arithmetic {
    bool tf32 = false, narrow = false, coarse = false;
    double noise = 1;
};

double rounded(double v, int type) {
    if (type == cudnn::data::float16) return static_cast<double>(graft::to_float(graft::to_float16(v)));
    if (type == cudnn::data::bfloat16) return static_cast<double>(graft::to_float(graft::to_bfloat16(v)));
    return type == cudnn::data::float32 ? static_cast<double>(static_cast<float>(v)) : v;
}
// Ten bits behind the leading one, half to even.
double rounded_to_tf32(double v) {
    std::uint32_t bits = graft::bit_cast<std::uint32_t>(static_cast<float>(v));
    if ((bits & 0x7f800000u) == 0x7f800000u) return v;
    bits += 0x0fffu + ((bits >> 13) & 1);
    return static_cast<double>(graft::bit_cast<float>(bits & ~0x1fffu));
}
double factor(double v, const arithmetic& a) {
    if (a.narrow) return rounded(v, cudnn::data::float16);
    return a.tf32 ? rounded_to_tf32(v) : v;
}

// A tensor while a plan runs: in the caller's memory, or, a virtual one, in memory of its own.
struct running_tensor {
    std::vector<std::int64_t> extents, strides;
    int type = 0;
    unsigned char* memory = nullptr;
    std::vector<double> own;

    std::int64_t span() const {
        std::int64_t last = 0;
        for (std::size_t i = 0; i < extents.size(); ++i) last += (extents[i] - 1) * strides[i];
        return last + 1;
    }
    double load(std::int64_t at) const {
        if (!memory) return own[static_cast<std::size_t>(at)];
        const unsigned char* p = memory + at * static_cast<std::int64_t>(cudnn_size(type));
        std::uint16_t half = 0;
        float single = 0;
        double wide = 0;
        switch (cudnn_size(type)) {
        case 8: std::memcpy(&wide, p, 8); return wide;
        case 4: std::memcpy(&single, p, 4); return static_cast<double>(single);
        default:
            std::memcpy(&half, p, 2);
            return static_cast<double>(type == cudnn::data::float16 ? graft::to_float(graft::float16{half}) : graft::to_float(graft::bfloat16{half}));
        }
    }
    void store(std::int64_t at, double v) {
        if (!memory) {
            own[static_cast<std::size_t>(at)] = rounded(v, type);
            return;
        }
        unsigned char* p = memory + at * static_cast<std::int64_t>(cudnn_size(type));
        const std::uint16_t half = type == cudnn::data::float16 ? graft::to_float16(v).bits : graft::to_bfloat16(v).bits;
        const float single = static_cast<float>(v);
        if (cudnn_size(type) == 8)
            std::memcpy(p, &v, 8);
        else if (cudnn_size(type) == 4)
            std::memcpy(p, &single, 4);
        else
            std::memcpy(p, &half, 2);
    }
};

using tensor_map = std::map<std::int64_t, running_tensor>;

running_tensor describe(const cudnn_descriptor* t) {
    running_tensor r;
    r.extents = t->integers(attribute::tensor_dimensions);
    r.strides = t->integers(attribute::tensor_strides);
    r.type = static_cast<int>(t->integer(attribute::tensor_data_type));
    return r;
}

// Counts through extents, the last one fastest; false behind the last.
bool advance(std::vector<std::int64_t>& at, const std::vector<std::int64_t>& extents) {
    for (std::size_t i = extents.size(); i-- > 0;) {
        if (++at[i] < extents[i]) return true;
        at[i] = 0;
    }
    return false;
}

// Every element of a tensor, at its place, as an engine takes it for a factor.
std::vector<double> factors(const running_tensor& t, const arithmetic& a) {
    std::vector<double> all(static_cast<std::size_t>(t.span()));
    std::vector<std::int64_t> at(t.extents.size(), 0);
    do {
        std::int64_t place = 0;
        for (std::size_t i = 0; i < at.size(); ++i) place += at[i] * t.strides[i];
        all[static_cast<std::size_t>(place)] = factor(t.load(place), a);
    } while (advance(at, t.extents));
    return all;
}

// An element of a filter: where it lies in w, and how far from the corner of its window its element of x lies.
struct filter_tap {
    std::int64_t of_x = 0, of_w = 0;
    std::array<std::int64_t, 8> from_corner{};
};

// Visits every product of a convolution in the order of y, then of w: tells the elements' places in x, w and y.
template <class Visit>
void visit_products(const cudnn_descriptor& c, const running_tensor& x, const running_tensor& w, const running_tensor& y, const Visit& visit) {
    const auto &stride = c.integers(attribute::convolution_strides), &dilation = c.integers(attribute::convolution_dilations),
               &pad = c.integers(attribute::convolution_pre_paddings);
    const std::int64_t groups = x.extents[1] / w.extents[1], filters = w.extents[0] / groups;
    const std::size_t axes = y.extents.size() - 2;
    std::vector<filter_tap> taps;
    const std::vector<std::int64_t> of_filter(w.extents.begin() + 1, w.extents.end());
    std::vector<std::int64_t> k(of_filter.size(), 0);
    do {
        filter_tap t;
        t.of_x = k[0] * x.strides[1];
        t.of_w = k[0] * w.strides[1];
        for (std::size_t i = 0; i < axes; ++i) {
            t.from_corner[i] = k[i + 1] * dilation[i];
            t.of_x += t.from_corner[i] * x.strides[i + 2];
            t.of_w += k[i + 1] * w.strides[i + 2];
        }
        taps.push_back(t);
    } while (advance(k, of_filter));
    std::vector<std::int64_t> o(y.extents.size(), 0), corner(axes);
    do {
        std::int64_t of_y = o[0] * y.strides[0] + o[1] * y.strides[1], of_x = o[0] * x.strides[0] + o[1] / filters * w.extents[1] * x.strides[1];
        for (std::size_t i = 0; i < axes; ++i) {
            corner[i] = o[i + 2] * stride[i] - pad[i];
            of_y += o[i + 2] * y.strides[i + 2];
            of_x += corner[i] * x.strides[i + 2];
        }
        for (const filter_tap& t : taps) {
            bool inside = true;
            for (std::size_t i = 0; i < axes; ++i) {
                const std::int64_t at = corner[i] + t.from_corner[i];
                inside = inside && at >= 0 && at < x.extents[i + 2];
            }
            if (inside) visit(static_cast<std::size_t>(of_x + t.of_x), static_cast<std::size_t>(o[1] * w.strides[0] + t.of_w), static_cast<std::size_t>(of_y));
        }
    } while (advance(o, y.extents));
}

void run_convolution(const cudnn_descriptor& operation, const convolution_roles& roles, tensor_map& tensors, const arithmetic& a) {
    const auto tensor = [&](int name) -> running_tensor& { return tensors[operation.descriptor(name)->integer(attribute::tensor_unique_id)]; };
    running_tensor &x = tensor(roles.x), &w = tensor(roles.w), &y = tensor(roles.y), &to = tensor(roles.written);
    std::vector<double> sums(static_cast<std::size_t>(to.span()), 0.0);
    const auto add = [&](std::size_t at, double product) {
        double& sum = sums[at];
        sum = a.coarse ? rounded(sum + product, cudnn::data::float16) : sum + product;
    };
    const cudnn_descriptor& how = *operation.descriptor(roles.convolution);
    if (roles.written == roles.y) {
        const std::vector<double> of_x = factors(x, a), of_w = factors(w, a);
        visit_products(how, x, w, y, [&](std::size_t i, std::size_t j, std::size_t to_y) { add(to_y, of_x[i] * of_w[j]); });
    } else if (roles.written == roles.x) {
        const std::vector<double> of_y = factors(y, a), of_w = factors(w, a);
        visit_products(how, x, w, y, [&](std::size_t to_x, std::size_t j, std::size_t i) { add(to_x, of_y[i] * of_w[j]); });
    } else {
        const std::vector<double> of_x = factors(x, a), of_y = factors(y, a);
        visit_products(how, x, w, y, [&](std::size_t i, std::size_t to_w, std::size_t j) { add(to_w, of_x[i] * of_y[j]); });
    }
    std::vector<std::int64_t> at(to.extents.size(), 0);
    do {
        std::int64_t place = 0;
        for (std::size_t i = 0; i < at.size(); ++i) place += at[i] * to.strides[i];
        to.store(place, sums[static_cast<std::size_t>(place)] * a.noise);
    } while (advance(at, to.extents));
}

double apply(const cudnn_descriptor& how, double x, double b) {
    switch (how.integer(attribute::pointwise_mode)) {
    case mode::add: return x + b;
    case mode::subtract: return x - b;
    case mode::multiply: return x * b;
    case mode::minimum: return std::fmin(x, b);
    case mode::maximum: return std::fmax(x, b);
    case mode::divide: return x / b;
    case mode::exp: return std::exp(x);
    case mode::log: return std::log(x);
    case mode::identity: return x;
    case mode::relu_forward: {
        const double low = how.real(attribute::pointwise_relu_lower_clip, 0), high = how.real(attribute::pointwise_relu_upper_clip, HUGE_VAL);
        return x < low ? low + how.real(attribute::pointwise_relu_lower_clip_slope, 0) * (x - low) : std::fmin(x, high);
    }
    case mode::tanh_forward: return std::tanh(x);
    case mode::sigmoid_forward: return 1 / (1 + std::exp(-x));
    case mode::elu_forward: return x > 0 ? x : how.real(attribute::pointwise_elu_alpha, 1) * std::expm1(x);
    case mode::gelu_forward: return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case mode::gelu_tanh_forward: return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case mode::softplus_forward: {
        const double beta = how.real(attribute::pointwise_softplus_beta, 1);
        return (std::fmax(beta * x, 0) + std::log1p(std::exp(-std::fabs(beta * x)))) / beta;
    }
    case mode::swish_forward: return x / (1 + std::exp(-how.real(attribute::pointwise_swish_beta, 1) * x));
    default: return NAN;
    }
}

void run_pointwise(const cudnn_descriptor& operation, tensor_map& tensors) {
    const auto tensor = [&](int name) -> running_tensor* {
        const cudnn_descriptor* t = operation.descriptor(name);
        return t ? &tensors[t->integer(attribute::tensor_unique_id)] : nullptr;
    };
    const running_tensor *x = tensor(attribute::pointwise_operation_x), *b = tensor(attribute::pointwise_operation_b);
    running_tensor* y = tensor(attribute::pointwise_operation_y);
    std::vector<std::int64_t> at(y->extents.size(), 0);
    do {
        std::int64_t of_x = 0, of_b = 0, of_y = 0;
        for (std::size_t i = 0; i < at.size(); ++i) {
            of_x += at[i] * x->strides[i];
            of_y += at[i] * y->strides[i];
            if (b && b->extents[i] > 1) of_b += at[i] * b->strides[i];
        }
        y->store(of_y, apply(*operation.descriptor(attribute::pointwise_operation_pointwise), x->load(of_x), b ? b->load(of_b) : 0));
    } while (advance(at, y->extents));
}

std::int64_t place_of(const running_tensor& t, const std::vector<std::int64_t>& at) {
    std::int64_t place = 0;
    for (std::size_t i = 0; i < at.size(); ++i)
        if (t.extents[i] > 1) place += at[i] * t.strides[i];
    return place;
}

// Where b has fewer matrices than a, each is of as many neighbours of a's.
void run_matmul(const cudnn_descriptor& operation, tensor_map& tensors) {
    const auto tensor = [&](int name) -> running_tensor& { return tensors[id_of(operation.descriptor(name))]; };
    const running_tensor &a = tensor(attribute::matmul_operation_a), &b = tensor(attribute::matmul_operation_b);
    running_tensor& c = tensor(attribute::matmul_operation_c);
    const std::size_t row = c.extents.size() - 2, column = row + 1;
    std::vector<std::int64_t> at(c.extents.size(), 0);
    do {
        std::vector<std::int64_t> of_a = at, of_b = at;
        for (std::size_t i = 0; i < row; ++i) of_b[i] = at[i] / (a.extents[i] / b.extents[i]);
        of_a[column] = of_b[row] = 0;
        const std::int64_t a_begin = place_of(a, of_a), b_begin = place_of(b, of_b), a_step = a.strides[column], b_step = b.strides[row];
        double sum = 0;
        for (std::int64_t k = 0; k < a.extents[column]; ++k) sum += a.load(a_begin + k * a_step) * b.load(b_begin + k * b_step);
        c.store(place_of(c, at), sum);
    } while (advance(at, c.extents));
}

void run_reduction(const cudnn_descriptor& operation, tensor_map& tensors) {
    const running_tensor& x = tensors[id_of(operation.descriptor(attribute::reduction_operation_x))];
    running_tensor& y = tensors[id_of(operation.descriptor(attribute::reduction_operation_y))];
    const bool adds = operation.descriptor(attribute::reduction_operation_reduction)->integer(attribute::reduction_operator) == cudnn::reduce::add;
    std::vector<double> sums(static_cast<std::size_t>(y.span()), adds ? 0.0 : -HUGE_VAL);
    std::vector<std::int64_t> at(x.extents.size(), 0);
    do {
        double& sum = sums[static_cast<std::size_t>(place_of(y, at))];
        const double v = x.load(place_of(x, at));
        sum = adds ? sum + v : std::isnan(v) || v > sum ? v : sum;
    } while (advance(at, x.extents));
    at.assign(at.size(), 0);
    do y.store(place_of(y, at), sums[static_cast<std::size_t>(place_of(y, at))]);
    while (advance(at, y.extents));
}

const cudnn_descriptor* graph_of(const cudnn_descriptor& plan) {
    return plan.descriptor(attribute::execution_plan_engine_config)->descriptor(attribute::engine_config_engine)->descriptor(attribute::engine_operation_graph);
}

// Every tensor of a graph, and which of them its operations write.
void collect(const cudnn_descriptor& graph, std::map<std::int64_t, const cudnn_descriptor*>& tensors, std::vector<std::int64_t>& written) {
    for (const cudnn_pointer& o : graph.find(attribute::operation_graph_operations)->descriptors) {
        const operation_tensors of = tensors_of(*o);
        for (const cudnn_descriptor* t : of.read) tensors[id_of(t)] = t;
        tensors[id_of(of.written)] = of.written;
        written.push_back(id_of(of.written));
    }
}

void run_plan(const cudnn_descriptor& plan, tensor_map tensors, double noise) {
    const cudnn_descriptor* graph = graph_of(plan);
    arithmetic a;
    a.noise = noise;
    for (const int n : plan.engine.notes) {
        a.tf32 = a.tf32 || n == note::tensor_core;
        a.narrow = a.narrow || n == note::down_convert_inputs;
        a.coarse = a.coarse || n == note::reduced_precision_reduction;
    }
    for (auto& t : tensors)
        if (!t.second.memory && t.second.own.empty()) t.second.own.assign(static_cast<std::size_t>(t.second.span()), NAN);
    // Operations stand in any order: each runs when what it reads was written.
    std::vector<const cudnn_descriptor*> waiting;
    for (const cudnn_pointer& o : graph->find(attribute::operation_graph_operations)->descriptors) waiting.push_back(o.get());
    const auto ready = [&](const cudnn_descriptor* operation) {
        for (const cudnn_descriptor* t : tensors_of(*operation).read)
            for (const cudnn_descriptor* o : waiting)
                if (id_of(tensors_of(*o).written) == id_of(t)) return false;
        return true;
    };
    while (!waiting.empty()) {
        std::size_t next = 0;
        while (!ready(waiting[next])) ++next;
        const cudnn_descriptor& o = *waiting[next];
        convolution_roles roles{};
        if (roles_of(o.kind, roles))
            run_convolution(o, roles, tensors, a);
        else if (o.kind == cudnn::matmul_operation_descriptor)
            run_matmul(o, tensors);
        else if (o.kind == cudnn::reduction_operation_descriptor)
            run_reduction(o, tensors);
        else
            run_pointwise(o, tensors);
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(next));
    }
}

}  // namespace

int execute_plan(void* stream, const cudnn_pointer& plan, const cudnn_pointer& pack) {
    std::map<std::int64_t, const cudnn_descriptor*> described;
    std::vector<std::int64_t> written;
    collect(*graph_of(*plan), described, written);
    const auto &ids = pack->integers(attribute::variant_pack_unique_ids), &pointers = pack->integers(attribute::variant_pack_data_pointers);
    tensor_map tensors;
    std::vector<range> reads, writes;
    for (const auto& d : described) {
        running_tensor t = describe(d.second);
        if (!d.second->integer(attribute::tensor_is_virtual)) {
            std::size_t at = 0;
            while (at < ids.size() && ids[at] != d.first) ++at;
            if (at == ids.size() || !pointers[at])
                return cudnn_error(result::bad_parameter, "the variant pack has no pointer for tensor " + std::to_string(d.first));
            if (pointers[at] % d.second->integer(attribute::tensor_byte_alignment))
                return cudnn_error(2003, "tensor " + std::to_string(d.first) + " is not aligned as its descriptor says");
            t.memory = reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(pointers[at]));
            if (d.second->integer(attribute::tensor_is_by_value)) {
                // Of the host, and read now.
                const double value = t.load(0);
                t.memory = nullptr;
                t.own = {value};
                tensors[d.first] = std::move(t);
                continue;
            }
            bool is_written = false;
            for (const std::int64_t w : written) is_written = is_written || w == d.first;
            (is_written ? writes : reads).emplace_back(t.memory, static_cast<std::size_t>(t.span()) * cudnn_size(t.type));
        }
        tensors[d.first] = std::move(t);
    }
    const std::int64_t workspace = pack->integer(attribute::variant_pack_workspace), bytes = plan->engine.workspace_bytes;
    if (bytes && !workspace) return cudnn_error(result::bad_parameter, "the plan needs a workspace");
    auto* scratch = reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(workspace));
    if (bytes) writes.emplace_back(scratch, static_cast<std::size_t>(bytes));
    // An engine that sums in another order each time.
    static std::atomic<unsigned> runs{0};
    bool racing = false;
    for (const int n : plan->engine.notes) racing = racing || n == note::nondeterministic;
    const double noise = racing ? 1 + 1e-6 * static_cast<double>(++runs % 3) : 1;
    const auto work = [plan, tensors, scratch, bytes, noise] {
        if (bytes) std::memset(scratch, 0xff, static_cast<std::size_t>(bytes));
        run_plan(*plan, tensors, noise);
    };
    const int code = enqueue("cudnnBackendExecute", stream, work, reads, writes);
    return code ? cudnn_error(result::execution_failed, "the driver refused the work with " + std::to_string(code)) : result::success;
}

}  // namespace graft_simulator
