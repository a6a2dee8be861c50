// Times of the training kernels that memory bounds, on layers of real networks at batch 16: best of many runs, in microseconds and
// in GB/s of what they have to read and write at least, beside a copy of the same array.
// Arguments: [filter of the kernel's name] [threads] [images]; GRAFT_ISA chooses the instruction set.
#include "timing.hpp"

#include <graft/cpu/ops/training/reduce.hpp>
#include <graft/cpu/training/elementwise_grad.hpp>
#include <graft/cpu/training/matmul_grad.hpp>
#include <graft/cpu/training/norm_grad.hpp>
#include <graft/cpu/training/optimizer.hpp>
#include <graft/cpu/training/pool_grad.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace graft;
using namespace graft::cpu;
using bench::array;
using bench::best_seconds;

namespace {

struct layer {
    const char* name;
    int c, size;
};

const layer layers[] = {
    {"m 32 @112", 32, 112}, {"m 96 @112", 96, 112}, {"m 144 @56", 144, 56}, {"m 24 @56", 24, 56},   {"m 192 @28", 192, 28},
    {"m 384 @14", 384, 14}, {"m 96 @14", 96, 14},   {"m 576 @14", 576, 14}, {"m 960 @7", 960, 7},   {"m 1280 @7", 1280, 7},
    {"r 64 @112", 64, 112}, {"r 64 @56", 64, 56},   {"r 128 @28", 128, 28}, {"r 256 @14", 256, 14}, {"r 512 @7", 512, 7},
};

int threads = 1;
const char* filter = "";

// `streams` arrays of n floats have to pass through memory at least; `copy` is the rate of memcpy there.
template <class F>
void line(const char* kernel, const char* what, std::int64_t n, int streams, double copy, const F& f) {
    if (!std::strstr(kernel, filter)) return;
    const double s = best_seconds(threads, f), rate = static_cast<double>(n) * 4e-9 * streams / s;
    std::printf("%-22s %-12s %9.1f us %7.1f GB/s %5.2f of a copy\n", kernel, what, s * 1e6, rate, rate / copy);
}

// The gradient of a linear layer's weights: floating-point operations, and bytes where few samples make them few.
void products(isa set, executor& pool, std::int64_t images) {
    struct size {
        const char* name;
        std::int64_t n, rows, columns;
    };
    const size sizes[] = {{"m fc", images, 1280, 1000}, {"r fc", images, 512, 1000},   {"v fc1", images, 25088, 4096}, {"v fc2", images, 4096, 4096},
                          {"fc 256", 256, 1280, 1000},  {"fc 1024", 1024, 1280, 1000}, {"fc 4096", 4096, 1280, 1000},  {"head 10", images, 10, 1280}};
    for (const size& z : sizes) {
        if (!std::strstr("product", filter)) return;
        product_sum_problem p;
        p.n = z.n, p.rows = z.rows, p.columns = z.columns;
        const array a(z.n * z.rows), b(z.n * z.columns), c(z.rows * z.columns), space(product_sum_workspace_bytes(set, p) / 4);
        const double s = best_seconds(threads, [&] { run_product_sum(set, p, a.data, b.data, c.data, space.data, pool); });
        std::printf("%-22s %-12s %9.1f us %7.1f GB/s written %7.1f GF/s\n", "product", z.name, s * 1e6, static_cast<double>(z.rows * z.columns) * 4e-9 / s,
                    2e-9 * static_cast<double>(z.n * z.rows * z.columns) / s);
    }
}

void updates(isa set, executor& pool) {
    for (std::int64_t n : {std::int64_t(300000), std::int64_t(11000000)}) {
        const array w(n), g(n), m(n), v(n), to(n);
        for (std::int64_t i = 0; i < n; ++i) v.data[i] = v.data[i] * v.data[i];
        const char* what = n > 1000000 ? "11 M" : "0.3 M";
        const double copy = static_cast<double>(n) * 8e-9 / best_seconds(threads, [&] { std::memcpy(to.data, w.data, static_cast<std::size_t>(n) * 4); });
        const sgd_step sgd = sgd_step_of({0.9, 1e-4, false}, 1e-4);
        line("sgd", what, n, 5, copy, [&] { run_sgd(set, sgd, w.data, g.data, m.data, w.data, m.data, n, pool); });
        const adam_step adam = adam_step_of({0.9, 0.999, 1e-8, 0.01, true}, 1e-4, 5);
        line("adamw", what, n, 7, copy, [&] { run_adam(set, adam, w.data, g.data, m.data, v.data, w.data, m.data, v.data, n, pool); });
        line("moving average", what, n, 3, copy, [&] { run_moving_average(set, 0.999, m.data, w.data, m.data, n, pool); });
        const float* arrays[] = {g.data};
        const array space(global_norm_workspace_bytes(1, n) / 4);
        line("global norm", what, n, 1, copy, [&] { run_global_norm(set, arrays, &n, 1, space.data, pool); });
    }
}

void pools(isa set, executor& pool, std::int64_t images) {
    pool_problem p;
    p.n = images, p.c = 64, p.ih = p.iw = 112, p.oh = p.ow = 56, p.kh = p.kw = 3, p.sh = p.sw = 2, p.pt = p.pl = p.pb = p.pr = 1;
    const std::int64_t in = images * 64 * 112 * 112, out = in / 4;
    const array x(in), dy(out), dx(in);
    const double copy = static_cast<double>(in) * 8e-9 / best_seconds(threads, [&] { std::memcpy(dx.data, x.data, static_cast<std::size_t>(in) * 4); });
    std::vector<std::uint8_t> places(static_cast<std::size_t>(out));
    line("max pool places", "r 3x3s2", in * 9 / 4, 1, copy, [&] { run_max_pool_places(set, p, x.data, dy.data, places.data(), pool); });
    line("max pool grad", "r 3x3s2", in * 9 / 4, 1, copy, [&] { run_max_pool_grad(set, p, dy.data, places.data(), dx.data, pool); });
    p.kh = p.kw = 2, p.pt = p.pl = p.pb = p.pr = 0;
    run_max_pool_places(set, p, x.data, nullptr, places.data(), pool);
    line("max pool grad", "v 2x2s2", in * 9 / 4, 1, copy, [&] { run_max_pool_grad(set, p, dy.data, places.data(), dx.data, pool); });
    line("average pool grad", "2x2s2", in * 5 / 4, 1, copy, [&] { run_average_pool_grad(set, p, dy.data, dx.data, pool); });
    const std::int64_t n = images * 1280 * 49;
    const array wide(n), narrow(images * 1280);
    line("global average grad", "m 1280 @7", n, 1, copy,
         [&] { run_global_average_pool_grad(set, layout::blocked, images, 1280, 49, narrow.data, wide.data, pool); });
}

}  // namespace

