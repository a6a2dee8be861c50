// Optimisers: how a gradient changes a weight. They are emitted as nodes of the training step.
#pragma once

#include "../graph/gradient.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The rule that weights are updated by.
enum class optimizer_kind { sgd, adam, adamw };

/// torch.optim's optimisers with its names, its defaults and its order of operations.
struct optimizer_options {
    optimizer_kind kind = optimizer_kind::adamw;
    double momentum = 0.9;                              ///< sgd; 0: none
    bool nesterov = false;                              ///< sgd
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< adam, adamw: Kingma and Ba (2014); Loshchilov and Hutter (2017)
    double weight_decay = 0.01;                         ///< adamw: apart from the gradient; else added to it
    double clip_norm = 0;                               ///< > 0: gradients are scaled so that their norm together is at most this
    double ema_decay = 0;  ///< > 0: a running average of the weights is kept, and is what is scored and saved; at update t by min(this, (1 + t) / (10 + t))
};

/// Reads "sgd", "adam" or "adamw". Errors: usage.
result<optimizer_kind> optimizer_of(const std::string& name);
const char* name(optimizer_kind kind) noexcept;

/// What an optimiser keeps for each weight beside it: the endings of the states' names.
std::vector<std::string> optimizer_states(const optimizer_options& options);

/// Emits the update of one weight. `state` holds its optimiser states in the order of `optimizer_states`; the answer is the new weight
/// and the new states, in that order. `rate` multiplies the learning rate; where `loss` is not finite nothing changes.
std::vector<value_id> emit_update(emitter& build, const optimizer_options& options, value_id weight, value_id gradient, const std::vector<value_id>& state,
                                  value_id learning_rate, value_id step, value_id loss, double rate);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/suggest.hpp"

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE const char* name(optimizer_kind kind) noexcept { return kind == optimizer_kind::sgd ? "sgd" : kind == optimizer_kind::adam ? "adam" : "adamw"; }
GRAFT_INLINE result<optimizer_kind> optimizer_of(const std::string& given) GRAFT_MEMORY_TRY {
    std::vector<std::string> all;
    for (optimizer_kind kind : {optimizer_kind::sgd, optimizer_kind::adam, optimizer_kind::adamw}) {
        if (given == name(kind)) return kind;
        all.push_back(name(kind));
    }
    return fail(errc::usage, given, "there is no such optimizer; there are " + detail::names_and_nearest(given, all, "and"));
}
GRAFT_MEMORY_CATCH("optimizer_of")

GRAFT_INLINE std::vector<std::string> optimizer_states(const optimizer_options& o) {
    std::vector<std::string> names;
    if (o.kind != optimizer_kind::sgd)
        names = {"exp_avg", "exp_avg_sq"};
    else if (o.momentum > 0)
        names = {"momentum_buffer"};
    if (o.ema_decay > 0) names.push_back("ema");
    return names;
}

GRAFT_INLINE std::vector<value_id> emit_update(emitter& e, const optimizer_options& o, value_id weight, value_id gradient, const std::vector<value_id>& state,
                                               value_id learning_rate, value_id step, value_id loss, double rate) {
    const auto real = [](const char* key, double v) { return real_attribute(key, static_cast<float>(v)); };
    std::vector<value_id> made;
    if (o.kind == optimizer_kind::sgd) {
        const bool momentum = o.momentum > 0;
        made = e.apply_all("graft", "SGD", {weight, gradient, momentum ? state[0] : no_value, learning_rate, loss},
                           {real("momentum", o.momentum), real("dampening", 0), integer_attribute("nesterov", o.nesterov), real("weight_decay", o.weight_decay),
                            real("rate", rate)},
                           momentum ? 2 : 1);
    } else
        made = e.apply_all("graft", "Adam", {weight, gradient, state[0], state[1], learning_rate, step, loss},
                           {real("beta1", o.beta1), real("beta2", o.beta2), real("epsilon", o.epsilon), real("weight_decay", o.weight_decay),
                            integer_attribute("decoupled", o.kind == optimizer_kind::adamw), real("rate", rate)},
                           3);
    if (o.ema_decay > 0) made.push_back(e.apply_graft("ExponentialMovingAverage", {state.back(), made[0], loss, step}, {real("decay", o.ema_decay)}));
    return made;
}

GRAFT_END_NAMESPACE
#endif
