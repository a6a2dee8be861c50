// Members of a run that compute together, on threads, devices or machines: what they say to each other.
#pragma once

#include "error.hpp"
#include "shards.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

GRAFT_BEGIN_NAMESPACE

/// Arrays that are added up over all members, element by element. Each member gives as many arrays of the same lengths, in the same order.
struct reduction {
    const float* const* in = nullptr;
    float* const* out = nullptr;  ///< out[i] may be in[i]
    const std::int64_t* counts = nullptr;
    int arrays = 0;

    std::int64_t elements() const noexcept {
        std::int64_t all = 0;
        for (int i = 0; i < arrays; ++i) all += counts[i];
        return all;
    }
};

/// A sum over all members that goes on while a member computes.
struct started_sum {
    float* data = nullptr;  ///< what this member gives, and then the sums
    std::int64_t count = 0;
    const char* name = nullptr;  ///< for a trace; lives as long as the sum goes on
};

class trace_recorder;

/// What the members of a run need to know of each other beside their data: who they are, notices of a few bytes, and whether all are still there. All
/// members make the same calls in the same order, each on one thread; a call returns when the member has what it asked for. Errors of all calls:
/// dist.peer_lost (a member has left, or is gone), dist.timeout (a member does not come within the time that was agreed), dist.mismatch (members make
/// different calls). After an error no call succeeds any more.
class control_plane {
public:
    inline virtual ~control_plane() {}
    /// This member's number, from 0.
    inline virtual int rank() const noexcept = 0;
    inline virtual int size() const noexcept = 0;
    /// What carries it: "threads", "mpi", "nccl", "store".
    inline virtual const char* name() const noexcept = 0;

    /// Each member gives `bytes` bytes; `all` gets those of every member, in the order of their ranks.
    inline virtual status all_gather(const void* own, std::size_t bytes, void* all) = 0;
    /// Everybody gets the `bytes` bytes of member `from`.
    inline virtual status broadcast(void* data, std::size_t bytes, int from) = 0;
    /// Returns when all members have called it.
    inline virtual status barrier() = 0;
    /// Says that this member makes no more calls, and why: calls of others that wait for it end with dist.peer_lost.
    inline virtual void leave(const error& why) noexcept = 0;
    /// For who waits for the others in another way: whether all are still there. Does not wait itself.
    inline virtual status look() = 0;
    /// How long a call waits for the others at most.
    inline virtual double timeout_seconds() const noexcept = 0;
};

/// The members of a run, as one of them sees them: a control plane that carries data of any size, and adds them up. Sums are added in one order, which
/// depends on the number of members alone (`join_members`; by NCCL in an order of its own), so that all get the same bits.
class communicator : public control_plane {
public:
    /// Seconds so far that this member's calls have waited for others: until they came, and until what they gave had arrived. Adding up and copying its own
    /// part is no waiting. To be asked between calls.
    inline virtual double waited_seconds() const noexcept { return 0; }
    /// The same, and what its device has waited for those of others where it exchanges itself.
    double all_waited_seconds() const noexcept { return waited_seconds() + device_waited_; }
    /// Adds what the device of this member has waited.
    void add_device_wait(double seconds) noexcept { device_waited_ += seconds; }

    /// Everybody gets the sums.
    inline virtual status all_reduce(const reduction& arrays) = 0;
    /// Member `to` gets the sums, and what the others' `out` holds is undefined.
    inline virtual status reduce(const reduction& arrays, int to) = 0;
    /// Of one array of `count` elements each member gets the sums of its part, `part(count)`, into that part of `data`; the rest is undefined.
    inline virtual status reduce_scatter(float* data, std::int64_t count) = 0;

    /// Begins to add up an array over all members, which is `finish`ed behind it. Where `overlaps`, this returns at once, and the sum goes on beside what the
    /// member does, its other calls too; members start the same sums in the same order. Else it is all_reduce, and over when this returns.
    inline virtual status start(const started_sum& array) {
        const float* const in = array.data;
        return all_reduce({&in, &array.data, &array.count, 1});
    }
    /// Returns when the sums of the array that begins at `data` are there.
    inline virtual status finish(const float*) { return {}; }
    /// Returns when nothing that was started goes on, and tells the first error of it: to be called at the end of a step, with the error that it ends with, if
    /// any. Where something goes on behind an error this member leaves, as the others would wait for what it no longer does.
    inline virtual status settle(const error*) { return {}; }
    /// Whether what is started goes on beside other calls.
    inline virtual bool overlaps() const noexcept { return false; }

    /// What the device of this member exchanges by, where it does so itself: made and read by the device alone.
    std::shared_ptr<void> of_device;

    /// Whether this member has no samples in the step at work: it makes the same calls, and nothing that it gives counts.
    void set_idle(bool idle) noexcept { idle_ = idle; }
    bool idle() const noexcept { return idle_; }
    /// Who is told when what is started went on; null: nobody. It outlives the step.
    void set_trace(trace_recorder* trace) noexcept { trace_ = trace; }
    trace_recorder* trace() const noexcept { return trace_; }

    /// A member's part of `count` elements: [first, last).
    static std::int64_t first_of(std::int64_t count, int rank, int size) noexcept { return count / size * rank + std::min<std::int64_t>(rank, count % size); }

private:
    bool idle_ = false;
    trace_recorder* trace_ = nullptr;
    double device_waited_ = 0;
};

namespace detail {

// out = a + b, in vectors where the compiler has them: at -O2 it makes none of the loop.
inline void add_arrays(const float* a, const float* b, std::int64_t n, float* out) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    typedef float lanes __attribute__((vector_size(16)));
    for (; n >= 4; n -= 4, a += 4, b += 4, out += 4) {
        lanes x, y;
        std::memcpy(&x, a, sizeof x), std::memcpy(&y, b, sizeof y);
        x += y;
        std::memcpy(out, &x, sizeof x);
    }
#endif
    for (; n > 0; --n) *out++ = *a++ + *b++;
}

// out = the sum over members of in[member], n elements, by the tree of members. `out` may be one of them.
inline void sum_members(const float* const* in, int members, std::int64_t n, float* out) {
    constexpr std::int64_t block = 512;
    float kept[16][block];  // of left branches; a tree of 256 members is 8 deep
    struct adder {
        const float* const* in;
        float (*kept)[block];
        std::int64_t at, n;
        const float* sum(int first, int count, int depth) {
            if (count == 1) return in[first] + at;
            const int half = (count + 1) / 2;
            const float* left = sum(first, half, depth + 1);
            float* to = kept[depth];
            if (left != to && count > 2) std::copy(left, left + n, to), left = to;  // the right branch may need its place
            add_arrays(left, sum(first + half, count - half, depth + 1), n, to);
            return to;
        }
    };
    if (members == 2) return add_arrays(in[0], in[1], n, out);
    for (std::int64_t at = 0; at < n; at += block) {
        adder a{in, kept, at, std::min(block, n - at)};
        const float* sum = a.sum(0, members, 0);
        if (sum != out + at) std::copy(sum, sum + a.n, out + at);
    }
}

}  // namespace detail

GRAFT_END_NAMESPACE
