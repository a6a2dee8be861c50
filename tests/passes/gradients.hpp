// Gradients against central differences: the graphs of test problems, and any others, in double by the reference kernels.
//
// A gradient is tested by its operator's own test problems (ops/*.hpp) and by those of gradient_problems.hpp, in the same language,
// with one word more: #3 names the first three outputs. Float inputs become float64.
#pragma once

#include "../difference.hpp"
#include "../ops/problems.hpp"

#include <graft/graph/verify.hpp>
#include <graft/ops/gradients.hpp>
#include <graft/passes/differentiate.hpp>
#include <graft/passes/run_reference.hpp>
#include <graft/passes/specialize.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace gradients {

using graft::no_value;
using graft::tensor;
using graft::value_id;

inline std::size_t index(value_id id) { return static_cast<std::size_t>(id); }

/// What came of one problem.
struct outcome {
    std::string error;          ///< what went wrong, empty where nothing did
    bool refused = false;       ///< the gradient answered train.no_gradient
    std::int64_t elements = 0;  ///< that were compared
    std::int64_t kinks = 0;     ///< left out, because differences from both sides disagree or are not finite
    double worst = 0;           ///< largest difference over the largest gradient
};

/// All tables of operators, those of training first.
inline std::vector<graft::op_table> all_tables() {
    std::vector<graft::op_table> tables;
    const graft::ops::table_list training = graft::ops::all_training_op_tables(), own = graft::ops::all_op_tables();
    for (const graft::op_table& table : training)
        if (table.size) tables.push_back(table);
    tables.insert(tables.end(), own.begin(), own.end());
    return tables;
}

/// Runs nodes [0, count) of a graph whose values are known or computed by the nodes before; `values` has a tensor for each value.
inline std::string run_nodes(const graft::graph& g, std::size_t count, std::vector<tensor>& values) {
    const graft::limits limit;
    graft::executor serial;
    for (std::size_t i = 0; i < count; ++i) {
        const graft::node& n = g.nodes[i];
        std::vector<graft::tensor_view> in;
        for (value_id id : n.inputs) in.push_back(id == no_value ? graft::tensor_view{} : graft::view(values[id]));
        std::vector<tensor> made;
        const graft::status s = graft::run_reference(n, in.data(), static_cast<int>(in.size()), made, {limit, serial, nullptr, 7});
        if (!s.ok()) return s.error().what();
        for (std::size_t k = 0; k < made.size(); ++k)
            if (n.outputs[k] != no_value) values[n.outputs[k]] = made[k];
    }
    return {};
}

/// A graph with a loss and gradients behind it: loss = sum over the float outputs of output * fixed random numbers.
struct differentiated {
    graft::graph g;
    std::size_t forward = 0;        ///< nodes before the loss
    std::vector<value_id> outputs;  ///< those that the loss reads
    std::vector<tensor> weights;    ///< of each of them
    std::vector<value_id> wrt, gradients;
    std::vector<tensor> values;  ///< constants and inputs
    std::string error;
    bool refused = false;
};

