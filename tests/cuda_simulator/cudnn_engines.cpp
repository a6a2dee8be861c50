// The simulated cuDNN's engines: which operation graphs each takes, what it does to numbers, and which the heuristics propose.
#include "cudnn_descriptors.hpp"
#include "simulator.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>

#include <ctime>
#include <unistd.h>

namespace graft_simulator {

namespace {

namespace attribute = cudnn::attribute;
namespace note = cudnn::numerical_note;
namespace result = cudnn::result;
namespace mode = cudnn::pointwise;

// Engines, by their numbers. Those that a caller has to pass over for one reason or another stand first in what is proposed.
constexpr std::int64_t plain = 0, tensor_cores = 1, racing = 2, narrowing = 3, coarse = 4, fusing = 7, fusing_plainly = 8, broken = 9, flash = 10,
                       flash_of_hopper = 11;

// A graph as engines see it: one convolution, and pointwise operations each of which reads what the one before wrote.
struct pattern {
    bool legal = false, attention = false;
    const cudnn_descriptor* convolution = nullptr;
    std::vector<const cudnn_descriptor*> steps;
    convolution_roles roles{};
    const cudnn_descriptor *x = nullptr, *w = nullptr, *y = nullptr, *written = nullptr;
};

pattern read_pattern(const cudnn_descriptor& graph) {
    pattern p;
    p.attention = is_attention(graph);
    if (has_matmul(graph)) return p;
    std::vector<const cudnn_descriptor*> rest;
    for (const cudnn_pointer& o : graph.find(attribute::operation_graph_operations)->descriptors) {
        convolution_roles roles;
        if (!roles_of(o->kind, roles))
            rest.push_back(o.get());
        else if (p.convolution)
            return p;
        else
            p.convolution = o.get(), p.roles = roles;
    }
    if (!p.convolution) return p;
    // Engines of cuDNN 9.19 take pads that are not even, and one for gradients of weights answers wrongly (seen on an H200): here none does.
    const cudnn_descriptor* window = p.convolution->descriptor(p.roles.convolution);
    if (window->integers(attribute::convolution_pre_paddings) != window->integers(attribute::convolution_post_paddings)) return p;
    p.x = p.convolution->descriptor(p.roles.x), p.w = p.convolution->descriptor(p.roles.w), p.y = p.convolution->descriptor(p.roles.y);
    p.written = p.convolution->descriptor(p.roles.written);
    const cudnn_descriptor* at = p.written;
    while (!rest.empty()) {
        std::size_t next = 0;
        while (next < rest.size() && id_of(rest[next]->descriptor(attribute::pointwise_operation_x)) != id_of(at)) ++next;
        if (next == rest.size()) return p;
        p.steps.push_back(rest[next]);
        at = rest[next]->descriptor(attribute::pointwise_operation_y);
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(next));
    }
    p.legal = true;
    return p;
}

// Strides of packed channels-last memory.
bool is_channels_last(const cudnn_descriptor* t) {
    const auto &e = t->integers(attribute::tensor_dimensions), &s = t->integers(attribute::tensor_strides);
    if (e.size() < 3) return false;
    std::int64_t step = e[1];
    if (s[1] != 1) return false;
    for (std::size_t i = e.size(); i-- > 2; step *= e[i])
        if (s[i] != step) return false;
    return s[0] == step;
}

int mode_of(const cudnn_descriptor* step) {
    return static_cast<int>(step->descriptor(attribute::pointwise_operation_pointwise)->integer(attribute::pointwise_mode));
}

// Residual, bias and activation in the order, and of the kinds, that the ready-made engines know.
bool is_ready_made(const pattern& p, bool relu_only) {
    std::size_t i = 0;
    for (int adds = 0; adds < 2 && i < p.steps.size() && mode_of(p.steps[i]) == mode::add; ++adds) ++i;
    if (i == p.steps.size()) return true;
    const int act = mode_of(p.steps[i]);
    const bool known = act == mode::relu_forward || (!relu_only && (act == mode::tanh_forward || act == mode::sigmoid_forward || act == mode::elu_forward));
    const cudnn_descriptor* how = p.steps[i]->descriptor(attribute::pointwise_operation_pointwise);
    return known && i + 1 == p.steps.size() && how->real(attribute::pointwise_relu_lower_clip, 0) == 0 &&
           how->real(attribute::pointwise_relu_lower_clip_slope, 0) == 0;
}

bool supports(std::int64_t engine, const pattern& p, int compute) {
    if (p.attention) return compute >= 80 && (engine == flash || (engine == flash_of_hopper && compute / 10 == 9));
    if (!p.legal || !is_channels_last(p.x) || !is_channels_last(p.w) || !is_channels_last(p.y)) return false;
    const cudnn_descriptor* first = p.roles.written == p.roles.x ? p.y : p.x;
    const cudnn_descriptor* second = p.roles.written == p.roles.w ? p.y : p.w;
    const int t = static_cast<int>(first->integer(attribute::tensor_data_type));
    if (second->integer(attribute::tensor_data_type) != t || t == cudnn::data::float64) return false;
    if (t == cudnn::data::bfloat16 && compute < 80) return false;
    const bool wide = t == cudnn::data::float32, forward = p.roles.written == p.roles.y, weights = p.roles.written == p.roles.w;
    const std::int64_t channels = p.x->integers(attribute::tensor_dimensions)[1], filters = p.y->integers(attribute::tensor_dimensions)[1];
    const std::int64_t least = wide ? 4 : 8;
    const bool aligned = channels % least == 0 && filters % least == 0, alone = p.steps.empty();
    // A result that is wider than its factors.
    const bool narrow_result = p.written->integer(attribute::tensor_is_virtual) || p.written->integer(attribute::tensor_data_type) == t;
    switch (engine) {
    case plain: return alone || (forward && is_ready_made(p, false));
    case tensor_cores: return aligned && narrow_result && (!wide || compute >= 80) && (alone || (forward && is_ready_made(p, true)));
    case racing: return !forward && alone;
    case narrowing: return wide && alone;
    case coarse: return !wide && alone && narrow_result;
    case fusing: return compute >= 80 && !weights && (wide || channels % 2 == 0);
    case fusing_plainly: return compute >= 80 && !weights;
    case broken: return forward;
    default: return false;
    }
}

cudnn_engine describe(std::int64_t index, std::int64_t knob) {
    cudnn_engine e;
    e.index = index;
    if (index == plain) e.notes = {note::strict_nan};
    if (index == tensor_cores || index == racing || index == fusing || index == flash || index == flash_of_hopper) e.notes.push_back(note::tensor_core);
    if (index == racing) e.notes.push_back(note::nondeterministic);
    if (index == narrowing) e.notes.push_back(note::down_convert_inputs);
    if (index == coarse) e.notes.push_back(note::reduced_precision_reduction);
    e.workspace_bytes = index == tensor_cores ? (knob ? std::int64_t(1) << 30 : 131) : index == racing ? 4096 : index == flash_of_hopper ? 256 : 0;
    e.broken = index == broken;
    return e;
}

// The compute capability that a graph is made for: of a described device, else of the current one.
int compute_of(const cudnn_descriptor* device) {
    if (!device) return compute_capability();
    const std::string& text = device->find(attribute::device_json)->text;
    const std::size_t at = text.find("\"deviceVer\":");
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 12) / 10;
}

