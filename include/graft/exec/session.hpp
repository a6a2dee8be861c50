// Models and sessions: load once, share, run from any number of threads.
#pragma once

#include "../core/executor.hpp"
#include "../core/limits.hpp"
#include "../core/trace.hpp"
#include "../graph/graph.hpp"
#include "../graph/op.hpp"
#include "../lower/backend.hpp"
#include "../tensor/print.hpp"

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

struct load_options;
namespace detail {
class executable;
class context;
class pool_worker;
struct model_state;
// What a network in stages takes beside, reached by who names devices for them alone: other programs do not link it.
struct stage_functions {
    status (*check)(const load_options& options);
    status (*open)(const load_options& options, const backend* const* backends, int count, model_state& state);
};
const stage_functions& linked_stages() noexcept;
}  // namespace detail

/// An input or output of a model. Open extents are shape::unknown, with their names in `dimensions` where the file has any.
struct value_info {
    std::string name;
    dtype type = dtype::undefined;
    bool has_shape = false;
    graft::shape extents;
    std::vector<std::string> dimensions;
    bool has_default = false;  ///< inputs only: an initializer serves where the caller gives nothing
};

/// Its shape, "[N,3,224,224]", or "of any rank".
std::string shape_text(const value_info& v);
/// Its name, type and shape: "input float32 [N,3,224,224]".
std::string to_string(const value_info& v);
/// `std::cout << model.inputs()[0]`: what `to_string` says.
template <class Stream, class = detail::stream_of_text<Stream>>
Stream& operator<<(Stream& out, const value_info& v) {
    return out << to_string(v).c_str(), out;
}

/// A tensor with the name of an input or an output.
struct named_tensor {
    std::string name;
    tensor value;
};

/// Prints "graft: warning: " and the text as a line on stderr.
void warn_on_stderr(const char* text);

/// The devices of a network's stages, in their order; null is a part of the CPU. Who names some has the cut linked.
class stage_devices {
public:
    stage_devices() = default;
    stage_devices(std::vector<std::shared_ptr<device>> on) : on_(std::move(on)), linked_(&detail::linked_stages()) {}
    stage_devices(std::initializer_list<std::shared_ptr<device>> on) : stage_devices(std::vector<std::shared_ptr<device>>(on)) {}
    bool empty() const noexcept { return on_.empty(); }
    std::size_t size() const noexcept { return on_.size(); }
    std::vector<std::shared_ptr<device>>::const_iterator begin() const noexcept { return on_.begin(); }
    std::vector<std::shared_ptr<device>>::const_iterator end() const noexcept { return on_.end(); }
    const detail::stage_functions* linked() const noexcept { return linked_; }

private:
    std::vector<std::shared_ptr<device>> on_;
    const detail::stage_functions* linked_ = nullptr;
};

/// How a model is loaded.
struct load_options {
    graft::limits limits;
    bool exact = false;           ///< no algorithms that reorder sums, such as Winograd's
    bool reference = false;       ///< reference kernels only, on the CPU: slow, for comparison
    std::uint64_t seed = 0;       ///< of random operators that have none of their own
    std::string device = "auto";  ///< auto: the first device that can be used, else the CPU, with one warning where the machine has a device; cpu; or a device
                                  ///< such as cuda or cuda:1
    device_options on_device;     ///< how that device is used
    std::shared_ptr<graft::device> opened;            ///< a device that is open already, in place of the two above: see runtime::open
    bool strict_placement = false;                    ///< a node that the device does not take is an error (placement.refused) instead of the CPU's
    void (*warn)(const char* text) = warn_on_stderr;  ///< told why `auto` did not take a device, once a process; and by a device that it opens, on any thread,
                                                      ///< what this does in a slower way
    op_table operators;                               ///< operators of the app's own; they come before graft's and must outlive the model
    stage_devices stages;                             ///< 2 to 64: in place of `device` and `opened`, the network is cut into as many, a device each in this
                                                      ///< order (null: a part of the CPU, with a thread and memory of its own), through which batches go
    int parts = 1;                                    ///< that a batch goes through the stages in, so that they work beside each other: 1 to 256
    std::int64_t stage_bytes = 0;                     ///< of memory that a stage may take for what it computes and its weights; 0: no limit
    bool open_batch = false;  ///< a network with one input that was exported for a fixed batch takes any, where graft::open_batch can prove it; else it stays
    int threads = 0;          ///< that weights are brought into the form of kernels by; 0: default_threads()
    std::shared_ptr<const packed_store> packed;  ///< where weights are kept as kernels read them, for the next process: open_packed_weights; null: nowhere
    std::shared_ptr<trace_recorder> trace;       ///< takes down the runs of all its sessions and the steps in them, while it records; null: nothing does
};