/// What is differentiated, and how well it is compared.
struct question {
    std::vector<value_id> constant;  ///< inputs that nothing is asked for
    std::vector<value_id> unread;    ///< outputs that the loss does not read
    int shards = 4;
    std::int64_t most = 200;                    ///< elements compared of each input
    graft::dtype type = graft::dtype::float64;  ///< of inputs and outputs
};
inline bool among(const std::vector<value_id>& ids, value_id id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

/// Differentiates the graph for those of its inputs that are of the type.
inline differentiated differentiate_graph(graft::graph g, const std::vector<tensor>& inputs, const question& q = {}) {
    differentiated d;
    const graft::limits limit;
    graft::executor serial;
    const auto failed = [&](const graft::error& e) {
        d.error = e.what();
        d.refused = e.code() == graft::errc::train_no_gradient;
        return std::move(d);
    };
    const std::vector<graft::op_table> tables = all_tables();
    graft::status s = graft::verify_graph(g, {tables.data(), static_cast<int>(tables.size())}, limit);
    if (!s.ok()) return failed(s.error());
    std::vector<graft::tensor_view> views;
    for (const tensor& t : inputs) views.push_back({t.type(), t.shape(), nullptr});
    auto made = graft::specialize(std::move(g), views.data(), {limit, serial, nullptr, 7});
    if (!made.ok()) return failed(made.error());
    d.g = std::move(made).value();
    d.forward = d.g.nodes.size();

    graft::emitter build(d.g, graft::ops::find_training_op, limit);
    build.prefix = "loss";
    value_id loss = no_value;
    problems::numbers random{7};
    for (value_id id : d.g.outputs) {
        const graft::value v = d.g.at(id);
        if (v.type != q.type || among(q.unread, id) || !v.has_shape || !v.extents.known() || v.constant) continue;
        tensor w = graft::tensor::make(v.type, v.extents);
        for (std::int64_t i = 0; i < w.elements(); ++i) {
            const double x = random.uniform(0.3, 1) * (random.next() & 1 ? 1 : -1);
            graft::store_from_double(v.type, w.raw(), i, 1, &x);
        }
        d.outputs.push_back(id);
        d.weights.push_back(w);
        const value_id sum = build.apply("ReduceSum", {build.mul(id, build.constant(w))}, {graft::integer_attribute("keepdims", 0)});
        loss = loss == no_value ? sum : build.add(loss, sum);
    }
    if (loss == no_value) return d;  // nothing to be differentiated
    if (!build.failure.ok()) return failed(build.failure.error());
    for (std::size_t i = 0; i < d.g.inputs.size(); ++i)
        if (d.g.at(d.g.inputs[i]).type == q.type && !among(q.constant, d.g.inputs[i])) d.wrt.push_back(d.g.inputs[i]);
    auto gradients = graft::differentiate(d.g, loss, d.wrt, q.shards, limit);
    if (!gradients.ok()) return failed(gradients.error());
    d.gradients = std::move(gradients).value();
    d.values.resize(d.g.values.size());
    for (std::size_t i = 0; i < d.values.size(); ++i) d.values[i] = d.g.values[i].constant;
    for (std::size_t i = 0; i < inputs.size(); ++i) d.values[d.g.inputs[i]] = inputs[i];
    return d;
}

/// Weighted sums of what outputs change, as one input element moves.
class difference_taker {
public:
    difference_taker(differentiated& d, value_id moved) : d_(d), t_(copy(d.values[moved])) {
        values_ = d.values;
        values_[moved] = t_;
        run_nodes(d_.g, d_.forward, values_);
        for (value_id id : d_.outputs) base_.push_back(values_[id]);
    }
    /// Whether every output is finite where nothing has moved.
    bool finite() const {
        for (const tensor& t : base_)
            for (std::int64_t k = 0; k < t.elements(); ++k)
                if (!std::isfinite(t.data<double>()[k])) return false;
        return true;
    }
    /// Derivative by element i; false at a kink.
    bool derivative(std::int64_t i, double& result) {
        const double x = t_.data<double>()[i];
        double h = 1e-4 * std::max(1.0, std::fabs(x));
        for (int level = 0; level < 5; ++level, h /= 8) {
            double d1 = 0, s1 = 0, d2 = 0, s2 = 0, size = 1;
            if (!at(i, x, h, d1, s1, size) || !at(i, x, h / 2, d2, s2, size)) continue;
            if (!moved_ && !finite()) return false;  // it may be what the outputs that are not finite depend on
            result = (4 * d2 - d1) / 3;
            // Of a smooth function, differences from both sides approach each other as the step shrinks.
            const double noise = 1e-15 * size / h, near = 3e-7 * std::max(std::fabs(d1), std::fabs(d2)) + 1e-9 + noise;
            if (std::fabs(d1 - d2) <= near && std::fabs(2 * s2 - s1) <= near + noise) return true;
        }
        return false;
    }

private:
    static tensor copy(const tensor& t) {
        tensor made = graft::tensor::make(t.type(), t.shape());
        if (t.bytes()) std::memcpy(made.raw(), t.raw(), t.bytes());
        return made;
    }
    // (f(x + h) - f(x - h)) / 2h and (f(x + h) + f(x - h) - 2 f(x)) / h.
    bool at(std::int64_t i, double x, double h, double& first, double& second, double& size) {
        std::vector<tensor> high;
        moved_ = false;
        volatile double up = x + h, down = x - h;  // the steps as they were taken
        t_.data<double>()[i] = up;
        run_nodes(d_.g, d_.forward, values_);
        for (value_id id : d_.outputs) high.push_back(values_[id]);
        t_.data<double>()[i] = down;
        run_nodes(d_.g, d_.forward, values_);
        t_.data<double>()[i] = x;
        first = second = 0;
        for (std::size_t o = 0; o < base_.size(); ++o) {
            const double *w = d_.weights[o].data<double>(), *y = base_[o].data<double>(), *a = high[o].data<double>(),
                         *b = values_[d_.outputs[o]].data<double>();
            for (std::int64_t k = 0; k < base_[o].elements(); ++k) {
                if (!std::isfinite(y[k]) || a[k] == b[k]) {
                    if (std::isfinite(y[k]) && a[k] != y[k]) second += w[k] * 2 * (a[k] - y[k]);
                    continue;
                }
                moved_ = true;
                size = std::max(size, std::fabs(y[k]));
                first += w[k] * (a[k] - b[k]);
                second += w[k] * ((a[k] - y[k]) - (y[k] - b[k]));
            }
        }
        first /= up - down;
        second /= h;
        return std::isfinite(first) && std::isfinite(second);
    }

    differentiated& d_;
    tensor t_;
    bool moved_ = false;  // whether a finite output changed
    std::vector<tensor> values_, base_;
};

/// Compares the gradients of a graph's float64 inputs with central differences.
inline outcome check_graph(graft::graph g, const std::vector<tensor>& inputs, const question& q = {}) {
    outcome o;
    differentiated d = differentiate_graph(std::move(g), inputs, q);
    o.error = d.error;
    o.refused = d.refused;
    if (!o.error.empty() || d.gradients.empty()) return o;
    std::vector<tensor> values = d.values;
    o.error = run_nodes(d.g, d.g.nodes.size(), values);
    if (!o.error.empty()) return o;
    problems::numbers random{11};
    double largest = 1e-12, worst = 0;
    std::string where;
    for (std::size_t i = 0; i < d.wrt.size(); ++i) {
        const tensor gradient = d.gradients[i] == no_value ? tensor() : values[d.gradients[i]];
        const std::int64_t n = d.values[d.wrt[i]].elements();
        difference_taker take(d, d.wrt[i]);
        for (std::int64_t k = 0; k < std::min(n, q.most); ++k) {
            const std::int64_t at = n <= q.most ? k : static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(n));
            const double got = gradient ? gradient.data<double>()[at] : 0;
            double want = 0;
            if ((!std::isfinite(got) && !take.finite()) || !take.derivative(at, want)) {
                ++o.kinks;
                continue;
            }
            ++o.elements;
            largest = std::max(largest, std::fabs(want));
            const double off = std::isfinite(got) ? std::fabs(got - want) : HUGE_VAL;
            if (off > worst) {
                worst = off;
                where = "input " + std::to_string(i) + " element " + std::to_string(at) + ": " + std::to_string(got) + " and not " + std::to_string(want);
            }
        }
    }
    o.worst = worst / largest;
    if (o.worst > 1e-7) o.error = "the gradient is off by " + std::to_string(o.worst) + ", at " + where;
    return o;
}

