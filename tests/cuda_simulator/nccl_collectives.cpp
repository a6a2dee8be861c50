// The simulated NCCL's collectives: what they check, and what they compute.
#include "nccl_comms.hpp"

#include <graft/core/dtype.hpp>

#include <cstring>

namespace graft_simulator {
namespace {

namespace nccl = graft::gpu::api::nccl;
namespace result = nccl::result;

std::string text_of(const collective& c) {
    std::string text = std::string(c.name) + " of " + std::to_string(c.count) + " elements of type " + std::to_string(c.type);
    if (c.reduction >= 0) text += ", reduction " + std::to_string(c.reduction);
    if (c.root >= 0) text += ", root " + std::to_string(c.root);
    return text;
}

bool are_alike(const collective& a, const collective& b) {
    return std::strcmp(a.name, b.name) == 0 && a.count == b.count && a.type == b.type && a.reduction == b.reduction && a.root == b.root;
}

int refuse(const char* kind, const std::string& why, int code) {
    problem(kind, why);
    return code;
}

bool overlaps(const range& a, const range& b) { return a.address < b.address + b.bytes && b.address < a.address + a.bytes; }

// Where the shorter of the two lies inside of the longer, when it lies in place.
bool is_in_place(const collective& call, const comm& c, const range& in, const range& out) {
    const std::uint64_t offset = static_cast<std::uint64_t>(c.rank) * call.count * element_bytes(call.type);
    if (call.gets_all) return in.address == out.address + offset;
    if (call.gives_all) return out.address == in.address + offset;
    return in.address == out.address;
}

// Sums in the order of ranks, wide, and rounded once.
template <class T>
struct plain_sum {
    using element = T;
    using sum = double;
    static double wide(T v) { return static_cast<double>(v); }
    static T narrow(double v) { return static_cast<T>(v); }
};
template <class T>
struct whole_sum {
    using element = T;
    using sum = std::uint64_t;
    static std::uint64_t wide(T v) { return static_cast<std::uint64_t>(v); }
    static T narrow(std::uint64_t v) { return static_cast<T>(v); }
};
struct float16_sum {
    using element = std::uint16_t;
    using sum = double;
    static double wide(std::uint16_t v) { return static_cast<double>(graft::to_float(graft::float16{v})); }
    static std::uint16_t narrow(double v) { return graft::to_float16(v).bits; }
};
struct bfloat16_sum {
    using element = std::uint16_t;
    using sum = double;
    static double wide(std::uint16_t v) { return static_cast<double>(graft::to_float(graft::bfloat16{v})); }
    static std::uint16_t narrow(double v) { return graft::to_bfloat16(v).bits; }
};

template <class How>
void add_up(const round& r, std::size_t begin, std::size_t count, void* out) {
    using element = typename How::element;
    const auto load = [&](const std::vector<unsigned char>& from, std::size_t i) {
        element e;
        std::memcpy(&e, from.data() + i * sizeof(element), sizeof(element));
        return How::wide(e);
    };
    for (std::size_t i = 0; i < count; ++i) {
        typename How::sum s = load(r.inputs[0], begin + i);
        for (std::size_t rank = 1; rank < r.inputs.size(); ++rank) s += load(r.inputs[rank], begin + i);
        const element e = How::narrow(s);
        std::memcpy(static_cast<unsigned char*>(out) + i * sizeof(element), &e, sizeof(element));
    }
}

void reduce(const round& r, std::size_t begin, std::size_t count, void* out) {
    switch (r.first.type) {
    case nccl::data::int8:
    case nccl::data::uint8: return add_up<whole_sum<std::uint8_t>>(r, begin, count, out);
    case nccl::data::int32:
    case nccl::data::uint32: return add_up<whole_sum<std::uint32_t>>(r, begin, count, out);
    case nccl::data::int64:
    case nccl::data::uint64: return add_up<whole_sum<std::uint64_t>>(r, begin, count, out);
    case nccl::data::float16: return add_up<float16_sum>(r, begin, count, out);
    case nccl::data::bfloat16: return add_up<bfloat16_sum>(r, begin, count, out);
    case nccl::data::float32: return add_up<plain_sum<float>>(r, begin, count, out);
    default: return add_up<plain_sum<double>>(r, begin, count, out);
    }
}

void write_output(const round& r, const collective& call, int rank) {
    if (call.reduction >= 0) return reduce(r, call.gives_all ? static_cast<std::size_t>(rank) * call.count : 0, call.count, call.out);
    auto* out = static_cast<unsigned char*>(call.out);
    for (std::size_t from = 0; from < r.inputs.size(); ++from) {
        if (!call.gets_all && from != static_cast<std::size_t>(call.root)) continue;
        std::memcpy(out, r.inputs[from].data(), r.inputs[from].size());
        out += r.inputs[from].size();
    }
}

bool is_complete(const round& r) { return r.contributed == static_cast<int>(r.inputs.size()); }

int put_contribution(const collective& call, const std::shared_ptr<comm>& c, const std::shared_ptr<round>& r) {
    const bool stalled = setting("NCCL_STALL", "") == std::to_string(c->rank);
    // A comm's collectives run in the order of their calls, on whatever streams; nobody shall count on that where the streams have no order.
    if (c->has_last && !is_behind(call.stream, c->last))
        problem("unsynchronised", std::string(call.name) + " of rank " + std::to_string(c->rank) +
                                      " on a stream that does not wait for the comm's collective before it, on another stream");
    const auto ready = [c, stalled, after = c->has_last, last = c->last] {
        if (c->ended || c->all->broken) return true;
        return !stalled && (!after || run_to(last));
    };
    const range in = input_of(call, *c);
    const auto rank = static_cast<std::size_t>(c->rank);
    const auto work = [c, r, in, rank, number = c->calls] {
        if (c->ended) return;
        const auto* bytes = reinterpret_cast<const unsigned char*>(in.address);
        if (in.bytes) r->inputs[rank].assign(bytes, bytes + in.bytes);
        tell_data(*c->all, c->rank, number, r->inputs[rank]);
        r->is_here[rank] = 1;
        ++r->contributed;
    };
    return enqueue_when(call.name, call.stream, ready, work, {in}, {}, r->at[rank]);
}

int put_output(const collective& call, const std::shared_ptr<comm>& c, const std::shared_ptr<round>& r) {
    // What stands before the others' parts may never have been waited for: a device would have run it by itself.
    const auto ready = [c, r] {
        if (c->ended) return true;
        for (std::size_t i = 0; i < r->at.size(); ++i) {
            if (r->is_put[i] && !r->is_here[i]) run_to(r->at[i]);
        }
        return is_complete(*r) || c->all->broken != 0;
    };
    const auto work = [c, r, call] {
        if (!c->ended && is_complete(*r)) write_output(*r, call, c->rank);
    };
    return enqueue_when(call.name, call.stream, ready, work, {}, {output_of(call, *c)}, c->last);
}

// Whether a range lies in the memory of the comm's device.
int check_memory(const range& r, const collective& call, const comm& c) {
    if (!r.bytes) return result::success;
    const int device = device_of(r);
    if (device == c.device) return result::success;
    const std::string what = std::string(call.name) + " touches " + std::to_string(r.bytes) + " bytes";
    if (device < 0) return refuse("invalid_address", what + " that are not in device memory", result::invalid_argument);
    return refuse("wrong_context", what + " of device " + std::to_string(device) + " by a comm of device " + std::to_string(c.device),
                  result::invalid_argument);
}

}  // namespace

std::size_t element_bytes(int type) {
    switch (type) {
    case nccl::data::int8:
    case nccl::data::uint8: return 1;
    case nccl::data::float16:
    case nccl::data::bfloat16: return 2;
    case nccl::data::int32:
    case nccl::data::uint32:
    case nccl::data::float32: return 4;
    case nccl::data::int64:
    case nccl::data::uint64:
    case nccl::data::float64: return 8;
    default: return 0;
    }
}

std::shared_ptr<round> next_round(const collective& call, clique& all, std::uint64_t number, int rank) {
    std::shared_ptr<round>& r = all.rounds[number];
    if (!r) {
        const auto ranks = static_cast<std::size_t>(all.ranks);
        r = std::make_shared<round>();
        r->first = call;
        r->first_rank = rank;
        r->at.resize(ranks);
        r->is_put.resize(ranks);
        r->is_here.resize(ranks);
        r->inputs.resize(ranks);
    }
    if (are_alike(r->first, call)) return r;
    problem("collective_mismatch", "collective " + std::to_string(number) + " of rank " + std::to_string(rank) + " is " + text_of(call) + ", that of rank " +
                                       std::to_string(r->first_rank) + " " + text_of(r->first));
    all.broken = result::invalid_usage;
    return nullptr;
}

range input_of(const collective& call, const comm& c) {
    if (call.root >= 0 && call.root != c.rank) return {};
    return {call.in, call.count * element_bytes(call.type) * static_cast<std::size_t>(call.gives_all ? c.all->ranks : 1)};
}

range output_of(const collective& call, const comm& c) {
    return {call.out, call.count * element_bytes(call.type) * static_cast<std::size_t>(call.gets_all ? c.all->ranks : 1)};
}

int check_collective(const collective& call, const comm& c) {
    if (c.all->broken) return c.all->broken;
    if (c.error) return c.error;
    if (c.finalized) return refuse("invalid_comm", std::string(call.name) + " by a comm that was finalized", result::invalid_argument);
    if (is_under_way(c))
        return refuse("invalid_comm", std::string(call.name) + " by a comm for which ncclCommGetAsyncError has not told success yet", result::invalid_argument);
    if (!element_bytes(call.type) || call.root >= c.all->ranks) return result::invalid_argument;
    if (call.root < -1 || (call.reduction != -1 && call.reduction != nccl::reduction::sum)) return result::invalid_argument;
    if (is_capturing(call.stream))
        return refuse("invalid_comm", std::string(call.name) + " on a stream that is being captured, which the simulator does not do", result::invalid_usage);
    const int device = device_of_stream(call.stream);
    if (device != c.device)
        return refuse("wrong_context",
                      std::string(call.name) + " on a stream of device " + std::to_string(device) + " by a comm of device " + std::to_string(c.device),
                      result::unhandled_cuda_error);
    const range in = input_of(call, c), out = output_of(call, c);
    if (const int code = check_memory(in, call, c)) return code;
    if (const int code = check_memory(out, call, c)) return code;
    if (in.bytes && overlaps(in, out) && !is_in_place(call, c, in, out))
        return refuse("invalid_address", std::string(call.name) + " with ranges that overlap, but not in place", result::invalid_argument);
    return result::success;
}

int put_collective(const collective& call, const std::shared_ptr<comm>& c) {
    if (c->ended) return result::success;
    if (c->all->broken) return c->all->broken;
    tell_put(*c->all, c->rank, c->calls, call);
    const std::shared_ptr<round> r = next_round(call, *c->all, c->calls, c->rank);
    if (!r) return c->all->broken;
    if (put_contribution(call, c, r)) return result::unhandled_cuda_error;
    r->is_put[static_cast<std::size_t>(c->rank)] = 1;
    if (++r->put == c->all->ranks) c->all->rounds.erase(c->calls);
    ++c->calls;
    if (put_output(call, c, r)) return result::unhandled_cuda_error;
    c->has_last = true;
    return result::success;
}

}  // namespace graft_simulator