/// Options that load onto a device that is open; null: onto the CPU, without a look at other devices.
inline load_options on_device(std::shared_ptr<device> opened, op_table operators = {}) {
    load_options options;
    options.operators = operators;
    if (!opened) options.device = "cpu";
    options.opened = std::move(opened);
    return options;
}

/// What one of a network's stages (load_options::stages) has to do, and has done.
struct stage_use {
    std::string device;              ///< "cuda:0"; parts of the CPU are numbered: "cpu:0", "cpu:1"
    int nodes = 0;                   ///< steps of the plan, those of all parts of a batch and copies among them
    std::int64_t multiply_adds = 0;  ///< of a batch
    std::int64_t bytes = 0;          ///< of its memory: intermediates, scratch and weights
    double busy_seconds = 0;         ///< of a session: that it has computed for batches of this shape; below 0 where the device does not measure it
};

/// A loaded network: immutable, cheap to copy, shared by any number of threads. One that was made and not loaded is empty: it has no
/// inputs, and what has to run or write it is `usage`.
class model {
public:
    model() = default;
    /// Inputs in the file's order; those with a default come too.
    const std::vector<value_info>& inputs() const&;
    const std::vector<value_info>& outputs() const&;
    /// The graph as it was loaded, verified, before any pass.
    const graft::graph& graph() const&;
    // Of a temporary a copy, for loops over `load(path).value().inputs()`.
    std::vector<value_info> inputs() &&;
    std::vector<value_info> outputs() &&;
    graft::graph graph() &&;
    /// A metadata property, or "" where there is none.
    std::string metadata(const std::string& key) const;
    /// Writes the model as ONNX, at the opset it came with. Errors: file.write, op.unsupported (an operator that no file can hold).
    status save(const std::string& path) const;
    /// What one run with these input shapes needs at most, in bytes: `arena` for intermediates and the scratch memory of kernels, `scratch` for
    /// that of reference kernels, `outputs`; `constants` for the model. Open extents have to be given. What only a run can shape is not counted.
    struct memory_use {
        std::int64_t arena = 0, scratch = 0, constants = 0, outputs = 0;
        std::int64_t device = 0;  ///< of the device's memory, constants included
        std::int64_t multiply_adds = 0;
    };
    result<memory_use> memory(const std::vector<value_info>& inputs) const;
    /// The stages that it is cut into for these input shapes; empty where there are none. Errors: those of `memory`.
    result<std::vector<stage_use>> stages(const std::vector<value_info>& inputs) const;
    /// Which back end and kernel every node gets for these input shapes, with the reasons of those that refused.
    result<std::vector<placement>> placements(const std::vector<value_info>& inputs) const;
    /// The device that it runs on: "cpu", or as "cuda:0"; of stages each once, "cpu,cuda:0". Static or the model's own storage.
    const char* device() const noexcept;
    explicit operator bool() const noexcept { return state_ != nullptr; }

private:
    friend class session;
    friend result<model> load_graph(graft::graph, const load_options&, const backend* const*, int, bool);
    std::shared_ptr<const detail::model_state> state_;
};

/// Opens the device that a name asks of the back ends given; null stands for the CPU. Errors: device.*.
result<std::shared_ptr<device>> open_device(const std::string& name, const device_options& options, void (*warn)(const char*), const backend* const* backends,
                                            int count);

