// --profile of run and bench: records runs or training steps between measurements of the machine, and prints where their time went.
#include "profile.hpp"

#include <graft/core/file.hpp>
#include <graft/cpu/isa.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace program {
namespace {

// Times at which the machine is measured: so many spread over the runs that a change of its pace meets both.
constexpr int most_pieces = 8;
// Other programs hold some runs up, and would have a row of the table longer than it takes: the faster half tells.
constexpr double fastest = 0.5;

json row_json(const graft::profile_row& row, const graft::run_profile& all, const graft::cpu::machine_peak& machine) {
    const graft::roofline r = graft::roofline_of(row, machine);
    const std::int64_t runs = std::max<std::int64_t>(1, all.runs);
    const bool counted = row.multiply_adds > 0;
    return json{{"calls", row.calls},
                {"ms", row.seconds * 1e3 / static_cast<double>(runs)},
                {"share", all.seconds > 0 ? json(row.seconds / all.seconds) : json(nullptr)},
                {"macs", row.multiply_adds / runs},
                {"bytes", row.bytes / runs},
                {"gflops", counted ? json(r.flop_per_second / 1e9) : json(nullptr)},
                {"gbs", r.bytes_per_second / 1e9},
                {"peak_share", counted ? json(r.peak_share) : json(nullptr)},
                {"bandwidth_share", r.bandwidth_share},
                {"limit", r.memory_binds ? "memory" : "compute"}};
}

// The columns that both tables end with.
const std::vector<std::string> figures_head = {">calls", ">ms a run", ">share", ">GFLOP/s", ">of peak", ">GB/s", ">of bandwidth", "limit"};
std::vector<std::string> figures(const graft::profile_row& row, const graft::run_profile& all, const graft::cpu::machine_peak& machine) {
    const graft::roofline r = graft::roofline_of(row, machine);
    const bool counted = row.multiply_adds > 0;
    return {std::to_string(row.calls),
            formatted("%.3f", row.seconds * 1e3 / static_cast<double>(std::max<std::int64_t>(1, all.runs))),
            percent_text(all.seconds > 0 ? row.seconds / all.seconds : 0),
            counted ? formatted("%.1f", r.flop_per_second / 1e9) : "-",
            counted ? percent_text(r.peak_share) : "-",
            formatted("%.1f", r.bytes_per_second / 1e9),
            percent_text(r.bandwidth_share),
            r.memory_binds ? "memory" : "compute"};
}
template <class... Texts>
std::vector<std::string> joined(const std::vector<std::string>& behind, const Texts&... before) {
    std::vector<std::string> all{before...};
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
}
graft::profile_row total_of(const std::vector<graft::profile_row>& rows) {
    graft::profile_row total;
    for (const graft::profile_row& row : rows)
        total.calls += row.calls, total.seconds += row.seconds, total.multiply_adds += row.multiply_adds, total.bytes += row.bytes;
    return total;
}
bool winograd(const graft::profile_row& row) { return row.kernel.find("Winograd") != std::string::npos || row.kernel.find("winograd") != std::string::npos; }

}  // namespace

void declare_profile(option_list& list, profile_options& to) {
    list.add("--profile", to.file, "Record further runs: a trace for Perfetto or chrome://tracing, and a table of where their time went", "FILE");
    list.add("--profile-nodes", to.nodes, "Of --profile: this many nodes too, longest first", "N").within(1, 100000).needs("--profile");
}

graft::status profiling::put() const {
    const std::string text = recorder_->file();
    graft::atomic_file to;
    GRAFT_TRY(to.open(options_.file));
    GRAFT_TRY(to.write(text.data(), text.size()));
    return to.commit();
}

graft::result<std::unique_ptr<profiling>> profiling::begin(const profile_options& options, std::shared_ptr<graft::trace_recorder>& trace) {
    std::unique_ptr<profiling> made;
    if (options.file.empty()) return made;
    made.reset(new profiling(options));
    GRAFT_TRY(made->put());
    trace = made->recorder_;
    return made;
}

graft::status profiling::record(const common_options& common, graft::session& session, int runs, double seconds) {
    return record_each(
        common, [&] { return session.run(); }, runs, seconds);
}

graft::status profiling::record_steps(const common_options& common, const std::function<graft::status()>& step, int steps) {
    graft::trace_task whole;
    whole.op = graft::trace_recorder::whole_run, whole.node = "training step", whole.device = "caller", whole.threads = thread_count(common);
    graft::trace_span span;
    span.task = std::make_shared<const graft::trace_task>(std::move(whole));
    const auto recorded = [&]() -> graft::status {
        span.begin = graft::detail::seconds_now();
        GRAFT_TRY(step());
        span.end = graft::detail::seconds_now();
        recorder_->add(span);
        return {};
    };
    return record_each(common, recorded, steps, 1e9);
}

graft::status profiling::record_each(const common_options& common, const std::function<graft::status()>& run, int runs, double seconds) {
    graft::cpu::isa level{};
    GRAFT_TRY_ASSIGN(level, graft::cpu::active_isa());
    graft::pool_executor pool(common.threads);
    graft::cpu::peak_meter meter;
    GRAFT_TRY_ASSIGN(meter, graft::cpu::peak_meter::make(level, pool));
    progress bar("profile", runs, common.quiet);
    const double begun = seconds_now();
    recorder_->start();
    recorder_->stop();
    for (int i = 0, measured = 0; i < runs && (i == 0 || seconds_now() - begun < seconds); ++i) {
        if (measured * static_cast<std::int64_t>(runs) <= static_cast<std::int64_t>(i) * most_pieces) {
            meter.measure();
            ++measured;
            // Measuring leaves other things in the caches and the clocks elsewhere: what is recorded finds them as runs in a row do.
            const double warm = seconds_now();
            do GRAFT_TRY(run());
            while (seconds_now() - warm < 0.02);
        }
        recorder_->resume();
        graft::status ran = run();
        recorder_->stop();
        GRAFT_TRY(std::move(ran));
        bar.step(i + 1);
    }
    machine_ = meter.best();
    GRAFT_TRY_ASSIGN(seen_, graft::profile_of(*recorder_, fastest));
    return put();
}

