// Learning-rate schedules: the rate as a function of the step, by the formulas of torch.optim.lr_scheduler.
#pragma once

#include "../core/error.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The schedules, named after torch's.
enum class schedule_kind {
    constant,
    step,        ///< StepLR: times `factor` every `epochs` epochs
    multi_step,  ///< MultiStepLR: times `factor` at each of `milestones`
    cosine,      ///< CosineAnnealingLR over all steps, down to `minimum`
    one_cycle,   ///< OneCycleLR with cosine annealing in two phases
    plateau      ///< ReduceLROnPlateau on the validation loss (mode min, relative threshold)
};

/// How the learning rate moves. Defaults are torch's.
struct schedule {
    schedule_kind kind = schedule_kind::constant;
    double warmup = 0;                     ///< linear warm-up: a share of all steps below 1, else a number of steps
    double factor = 0.1;                   ///< step, multi_step, plateau
    std::int64_t epochs = 10;              ///< step
    std::vector<std::int64_t> milestones;  ///< multi_step: epochs, ascending
    double minimum = 0;                    ///< cosine (eta_min), plateau (min_lr)
    double peak = 0;                       ///< one_cycle: the highest rate (max_lr); 0: the base rate
    double start_share = 0.3;              ///< one_cycle: share of the steps that go up (pct_start)
    double start_divisor = 25;             ///< one_cycle: the first rate is peak / this (div_factor)
    double end_divisor = 1e4;              ///< one_cycle: the last rate is the first / this (final_div_factor)
    std::int64_t patience = 10;            ///< plateau: epochs without a better loss that are let pass
    std::int64_t cooldown = 0;             ///< plateau: epochs after a reduction in which none counts as bad
    double threshold = 1e-4;               ///< plateau: better is below best * (1 - threshold)
};

/// What a plateau schedule remembers from epoch to epoch; belongs into a checkpoint.
struct plateau_state {
    double rate = 0;  ///< the rate now, before warm-up; the base rate at the start
    double best = std::numeric_limits<double>::infinity();
    std::int64_t bad_epochs = 0, cooldown_left = 0;
};

/// Where training is: `step` counts updates from 0 over the whole run, `epoch` from 0.
struct schedule_position {
    std::int64_t step = 0, total_steps = 1, epoch = 0;
};

/// Reads "cosine,warmup=0.05", "step=10:0.1" (epochs:factor), "multistep=30/60/90:0.1", "cosine=1e-6" (minimum),
/// "onecycle=0.01:0.3" (peak:share that goes up), "plateau=0.1:3" (factor:patience), "constant"; after the kind, separated by
/// commas: warmup=, minimum=, cooldown=, threshold=, start_divisor=, end_divisor=. Errors: usage, naming the item and what it may
/// be.
result<schedule> parse_schedule(std::string_view text);
/// The text that `parse_schedule` reads back as the same schedule; for logs and checkpoints.
std::string text(const schedule& s);

/// Steps of the linear warm-up: rates rate*(t+1)/steps for t = 0 ... steps-1, as LinearLR with start_factor 1/steps. Never more
/// than all steps.
std::int64_t warmup_steps(const schedule& s, std::int64_t total_steps) noexcept;

/// The learning rate of an update, from the base rate. Cosine and one-cycle begin when the warm-up is over and share what is left
/// of the steps (torch's SequentialLR); the others are scaled by it. A plateau's rate is `state->rate`, the base where there is
/// no state. Groups of weights that learn at their own pace take a fixed multiple of this rate.
double learning_rate(const schedule& s, double base, const schedule_position& at, const plateau_state* state = nullptr) noexcept;

/// Takes in the validation loss at the end of an epoch and lowers `state.rate` where it is time. NaN is never better.
void update_plateau(const schedule& s, plateau_state& state, double loss) noexcept;

/// Text of a plateau's state for a checkpoint, exact to the bit, and back. Errors: json.malformed.
std::string text(const plateau_state& state);
result<plateau_state> parse_plateau_state(std::string_view text);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/json.hpp"
#include "../data/preprocess_spec.hpp"

