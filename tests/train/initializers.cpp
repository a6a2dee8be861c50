// Initial weights: the bounds and deviations of torch.nn.init's formulas, the same draws every time.
#include "small_steps.hpp"

#include <cmath>

namespace {

struct drawn {
    double least = 0, most = 0, mean = 0, deviation = 0;

    drawn(graft::initializer kind, const graft::shape& extents, std::int64_t fan_in = 0) {
        const graft::tensor t = graft::initial(kind, extents, 5, 1, fan_in);
        double sum = 0, squares = 0;
        const double n = static_cast<double>(t.elements());
        for (std::int64_t i = 0; i < t.elements(); ++i) {
            const double v = static_cast<double>(t.data<float>()[i]);
            least = std::fmin(least, v), most = std::fmax(most, v);
            sum += v, squares += v * v;
        }
        mean = sum / n;
        deviation = std::sqrt(squares / n - mean * mean);
    }
};

}  // namespace

TEST_CASE("Uniform and normal weights have torch's bounds and deviations") {
    // Fans as torch.nn.init counts them: 32 * 9 in, 64 * 9 out.
    const graft::shape conv{64, 32, 3, 3};
    const struct {
        graft::initializer kind;
        double bound, deviation;
    } cases[] = {
        {graft::initializer::kaiming_uniform, std::sqrt(6.0 / 288), std::sqrt(2.0 / 288)},
        {graft::initializer::kaiming_normal, 0, std::sqrt(2.0 / 288)},
        {graft::initializer::kaiming_normal_fan_out, 0, std::sqrt(2.0 / 576)},
        {graft::initializer::xavier_uniform, std::sqrt(6.0 / 864), std::sqrt(2.0 / 864)},
        {graft::initializer::xavier_normal, 0, std::sqrt(2.0 / 864)},
        {graft::initializer::torch_default, 1 / std::sqrt(288.0), 1 / std::sqrt(3 * 288.0)},
        {graft::initializer::normal_001, 0, 0.01},
        // The deviation of a normal distribution cut at two deviations is 0.8796 of it.
        {graft::initializer::truncated_normal_002, 0.04, 0.02 * 0.8796},
    };
    for (const auto& c : cases) {
        CAPTURE(static_cast<int>(c.kind));
        const drawn d(c.kind, conv);
        CHECK(std::fabs(d.mean) < 4 * c.deviation / std::sqrt(64 * 288.0));
        CHECK(d.deviation == doctest::Approx(c.deviation).epsilon(0.03));
        if (c.bound > 0) {
            CHECK(d.most <= c.bound * (1 + 1e-6));
            CHECK(d.least >= -c.bound * (1 + 1e-6));
            CHECK(d.most > 0.95 * c.bound);
        }
    }
    CHECK(drawn(graft::initializer::torch_default, {100}, 16).most <= 0.25);
    CHECK(drawn(graft::initializer::ones, {7}).mean == 1);
    CHECK(drawn(graft::initializer::zeros, {7}).most == 0);
}

TEST_CASE("Draws are a function of the seed and the stream") {
    const auto bytes = [](std::uint64_t seed, std::uint64_t stream) {
        const graft::tensor t = graft::initial(graft::initializer::kaiming_normal, {8, 4}, seed, stream);
        return std::string(reinterpret_cast<const char*>(t.raw()), t.bytes());
    };
    CHECK(bytes(1, 2) == bytes(1, 2));
    CHECK(bytes(1, 2) != bytes(1, 3));
    CHECK(bytes(1, 2) != bytes(2, 2));
}