bool has_device(const cudnn_descriptor& graph, const cudnn_descriptor* device) { return device || graph.find(attribute::operation_graph_handle); }

cudnn_pointer completed(int kind, cudnn_engine engine) {
    auto d = std::make_shared<cudnn_descriptor>();
    d->kind = kind;
    d->complete = true;
    d->engine = std::move(engine);
    return d;
}

cudnn_pointer configuration(const cudnn_pointer& graph, std::int64_t index, std::int64_t knob) {
    const cudnn_pointer engine = completed(cudnn::engine_descriptor, describe(index, knob)),
                        config = completed(cudnn::engine_config_descriptor, describe(index, knob));
    engine->attributes[attribute::engine_operation_graph].descriptors = {graph};
    engine->attributes[attribute::engine_global_index].integers = {index};
    config->attributes[attribute::engine_config_engine].descriptors = {engine};
    if (index != tensor_cores) return config;
    const cudnn_pointer choice = completed(cudnn::knob_choice_descriptor, {});
    choice->attributes[attribute::knob_choice_type].integers = {cudnn::knob::workspace};
    choice->attributes[attribute::knob_choice_value].integers = {knob};
    config->attributes[attribute::engine_config_knob_choices].descriptors = {choice};
    return config;
}

bool same_tensor(const cudnn_descriptor* a, const cudnn_descriptor* b) {
    for (const int name : {attribute::tensor_data_type, attribute::tensor_dimensions, attribute::tensor_strides, attribute::tensor_is_virtual})
        if (a->integers(name) != b->integers(name)) return false;
    return true;
}

}  // namespace

