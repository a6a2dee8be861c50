// What kernels read from lowered nodes: the epilogue, and integers and numbers by name.
#pragma once

#include "../../graph/activation.hpp"
#include "../kernel.hpp"

#include <type_traits>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

inline std::int64_t integer_of(const node& n, const char* name, std::int64_t otherwise) {
    const attribute* a = n.find(name);
    return a ? a->integer : otherwise;
}
inline float real_of(const node& n, const char* name, float otherwise) {
    const attribute* a = n.find(name);
    return a ? a->real : otherwise;
}

/// The epilogue that fusion wrote into a node.
inline epilogue epilogue_of(const node& n) {
    epilogue e;
    e.act = static_cast<activation>(integer_of(n, "activation", 0));
    e.alpha = real_of(n, "alpha", 0);
    e.beta = real_of(n, "beta", 0);
    const std::int64_t residual = integer_of(n, "residual", 0);
    e.residual = residual != 0;
    e.residual_after_activation = residual == 2;
    return e;
}

/// What a lowered node keeps of a kernel's problem: visit(p, field) calls `field` with everything that it holds, in the order in which that is kept. A
/// specialisation that forgets a field does not compile.
template <class Problem>
struct problem_fields;

/// Keeps a problem in a lowered node's attribute "problem", as integers; of reals, the bits.
template <class Problem>
inline GRAFT_COLD void set_problem(node& n, const Problem& p) {
    attribute* a = nullptr;
    for (attribute& known : n.attributes)
        if (known.name == "problem") a = &known;
    if (!a) {
        n.attributes.emplace_back();
        a = &n.attributes.back();
        a->name = "problem";
    }
    a->kind = attribute_kind::integers;
    a->integers.clear();
    problem_fields<Problem>::visit(p, [&](const auto& field) {
        if constexpr (std::is_same_v<decltype(field), const float&>)
            a->integers.push_back(bit_cast<std::int32_t>(field));
        else
            a->integers.push_back(static_cast<std::int64_t>(field));
    });
}
/// Reads it back; false where the node has none.
template <class Problem>
inline bool problem_in(const node& n, Problem& p) {
    const attribute* a = n.find("problem");
    std::size_t fields = 0;
    problem_fields<Problem>::visit(p, [&](const auto&) { ++fields; });
    if (!a || a->integers.size() != fields) return false;
    const std::int64_t* next = a->integers.data();
    problem_fields<Problem>::visit(p, [&](auto& field) {
        if constexpr (std::is_same_v<decltype(field), float&>)
            field = bit_cast<float>(static_cast<std::int32_t>(*next++));
        else
            field = static_cast<std::decay_t<decltype(field)>>(*next++);
    });
    return true;
}

/// A list attribute; null where it is not there or has no entries, which means the same.
inline const attribute* list_of(const node& n, const char* name) {
    const attribute* a = n.find(name);
    return a && !a->integers.empty() ? a : nullptr;
}

/// The begins of the pads of a window operator along its last `count` axes, from `pads` or by `auto_pad`.
/// False where the attribute has another number of entries.
inline bool window_pads(const node& n, int count, const std::int64_t* input, const std::int64_t* output, const std::int64_t* kernel, const std::int64_t* stride,
                        const std::int64_t* dilation, std::int64_t* begin, std::int64_t* end) {
    const attribute* pads = list_of(n, "pads");
    const attribute* automatic = n.find("auto_pad");
    for (int i = 0; i < count; ++i) {
        begin[i] = end[i] = 0;
        if (automatic && (automatic->string == "SAME_UPPER" || automatic->string == "SAME_LOWER")) {
            std::int64_t total = (output[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - input[i];
            if (total < 0) total = 0;
            begin[i] = automatic->string == "SAME_LOWER" ? (total + 1) / 2 : total / 2;
            end[i] = total - begin[i];
        } else if (pads && !(automatic && automatic->string == "VALID")) {
            if (pads->integers.size() != 2 * static_cast<std::size_t>(count)) return false;
            begin[i] = pads->integers[static_cast<std::size_t>(i)];
            end[i] = pads->integers[static_cast<std::size_t>(i + count)];
        }
    }
    return true;
}

/// Entries of a list attribute, all `otherwise` where it is not there. False where it has another number of them.
inline bool window_list(const node& n, const char* name, int count, std::int64_t otherwise, std::int64_t* out) {
    const attribute* a = list_of(n, name);
    if (a && a->integers.size() != static_cast<std::size_t>(count)) return false;
    for (int i = 0; i < count; ++i) out[i] = a ? a->integers[static_cast<std::size_t>(i)] : otherwise;
    return true;
}

constexpr std::int64_t most_in_window = 1 << 28;

/// Puts a window of two axes into a problem of the kernels. False where it is larger than they count in int: such a window is the
/// reference's.
template <class Problem>
bool narrow_window(Problem& p, const std::int64_t* kernel, const std::int64_t* stride, const std::int64_t* dilation, const std::int64_t* begin) {
    constexpr std::int64_t most = most_in_window;
    for (int i = 0; i < 2; ++i)
        if (kernel[i] > most || stride[i] > most || dilation[i] > most || begin[i] > most || (kernel[i] - 1) * dilation[i] > most) return false;
    if (kernel[0] * kernel[1] > most) return false;
    p.kh = static_cast<int>(kernel[0]), p.kw = static_cast<int>(kernel[1]);
    p.sh = static_cast<int>(stride[0]), p.sw = static_cast<int>(stride[1]);
    p.dh = static_cast<int>(dilation[0]), p.dw = static_cast<int>(dilation[1]);
    p.pt = static_cast<int>(begin[0]), p.pl = static_cast<int>(begin[1]);
    return true;
}
/// The same of a pool, whose kernels also ask for the pads at the end.
template <class Problem>
bool narrow_window(Problem& p, const std::int64_t* kernel, const std::int64_t* stride, const std::int64_t* dilation, const std::int64_t* begin,
                   const std::int64_t* end) {
    if (end[0] > most_in_window || end[1] > most_in_window) return false;
    p.pb = static_cast<int>(end[0]), p.pr = static_cast<int>(end[1]);
    return narrow_window(p, kernel, stride, dilation, begin);
}

}  // namespace cpu
GRAFT_END_NAMESPACE