/// The problem's text with float64 for every float input, those that are given by value only with `values`, and without the word that
/// asks for outputs.
inline std::string in_double(const std::string& text, int& outputs, bool values = true) {
    std::string made;
    for (std::string word : problems::split(text, ' ')) {
        if (word[0] == '#') {
            outputs = std::atoi(word.c_str() + 1);
            continue;
        }
        for (const char* type : {"f32", "f16", "bf16"}) {
            const std::string name = type;
            const char behind = word.size() > name.size() ? word[name.size()] : '\0';
            if (word.compare(0, name.size(), name) == 0 && (behind == '[' || (values && (behind == '{' || behind == '('))))
                word = "f64" + word.substr(name.size());
        }
        made += (made.empty() ? "" : " ") + word;
    }
    return made;
}

/// Turns constant float inputs of the one node into inputs, so that their gradients are asked for.
inline void free_constants(problems::problem& p) {
    for (value_id id : p.g.nodes[0].inputs) {
        if (id == no_value || p.g.at(id).type != graft::dtype::float64 || !p.g.at(id).constant) continue;
        p.g.inputs.push_back(id);
        p.inputs.push_back(p.g.at(id).constant);
        p.g.at(id).constant = tensor();
    }
}

/// Inputs and outputs that gradients leave out by convention, as bits: statistics that are kept, not learned. `estimate`: what is taken
/// for the gradient is not the derivative, so that differences say nothing of it (tests of its own do).
struct convention {
    const char *domain, *name;
    unsigned inputs, outputs;
    bool estimate = false;
};
constexpr convention conventions[] = {
    {"", "BatchNormalization", 1u << 3 | 1u << 4, 0},
    {"graft", "BatchNormalizationTraining", 1u << 3 | 1u << 4, 0x1e},
    {"graft", "FakeQuantize", 0, 0, true},
    {"", "RoiAlign", 1u << 1, 0},  // the boxes
};
inline question by_convention(const graft::op_row& row, const graft::node& n) {
    question q;
    for (const convention& c : conventions) {
        if (std::string(row.name) != c.name || std::string(row.domain) != c.domain) continue;
        for (std::size_t i = 0; i < n.inputs.size(); ++i)
            if (c.inputs >> i & 1u) q.constant.push_back(n.inputs[i]);
        for (std::size_t i = 0; i < n.outputs.size(); ++i)
            if (c.outputs >> i & 1u) q.unread.push_back(n.outputs[i]);
    }
    return q;
}