void profiling::add_to(json& object) const {
    json operators = json::array(), nodes = json::array(), not_measured = json::array();
    for (const graft::profile_row& row : seen_.operators) {
        json one{{"operator", row.op}};
        one.update(row_json(row, seen_, machine_));
        operators.push_back(one);
    }
    for (std::size_t i = 0; i < seen_.nodes.size() && i < static_cast<std::size_t>(options_.nodes); ++i) {
        const graft::profile_row& row = seen_.nodes[i];
        json one{{"node", row.node}, {"operator", row.op}, {"device", row.device}, {"kernel", row.kernel}, {"shapes", row.shapes}, {"threads", row.threads}};
        one.update(row_json(row, seen_, machine_));
        nodes.push_back(one);
    }
    for (const graft::profile_row& row : seen_.not_measured) not_measured.push_back({{"operator", row.op}, {"device", row.device}, {"calls", row.calls}});
    const double runs = static_cast<double>(std::max<std::int64_t>(1, seen_.runs));
    json all{{"file", options_.file},
             {"runs", seen_.runs},
             {"ms", seen_.seconds * 1e3 / runs},
             {"outside_ms", seen_.outside_seconds * 1e3 / runs},
             {"outside_share", seen_.seconds > 0 ? json(seen_.outside_seconds / seen_.seconds) : json(nullptr)},
             {"peak_gflops", machine_.flop_per_second / 1e9},
             {"peak_gbs", machine_.read_per_second / 1e9},
             {"isa", graft::cpu::name(machine_.level)},
             {"threads", machine_.threads},
             {"operators", operators}};
    if (options_.nodes) all["nodes"] = nodes;
    all["not_measured"] = not_measured;
    all["left_out"] = seen_.left_out;
    object["profile"] = all;
}

void profiling::print_nodes(const terminal& screen) const {
    std::vector<std::string> head = joined(figures_head, std::string("node"), std::string("operator"), std::string("kernel"));
    text_table table(head);
    const std::size_t shown = std::min(seen_.nodes.size(), static_cast<std::size_t>(options_.nodes));
    for (std::size_t i = 0; i < shown; ++i) {
        const graft::profile_row& row = seen_.nodes[i];
        table.add(joined(figures(row, seen_, machine_), shortened(printable(row.node), 40), printable(row.op), shortened(printable(row.kernel), 32)));
    }
    std::printf("\n");
    table.print(screen);
    if (shown == seen_.nodes.size()) return;
    const graft::profile_row rest = total_of(std::vector<graft::profile_row>(seen_.nodes.begin() + static_cast<std::ptrdiff_t>(shown), seen_.nodes.end()));
    std::printf("and %zu more, %s of the run\n", seen_.nodes.size() - shown, percent_text(seen_.seconds > 0 ? rest.seconds / seen_.seconds : 0).c_str());
}

void profiling::print(const common_options& common) const {
    const terminal screen = look_at(stdout, common.color);
    const double runs = static_cast<double>(std::max<std::int64_t>(1, seen_.runs));
    text_table table(joined(figures_head, std::string("operator")));
    for (const graft::profile_row& row : seen_.operators) table.add(joined(figures(row, seen_, machine_), printable(row.op)));
    // Where nothing was measured a sum of zero would be read as a time.
    if (!seen_.operators.empty()) table.add(joined(figures(total_of(seen_.operators), seen_, machine_), std::string("all steps")));
    table.add({seen_.not_measured.empty() ? "outside of steps" : "not measured", "", formatted("%.3f", seen_.outside_seconds * 1e3 / runs),
               percent_text(seen_.seconds > 0 ? seen_.outside_seconds / seen_.seconds : 0), "", "", "", "", ""});
    table.add({"whole run", "", formatted("%.3f", seen_.seconds * 1e3 / runs), "", "", "", "", "", ""});
    std::printf("\n");
    table.print(screen);
    if (options_.nodes && !seen_.nodes.empty()) print_nodes(screen);
    std::printf("the faster %d of the runs; this machine: %.1f GFLOP/s and %.1f GB/s at most (%s, %d %s)\n", static_cast<int>(seen_.runs),
                machine_.flop_per_second / 1e9, machine_.read_per_second / 1e9, graft::cpu::name(machine_.level), machine_.threads,
                machine_.threads == 1 ? "thread" : "threads");
    if (std::any_of(seen_.nodes.begin(), seen_.nodes.end(), winograd)) std::printf("Winograd convolutions count the FLOP of direct ones\n");
    for (const graft::profile_row& row : seen_.not_measured)
        std::printf("not measured on %s: %s, %lld calls\n", printable(row.device).c_str(), printable(row.op).c_str(), static_cast<long long>(row.calls));
    if (seen_.left_out) std::printf("the trace had no room for %lld events: the tables lack them\n", static_cast<long long>(seen_.left_out));
    std::printf("trace: %s\n", printable(options_.file).c_str());
}

}  // namespace program
