// Random tensors, and Dropout with its training form: every element is a function of the seed and its place.
#pragma once

#include "../core/rng.hpp"
#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// The stream of a node: by its own `seed` attribute, else by the one that the run gives it.
inline random_stream stream_of(const run_context& c) {
    const attribute* seed = c.n.find("seed");
    if (!seed) return random_stream(c.seed);
    return random_stream(seed->kind == attribute_kind::integer ? static_cast<std::uint64_t>(seed->integer) : bit_cast<std::uint32_t>(seed->real), 1);
}

// RandomNormal-1,22, RandomNormalLike-1,22: y = mean + scale * normal; RandomUniform-1,22, RandomUniformLike-1,22: y in [low,
// high)
inline status random_infer(infer_context& c) {
    dtype type = dtype::undefined;
    GRAFT_TRY(type_attribute(c, "dtype", dtype::float32, accept::real, type));
    if (!c.has_attribute("shape")) return c.fail(errc::op_attribute, "the attribute 'shape' is missing");
    const integer_list extents = c.integers("shape");
    if (extents.size > shape::max_rank) return c.fail(errc::op_attribute, "a shape may have %lld dimensions at most, not %lld", shape::max_rank, extents.size);
    for (std::int64_t e : extents)
        if (e < 0) return c.fail(errc::op_attribute, "extent %lld of the shape is negative", e);
    return c.set(0, type, shape::from(extents.begin(), extents.end()));
}
inline status random_like_infer(infer_context& c) {
    dtype type = dtype::undefined;
    GRAFT_TRY(type_attribute(c, "dtype", c.in[0].type, accept::real, type));
    return c.set(0, type, c.in[0].extents);
}
GRAFT_NOINLINE inline status random_kernel(run_context& c, bool normal) {
    const tensor_view y = c.out[0];
    const random_stream stream = stream_of(c);
    const double base = static_cast<double>(normal ? c.real("mean", 0) : c.real("low", 0));
    const double scale = normal ? static_cast<double>(c.real("scale", 1)) : static_cast<double>(c.real("high", 1)) - base;
    for_blocks(c.pool, y.elements(), [&](std::int64_t first, int n) {
        double block[block_size];
        for (int i = 0; i < n; ++i) {
            const auto at = static_cast<std::uint64_t>(first + i);
            block[i] = base + scale * (normal ? stream.normal(at) : stream.uniform(at));
        }
        store_from_double(y.type, y.data, first, n, block);
    });
    return {};
}
inline status random_normal_run(run_context& c) { return random_kernel(c, true); }
inline status random_uniform_run(run_context& c) { return random_kernel(c, false); }

// Bernoulli-15,22: y = 1 with the probability x, else 0
inline status bernoulli_infer(infer_context& c) {
    dtype type = dtype::undefined;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(type_attribute(c, "dtype", c.in[0].type, accept::number | accept::boolean, type));
    return c.set(0, type, c.in[0].extents);
}
inline status bernoulli_run(run_context& c) {
    const tensor_view x = c.in[0], y = c.out[0];
    const random_stream stream = stream_of(c);
    for_blocks(c.pool, y.elements(), [&](std::int64_t first, int n) {
        double block[block_size];
        load_as_double(x.type, x.data, first, n, block);
        for (int i = 0; i < n; ++i) block[i] = stream.uniform(static_cast<std::uint64_t>(first + i)) < block[i];
        store_from_double(y.type, y.data, first, n, block);
    });
    return {};
}

// Multinomial-7,22: y[b, i] = a class drawn with a probability proportional to exp(x[b, class]), `sample_size` times
inline status multinomial_infer(infer_context& c) {
    dtype type = dtype::undefined;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(type_attribute(c, "dtype", dtype::int32, accept::signed_integer, type));
    if (type != dtype::int32 && type != dtype::int64) return c.fail(errc::op_type, "dtype must be int32 or int64");
    const shape& x = c.in[0].extents;
    const std::int64_t samples = c.integer("sample_size", 1);
    if (samples < 1) return c.fail(errc::op_attribute, "sample_size must be at least 1, not %lld", samples);
    if (x.rank() != 2 || x[1] < 1) return c.fail_shapes("the input must be [batch, classes] with at least one class");
    return c.set(0, type, {x[0], samples});
}
inline status multinomial_run(run_context& c) {
    const tensor_view x = c.in[0], y = c.out[0];
    const std::int64_t classes = x.extents[1], samples = y.extents[1];
    const random_stream stream = stream_of(c);
    buffer memory;
    GRAFT_TRY_ASSIGN(memory, c.scratch(checked_mul(classes, sizeof(double))));
    auto* sums = reinterpret_cast<double*>(memory.data());
    for (std::int64_t b = 0; b < y.extents[0]; ++b) {
        load_as_double(x.type, x.data, b * classes, classes, sums);
        const double highest = *std::max_element(sums, sums + classes);
        double sum = 0;
        for (std::int64_t k = 0; k < classes; ++k) sums[k] = sum += std::exp(sums[k] - highest);
        if (!(sum > 0) || !std::isfinite(sum)) return c.fail(errc::op_value, "row %lld has no finite probabilities", b);
        for (std::int64_t i = 0; i < samples; ++i) {
            const double u = stream.uniform(static_cast<std::uint64_t>(b * samples + i)) * sum;
            const std::int64_t drawn = std::min<std::int64_t>(std::upper_bound(sums, sums + classes, u) - sums, classes - 1);
            store_from_int64(y.type, y.data, b * samples + i, 1, &drawn);
        }
    }
    return {};
}