inline bool is_estimate(const graft::gradient_row& row) {
    for (const convention& c : conventions)
        if (c.estimate && std::string(row.name) == c.name && std::string(row.domain) == c.domain) return true;
    return false;
}

/// The problem in double; `free`: float constants are inputs.
inline problems::problem read_in_double(const graft::op_row& row, const std::string& text, bool values, bool free) {
    int outputs = 0;
    problems::problem p = problems::read(row, in_double(text, outputs, values));
    std::vector<value_id>& made = p.g.nodes[0].outputs;
    for (int i = static_cast<int>(made.size()); i < outputs; ++i) {
        made.push_back(p.g.add_value("y" + std::to_string(i)));
        p.g.outputs.push_back(made.back());
    }
    for (int i = static_cast<int>(made.size()); outputs && i-- > outputs; p.g.outputs.pop_back()) made[static_cast<std::size_t>(i)] = no_value;
    if (free) free_constants(p);
    return p;
}

/// Checks one problem of an operator: as it is, and where it has float constants with those differentiated as well, unless shapes
/// depend on them or the gradient refuses that. Constants that must be float32 stay so.
inline outcome check(const graft::op_row& row, const std::string& text) {
    const auto ask = [&](bool values, bool free) {
        const problems::problem p = read_in_double(row, text, values, free);
        if (p.error.empty()) return check_graph(p.g, p.inputs, by_convention(row, p.g.nodes[0]));
        outcome o;
        o.error = p.error;
        return o;
    };
    outcome total = ask(true, false);
    if (!total.error.empty() && !total.refused && !total.elements) total = ask(false, false);
    if (read_in_double(row, text, true, true).inputs.size() == read_in_double(row, text, true, false).inputs.size()) return total;
    const outcome free = ask(true, true);
    if (!free.elements) return total;
    if (total.error.empty() || total.refused) total.error = free.error;
    total.refused = free.refused;
    total.elements += free.elements;
    total.kinks += free.kinks;
    total.worst = larger_error(total.worst, free.worst);
    return total;
}

/// What came of many problems.
struct summary {
    int operators = 0, problems = 0, refused = 0;
    std::int64_t elements = 0, kinks = 0;
    double worst = 0;
    std::vector<std::string> failures;

    /// Takes in one problem; gives the number of elements that were compared.
    std::int64_t add(const graft::op_row& row, const std::string& text) {
        const outcome o = check(row, text);
        if (!o.error.empty() && !o.refused) failures.push_back(std::string(row.domain) + (row.domain[0] ? "." : "") + row.name + ": " + text + ": " + o.error);
        refused += o.refused;
        problems += o.elements > 0;
        elements += o.elements;
        kinks += o.kinks;
        worst = larger_error(worst, o.worst);
        return o.elements;
    }
};

}  // namespace gradients