bool compiles(std::int64_t engine) { return engine == fusing || engine == fusing_plainly || engine == flash || engine == flash_of_hopper; }

int complete_operation_graph(cudnn_descriptor& d) {
    std::map<std::int64_t, const cudnn_descriptor*> tensors;
    std::set<std::int64_t> written, read;
    for (const cudnn_pointer& o : d.find(attribute::operation_graph_operations)->descriptors) {
        const operation_tensors of = tensors_of(*o);
        std::vector<const cudnn_descriptor*> all = of.read;
        all.push_back(of.written);
        for (const cudnn_descriptor* t : all) {
            const auto known = tensors.emplace(id_of(t), t).first;
            if (!same_tensor(known->second, t)) return cudnn_error(result::bad_parameter, "two tensors of a graph have the same id");
            if (t != of.written) read.insert(id_of(t));
        }
        if (!written.insert(id_of(of.written)).second) return cudnn_error(result::bad_parameter, "two operations of a graph write the same tensor");
    }
    for (const auto& t : tensors) {
        const bool is_virtual = t.second->integer(attribute::tensor_is_virtual) != 0;
        if (is_virtual && (!written.count(t.first) || (!read.count(t.first) && !has_matmul(d))))
            return cudnn_error(result::bad_parameter, "a virtual tensor is not made and read inside of its graph");
        if (!is_virtual && written.count(t.first) && read.count(t.first))
            return cudnn_error(result::not_supported, "the simulator keeps no tensor between operations in memory");
    }
    return result::success;
}

int complete_heuristic(cudnn_descriptor& d) {
    const cudnn_pointer graph = d.find(attribute::engine_heuristic_operation_graph)->descriptors[0];
    const cudnn_descriptor* device = d.descriptor(attribute::engine_heuristic_device);
    if (!has_device(*graph, device)) return cudnn_error(result::bad_parameter, "neither a handle nor a device tells what the heuristic is for");
    const std::int64_t how = d.integer(attribute::engine_heuristic_mode);
    if (how < cudnn::heuristic::instant || how > cudnn::heuristic::a) return cudnn_error(result::bad_parameter, "the heuristic has not this mode");
    const pattern p = read_pattern(*graph);
    const int compute = compute_of(device);
    const bool fallback = how == cudnn::heuristic::fallback;
    // Convolutions in three dimensions are left to the fallback, so that it is needed.
    const bool known = p.attention || (p.legal && p.x->integers(attribute::tensor_dimensions).size() < 5);
    const std::vector<std::int64_t> order =
        fallback ? std::vector<std::int64_t>{plain, fusing_plainly, flash}
                 : std::vector<std::int64_t>{plain, broken, narrowing, coarse, racing, tensor_cores, fusing, fusing_plainly, flash_of_hopper, flash};
    for (const std::int64_t index : order) {
        if ((!fallback && !known) || !supports(index, p, compute)) continue;
        if (index == tensor_cores) d.proposed.push_back(configuration(graph, index, 1));
        d.proposed.push_back(configuration(graph, index, 0));
    }
    // As the real library does now and then, it promises one more than it gives.
    d.announced = static_cast<std::int64_t>(d.proposed.size()) + (d.proposed.empty() ? 0 : 1);
    return result::success;
}