#include <algorithm>
#include <cmath>
GRAFT_BEGIN_NAMESPACE
namespace detail {

inline GRAFT_COLD status schedule_fault(std::string_view item, const char* fix) { return fail(errc::usage, "schedule item '" + std::string(item) + "'", fix); }

// A number in [low, high].
inline bool schedule_number(std::string_view text, double low, double high, double& value) {
    double read = 0;
    if (text.empty() || !read_decimal(text.data(), text.data() + text.size(), read) || read < low || read > high) return false;
    value = read;
    return true;
}
inline bool schedule_count(std::string_view text, std::int64_t low, std::int64_t& value) {
    double read = 0;
    if (!schedule_number(text, static_cast<double>(low), 1e9, read) || read != std::floor(read)) return false;
    value = static_cast<std::int64_t>(read);
    return true;
}

// The part before the separator; `text` keeps what stands behind it.
inline std::string_view cut_front(std::string_view& text, char separator) {
    const std::size_t at = text.find(separator);
    const std::string_view front = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
    return front;
}

inline bool schedule_milestones(std::string_view text, std::vector<std::int64_t>& milestones) {
    while (!text.empty()) {
        std::int64_t epoch = 0;
        if (milestones.size() >= 1000 || !schedule_count(cut_front(text, '/'), 1, epoch)) return false;
        if (!milestones.empty() && epoch <= milestones.back()) return false;
        milestones.push_back(epoch);
    }
    return !milestones.empty();
}

// The first item: a kind and, behind '=', its own numbers, separated by colons.
inline status parse_schedule_kind(std::string_view item, schedule& s) {
    std::string_view rest = item;
    const std::string_view name = cut_front(rest, '=');
    const bool given = name.size() < item.size();
    std::string_view second = rest;
    const std::string_view first = cut_front(second, ':');
    const bool two = first.size() < rest.size();
    const auto number = [](std::string_view t, bool is_given, double low, double high, double& out) { return !is_given || schedule_number(t, low, high, out); };
    if (name == "constant") {
        if (given) return schedule_fault(item, "constant takes no number");
    } else if (name == "step") {
        s.kind = schedule_kind::step;
        if (given && (!schedule_count(first, 1, s.epochs) || !number(second, two, 0, 1, s.factor)))
            return schedule_fault(item, "it must be step=EPOCHS:FACTOR, such as step=10:0.1, with a factor of 0 to 1");
    } else if (name == "multistep") {
        s.kind = schedule_kind::multi_step;
        if (!given || !schedule_milestones(first, s.milestones) || !number(second, two, 0, 1, s.factor))
            return schedule_fault(item, "it must be multistep=EPOCH/EPOCH:FACTOR, such as multistep=30/60:0.1, with ascending epochs");
    } else if (name == "cosine") {
        s.kind = schedule_kind::cosine;
        if (two || !number(first, given, 0, 1e6, s.minimum)) return schedule_fault(item, "it must be cosine or cosine=MINIMUM, a rate of at least 0");
    } else if (name == "onecycle") {
        s.kind = schedule_kind::one_cycle;
        if (!number(first, given, 0, 1e6, s.peak) || !number(second, two, 0, 1, s.start_share))
            return schedule_fault(item, "it must be onecycle, onecycle=PEAK or onecycle=PEAK:SHARE, such as onecycle=0.01:0.3");
    } else if (name == "plateau") {
        s.kind = schedule_kind::plateau;
        if (!number(first, given, 0, 1, s.factor) || s.factor >= 1 || (two && !schedule_count(second, 0, s.patience)))
            return schedule_fault(item, "it must be plateau=FACTOR:PATIENCE, such as plateau=0.1:3, with a factor below 1");
    } else
        return schedule_fault(item, "a schedule begins with constant, step, multistep, cosine, onecycle or plateau");
    return {};
}

inline status parse_schedule_option(std::string_view item, schedule& s) {
    std::string_view value = item;
    const std::string_view name = cut_front(value, '=');
    if (name == "warmup") {
        if (!schedule_number(value, 0, 1e9, s.warmup) || (s.warmup > 1 && s.warmup != std::floor(s.warmup)))
            return schedule_fault(item, "warmup is a share of all steps below 1, or a whole number of steps");
        return {};
    }
    const bool plateau = s.kind == schedule_kind::plateau, cycle = s.kind == schedule_kind::one_cycle;
    bool good = false;
    if (name == "minimum" && (plateau || s.kind == schedule_kind::cosine))
        good = schedule_number(value, 0, 1e6, s.minimum);
    else if (name == "cooldown" && plateau)
        good = schedule_count(value, 0, s.cooldown);
    else if (name == "threshold" && plateau)
        good = schedule_number(value, 0, 1, s.threshold);
    else if (name == "start_divisor" && cycle)
        good = schedule_number(value, 1, 1e12, s.start_divisor);
    else if (name == "end_divisor" && cycle)
        good = schedule_number(value, 1, 1e12, s.end_divisor);
    else
        return schedule_fault(item, "this schedule has no such option; warmup= goes with all, minimum= with cosine and plateau, "
                                    "cooldown= and threshold= with plateau, start_divisor= and end_divisor= with onecycle");
    return good ? status() : schedule_fault(item, "its number is not one, or out of range");
}

inline std::string schedule_decimal(double value) {
    return value == std::floor(value) && value < 1e9 ? std::to_string(static_cast<std::int64_t>(value)) : shortest_text(value, false);
}

// torch's _annealing_cos: from `start` at 0 to `end` at 1.
inline double anneal_cosine(double start, double end, double share) noexcept {
    return end + (start - end) / 2.0 * (std::cos(3.14159265358979323846 * share) + 1);
}

inline double one_cycle_rate(const schedule& s, double peak, double step, double total) noexcept {
    const double first = peak / s.start_divisor, last = first / s.end_divisor;
    const double top = s.start_share * total - 1, end = total - 1;
    if (step <= top && top > 0) return anneal_cosine(first, peak, step / top);
    const double begin = top > 0 || top < 0 ? top : 0;
    return end > begin ? anneal_cosine(peak, last, (step - begin) / (end - begin)) : last;
}

}  // namespace detail

