// The kernel of Det. Trilu is a rule of movement.hpp.
#pragma once

#include "../kernel.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Det of ops/linear_algebra.hpp, computed in float64 as there.
generated_table linear_algebra_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../codegen/sort.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Where what is numbered by the axes before `behind` begins: `number` counts it row-major.
inline std::string leading_offset(const shape& extents, layout order, int behind, const char* number) {
    const std::vector<std::int64_t> strides = strides_of(extents, order);
    std::string s = "0";
    std::int64_t step = 1;
    for (int d = behind - 1; d >= 0; --d) {
        s += std::string(" + ") + number + " / " + decimal(step) + " % " + decimal(extents[d]) + " * " + decimal(strides[static_cast<std::size_t>(d)]);
        step *= extents[d];
    }
    return s;
}

// Some threads of a warp for each small matrix, a block for each larger one, elimination in shared memory while the matrix fits there. All
// threads of a matrix look for the pivot themselves, in one order, so that they agree without telling each other.
inline const char* generate_det(const kernel_query& q, program& p) {
    const shape &x = q.in[0].extents, &y = q.out[0].extents;
    if (!is_generated(q.in[0].type) || !is_float(q.in[0].type)) return "an element type that generated kernels do not take";
    const std::int64_t n = x.back(), count = y.elements();
    constexpr std::int64_t most_rows_of_matrix = 1024, most_shared = 64, most_blocks = 1024;
    if (n > most_rows_of_matrix) return "matrices of more than 1024 rows";
    if (count == 0) return nullptr;
    if (count > INT32_MAX || x.elements() > std::int64_t(1) << 38) return "more matrices than a launch has blocks for";
    p.source = std::string("namespace graft {\n") + index_definition(std::max(x.elements(), 2 * count) + (std::int64_t(1) << 24) + most_blocks * n * n);
    if (n == 0) {
        add_each(q, p, "graft_det", count, {}, {0}, {}, std::string("    out0[i] = stored<") + memory_name(q.out[0].type) + ">(1.0f);\n");
        p.source += "}  // namespace graft\n";
        return nullptr;
    }
    const std::int64_t threads = n <= 32 ? std::max<std::int64_t>(4, power_of_two(n)) : 256, block = n <= 32 ? 128 : 256, at_once = block / threads;
    const std::int64_t blocks = std::min((count + at_once - 1) / at_once, most_blocks);
    const std::vector<std::int64_t> strides = strides_of(x, q.in_layout[0]);
    const fillings names = {
        {"n", decimal(n)},
        {"all", decimal(n * n)},
        {"count", decimal(count)},
        {"threads", decimal(threads)},
        {"at_once", decimal(at_once)},
        {"step", decimal(blocks * at_once)},
        {"memory", n > most_shared ? "double* a = matrices + (index_t)blockIdx.x * " + decimal(n * n) + ";"
                                   : "__shared__ double shared[" + decimal(at_once * n * n) + "];\n    double* a = shared + threadIdx.x / " + decimal(threads) +
                                         " * " + decimal(n * n) + ";"},
        {"wait", n <= 32 ? "__syncwarp()" : "__syncthreads()"},
        {"from", leading_offset(x, q.in_layout[0], x.rank() - 2, "m")},
        {"to", leading_offset(y, q.out_layout[0], y.rank(), "m")},
        {"row", decimal(strides[strides.size() - 2])},
        {"column", decimal(strides.back())},
        {"stored", memory_name(q.out[0].type)},
        {"type", compute_name(q.out[0].type)},
    };
    launch l;
    l.entry = "graft_det";
    l.block[0] = static_cast<unsigned>(block);
    l.grid[0] = static_cast<unsigned>(blocks);
    std::vector<workspace_parameter> workspace;
    if (n > most_shared) {
        p.workspace_bytes = blocks * n * n * 8;
        workspace.push_back({"double* matrices", 0});
    }
    p.source += entry_point(q, l, {0}, {0}, workspace,
                            fill(R"cuda(    $memory
    const int own = (int)threadIdx.x % $threads;
    for (index_t next = (index_t)blockIdx.x * $at_once; next < $count; next += $step) {
        const index_t m = next + (int)threadIdx.x / $threads;
        for (int i = own; i < $all && m < $count; i += $threads) a[i] = (double)load(in0 + $from + i / $n * $row + i % $n * $column);
        double product = 1;
        bool singular = m >= $count;
        $wait;
        for (int k = 0; k < $n; ++k) {
            int pivot = k;
            for (int i = k + 1; i < $n && !singular; ++i)
                if (abs(a[i * $n + k]) > abs(a[pivot * $n + k])) pivot = i;
            singular = singular || a[pivot * $n + k] == 0;
            $wait;
            for (int j = k + own; j < $n && pivot != k && !singular; j += $threads) {
                const double x = a[pivot * $n + j];
                a[pivot * $n + j] = a[k * $n + j];
                a[k * $n + j] = x;
            }
            $wait;
            const double first = a[k * $n + k];
            if (!singular) product = (pivot != k ? -product : product) * first;
            for (int i = k + 1 + own; i < $n && !singular; i += $threads) a[i * $n + k] /= first;
            $wait;
            const int rest = $n - 1 - k;
            for (int e = own; e < rest * rest && !singular; e += $threads) {
                const int i = k + 1 + e / rest;
                const int j = k + 1 + e % rest;
                a[i * $n + j] -= a[i * $n + k] * a[k * $n + j];
            }
            $wait;
        }
        if (own == 0 && m < $count) out0[$to] = stored<$stored>(($type)(singular ? 0.0 : product));
        $wait;
    }
)cuda",
                                 names));
    p.source += "}  // namespace graft\n";
    p.launches.push_back(std::move(l));
    p.note = "elimination with pivots";
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE generated_table linear_algebra_rows() {
    static constexpr generated_row rows[] = {{"Det", "", detail::generate_det}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
