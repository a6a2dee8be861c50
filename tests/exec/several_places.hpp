// A run of a graph over places that its nodes ask for: cpu:0, cpu:1, and two devices with memories of their own.
#pragma once

#include "host_device.hpp"
#include "nets.hpp"

#include <graft/exec/context.hpp>

#include <memory>
#include <string>
#include <vector>

struct several_places {
    static constexpr int count = 4;
    std::shared_ptr<host_devices::host_device> device = host_devices::make(), second = host_devices::make();
    graft::detail::executable what;
    std::unique_ptr<graft::device_state> state = device->make_state().value(), second_state = second->make_state().value();
    std::unique_ptr<graft::detail::context> runner;
    graft::executor pool;

    explicit several_places(graft::graph g) {
        device->takes = [](const graft::node& n) { return n.name.rfind("device", 0) == 0; };
        second->takes = [](const graft::node& n) { return n.name.rfind("second", 0) == 0; };
        const auto cpu = [](const char* name) { return graft::backends::cpu::instance().open(name, {}, nullptr).value(); };
        what.graph = std::move(g);
        what.how.places = {cpu("cpu:0"), cpu("cpu:1"), device, second};
        what.how.packed = std::make_shared<graft::pack_cache>();
        runner = std::make_unique<graft::detail::context>(what, pool, std::vector<graft::device_state*>{nullptr, nullptr, state.get(), second_state.get()});
    }
    graft::status try_run(const std::vector<graft::tensor>& inputs) {
        std::vector<graft::tensor_view> views;
        for (const graft::tensor& t : inputs) views.push_back(view(t));
        return runner->run(views.data());
    }
    std::shared_ptr<const graft::plan> run(const std::vector<graft::tensor>& inputs) {
        const graft::status done = try_run(inputs);
        REQUIRE_MESSAGE(done.ok(), std::string(done.ok() ? "" : done.error().what()));
        return runner->current();
    }
};

// Node i asks for place `turn(i)`, and is named so that the devices take what asks for them alone.
template <class Turn>
void spread(graft::graph& g, const Turn& turn) {
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
        g.nodes[i].place = static_cast<graft::place_id>(turn(i));
        g.nodes[i].name = (g.nodes[i].place == 2 ? "device " : g.nodes[i].place == 3 ? "second " : "host ") + std::to_string(i);
    }
}
inline graft::graph bound(const graft::graph& g, const graft::load_options& options = {}) { return graft::load(g, options).value().graph(); }
