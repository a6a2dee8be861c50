// Back ends by name: which device a load gets, what is said where there is none, and devices that are open already.
#include "host_device.hpp"
#include "nets.hpp"

#include <doctest/doctest.h>

#include <graft/cpu/dispatch.hpp>

#include <string>
#include <vector>

using graft::builder;
using graft::dtype;
using graft::errc;
using host_devices::errc_of;
using host_devices::host_device;
using nets::floats;

namespace {

constexpr dtype f32 = dtype::float32;

// A back end whose devices are the host's, and another whose library is never there.
struct host_backend {
    static std::vector<std::string>& asked() {
        static std::vector<std::string> names;
        return names;
    }
    static const graft::backend& instance() noexcept {
        static const graft::backend self{
            "host", [] { return graft::status(); },
            [](const std::string& name, const graft::device_options& options, void (*)(const char*)) -> graft::result<std::shared_ptr<graft::device>> {
                asked().push_back(name + " " + options.precision);
                if (name == "host:9") return graft::fail(errc::device_unavailable, name, "there is no such device");
                return std::shared_ptr<graft::device>(std::make_shared<host_device>(name == "host" ? "host:0" : name));
            }};
        return self;
    }
};
struct absent_backend {
    static const graft::backend& instance() noexcept {
        static const graft::backend self{
            "absent", [] { return graft::fail(errc::device_unavailable, "absent", "no library"); },
            [](const std::string& name, const graft::device_options&, void (*)(const char*)) -> graft::result<std::shared_ptr<graft::device>> {
                return graft::fail(errc::device_unavailable, name, "its library is not installed");
            }};
        return self;
    }
};
// Like it, on a machine that has no such device.
struct unexpected_backend {
    static const graft::backend& instance() noexcept {
        static const graft::backend self = [] {
            graft::backend b = absent_backend::instance();
            b.expected = [] { return false; };
            return b;
        }();
        return self;
    }
};
std::vector<std::string>& warnings() {
    static std::vector<std::string> texts;
    return texts;
}
void keep_warning(const char* text) { warnings().push_back(text); }

graft::graph exponential() {
    builder b;
    b.output(b.apply("Exp", {b.input("x", f32, {3})}), "y");
    return b.finish();
}
graft::load_options asking(const char* device) {
    graft::load_options o;
    o.device = device;
    o.warn = keep_warning;
    return o;
}

}  // namespace

TEST_CASE("auto takes the first device, cpu none, and a name the one that it names") {
    using both = graft::runtime<host_backend, graft::backends::cpu>;
    const auto device_of = [](const char* name) { return std::string(both::load(exponential(), asking(name)).value().device()); };
    host_backend::asked().clear();
    CHECK(device_of("auto") == "host:0");
    CHECK(device_of("host") == "host:0");
    CHECK(device_of("host:2") == "host:2");
    CHECK(device_of("cpu") == "cpu");
    CHECK(host_backend::asked() == std::vector<std::string>{"host auto", "host auto", "host:2 auto"});
    // The order in which a program names its back ends is the order in which they are tried.
    const graft::model first_cpu = graft::runtime<graft::backends::cpu, host_backend>::load(exponential(), asking("auto"));
    CHECK(std::string(first_cpu.device()) == "cpu");
    for (const char* name : {"auto", "host", "cpu"}) {
        const graft::model m = both::load(exponential(), asking(name));
        CHECK(nets::values<float>(nets::run(m, {floats({0, 1, 2})}).outputs[0])[0] == 1);
        CHECK(std::string(m.placements({}).value()[0].device) == (std::string(name) == "cpu" ? "cpu" : "host:0"));
    }
    graft::load_options slow = asking("auto");
    slow.reference = true;
    CHECK(std::string(both::load(exponential(), slow).value().device()) == "cpu");
    CHECK(warnings().empty());
}

TEST_CASE("a name that no back end has is an error that lists those there are") {
    using both = graft::runtime<host_backend, graft::backends::cpu>;
    for (const char* name : {"rocm", "cpu:1", "hos", "host9", ""}) {
        CAPTURE(name);
        const auto m = both::load(exponential(), asking(name));
        CHECK(errc_of(m) == errc::device_unavailable);
        CHECK(m.error().where() == name);
        CHECK(m.error().detail().find("host, cpu") != std::string::npos);
    }
    CHECK(errc_of(graft::load(exponential(), asking("host"))) == errc::device_unavailable);
    CHECK(errc_of(both::open("rocm")) == errc::device_unavailable);
}

