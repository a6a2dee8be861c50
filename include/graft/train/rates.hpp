// Learning rates by layer: factors on the rates of parameters, by name and by stage.
#pragma once

#include "../core/number_text.hpp"
#include "freeze.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A factor on the learning rate of some weights.
struct named_rate {
    std::vector<std::string> names;
    double factor = 1;
};

/// Multiplies the rate of every parameter by the factor of the last entry that names it. Errors: usage (a factor below 0 or not finite, a name
/// that no parameter has).
status scale_rates(std::vector<parameter>& parameters, const std::vector<named_rate>& rates);

/// Multiplies the rates so that each stage, counted from the head, learns at `decay` times the rate of the next: the weights in `head` at 1, the
/// last stage before it at `decay`, the one before that at decay^2, as timm's layer_decay has it. Without a head of its own (`head` is empty) the
/// last stage learns at 1. Stages are those of stages_of; `input` is the shape of one batch. Errors: usage (a decay that is not above 0 and at
/// most 1), those of stages_of.
status decay_rates(const graph& g, std::vector<parameter>& parameters, double decay, const std::vector<std::string>& head, const shape& input, executor& pool,
                   const limits& limit = {});

/// The rates in the order of the network, "19 weights at 0.25, 12 at 0.5, 2 at 1"; empty where all of them are 1.
std::string rates_text(const std::vector<parameter>& parameters);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cmath>
#include <cstdio>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE status scale_rates(std::vector<parameter>& parameters, const std::vector<named_rate>& rates) GRAFT_MEMORY_TRY {
    std::vector<double> factors(parameters.size(), 1);
    for (const named_rate& r : rates) {
        if (!(r.factor >= 0) || !std::isfinite(r.factor))
            return fail(errc::usage, "rate", "a factor on a learning rate is a number of at least 0, not " + std::to_string(r.factor));
        for (const std::string& name : r.names) {
            bool any = false;
            for (std::size_t i = 0; i < parameters.size(); ++i)
                if (parameters[i].name == name) factors[i] = r.factor, any = true;
            if (!any) return fail(errc::usage, "rate", "the network has no weight '" + name + "'");
        }
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].rate *= factors[i];
    return {};
}
GRAFT_MEMORY_CATCH("scale_rates")

GRAFT_INLINE status decay_rates(const graph& g, std::vector<parameter>& parameters, double decay, const std::vector<std::string>& head, const shape& input,
                                executor& pool, const limits& limit) GRAFT_MEMORY_TRY {
    if (!(decay > 0 && decay <= 1)) return fail(errc::usage, "layer decay", "it is above 0 and at most 1, not " + std::to_string(decay));
    std::vector<int> stages;
    GRAFT_TRY_ASSIGN(stages, stages_of(g, parameters, input, pool, limit));
    const int last = stages.empty() ? 0 : stages.back() + (head.empty() ? 0 : 1);
    for (std::size_t i = 0; i < parameters.size(); ++i)
        if (std::find(head.begin(), head.end(), parameters[i].name) == head.end()) parameters[i].rate *= std::pow(decay, last - stages[i]);
    return {};
}
GRAFT_MEMORY_CATCH("decay_rates")

GRAFT_INLINE std::string rates_text(const std::vector<parameter>& parameters) {
    std::string all;
    bool any = false;
    for (std::size_t i = 0; i < parameters.size();) {
        std::size_t end = i;
        while (end < parameters.size() && parameters[end].rate == parameters[i].rate) ++end;
        any |= parameters[i].rate != 1;
        all += (i ? ", " : "") + std::to_string(end - i) +
               (i              ? ""
                : end - i == 1 ? " weight"
                               : " weights") +
               detail::number_text(" at %.9g", parameters[i].rate);
        i = end;
    }
    return any ? all : "";
}

GRAFT_END_NAMESPACE
#endif
