// Operators of a device against the reference kernels, by the test problems of the op table.
#include "../tests/ops/wrapped.hpp"
#include "gpu_check.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace bench {
namespace {

struct task {
    const graft::op_row* row;
    std::string text;
};

// What came of one problem at one precision.
struct outcome {
    bool ran = false, on_device = false, on_host = false, comparable = true;
    double error = 0, bound = 0;
    std::string fault, reason, skipped, kernels;
};

// The devices that a problem runs on: of one precision, and one that gives the same bits every time.
struct devices {
    std::shared_ptr<graft::device> on, deterministic;
};

// The numbers that a precision has; what a float32 becomes where a device stores or multiplies it so.
void round_to(graft::tensor& t, const std::string& precision) {
    if (t.type() != graft::dtype::float32 && t.type() != graft::dtype::float64) return;
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        double v = graft::element_as_double(t.type(), t.raw(), i);
        if (precision == "tf32") {
            int exponent = 0;
            const double m = std::frexp(v, &exponent);
            if (std::isfinite(v)) v = std::ldexp(std::nearbyint(m * 2048) / 2048, exponent);
        } else {
            const graft::dtype type = precision == "float16" ? graft::dtype::float16 : graft::dtype::bfloat16;
            std::uint16_t bits = 0;
            graft::store_from_double(type, &bits, 0, 1, &v);
            v = graft::element_as_double(type, &bits, 0);
        }
        graft::store_from_double(t.type(), t.raw(), i, 1, &v);
    }
}

graft::result<std::vector<graft::tensor>> run(const graft::model& net, const std::vector<graft::tensor>& inputs, graft::executor& pool) {
    graft::session session(net, {1, &pool});
    for (std::size_t i = 0; i < inputs.size(); ++i) GRAFT_TRY(session.set_input(i, inputs[i]));
    GRAFT_TRY(session.run());
    std::vector<graft::tensor> outputs;
    for (std::size_t i = 0; i < net.outputs().size(); ++i) outputs.push_back(session.output(i));
    return outputs;
}

graft::result<std::vector<graft::tensor>> reference(const problems::problem& p, const graft::op_table& own, graft::executor& pool) {
    graft::load_options options;
    options.reference = true;
    options.operators = own;
    graft::model net;
    GRAFT_TRY_ASSIGN(net, graft::load(p.g, options));
    return run(net, p.inputs, pool);
}

// How far the answers move where inputs and constants are rounded to the precision: what no kernel of that precision can avoid.
double sensitivity(const problems::problem& p, const std::string& precision, const std::vector<graft::tensor>& want, const graft::op_table& own,
                   graft::executor& pool) {
    problems::problem rounded = p;
    for (graft::tensor& t : rounded.inputs) t = problems::copy_of(t), round_to(t, precision);
    for (graft::value& v : rounded.g.values)
        if (v.constant) v.constant = problems::copy_of(v.constant), round_to(v.constant, precision);
    auto got = reference(rounded, own, pool);
    if (!got.ok() || got->size() != want.size()) return HUGE_VAL;
    double most = 0;
    for (std::size_t i = 0; i < want.size(); ++i) most = std::max(most, difference(got.value()[i], want[i]));
    return most;
}

void place(const graft::model& net, outcome& out) {
    auto placed = net.placements({});
    if (!placed.ok()) return;
    for (const graft::placement& p : placed.value()) {
        const bool host = p.device == "cpu";
        if (!host && !p.kernel.empty()) out.kernels += (out.kernels.empty() ? "" : "; ") + p.op_type + ": " + p.kernel;
        (host ? out.on_host : out.on_device) = true;
        if (host && out.reason.empty()) out.reason = p.op_type + ": " + (p.reason.empty() ? "the CPU's" : p.reason);
    }
}

