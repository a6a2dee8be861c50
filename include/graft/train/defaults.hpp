// What trainer_options means where it leaves something open: the numbers, each in this one place, and the rules.
#pragma once

#include "options.hpp"

GRAFT_BEGIN_NAMESPACE

/// The numbers that stand for what trainer_options leaves open; the others are its members' own. Which one holds depends on what is trained.
struct training_defaults {
    static constexpr std::int64_t batch = 32;            ///< samples of one update where there are many; measured: few pictures want more updates,
    static constexpr std::int64_t least_batch = 8;       ///< so that a pretrained network gets down to so many while
    static constexpr std::int64_t updates = 16;          ///< an epoch has fewer updates than this
    static constexpr double head_rate = 3e-3;            ///< learning rate of a new head, and of a new network with few weights
    static constexpr double new_rate = 1e-3;             ///< of a new network
    static constexpr double sgd_rate = 1e-2;             ///< with sgd, of either
    static constexpr std::int64_t few_weights = 100000;  ///< a network with fewer learns best at the rate of a head: measured
    static constexpr double trunk_share = 1.0 / 30;      ///< a pretrained trunk's rate, as a multiple of the head's: measured without batch normalisation,
    static constexpr double normalized_share = 0.1;      ///< which lets a trunk take more without losing its scale,
    static constexpr double small_share = 0.3;           ///< the more so (measured) where it has fewer weights than `small_trunk`
    static constexpr std::int64_t small_trunk = 1000000;
    static constexpr double trained_share = 0.1;    ///< of those rates, where the head is no new one
    static constexpr double adamw_decay = 0.01;     ///< weight decay with adamw; with the others there is none
    static constexpr double ema = 0.95;             ///< decay of the running average of a pretrained network; a new one keeps none
    static constexpr int head_alone = 3;            ///< of so many parts of the epochs the head has the first one for itself
    static constexpr float label_smoothing = 0.1f;  ///< where the loss knows it
    static constexpr float distillation = 0.5f;     ///< where there is a teacher

    /// The samples of one update of so many pictures.
    static constexpr std::int64_t batch_of(std::int64_t pictures, bool pretrained) noexcept {
        std::int64_t samples = batch;
        while (pretrained && samples > least_batch && pictures < updates * samples) samples /= 2;
        return samples;
    }
    /// The learning rate of a pretrained network's head, or of a new network with so many weights.
    static constexpr double learning_rate(optimizer_kind kind, bool pretrained, std::int64_t weights) noexcept {
        return kind == optimizer_kind::sgd ? sgd_rate : pretrained || weights < few_weights ? head_rate : new_rate;
    }
    /// The trunk's share of the head's rate, in a network of so many weights, with or without normalisation by the batch's own statistics.
    static constexpr double trunk_rate(bool normalized, std::int64_t weights) noexcept {
        return !normalized ? trunk_share : weights < small_trunk ? small_share : normalized_share;
    }
};

/// The linear scaling rule of Goyal et al. (2017), "Accurate, Large Minibatch SGD": where `reference_batch` is given, the learning rate (and with it
/// the trunk's) and the peak of a one-cycle schedule are multiplied by batch / reference_batch, and `reference_batch` becomes 0. Batch and learning rate
/// have to be decided: `settled` does it last. Large rates want the schedule's warm-up. Returns the factor; 1 where there is none.
double scale_rates_by_batch(trainer_options& options);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "freeze.hpp"
#include "trainer.hpp"

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE double scale_rates_by_batch(trainer_options& o) {
    if (o.reference_batch <= 0) return 1;
    const double factor = static_cast<double>(o.batch) / static_cast<double>(o.reference_batch);
    o.learning_rate *= factor;
    o.schedule.peak *= factor;
    o.reference_batch = 0;
    return factor;
}

GRAFT_INLINE trainer_options settled(trainer_options o, const training_network& network, std::int64_t pictures) {
    using defaults = training_defaults;
    optimizer_options& optimizer = o.step.optimizer;
    loss_options& loss = o.step.loss;
    const bool pretrained = network.features != no_value, trunk_learns = detail::trunk_learns(network.graph, network.parameters, network.features);
    std::int64_t weights = 0;
    for (const parameter& p : network.parameters) weights += network.graph.at(p.id).constant.elements();
    if (o.batch_per_device > 0) o.batch = o.batch_per_device * members_of(o.step), o.batch_per_device = 0;
    if (o.batch < 0) o.batch = defaults::batch_of(pictures, pretrained);
    if (o.learning_rate < 0)
        o.learning_rate = defaults::learning_rate(optimizer.kind, pretrained, weights) * (network.head_is_trained ? defaults::trained_share : 1);
    scale_rates_by_batch(o);
    bool normalized = false;
    for (const node& n : network.graph.nodes) normalized |= o.step.batch_norm && ops::row_of(n).traits.statistics;
    if (o.trunk_rate < 0) o.trunk_rate = defaults::trunk_rate(normalized, weights);
    if (optimizer.weight_decay < 0) optimizer.weight_decay = optimizer.kind == optimizer_kind::adamw ? defaults::adamw_decay : 0;
    if (optimizer.ema_decay < 0) optimizer.ema_decay = pretrained ? defaults::ema : 0;
    if (loss.label_smoothing < 0) loss.label_smoothing = is_of_probabilities(loss.kind) ? defaults::label_smoothing : 0;
    if (loss.distillation < 0) loss.distillation = o.teacher.empty() ? 0 : defaults::distillation;
    // A head that has learnt something first spoils less of the trunk: Kumar et al. (2022), and measured.
    if (o.unfreeze_epoch < 0) o.unfreeze_epoch = network.head_is_trained ? 0 : (o.epochs + 1) / defaults::head_alone;
    if (!trunk_learns) o.unfreeze_epoch = 0;
    // Without random changes the features of a trunk that stays as it is are computed once.
    if (!o.augmentation) o.augmentation = pretrained && !trunk_learns ? graft::augmentation() : default_augmentation();
    return o;
}

GRAFT_END_NAMESPACE
#endif
