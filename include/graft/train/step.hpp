// The training step: forward, loss, backward and update as one planned graph, over state that it changes in place.
#pragma once

#include "../core/communicator.hpp"
#include "../core/executor.hpp"
#include "../core/shards.hpp"
#include "../core/trace.hpp"
#include "../lower/device.hpp"
#include "losses.hpp"
#include "optimizers.hpp"
#include "parameters.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A tensor of training's state: a weight, a running statistic, or what an optimiser keeps for a weight ("<weight>.exp_avg").
struct training_state {
    std::string name;
    tensor value;
};

class step_factory;

/// What a step is made of.
struct step_options {
    loss_options loss;
    optimizer_options optimizer;
    int shards = 8;                 ///< of sums over the batch; a power of two
    bool batch_norm = true;         ///< layers of BatchNormalization that learn use the batch's statistics; else the running ones
    std::uint64_t seed = 0;         ///< of Dropout
    bool exact = false;             ///< no algorithms that reorder sums
    bool reference = false;         ///< reference kernels alone, of the CPU, for comparison
    bool strict_placement = false;  ///< a node that the device does not take is an error (placement.refused) instead of the CPU's
    int micro_batches = 1;          ///< parts that a batch is computed in, to save memory: a power of two, at most `shards`
    bool loss_scaling = false;      ///< the loss is multiplied, so that float16 gradients do not vanish (Micikevicius et al. 2018)
    bool recompute = false;         ///< activations are computed again for the backward pass instead of kept
    std::int64_t fixed_batch =
        0;  ///< above 0: the network takes so many samples and no others (prepared_classifier): a batch is computed in parts of these, whatever
            ///< `micro_batches` says, and running statistics stay as they are; the last part is filled up where there are cross_entropy or focal
    std::vector<std::shared_ptr<device>> stages;  ///< two and more: the network is cut in as many stages, a device each (null: a part of the CPU, with a
                                                  ///< thread and memory of its own), through which the `micro_batches` parts of a batch go (1F1B). What is
                                                  ///< learnt is that of parts without stages: to the bit, but where a sum over the batch reads what
                                                  ///< crosses between stages, and finds it in another layout
    std::int64_t stage_bytes = 0;                 ///< of memory that a stage may take; 0: no limit
    graft::limits limits;
    std::shared_ptr<device> on;           ///< the device that computes it (runtime::open), a GPU or the CPU in bfloat16; null: the CPU
    op_table operators;                   ///< operators of the app's own, as load_options has them; those with a gradient learn
    std::shared_ptr<communicator> group;  ///< who computes each batch together with this step, `shards` members at most; null: nobody. Each member is given its
                                          ///< samples alone (member_shards), and all have the same state
    bool central_variables = false;  ///< among members: the first alone keeps what the optimiser keeps, adds up the gradients and updates the weights, on the
                                     ///< host, and hands them out (a parameter server; Li et al. 2014); else all update their own, alike. The bits are the same
    bool overlap = true;  ///< members exchange gradients beside the rest of the backward pass: on CPUs where `group` can (communicator::overlaps), on devices
                          ///< that exchange themselves (device::exchanges) on a stream of their own; alike for all
    std::shared_ptr<trace_recorder> trace;   ///< takes down when nodes ran and what was exchanged, while it records; null: nothing does
    std::shared_ptr<step_factory> replicas;  ///< makes the step in place of the usual one: graft/dist.hpp has one that spreads it; null: nobody does
};

/// How many members compute each batch together: processes, replicas, or 1.
int members_of(const step_options& options);

/// One batch, as a step takes it. All views are only read, and only during the call, but for `next`.
struct step_input {
    const tensor* inputs = nullptr;   ///< what the network's input takes, N samples along axis 0
    const tensor* targets = nullptr;  ///< float32 [N, classes]: see write_target
    const tensor* teacher = nullptr;  ///< float32 [N, classes]; only with distillation
    double scale = 0;                 ///< 1 / (what the mean divides by)
    double learning_rate = 0;
    std::int64_t first = 0;        ///< among members: the place in the whole batch of the first sample that this one is given
    std::int64_t samples = 0;      ///< among members: how many the whole batch has; this one may have none of them
    std::int64_t step = 0;         ///< 0 before the first update; what random layers draw depends on it
    const tensor* next = nullptr;  ///< what `inputs` will be at the next step, if that is known: a device brings it over while it computes
                                   ///< this one; it has to stay as it is until the next step has ended
};

/// Memory of a planned step, in bytes.
struct step_memory {
    std::int64_t activations = 0;  ///< the arena: activations, gradients and scratch
    std::int64_t state = 0;        ///< weights, statistics and what the optimiser keeps
    std::int64_t constants = 0;    ///< of the frozen part, packed
    std::int64_t device = 0;       ///< of the device's memory, for all of these; the others are the host's
    std::int64_t total() const noexcept { return activations + state + constants; }
};