GRAFT_INLINE result<schedule> parse_schedule(std::string_view text) GRAFT_MEMORY_TRY {
    schedule s;
    GRAFT_TRY(detail::parse_schedule_kind(detail::cut_front(text, ','), s));
    while (!text.empty()) GRAFT_TRY(detail::parse_schedule_option(detail::cut_front(text, ','), s));
    return s;
}
GRAFT_MEMORY_CATCH("parse_schedule")

GRAFT_INLINE std::string text(const schedule& s) {
    using detail::schedule_decimal;
    const schedule plain;
    std::string out;
    switch (s.kind) {
    case schedule_kind::constant: out = "constant"; break;
    case schedule_kind::step: out = "step=" + std::to_string(s.epochs) + ":" + schedule_decimal(s.factor); break;
    case schedule_kind::multi_step:
        out = "multistep=";
        for (std::size_t i = 0; i < s.milestones.size(); ++i) out += (i ? "/" : "") + std::to_string(s.milestones[i]);
        out += ":" + schedule_decimal(s.factor);
        break;
    case schedule_kind::cosine: out = "cosine"; break;
    case schedule_kind::one_cycle: out = "onecycle=" + schedule_decimal(s.peak) + ":" + schedule_decimal(s.start_share); break;
    case schedule_kind::plateau: out = "plateau=" + schedule_decimal(s.factor) + ":" + std::to_string(s.patience); break;
    }
    const bool plateau = s.kind == schedule_kind::plateau, cycle = s.kind == schedule_kind::one_cycle;
    if (s.minimum > 0 && (plateau || s.kind == schedule_kind::cosine)) out += ",minimum=" + schedule_decimal(s.minimum);
    if (plateau && s.cooldown) out += ",cooldown=" + std::to_string(s.cooldown);
    if (plateau && s.threshold != plain.threshold) out += ",threshold=" + schedule_decimal(s.threshold);
    if (cycle && s.start_divisor != plain.start_divisor) out += ",start_divisor=" + schedule_decimal(s.start_divisor);
    if (cycle && s.end_divisor != plain.end_divisor) out += ",end_divisor=" + schedule_decimal(s.end_divisor);
    if (s.warmup > 0) out += ",warmup=" + schedule_decimal(s.warmup);
    return out;
}