// Runs on a deterministic device give the same bits.
graft::status repeat(const problems::problem& p, const graft::op_table& own, const std::shared_ptr<graft::device>& on, graft::executor& pool, outcome& out) {
    graft::load_options options = graft::on_device(on);
    options.operators = own;
    graft::model net;
    GRAFT_TRY_ASSIGN(net, gpu_runtime::load(p.g, options));
    std::vector<graft::tensor> first;
    GRAFT_TRY_ASSIGN(first, run(net, p.inputs, pool));
    for (int i = 0; i < 2; ++i) {
        std::vector<graft::tensor> again;
        GRAFT_TRY_ASSIGN(again, run(net, p.inputs, pool));
        for (std::size_t k = 0; k < first.size(); ++k) {
            if (same_bits(again[k], first[k])) continue;
            out.kernels.clear();
            place(net, out);
            return graft::fail(graft::errc::internal, p.g.nodes[0].op_type, "a deterministic device gave other bits for output " + std::to_string(k));
        }
    }
    return {};
}

graft::status compare(const task& t, const std::string& precision, const devices& with, outcome& out) {
    graft::executor serial;
    problems::problem p = problems::read(*t.row, t.text);
    if (!p.error.empty()) return graft::fail(graft::errc::internal, t.row->name, "the problem cannot be read: " + p.error);
    // the rows of training are no part of the table that files are checked against
    const graft::op_table own{t.row, t.row->domain[0] ? 1 : 0};
    std::vector<graft::tensor> want, got;
    if (precision == "float16" || precision == "bfloat16")
        for (const bool output_too : {true, false}) {  // there is no Neg of booleans and of unsigned integers
            problems::problem wrapped = p;
            problems::wrap(wrapped, output_too);
            auto answers = reference(wrapped, own, serial);
            if (!answers.ok()) continue;
            p = std::move(wrapped);
            want = std::move(answers).value();
            break;
        }
    if (want.empty()) {
        // a form that a training step may have and a file may not, such as SGD without momentum
        auto answers = reference(p, own, serial);
        if (!answers.ok() && t.row->domain[0]) {
            out.skipped = answers.error().what();
            return {};
        }
        GRAFT_TRY_ASSIGN(want, std::move(answers));
    }
    graft::load_options options = graft::on_device(with.on);
    options.operators = own;
    graft::model net;
    GRAFT_TRY_ASSIGN(net, gpu_runtime::load(p.g, options));
    place(net, out);
    GRAFT_TRY_ASSIGN(got, run(net, p.inputs, serial));
    out.ran = true;
    if (t.row->flags & graft::op_flag::random) {
        out.comparable = false;
        return {};
    }
    if (got.size() != want.size()) return graft::fail(graft::errc::internal, t.row->name, "it has another number of outputs");
    const double u = rounding_of(precision);
    const double moved = u > 0 ? sensitivity(p, precision, want, own, serial) : 0;
    out.comparable = std::isfinite(moved);
    for (std::size_t i = 0; i < want.size() && out.comparable; ++i) {
        const double half = want[i].type() == graft::dtype::bfloat16 ? 0x1p-8 : want[i].type() == graft::dtype::float16 ? 0x1p-11 : 0;
        const double bound = 2e-5 + 8 * u + 4 * half + 2 * moved, error = difference(got[i], want[i]);
        if (i == 0 || error > out.error) out.error = error;
        if (i == 0 || bound > out.bound) out.bound = bound;
        if (!(error <= bound))
            return graft::fail(graft::errc::internal, t.row->name,
                               "output " + std::to_string(i) + " is off by " + std::to_string(error) + ", the bound is " + std::to_string(bound));
    }
    return repeat(p, own, with.deterministic, serial, out);
}

std::vector<task> tasks_of(bool training, const std::vector<std::string>& only) {
    std::vector<task> all;
    const graft::ops::table_list tables = training ? graft::ops::all_training_op_tables() : graft::ops::all_op_tables();
    for (const auto& table : tables)
        for (const auto& row : table) {
            if (!row.run || (row.flags & graft::op_flag::bodies) || (!only.empty() && std::find(only.begin(), only.end(), row.name) == only.end())) continue;
            for (const std::string& text : problems::split(row.problems, ';')) all.push_back({&row, text});
        }
    return all;
}

