// Kernels of graft.GlobalNorm: the norm of many tensors as if they were one.
#pragma once

#include "../codegen/reduce.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// GlobalNorm of ops/optimizer.hpp.
generated_table global_norm_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

constexpr std::int64_t norm_piece = 16 * 1024;  ///< elements that a block squares
constexpr int norm_inputs = 256;                ///< of one launch, beside the address of its sums: no more than `most_arguments`

inline std::string norm_functions(const std::string& sum) {
    return fill(R"cuda(template <class T> __device__ __noinline__ $sum sum_of_squares(const T* from, long long n, long long piece) {
    const long long first = piece * $piece;
    const long long end = first + $piece;
    const long long last = end < n ? end : n;
    $sum sum = 0;
    for (long long i = first + threadIdx.x; i < last; i += $threads) {
        const $sum x = ($sum)compute(from[i]);
        sum += x * x;
    }
    return sum;
}
// The sum over a block's threads, for all of them.
__device__ __forceinline__ $sum block_sum($sum x, $sum* shared) {
#pragma unroll
    for (int d = 16; d; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d, 32);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    x = shared[0];
#pragma unroll
    for (int w = 1; w < $warps; ++w) x += shared[w];
    return x;
}
)cuda",
                {{"sum", sum}, {"piece", decimal(norm_piece)}, {"threads", decimal(reduction_threads)}, {"warps", decimal(reduction_threads / 32)}});
}

// Blocks take pieces of the tensors in their order; a last block adds up what they give.
inline const char* generate_global_norm(const kernel_query& q, program& p) {
    bool wide = false;
    for (int i = 0; i < q.inputs; ++i) {
        if (elements_of(q.in[i].extents) < 0) return "a shape that is not known";
        wide = wide || q.in[i].type == dtype::float64;
    }
    const std::string sum = wide ? "double" : "float", warps = decimal(reduction_threads / 32);
    const fillings names = {{"sum", sum}, {"warps", warps}};
    p.source = "namespace graft {\n" + norm_functions(sum);
    std::int64_t blocks = 0;
    for (int first = 0; first < q.inputs; first += norm_inputs) {
        launch l;
        l.entry = "graft_squares" + std::to_string(p.launches.size());
        l.block[0] = reduction_threads;
        std::vector<int> read;
        std::string choose;
        std::int64_t own = 0;
        for (int i = first; i < std::min(q.inputs, first + norm_inputs); ++i) {
            const std::int64_t n = q.in[i].elements(), pieces = (n + norm_piece - 1) / norm_piece;
            if (n == 0) continue;
            choose += read.empty() ? "    if" : "    else if";
            choose += fill(" (block < $end) sum = sum_of_squares(in$i, $n, block - $begin);\n",
                           {{"end", decimal(own + pieces)}, {"i", decimal(i)}, {"n", decimal(n)}, {"begin", decimal(own)}});
            own += pieces;
            read.push_back(i);
        }
        if (read.empty()) continue;
        if (own > INT32_MAX) return "more elements than a launch has blocks for";
        l.grid[0] = static_cast<unsigned>(own);
        p.source += entry_point(q, l, read, {}, {{sum + "* partial", blocks * static_cast<std::int64_t>(wide ? 8 : 4)}},
                                fill("    __shared__ $sum shared[$warps];\n    const long long block = blockIdx.x;\n    $sum sum = 0;\n", names) + choose +
                                    "    sum = block_sum(sum, shared);\n    if (threadIdx.x == 0) partial[block] = sum;\n");
        p.launches.push_back(std::move(l));
        blocks += own;
    }
    launch l;
    l.entry = "graft_norm";
    l.block[0] = reduction_threads;
    p.source += entry_point(q, l, {}, {0}, {{"const " + sum + "* partial", 0}},
                            fill(R"cuda(    __shared__ $sum shared[$warps];
    $sum sum = 0;
    for (long long i = threadIdx.x; i < $blocks; i += $threads) sum += partial[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) out0[0] = stored<$type>(($computed)sqrt(sum));
)cuda",
                                 {{"sum", sum},
                                  {"warps", warps},
                                  {"blocks", decimal(blocks)},
                                  {"threads", decimal(reduction_threads)},
                                  {"type", memory_name(q.out[0].type)},
                                  {"computed", compute_name(q.out[0].type)}}));
    p.launches.push_back(std::move(l));
    p.source += "}  // namespace graft\n";
    p.workspace_bytes = std::max<std::int64_t>(blocks, 1) * (wide ? 8 : 4);
    p.note = std::to_string(q.inputs) + " tensors in " + std::to_string(p.launches.size()) + " launches";
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE generated_table global_norm_rows() {
    static constexpr generated_row rows[] = {{"GlobalNorm", "graft", detail::generate_global_norm}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