GRAFT_INLINE std::int64_t warmup_steps(const schedule& s, std::int64_t total_steps) noexcept {
    if (!(s.warmup > 0) || total_steps < 1) return 0;
    const auto total = static_cast<double>(total_steps);
    return static_cast<std::int64_t>(s.warmup < 1 ? std::ceil(s.warmup * total - 1e-9) : std::min(std::floor(s.warmup), total));
}

GRAFT_INLINE double learning_rate(const schedule& s, double base, const schedule_position& at, const plateau_state* state) noexcept {
    const std::int64_t warm = warmup_steps(s, at.total_steps);
    const std::int64_t last = std::max<std::int64_t>(at.total_steps, 1) - 1;
    const std::int64_t step = std::min(std::max<std::int64_t>(at.step, 0), last);
    // While it is warming up, the schedule stands at its beginning.
    const auto t = static_cast<double>(std::max<std::int64_t>(step - warm, 0));
    const auto total = static_cast<double>(std::max<std::int64_t>(at.total_steps - warm, 1));
    double rate = base;
    switch (s.kind) {
    case schedule_kind::constant: break;
    case schedule_kind::step: rate = base * std::pow(s.factor, static_cast<double>(at.epoch / std::max<std::int64_t>(s.epochs, 1))); break;
    case schedule_kind::multi_step:
        rate = base * std::pow(s.factor, static_cast<double>(std::upper_bound(s.milestones.begin(), s.milestones.end(), at.epoch) - s.milestones.begin()));
        break;
    case schedule_kind::cosine: rate = detail::anneal_cosine(base, s.minimum, t / total); break;
    case schedule_kind::one_cycle: rate = detail::one_cycle_rate(s, s.peak > 0 ? s.peak : base, t, total); break;
    case schedule_kind::plateau: rate = state ? state->rate : base; break;
    }
    return step < warm ? rate * (static_cast<double>(step + 1) / static_cast<double>(warm)) : rate;
}

GRAFT_INLINE void update_plateau(const schedule& s, plateau_state& state, double loss) noexcept {
    if (loss < state.best * (1.0 - s.threshold)) {
        state.best = loss;
        state.bad_epochs = 0;
    } else
        ++state.bad_epochs;
    if (state.cooldown_left > 0) {
        --state.cooldown_left;
        state.bad_epochs = 0;
    }
    if (state.bad_epochs <= s.patience) return;
    const double lower = std::max(state.rate * s.factor, s.minimum);
    // torch's eps: a step of nothing is not taken.
    if (state.rate - lower > 1e-8) state.rate = lower;
    state.cooldown_left = s.cooldown;
    state.bad_epochs = 0;
}

GRAFT_INLINE std::string text(const plateau_state& state) {
    json_writer w;
    w.begin_object().key("rate").number(state.rate).key("best").number(state.best);  // infinity is written as null
    w.key("bad_epochs").integer(state.bad_epochs).key("cooldown_left").integer(state.cooldown_left).end_object();
    return w.text();
}

GRAFT_INLINE result<plateau_state> parse_plateau_state(std::string_view text) GRAFT_MEMORY_TRY {
    json tree;
    GRAFT_TRY_ASSIGN(tree, parse_json(text, "state of the plateau schedule"));
    const json *rate = tree.find("rate"), *best = tree.find("best"), *bad = tree.find("bad_epochs"), *cool = tree.find("cooldown_left");
    if (!rate || rate->type != json::kind::number || !best || !bad || !bad->is_integer || !cool || !cool->is_integer)
        return fail(errc::json_malformed, "state of the plateau schedule", "rate, best, bad_epochs or cooldown_left is missing");
    plateau_state state;
    state.rate = rate->real;
    if (best->type == json::kind::number) state.best = best->real;
    state.bad_epochs = bad->integer;
    state.cooldown_left = cool->integer;
    return state;
}
GRAFT_MEMORY_CATCH("parse_plateau_state")

GRAFT_END_NAMESPACE
#endif