int main(int argc, char** argv) {
    filter = argc > 1 ? argv[1] : "";
    pool_executor pool(argc > 2 ? std::atoi(argv[2]) : 1);
    const std::int64_t images = argc > 3 ? std::atoi(argv[3]) : 16;
    threads = pool.threads();
    const isa set = active_isa().value();
    const int w = vector_width(set);
    std::printf("%s, %d threads, %d images\n", name(set), threads, static_cast<int>(images));
    for (const layer& l : layers) {
        const std::int64_t area = std::int64_t(l.size) * l.size, stored = images * ((l.c + w - 1) / w * w) * area;
        const array x(stored), dy(stored), y(stored), dx(stored), scale(l.c + w), mean(l.c + w), inverse(l.c + w), other(l.c + w), more(l.c + w);
        const double copied = best_seconds(threads, [&] {
            parallel_for(pool, threads, [&](std::int64_t t) {
                const std::int64_t part = stored / threads;
                std::memcpy(dx.data + t * part, x.data + t * part, static_cast<std::size_t>(part) * 4);
            });
        });
        const double copy = static_cast<double>(stored) * 8e-9 / copied;
        std::printf("%-22s %-12s %9.1f us %7.1f GB/s\n", "memcpy", l.name, copied * 1e6, copy);
        line("relu grad", l.name, stored, 3, copy, [&] { run_masked_grad(set, gradient_mask::relu, 0, 0, dy.data, y.data, dx.data, stored, pool); });
        line("silu grad", l.name, stored, 3, copy, [&] { run_activation_grad(set, activation::silu, 0, 0, dy.data, x.data, dx.data, nullptr, stored, pool); });
        norm_problem p;
        p.n = images, p.c = l.c, p.area = area, p.blocked = true;
        p.ep.act = activation::relu;
        const array space(norm_workspace_bytes(set, p) / 4);
        const norm_forward_arrays forward{x.data,    scale.data, other.data, mean.data,    inverse.data, nullptr, y.data,
                                          more.data, nullptr,    mean.data,  inverse.data, nullptr,      nullptr};
        line("norm training", l.name, stored, 2, copy, [&] { (void)run_batch_norm_training(set, p, forward, space.data, pool); });
        const norm_backward_arrays backward{dy.data, scale.data, mean.data, inverse.data, x.data, y.data, dx.data, other.data, more.data, nullptr};
        line("norm grad", l.name, stored, 4, copy, [&] { (void)run_batch_norm_grad(set, p, backward, space.data, pool); });
        sum_problem sums;
        if (!sum_problem_of({images, l.c, l.size, l.size}, w, {1, l.c, 1, 1}, 0, 8, sums)) {
            const array sum_space(sum_workspace_bytes(set, sums) / 4);
            line("sum over batch", l.name, stored, 1, copy, [&] { run_sum(set, sums, x.data, other.data, sum_space.data, pool); });
        }
    }
    products(set, pool, images);
    updates(set, pool);
    pools(set, pool, images);
}