// One line for each operator, one for each failure, and the reasons why nodes stayed on the CPU.
int report(const std::vector<task>& tasks, const std::vector<outcome>& outcomes, const std::string& precision, bool training) {
    struct sum {
        int problems = 0, device = 0, both = 0, host = 0;
        double worst = 0;
    };
    std::map<std::string, sum> operators;
    std::map<std::string, int> reasons;
    sum all;
    int failures = 0, not_run = 0, not_comparable = 0;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const outcome& o = outcomes[i];
        const std::string name = (tasks[i].row->domain[0] ? tasks[i].row->domain + std::string(".") : std::string()) + tasks[i].row->name;
        if (!o.fault.empty()) {
            ++failures;
            line("failure")
                .text("operator", name)
                .text("precision", precision)
                .text("problem", tasks[i].text)
                .text("why", o.fault)
                .text("kernels", o.kernels)
                .print();
        }
        if (!o.skipped.empty())
            line("skipped").text("operator", name).text("precision", precision).text("problem", tasks[i].text).text("why", o.skipped).print();
        if (!o.ran) {
            not_run += o.fault.empty() && o.skipped.empty();
            continue;
        }
        not_comparable += !o.comparable;
        if (!o.reason.empty()) ++reasons[o.reason];
        for (sum* s : {&operators[name], &all}) {
            ++s->problems;
            s->device += o.on_device && !o.on_host;
            s->both += o.on_device && o.on_host;
            s->host += !o.on_device && o.on_host;
            if (std::isfinite(o.error)) s->worst = std::max(s->worst, o.error);
        }
    }
    for (const auto& [name, s] : operators)
        line("operator")
            .text("operator", name)
            .text("precision", precision)
            .integer("problems", s.problems)
            .integer("on_device", s.device)
            .integer("in_part", s.both)
            .integer("on_cpu", s.host)
            .number("worst", s.worst)
            .print();
    for (const auto& [reason, count] : reasons) line("refused").text("precision", precision).text("why", reason).integer("problems", count).print();
    line("operators")
        .text("table", training ? "training" : "inference")
        .text("precision", precision)
        .integer("problems", all.problems)
        .integer("on_device", all.device)
        .integer("in_part", all.both)
        .integer("on_cpu", all.host)
        .number("worst", all.worst)
        .integer("failures", failures)
        .integer("not_run", not_run)
        .integer("not_comparable", not_comparable)
        .print();
    return failures;
}

}  // namespace

graft::result<int> check_operators(const check_options& options, bool training) {
    const std::vector<task> tasks = tasks_of(training, options.only);
    int failures = 0;
    for (std::size_t turn = 0; turn < options.precisions.size(); ++turn) {
        const std::string& precision = options.precisions[turn];
        // each precision gets its share of the time that is left
        const double until = seconds() + (options.until - seconds()) / static_cast<double>(options.precisions.size() - turn);
        devices with;
        GRAFT_TRY_ASSIGN(with.on, open(options.device, precision));
        GRAFT_TRY_ASSIGN(with.deterministic, open(options.device, precision, true));
        std::vector<outcome> outcomes(tasks.size());
        std::atomic<std::size_t> next{0};
        const auto work = [&] {
            for (std::size_t i = next++; i < tasks.size() && seconds() < until; i = next++) {
                const graft::status done = compare(tasks[i], precision, with, outcomes[i]);
                if (!done.ok()) outcomes[i].fault = done.error().what();
            }
        };
        std::vector<std::thread> threads;
        for (int i = 1; i < options.threads; ++i) threads.emplace_back(work);
        work();
        for (std::thread& t : threads) t.join();
        failures += report(tasks, outcomes, precision, training);
    }
    return failures;
}

}  // namespace bench