// Dropout-1,6,7,10,12,13,22: y = x, mask all true; with training_mode (since opset 12) each element is kept with probability
// 1 - ratio and scaled by 1 / (1 - ratio). The mask is of the type of x before opset 10.
inline status dropout_infer(infer_context& c) {
    if (!is_float(c.in[0].type)) return refuse_type(c, 0);
    if (c.version() < 7 && !c.integer("is_test", 0)) return c.fail(errc::op_unsupported, "before opset 7 only is_test = 1 is supported");
    GRAFT_TRY(check_scalar(c, 1));
    GRAFT_TRY(check_scalar(c, 2));
    if (c.has(1) && !is_float(c.in[1].type)) return refuse_type(c, 1);
    if (c.has(2)) GRAFT_TRY(check_type(c, 2, accept::boolean));
    GRAFT_TRY(c.set(0, c.in[0].type, c.in[0].extents));
    return c.set(1, c.version() < 10 ? c.in[0].type : dtype::boolean, c.in[0].extents);
}
inline status dropout_run(run_context& c) {
    const tensor_view x = c.in[0], y = c.out[0];
    const double ratio = c.has(1) ? c.in[1].real(0) : 0.5;
    if (!c.has(2) || !c.in[2].integer(0) || ratio == 0) {
        const double one = 1;
        if (y.data) GRAFT_TRY(copy_input(c));
        if (c.wants(1) && c.out[1].elements()) {
            store_from_double(c.out[1].type, c.out[1].data, 0, 1, &one);
            const std::size_t size = size_of(c.out[1].type);
            fill_elements(c.out[1].as<unsigned char>() + size, c.out[1].elements() - 1, size, c.out[1].data);
        }
        return {};
    }
    if (!(ratio > 0 && ratio < 1)) return c.fail(errc::op_value, "ratio must be in [0, 1)");
    const random_stream stream = stream_of(c);
    for_blocks(c.pool, x.elements(), [&](std::int64_t first, int n) {
        double block[block_size], mask[block_size];
        load_as_double(x.type, x.data, first, n, block);
        for (int i = 0; i < n; ++i) {
            mask[i] = stream.uniform(static_cast<std::uint64_t>(first + i)) >= ratio;
            block[i] = mask[i] != 0 ? block[i] / (1 - ratio) : 0;
        }
        if (y.data) store_from_double(y.type, y.data, first, n, block);
        if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, first, n, mask);
    });
    return {};
}

// graft.Dropout(X, counter) -> Y, mask: mask is 0 with the probability `ratio`, else 1 / (1 - ratio); Y = X * mask. The counter is
// {step, place of the first sample in the batch}: element k of sample s draws number (first + s) * (elements of a sample) + k of
// random_stream(seed, step), and is kept where that is at least `ratio`. So neither parts nor replicas of a batch change the draw.
inline status training_dropout_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    if (c.in[1].type != dtype::int64 || c.in[1].extents != shape{2}) return c.fail_shapes("the counter must be two numbers of int64");
    const float ratio = c.real("ratio", 0.5f);
    if (!(ratio >= 0 && ratio < 1)) return c.fail(errc::op_attribute, "ratio must be in [0, 1)");
    GRAFT_TRY(c.set(0, c.in[0].type, c.in[0].extents));
    return c.set(1, dtype::float32, c.in[0].extents);
}
inline status training_dropout_run(run_context& c) {
    const tensor_view x = c.in[0], y = c.out[0];
    if (x.elements() == 0) return {};
    const std::int64_t* counter = c.in[1].as<std::int64_t>();
    const random_stream stream(static_cast<std::uint64_t>(c.integer("seed", 0)), static_cast<std::uint64_t>(counter[0]));
    const std::uint64_t before = static_cast<std::uint64_t>(counter[1]) * static_cast<std::uint64_t>(x.elements() / x.extents.at(0));
    const double ratio = static_cast<double>(c.real("ratio", 0.5f)), kept = static_cast<double>(static_cast<float>(1 / (1 - ratio)));
    for_blocks(c.pool, x.elements(), [&](std::int64_t first, int n) {
        double block[block_size], mask[block_size];
        graft::load_as_double(x.type, x.data, first, n, block);
        stream.uniform(before + static_cast<std::uint64_t>(first), n, mask);
        for (int i = 0; i < n; ++i) {
            mask[i] = mask[i] >= ratio ? kept : 0;
            block[i] *= mask[i];
        }
        if (c.wants(0)) store_from_double(y.type, y.data, first, n, block);
        if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, first, n, mask);
    });
    return {};
}
inline status training_dropout_gradient(gradient_context& c) {
    if (c.n.outputs.size() < 2 || c.out(1) == no_value) return c.refuse("its mask is needed");
    if (c.wants(0) && c.dy() != no_value) c.give(0, c.build.mul(c.dy(), cast_to(c, c.out(1), c.build.type(c.dy()))));
    return {};
}
// Without training_mode, or with a ratio of 0, Dropout is a copy.
inline status dropout_gradient(gradient_context& c) {
    double ratio = 0.5, trains = 0;
    const bool known = (c.in(1) == no_value || constant_number(c, 1, ratio)) && (c.in(2) == no_value || constant_number(c, 2, trains));
    if (c.n.version >= 12 && (!known || (trains != 0 && ratio != 0)))
        return c.refuse("what it drops is not kept for the way back: training_mode writes it as graft.Dropout");
    if (c.wants(0)) c.give(0, c.dy());
    return {};
}