/// Verifies a graph and makes it a model for the back ends given, first choice first. `typed_outputs`: what makes an output has to give the type
/// that the graph declares it with, as in files; else a plan is op.type.
result<model> load_graph(graft::graph g, const load_options& options, const backend* const* backends, int count, bool typed_outputs = false);
/// Reads an ONNX file and makes it a model. Errors: file.open, model.*, graph.*, tensor.*, external.*, op.*.
result<model> load_file(const std::string& path, const load_options& options, const backend* const* backends, int count);
/// The same from memory, which is only read during the call; external data is refused.
result<model> load_memory(const void* bytes, std::size_t size, const load_options& options, const backend* const* backends, int count);

/// The back ends that an app compiles, first choice first: `runtime<backends::cpu>::load("net.onnx")`.
template <class... Backends>
struct runtime {
    /// Opens the device of a name (as load_options::device has it); null stands for the CPU. Give it to load_options::opened and
    /// step_options::on. Errors: device.*.
    static result<std::shared_ptr<device>> open(const std::string& name, const device_options& options = {}, void (*warn)(const char*) = warn_on_stderr) {
        const backend* list[] = {&Backends::instance()...};
        return open_device(name, options, warn, list, static_cast<int>(sizeof...(Backends)));
    }
    static result<model> load(const std::string& path, const load_options& options = {}) {
        const backend* list[] = {&Backends::instance()...};
        return load_file(path, options, list, static_cast<int>(sizeof...(Backends)));
    }
    static result<model> load(const void* bytes, std::size_t size, const load_options& options = {}) {
        const backend* list[] = {&Backends::instance()...};
        return load_memory(bytes, size, options, list, static_cast<int>(sizeof...(Backends)));
    }
    static result<model> load(graft::graph g, const load_options& options = {}) {
        const backend* list[] = {&Backends::instance()...};
        return load_graph(std::move(g), options, list, static_cast<int>(sizeof...(Backends)));
    }
};

/// Loads a model for the CPU from a file, from memory, or from a graph made in code: graft.hpp has the bodies, as no other header here knows the CPU.
result<model> load(const std::string& path, const load_options& options = {});
result<model> load(const void* bytes, std::size_t size, const load_options& options = {});
result<model> load(graph g, const load_options& options = {});

/// How a session runs.
struct session_options {
    int threads = 0;           ///< 0: default_threads()
    executor* pool = nullptr;  ///< the app's own way of running loops; must outlive the session
};

/// One caller's way into a model: its scratch memory and its outputs. Cheap; bring one a thread. A shape that has been run before
/// allocates nothing, as long as the outputs of the run before are not held on to.
class session {
public:
    /// Where there is no memory for it, every run of it is memory.oom.
    explicit session(const model& m, const session_options& options = {});
    ~session();
    session(session&&) noexcept;
    session& operator=(session&&) noexcept;

    /// Runs on inputs by name; those with a default may be left out. Errors: input.name, input.shape, input.dtype, memory.*, op.*.
    result<std::vector<named_tensor>> run(const std::vector<named_tensor>& inputs);
    /// Runs a model with one input that has no default, and returns its first output. `next`: what the run after this one will be
    /// given, where that is known: a device brings it over while it computes. It has to stay as it is until that run has ended.
    result<tensor> run(const tensor& input, const tensor* next = nullptr);
    /// The same in steps, without any allocation once a shape has been seen: give the inputs by place, run, read the outputs.
    status set_input(std::size_t i, const tensor& value);
    status run();
    /// Output i of the last run, row-major; empty before the first run. It stays as it is for as long as it is held.
    const tensor& output(std::size_t i) const;
    /// The stages of a network that is cut into some, as the batches of the last run's shape went through them; empty before the first run.
    std::vector<stage_use> stages() const;
    /// Gives memory back; the next run allocates anew.
    void trim();

private:
    friend class detail::pool_worker;
    struct state;
    status run_inputs(std::size_t coming, const void* next);
    status run_recorded(trace_recorder& trace, std::size_t coming, const void* next);
    status unusable() const;
    std::unique_ptr<state> state_;
    status made_;  // memory.oom where there was no memory for the state
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "session_body.hpp"
#include "stages_body.hpp"
#endif