/// By what a loss is multiplied, as torch.amp.GradScaler has it: halved where a gradient overflows, which leaves the state as it was;
/// doubled after 2,000 steps without that.
struct loss_scale {
    double factor = 65536;
    std::int64_t steps = 0;    ///< since the last change
    std::int64_t skipped = 0;  ///< steps that changed nothing
};

/// What one of the replicas that a step is spread over has done since it was made.
struct replica_work {
    std::int64_t samples = 0;
    double waited_seconds = 0;  ///< for other replicas, in steps that were going on
    std::string device = "cpu";
    std::int64_t bytes = 0;  ///< of memory that its step takes as planned (training_step::prepare); 0: not known
};

/// What one of the stages that a step goes through has done since it was made.
struct stage_work {
    std::string device;
    double busy_seconds = 0;  ///< that it computed; below 0 where its device does not measure it
    std::int64_t bytes = 0;   ///< of its memory that the last step took as planned
};

/// What computes training steps: see training_step, whose calls these are.
class step_engine {
public:
    inline virtual ~step_engine() {}
    inline virtual result<step_memory> prepare(const shape& batch, executor& pool) = 0;
    inline virtual status run(const step_input& batch, executor& pool) = 0;
    inline virtual double loss() const noexcept = 0;
    inline virtual loss_scale& scaling() noexcept = 0;
    inline virtual const tensor& logits() const noexcept = 0;
    inline virtual status read_state() = 0;
    inline virtual std::vector<training_state>& state() noexcept = 0;
    inline virtual void state_changed() noexcept = 0;
    inline virtual result<graph> network(bool averaged) const = 0;
    inline virtual std::vector<replica_work> replicas() const { return {}; }
    inline virtual std::vector<stage_work> stages() const { return {}; }
};

/// Makes engines that compute steps in another way, such as on several devices.
class step_factory {
public:
    inline virtual ~step_factory() {}
    /// How many compute a step together.
    inline virtual int members() const noexcept = 0;
    /// As training_step::make; `options.replicas` is this.
    inline virtual result<std::unique_ptr<step_engine>> make(graph network, value_id logits, std::vector<parameter> parameters,
                                                             const step_options& options) = 0;
};

/// Trains a network, step by step. Deterministic: the same bits for any number of threads.
class training_step {
public:
    training_step();
    ~training_step();
    training_step(training_step&&) noexcept;
    training_step& operator=(training_step&&) noexcept;

    /// `network` is a verified graph whose one input without a default takes the batch; `logits` the value that the loss is taken of,
    /// [N, classes], or with other extents of 1. Of `parameters`, those that learn become state, beginning with the graph's constants. Errors: train.freeze
    /// (nothing learns), input.name (no such input, or more than one), op.unsupported, train.no_gradient.
    static result<training_step> make(graph network, value_id logits, std::vector<parameter> parameters, const step_options& options);

    /// Plans the step for a batch of that shape (else done at its first run), and tells what it needs. Errors: memory.budget and those
    /// of planning.
    result<step_memory> prepare(const shape& batch, executor& pool);

    /// Runs one step. Where the loss is not finite, or memory is wanting, the state stays as it is; where an operator refuses what it is given,
    /// such as an index that is out of range, weights and what the optimiser keeps do. Where the loss is finite and a
    /// gradient is not, the weights are spoilt: go back to a checkpoint; on a device that shows at the step after, and there they also are where
    /// an exchange among members fails (dist.*). With loss scaling such a
    /// step changes nothing and is no error. Errors: input.shape, train.diverged (names the first bad
    /// tensor), op.*, memory.*.
    status run(const step_input& batch, executor& pool);
    /// The loss of the last run: the scaled sum.
    double loss() const noexcept;
    /// With step_options::loss_scaling: part of what a checkpoint has to hold.
    loss_scale& scaling() noexcept;
    /// The logits of the last run, [N, classes]; they stay as they are until the next.
    const tensor& logits() const noexcept;

    /// Brings the state back from the device that computes the steps, before it is read; on the CPU there is nothing to do. Errors: device.lost.
    status read_state();
    /// Everything that a checkpoint has to hold, always in the same order. Tensors may be overwritten between steps, after
    /// `read_state` and with `state_changed` behind it.
    const std::vector<training_state>& state() const noexcept;
    std::vector<training_state>& state() noexcept;
    void state_changed() noexcept;
    /// The network with the weights and statistics of now; `averaged` takes the running average of the weights where one is kept.
    result<graph> network(bool averaged = true) const;
    /// What each replica has done, where the step is spread over several in this process (step_options::replicas); else none.
    std::vector<replica_work> replicas() const;
    /// What each stage has done, where the step goes through several (step_options::stages); else none.
    std::vector<stage_work> stages() const;

private:
    class single;
    class nothing;
    std::unique_ptr<step_engine> self_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "step_body.hpp"
#endif
