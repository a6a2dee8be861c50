// Casts, generated and random tensors, losses: tables of the standard, and what is refused.
#include "one_node.hpp"

#include <doctest/doctest.h>

#include <cmath>

using graft::dtype;
using namespace one_node;
using list = std::vector<double>;

TEST_CASE("casts to float8 follow the table of the standard") {
    const graft::tensor x = tensor(dtype::float32, {4}, {1e6, -1e6, HUGE_VAL, NAN});
    const struct {
        dtype type;
        double largest;
        bool infinity;
    } types[] = {
        {dtype::float8e4m3fn, 448, false}, {dtype::float8e4m3fnuz, 240, false}, {dtype::float8e5m2, 57344, true}, {dtype::float8e5m2fnuz, 57344, false}};
    for (const auto& t : types) {
        const auto to = integer("to", static_cast<std::int64_t>(t.type));
        const list kept = run("Cast", 19, {x}, {to}).values(), lost = run("Cast", 19, {x}, {to, integer("saturate", 0)}).values();
        CHECK(kept[0] == t.largest);
        CHECK(kept[1] == -t.largest);
        CHECK(kept[2] == t.largest);
        CHECK(std::isnan(kept[3]));
        CHECK((t.infinity ? lost[0] == HUGE_VAL : std::isnan(lost[0])));
        CHECK((t.infinity ? lost[1] == -HUGE_VAL : std::isnan(lost[1])));
        CHECK(std::isnan(lost[3]));
    }
}

TEST_CASE("casts cut, wrap and round once") {
    CHECK(run("Cast", 13, {tensor(dtype::float32, {3}, {-1.9, 1.9, 0.5})}, {integer("to", 7)}).values() == list{-1, 1, 0});
    CHECK(run("Cast", 13, {tensor(dtype::int16, {2}, {200, -129})}, {integer("to", 3)}).values() == list{-56, 127});
    CHECK(run("Cast", 13, {tensor(dtype::float32, {3}, {0.25, -0.0, NAN})}, {integer("to", 9)}).values() == list{1, 0, 1});
    // 2^60 + 2^36 + 1 lies just above the middle of two floats; through a double it would fall onto the middle and down.
    const std::int64_t wide[] = {(std::int64_t(1) << 60) + (std::int64_t(1) << 36) + 1};
    CHECK(run("Cast", 13, {graft::tensor::from(wide, {1})}, {integer("to", 1)}).values() == list{static_cast<double>(static_cast<float>(wide[0]))});
    CHECK(run("Cast", 25, {tensor(dtype::int32, {3}, {9, -9, 7})}, {integer("to", 22)}).values() == list{-7, 7, 7});
    CHECK(run("Cast", 24, {tensor(dtype::float32, {3}, {3, 4, 5})}, {integer("to", 24)}).values() == list{4, 4, 8});
    CHECK(run("Cast", 24, {tensor(dtype::float32, {3}, {3, 4, 7})}, {integer("to", 24), text("round_mode", "down")}).values() == list{2, 4, 4});
}

TEST_CASE("casts to what no tensor holds are not supported") {
    const graft::tensor x = tensor(dtype::float32, {1}, {1});
    CHECK(run("Cast", 13, {x}, {integer("to", 8)}).error == "op.unsupported");
    CHECK(run("Cast", 13, {x}, {integer("to", 99)}).error == "op.unsupported");
    CHECK(run("Cast", 13, {x}).error == "op.attribute");
    CHECK(run("BitCast", 26, {x}, {integer("to", 11)}).error == "op.type");
    CHECK(run("BitCast", 26, {x}, {integer("to", 6)}).values() == list{0x3f800000});
    CHECK(run("BitCast", 26, {tensor(dtype::int4, {2}, {-1, 7})}, {integer("to", 21)}).values() == list{15, 7});
}

TEST_CASE("shapes and ranges from data are checked before anything is made") {
    CHECK(run("ConstantOfShape", 9, {tensor(dtype::int64, {2}, {2, -1})}).error == "op.value");
    CHECK(run("ConstantOfShape", 9, {tensor(dtype::int64, {17}, list(17, 1.0))}).error == "op.shape");
    CHECK(run("ConstantOfShape", 9, {tensor(dtype::int64, {2}, {4e18, 4e18})}).error == "tensor.overflow");
    const auto range = [](double a, double b, double d) {
        return run("Range", 11, {tensor(dtype::float32, {}, {a}), tensor(dtype::float32, {}, {b}), tensor(dtype::float32, {}, {d})});
    };
    CHECK(range(0, 1, 0).error == "op.value");
    CHECK(range(0, HUGE_VAL, 1).error == "op.value");
    CHECK(range(0, NAN, 1).error == "op.value");
    CHECK(range(3, 1, 1).values() == list{});
    CHECK(range(5, 0, -2).values() == list{5, 3, 1});
    const auto whole = [](double a, double b, double d) {
        return run("Range", 11, {tensor(dtype::int64, {}, {a}), tensor(dtype::int64, {}, {b}), tensor(dtype::int64, {}, {d})});
    };
    CHECK(whole(0, 1, 0).error == "op.value");
    CHECK(whole(10, 4, -3).values() == list{10, 7});
    CHECK(whole(-9.2e18, 9.2e18, 1).error == "op.value");
    CHECK(run("OneHot", 11, {tensor(dtype::int64, {1}, {0}), tensor(dtype::int64, {}, {0}), tensor(dtype::float32, {2}, {0, 1})}).error == "op.value");
    CHECK(run("EyeLike", 9, {tensor(dtype::float32, {2}, {0, 0})}).error == "op.shape");
    graft::attribute sparse;
    sparse.name = "sparse_value";
    CHECK(run("Constant", 13, {}, {sparse}).error == "op.unsupported");
    CHECK(run("Constant", 13, {}).error == "op.attribute");
}