inline gradient_table random_gradients() {
    static constexpr gradient_row rows[] = {
        {"RandomNormal", "", nullptr}, {"RandomNormalLike", "", nullptr}, {"RandomUniform", "", nullptr},    {"RandomUniformLike", "", nullptr},
        {"Bernoulli", "", nullptr},    {"Multinomial", "", nullptr},      {"Dropout", "", dropout_gradient}, {"Dropout", "graft", training_dropout_gradient},
    };
    return rows;
}
inline op_table random_training_ops() {
    static constexpr op_row rows[] = {
        own("Dropout")
            .inputs(2)
            .outputs(1, 2)
            .functions(training_dropout_infer, training_dropout_run)
            .plays(op_role::drop)
            .attributes("ratio:f seed:i")
            .problems("f32[3,17] i64{5,0} ratio=0.3 seed=7; f32[4,3,5,5] i64{1,8} ratio=0.1; f64[2,9] i64{0,2} seed=-1; f16[7] i64{2,0} ratio=0; f32[0,3] "
                      "i64{1,1}; bf16[5,40] i64{3,4} ratio=0.75"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline op_table random_ops() {
    static constexpr op_row rows[] = {
        onnx("RandomNormal")
            .inputs(0)
            .functions(random_infer, random_normal_run)
            .random()
            .attributes("dtype:i mean:f scale:f seed:f shape:is")
            .problems("shape=3,17 seed=1; shape=5 mean=2 scale=3 dtype=11; shape=0,2; shape="),
        onnx("RandomNormalLike")
            .inputs(1)
            .functions(random_like_infer, random_normal_run)
            .random()
            .shape_only()
            .attributes("dtype:i mean:f scale:f seed:f")
            .problems("f32[3,17] seed=1; i32[5] dtype=1; f16[0]"),
        onnx("RandomUniform")
            .inputs(0)
            .functions(random_infer, random_uniform_run)
            .random()
            .attributes("dtype:i high:f low:f seed:f shape:is")
            .problems("shape=3,17 seed=1; shape=5 low=-1 high=3 dtype=11; shape=0,2; shape="),
        onnx("RandomUniformLike")
            .inputs(1)
            .functions(random_like_infer, random_uniform_run)
            .random()
            .shape_only()
            .attributes("dtype:i high:f low:f seed:f")
            .problems("f32[3,17] seed=1; i32[5] dtype=1; f16[0]"),
        onnx("Bernoulli")
            .opsets(15)
            .inputs(1)
            .functions(bernoulli_infer, bernoulli_run)
            .random()
            .attributes("dtype:i seed:f")
            .problems("f32[3,17]~0:1 seed=1; f64[5]~0:1 dtype=9; f16[0]"),
        onnx("Multinomial")
            .opsets(7)
            .inputs(1)
            .functions(multinomial_infer, multinomial_run)
            .random()
            .attributes("dtype:i sample_size:i seed:f")
            .problems("f32[3,17] seed=1; f32[2,4] sample_size=9 dtype=7; f16[0,3]"),
        onnx("Dropout")
            .opsets(1, 6)
            .inputs(1)
            .outputs(1, 2)
            .functions(dropout_infer, dropout_run)
            .carries(carry_elementwise)
            .plays(op_role::drop)
            .widens()
            .attributes("consumed_inputs:is is_test:i ratio:f")
            .problems("f32[3,17] is_test=1; f64[5] is_test=1 ratio=0.1; f16[0] is_test=1"),
        onnx("Dropout")
            .opsets(7, 11)
            .inputs(1)
            .outputs(1, 2)
            .functions(dropout_infer, dropout_run)
            .carries(carry_elementwise)
            .plays(op_role::drop)
            .widens()
            .copies()
            .attributes("ratio:f")
            .problems("f32[3,17]; f64[5] ratio=0.1 @9; f16[0]"),
        onnx("Dropout")
            .opsets(12)
            .inputs(1, 3)
            .outputs(1, 2)
            .functions(dropout_infer, dropout_run)
            .random()
            .plays(op_role::drop)
            .widens()
            .copies()
            .attributes("seed:i")
            .problems("f32[3,17]; f32[3,17] f32(0.3) b(1) seed=7; f32[5] f32(0.1) b(0); f64[5] - b(1); f16[0]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