TEST_CASE("auto runs on the CPU where a device cannot be opened, and says so once; by its name that is an error") {
    using with_absent = graft::runtime<absent_backend, graft::backends::cpu>;
    warnings().clear();
    // A machine that has none is no reason to warn, nor does it use the one warning up.
    using none_here = graft::runtime<unexpected_backend, graft::backends::cpu>;
    CHECK(std::string(none_here::load(exponential(), asking("auto")).value().device()) == "cpu");
    CHECK(warnings().empty());
    CHECK(errc_of(none_here::load(exponential(), asking("absent"))) == errc::device_unavailable);
    for (int i = 0; i < 3; ++i) {
        const graft::model m = with_absent::load(exponential(), asking("auto"));
        CHECK(std::string(m.device()) == "cpu");
        CHECK(nets::run(m, {floats({0, 1, 2})}).error == "");
    }
    REQUIRE(warnings().size() == 1);
    CHECK(warnings()[0].find("its library is not installed") != std::string::npos);
    CHECK(warnings()[0].find("CPU") != std::string::npos);
    const auto named_one = with_absent::load(exponential(), asking("absent"));
    CHECK(errc_of(named_one) == errc::device_unavailable);
    CHECK(named_one.error().detail() == "its library is not installed");
    const auto ninth = graft::runtime<host_backend, graft::backends::cpu>::load(exponential(), asking("host:9"));
    CHECK(errc_of(ninth) == errc::device_unavailable);
    // A device behind one that is not there is taken.
    const graft::model other = graft::runtime<absent_backend, host_backend, graft::backends::cpu>::load(exponential(), asking("auto"));
    CHECK(std::string(other.device()) == "host:0");
    // Without a CPU to run on, what is wrong with the device is what is wrong.
    const auto alone = graft::runtime<absent_backend>::load(exponential(), asking("auto"));
    CHECK(errc_of(alone) == errc::device_unavailable);
    CHECK(alone.error().detail() == "its library is not installed");
    CHECK(warnings().size() == 1);
}

TEST_CASE("a precision that the CPU cannot honour is an error, wherever the CPU is what runs") {
    using both = graft::runtime<host_backend, graft::backends::cpu>;
    using with_absent = graft::runtime<absent_backend, graft::backends::cpu>;
    warnings().clear();
    const bool bfloat16_here = graft::cpu::bfloat16_products(graft::cpu::active_isa().value()) != nullptr;
    for (const char* precision : {"auto", "float32", "tf32", "float16", "bfloat16", "float64", ""}) {
        CAPTURE(precision);
        const bool honoured = std::string(precision) == "auto" || std::string(precision) == "float32";
        const bool known = honoured || std::string(precision).find("16") != std::string::npos || std::string(precision) == "tf32";
        const auto with = [&](const char* device) {
            graft::load_options o = asking(device);
            o.on_device.precision = precision;
            return o;
        };
        graft::load_options reference = with("auto");
        reference.reference = true;
        for (const auto& m : {graft::load(exponential(), with("cpu")), both::load(exponential(), with("cpu")), with_absent::load(exponential(), with("auto")),
                              both::load(exponential(), reference)}) {
            // Where the machine multiplies it, as the last one cannot.
            if (std::string(precision) == "bfloat16" && bfloat16_here && m.ok()) continue;
            REQUIRE(m.ok() == honoured);
            if (honoured) continue;
            CHECK(m.error().code() == (known ? errc::device_unavailable : errc::usage));
            CHECK(m.error().where() == "precision");
            CHECK(m.error().detail().find(precision) != std::string::npos);
        }
        if (known && !honoured && !(std::string(precision) == "bfloat16" && bfloat16_here))
            CHECK(with_absent::load(exponential(), with("auto")).error().detail().find("its library is not installed") != std::string::npos);
        CHECK(both::load(exponential(), with("auto")).ok());  // the device has its own say
    }
    for (const std::string& text : warnings()) CHECK(text.find("precision") == std::string::npos);
}

TEST_CASE("a device that is open already is shared by the models that are given it") {
    using both = graft::runtime<host_backend, graft::backends::cpu>;
    const std::shared_ptr<graft::device> on = both::open("host:1");
    REQUIRE(static_cast<bool>(on));
    CHECK(on->name() == "host:1");
    CHECK(!static_cast<bool>(both::open("cpu").value()));
    for (int i = 0; i < 2; ++i) {
        const graft::model m = graft::load(exponential(), graft::on_device(on));
        CHECK(std::string(m.device()) == "host:1");
        CHECK(nets::run(m, {floats({0, 1, 2})}).error == "");
    }
    CHECK(static_cast<host_device&>(*on).did.segments == 2);
    CHECK(std::string(graft::load(exponential(), graft::on_device(nullptr)).value().device()) == "cpu");
}

TEST_CASE("a program without the CPU names the node that its only back end does not take") {
    builder b;
    b.output(b.apply("NonZero", {b.apply("Exp", {b.input("x", f32, {3})})}), "y");
    const graft::graph g = b.finish();
    const auto refused = graft::runtime<host_backend>::load(g, asking("host"));
    CHECK(errc_of(refused) == errc::placement_refused);
    CHECK(refused.error().where().find("NonZero") != std::string::npos);
    CHECK(refused.error().detail().find("host:0: ") != std::string::npos);
    CHECK(graft::runtime<host_backend>::load(exponential(), asking("host")).ok());
}