TEST_CASE("one-hot takes negative indices from the end and leaves out those beyond") {
    CHECK(run("OneHot", 11, {tensor(dtype::int64, {3}, {1, -1, 5}), tensor(dtype::int64, {1}, {3}), tensor(dtype::int32, {2}, {2, 7})}).values() ==
          list{2, 7, 2, 2, 2, 7, 2, 2, 2});
}

TEST_CASE("losses refuse targets that are no class, unless they are ignored") {
    const graft::tensor x = tensor(dtype::float32, {2, 2}, {0, 0, 0, 0});
    CHECK(run("SoftmaxCrossEntropyLoss", 13, {x, tensor(dtype::int64, {2}, {0, 2})}).error == "op.index");
    CHECK(run("SoftmaxCrossEntropyLoss", 13, {x, tensor(dtype::int64, {2}, {0, -1})}, {integer("ignore_index", -1)}).values()[0] ==
          doctest::Approx(std::log(2.0)));
    CHECK(run("NegativeLogLikelihoodLoss", 13, {x, tensor(dtype::int64, {3}, {0, 0, 0})}).error == "op.shape");
    CHECK(run("NegativeLogLikelihoodLoss", 13, {x, tensor(dtype::int64, {2}, {0, 0})}, {text("reduction", "max")}).error == "op.attribute");
}

TEST_CASE("dropout is the identity, and when training keeps the mean") {
    const graft::tensor x = tensor(dtype::float32, {10000}, list(10000, 1.0)), on = tensor(dtype::boolean, {}, {1});
    const outcome still = run("Dropout", 13, {x}, {}, 2);
    CHECK(still.values() == list(10000, 1.0));
    CHECK(still.outputs[1].type() == dtype::boolean);
    CHECK(run("Dropout", 7, {x}, {}, 2).outputs[1].type() == dtype::float32);
    CHECK(run("Dropout", 6, {x}).error == "op.unsupported");
    const outcome a = run("Dropout", 13, {x, tensor(dtype::float32, {}, {0.25}), on}, {integer("seed", 3)}, 2);
    const outcome b = run("Dropout", 13, {x, tensor(dtype::float32, {}, {0.25}), on}, {integer("seed", 3)}, 2);
    CHECK(a.values() == b.values());
    double sum = 0, kept = 0;
    for (double v : a.values()) sum += v;
    for (double v : a.values(1)) kept += v;
    CHECK(sum / 10000 == doctest::Approx(1).epsilon(0.03));
    CHECK(kept / 10000 == doctest::Approx(0.75).epsilon(0.03));
    CHECK(run("Dropout", 13, {x, tensor(dtype::float32, {}, {1.5}), on}).error == "op.value");
}

TEST_CASE("random tensors have the moments they are asked for") {
    const auto moments = [](const outcome& o, double& mean, double& deviation) {
        mean = deviation = 0;
        for (double v : o.values()) mean += v / 20000;
        for (double v : o.values()) deviation += (v - mean) * (v - mean) / 20000;
        deviation = std::sqrt(deviation);
    };
    double mean = 0, deviation = 0;
    moments(run("RandomNormal", 1, {}, {integers("shape", {20000}), real("mean", 3), real("scale", 2)}), mean, deviation);
    CHECK(mean == doctest::Approx(3).epsilon(0.03));
    CHECK(deviation == doctest::Approx(2).epsilon(0.03));
    moments(run("RandomUniform", 1, {}, {integers("shape", {20000}), real("low", -1), real("high", 3)}), mean, deviation);
    CHECK(mean == doctest::Approx(1).epsilon(0.05));
    CHECK(deviation == doctest::Approx(4 / std::sqrt(12.0)).epsilon(0.03));
    moments(run("Multinomial", 7, {tensor(dtype::float32, {1, 2}, {std::log(0.25), std::log(0.75)})}, {integer("sample_size", 20000)}), mean, deviation);
    CHECK(mean == doctest::Approx(0.75).epsilon(0.03));
    CHECK(run("Multinomial", 7, {tensor(dtype::float32, {1, 2}, {-HUGE_VAL, -HUGE_VAL})}).error == "op.value");
    CHECK(run("RandomNormal", 1, {}, {integers("shape", {-1})}).error == "op.attribute");
}

TEST_CASE("triangles and determinants of stacks of matrices") {
    const graft::tensor x = tensor(dtype::int32, {2, 3}, {1, 2, 3, 4, 5, 6});
    CHECK(run("Trilu", 14, {x}).values() == list{1, 2, 3, 0, 5, 6});
    CHECK(run("Trilu", 14, {x, tensor(dtype::int64, {}, {1})}, {integer("upper", 0)}).values() == list{1, 2, 0, 4, 5, 6});
    const std::int64_t far[] = {INT64_MIN};
    CHECK(run("Trilu", 14, {x, graft::tensor::from(far, {})}).values() == list{1, 2, 3, 4, 5, 6});
    CHECK(run("Det", 22, {tensor(dtype::float32, {2, 2, 2}, {1, 2, 3, 4, 0, 1, 1, 0})}).values()[0] == doctest::Approx(-2));
    CHECK(run("Det", 22, {tensor(dtype::float32, {0, 0}, {})}).values() == list{1});
    CHECK(run("Det", 22, {tensor(dtype::float32, {2, 3}, list(6, 1.0))}).error == "op.shape");
}