int complete_engine(cudnn_descriptor& d) {
    const cudnn_descriptor *graph = d.descriptor(attribute::engine_operation_graph), *device = d.descriptor(attribute::engine_device);
    if (!has_device(*graph, device)) return cudnn_error(result::bad_parameter, "neither a handle nor a device tells what the engine is for");
    const std::int64_t index = d.integer(attribute::engine_global_index);
    if (!supports(index, read_pattern(*graph), compute_of(device)))
        return cudnn_error(result::not_supported, "engine " + std::to_string(index) + " does not take this graph");
    d.engine = describe(index, 0);
    return result::success;
}

int complete_configuration(cudnn_descriptor& d) {
    const std::int64_t index = d.descriptor(attribute::engine_config_engine)->engine.index;
    std::int64_t knob = 0;
    if (const cudnn_value* choices = d.find(attribute::engine_config_knob_choices))
        for (const cudnn_pointer& c : choices->descriptors) {
            knob = c->integer(attribute::knob_choice_value);
            if (index != tensor_cores || c->integer(attribute::knob_choice_type) != cudnn::knob::workspace || knob < 0 || knob > 1)
                return cudnn_error(result::bad_parameter, "the engine has not this knob, or not this value of it");
        }
    d.engine = describe(index, knob);
    return result::success;
}

// Plans that were given away as text: the text only has a plan's number here, and the process that counts them, so that another one,
// which has other plans under the numbers, refuses it.
namespace {
struct kept_plans {
    std::mutex lock;
    std::vector<cudnn_pointer> configs;
};
kept_plans& kept() {
    static kept_plans k;
    return k;
}
std::string plan_text() {
    static const std::string text = [] {
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        return "{\"process\":\"" + std::to_string(getpid()) + "." + std::to_string(now.tv_sec) + "." + std::to_string(now.tv_nsec) + "\",\"simulated plan\":";
    }();
    return text;
}
}  // namespace

std::string text_of_plan(const cudnn_descriptor& d) {
    const std::lock_guard<std::mutex> guard(kept().lock);
    kept().configs.push_back(d.find(attribute::execution_plan_engine_config)->descriptors[0]);
    return plan_text() + std::to_string(kept().configs.size() - 1) + "}";
}

int complete_plan(cudnn_descriptor& d) {
    const cudnn_value* text = d.find(attribute::execution_plan_json);
    const bool from_config = d.find(attribute::execution_plan_engine_config) != nullptr;
    if (from_config == (text != nullptr)) return cudnn_error(result::bad_parameter, "a plan is made of a configuration or of a text");
    if (text) {
        if (!d.find(attribute::execution_plan_handle) && !d.find(attribute::execution_plan_device))
            return cudnn_error(result::bad_parameter, "neither a handle nor a device tells what the plan is for");
        const std::string mark = plan_text();
        const std::size_t number = static_cast<std::size_t>(std::strtoull(text->text.c_str() + std::min(mark.size(), text->text.size()), nullptr, 10));
        const std::lock_guard<std::mutex> guard(kept().lock);
        if (text->text.compare(0, mark.size(), mark) || text->text.back() != '}' || number >= kept().configs.size())
            return cudnn_error(1003, "the text is not of a plan of this library");
        d.attributes[attribute::execution_plan_engine_config].descriptors = {kept().configs[number]};
    }
    d.engine = d.descriptor(attribute::execution_plan_engine_config)->engine;
    return d.engine.broken ? cudnn_error(result::not_supported, "the engine cannot be made ready") : result::success;
}

}  // namespace graft_simulator
