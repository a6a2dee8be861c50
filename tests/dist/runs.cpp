// Runs of training of several members, here threads: the files of a run of one, agreement, and how they end.
#include "../train/small_runs.hpp"

#include <graft/dist.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace {

struct ending {
    graft::status status;
    std::vector<double> losses;
    std::vector<graft::member_record> members;
    std::vector<std::string> warnings;
};
struct listener final : graft::training_observer {
    std::vector<std::string> warnings;
    // Of members alone: networks that have hardly begun to learn are warned of, too.
    void on_warning(const std::string& text) override {
        if (text.find("times as long") != std::string::npos) warnings.push_back(text);
    }
};

// Each member trains in a thread of its own, by options that `change` may change.
template <class Change>
std::vector<ending> run_members(const made_folder& folder, int size, const graft::trainer_options& o, const Change& change, double timeout = 60,
                                const char* freeze = "none") {
    std::vector<ending> ends(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (const auto& member : graft::make_thread_group(size, timeout))
        threads.emplace_back([&, member] {
            ending& end = ends[static_cast<std::size_t>(member->rank())];
            graft::trainer_options mine = o;
            mine.step.group = member;
            change(mine, member->rank());
            const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
            listener watcher;
            auto made = graft::train(small_network(freeze), data, mine, watcher);
            if (!made.ok()) {
                end.status = made.take_status();
                return;
            }
            end.members = made->members;
            end.warnings = watcher.warnings;
            for (const graft::epoch_record& r : made->history) end.losses.push_back(r.training_loss + r.training_top1 + r.loss);
        });
    for (std::thread& t : threads) t.join();
    return ends;
}
void nothing(graft::trainer_options&, int) {}

// A member on a slow machine: each of its steps takes longer.
class slow_member final : public graft::communicator {
public:
    slow_member(std::shared_ptr<graft::communicator> of, int milliseconds) : of_(std::move(of)), milliseconds_(milliseconds) {}
    int rank() const noexcept override { return of_->rank(); }
    int size() const noexcept override { return of_->size(); }
    const char* name() const noexcept override { return of_->name(); }
    graft::status all_gather(const void* own, std::size_t bytes, void* all) override { return of_->all_gather(own, bytes, all); }
    graft::status broadcast(void* data, std::size_t bytes, int from) override { return of_->broadcast(data, bytes, from); }
    graft::status all_reduce(const graft::reduction& arrays) override {
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
        return of_->all_reduce(arrays);
    }
    graft::status reduce(const graft::reduction& arrays, int to) override { return of_->reduce(arrays, to); }
    graft::status reduce_scatter(float* data, std::int64_t count) override { return of_->reduce_scatter(data, count); }
    graft::status barrier() override { return of_->barrier(); }
    graft::status start(const graft::started_sum& array) override {
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
        return of_->start(array);
    }
    graft::status finish(const float* data) override { return of_->finish(data); }
    graft::status settle(const graft::error* why) override { return of_->settle(why); }
    bool overlaps() const noexcept override { return of_->overlaps(); }
    void leave(const graft::error& why) noexcept override { of_->leave(why); }
    graft::status look() override { return of_->look(); }
    double timeout_seconds() const noexcept override { return of_->timeout_seconds(); }
    double waited_seconds() const noexcept override { return of_->waited_seconds(); }

private:
    std::shared_ptr<graft::communicator> of_;
    int milliseconds_;
};

// An operator that gives what it takes, and takes its time in all threads but one.
std::atomic<bool> slow{false};
std::thread::id fast;
graft::status slow_infer(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }
graft::status slow_run(graft::run_context& c) {
    if (slow && std::this_thread::get_id() != fast) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    std::copy_n(c.in[0].as<float>(), c.in[0].elements(), c.out[0].as<float>());
    return {};
}
const graft::op_row slow_rows[] = {graft::make_op("Slow", "my.app").inputs(1).functions(slow_infer, slow_run).problems("f32[2,3]")};
const graft::op_table slow_operators = slow_rows;

}  // namespace

TEST_CASE("a run of several members writes the files of a run of one") {
    made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/one");
    o.augmentation->mixup = 0.2f;
    o.max_ram = 0;
    const outcome one = trained(folder, o, small_network("none"));
    for (int size : {2, 3, 5}) {
        o.out = folder.path + "/many" + std::to_string(size);
        const std::vector<ending> ends = run_members(folder, size, o, nothing);
        for (const ending& e : ends) {
            REQUIRE_MESSAGE(e.status.ok(), std::string(e.status.ok() ? "" : e.status.error().what()));
            CHECK(e.losses == ends[0].losses);
        }
        CHECK(file(o.out + "/model.onnx") == one.model);
        CHECK(ends[0].losses.size() == one.result.history.size());
    }
    SUBCASE("replicas in one process do, too") {
        for (int size : {2, 3, 8}) {
            graft::replica_options how;
            how.replicas = size;
            o.step.replicas = graft::make_replicas(how);
            o.out = folder.path + "/replicas" + std::to_string(size);
            CHECK(trained(folder, o, small_network("none")).model == one.model);
        }
    }
    SUBCASE("a run that was cut off goes on with another number of members") {
        graft::trainer_options cut = o;
        cut.out = folder.path + "/cut";
        struct stopper final : graft::training_observer {
            int steps = 0;
            graft::training_verdict on_step(const graft::trainer_progress&) override {
                return ++steps == 6 ? graft::training_verdict::stop : graft::training_verdict::go_on;
            }
        };
        const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
        stopper watcher;
        const auto stopped = graft::train(small_network("none"), data, cut, watcher);
        REQUIRE(stopped.ok());
        CHECK(stopped->stopped);
        cut.resume = true;
        for (const ending& e : run_members(folder, 4, cut, nothing)) CHECK(e.status.ok());
        CHECK(file(cut.out + "/model.onnx") == one.model);
    }
}

TEST_CASE("pictures that cannot be read are left out by all members alike") {
    made_folder folder;
    put_pictures(folder);
    for (const char* name : {"data/train/a/3.png", "data/train/c/0.png", "data/val/b/1.png"}) folder.put(name, "no picture");
    graft::trainer_options o = small_options(folder.path + "/one");
    o.bad_share = 0.2;
    const outcome one = trained(folder, o, small_network("none"));
    CHECK(one.result.bad_pictures == 3);
    for (int size : {2, 4}) {
        o.out = folder.path + "/many" + std::to_string(size);
        for (const ending& e : run_members(folder, size, o, nothing)) CHECK_MESSAGE(e.status.ok(), std::string(e.status.ok() ? "" : e.status.error().what()));
        CHECK(file(o.out + "/model.onnx") == one.model);
        CHECK(file(o.out + "/metrics.jsonl").find("\"val\"") != std::string::npos);
    }
    o.bad_share = 0;
    o.out = folder.path + "/strict";
    for (const ending& e : run_members(folder, 3, o, nothing)) {
        REQUIRE(!e.status.ok());
        CHECK((e.status.error().code() == graft::errc::data_too_many_bad || e.status.error().code() == graft::errc::dist_peer_lost));
    }
}

TEST_CASE("a frozen trunk's features, and a teacher's answers, are shared") {
    made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/teacher");
    trained(folder, o, small_network("none"));
    SUBCASE("features that are kept") { o.augmentation = graft::augmentation(); }
    SUBCASE("a teacher of pictures as they are changed") {}
    const char* freeze = o.augmentation->horizontal_flip > 0 ? "none" : "trunk";
    o.teacher = folder.path + "/teacher/model.onnx";
    o.step.loss.distillation = 0.5f;
    o.out = folder.path + "/one";
    const outcome one = trained(folder, o, small_network(freeze));
    o.out = folder.path + "/many";
    for (const ending& e : run_members(folder, 3, o, nothing, 60, freeze))
        CHECK_MESSAGE(e.status.ok(), std::string(e.status.ok() ? "" : e.status.error().what()));
    CHECK(file(o.out + "/model.onnx") == one.model);
}

TEST_CASE("members that were told different things say what differs, and do not train") {
    made_folder folder;
    put_pictures(folder);
    const graft::trainer_options o = small_options(folder.path + "/run");
    const auto mismatch = [&](auto change, const std::string& what) {
        for (const ending& e : run_members(folder, 3, o, change, 20)) {
            REQUIRE(!e.status.ok());
            CHECK(e.status.error().code() == graft::errc::dist_mismatch);
            CHECK(std::string(e.status.error().what()).find(what) != std::string::npos);
        }
        CHECK(file(o.out + "/model.onnx").empty());
    };
    SUBCASE("the seed") {
        mismatch([](graft::trainer_options& mine, int rank) { mine.seed += rank == 2; }, "seed: member 2 has \"10\", and member 0 has \"9\"");
    }
    SUBCASE("the batch") {
        mismatch([](graft::trainer_options& mine, int rank) { mine.batch += rank == 1; }, "batch: member 1 has \"6\", and member 0 has \"5\"");
    }
}

TEST_CASE("where one member fails, the others end, and say whose fault it was") {
    made_folder folder;
    put_pictures(folder);
    const graft::trainer_options o = small_options(folder.path + "/run");
    const std::vector<ending> ends = run_members(
        folder, 3, o,
        [&](graft::trainer_options& mine, int rank) {
            if (rank == 1) mine.teacher = folder.path + "/no such model.onnx", mine.step.loss.distillation = 0.5f;
        },
        20);
    REQUIRE(!ends[1].status.ok());
    CHECK(ends[1].status.error().code() == graft::errc::file_open);
    for (std::size_t r : {0u, 2u}) {
        REQUIRE(!ends[r].status.ok());
        CHECK(ends[r].status.error().code() == graft::errc::dist_peer_lost);
        CHECK(std::string(ends[r].status.error().what()).find("member 1") != std::string::npos);
    }
}

TEST_CASE("the member that the others wait for is named once, and changes no byte of the model") {
    made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/even");
    o.batch = 8;
    for (const ending& e : run_members(folder, 4, o, nothing)) {
        REQUIRE(e.status.ok());
        REQUIRE(e.members.size() == 4);
        // 24 pictures, thrice, by quarters.
        for (const graft::member_record& m : e.members) CHECK(m.samples == 18);
    }
    graft::trainer_options slowed = o;
    slowed.out = folder.path + "/slow";
    const std::vector<ending> ends = run_members(folder, 4, slowed, [](graft::trainer_options& mine, int rank) {
        if (rank == 2) mine.step.group = std::make_shared<slow_member>(mine.step.group, 600);
    });
    for (const ending& e : ends) {
        REQUIRE(e.status.ok());
        REQUIRE(e.members.size() == 4);
        for (int r : {0, 1, 3}) CHECK(e.members[static_cast<std::size_t>(r)].waiting_share() > 0.5);
        CHECK(e.members[2].waiting_share() < 0.5);
        CHECK(e.members[2].busy_seconds() > 3 * 3 * 0.6);  // so many steps
        CHECK(graft::scaling_efficiency(e.members) < 0.6);
        CHECK(e.members[3].rank == 3);
        CHECK(!e.members[3].host.empty());
        for (const graft::member_record& m : e.members) {
            CHECK(m.device == "cpu");
            CHECK(m.bytes > 0);
        }
    }
    REQUIRE(ends[0].warnings.size() == 1);
    CHECK(ends[0].warnings[0].find("in epoch 1 rank 2 (host ") == 0);
    for (std::size_t r : {1u, 2u, 3u}) CHECK(ends[r].warnings.empty());
    CHECK(file(slowed.out + "/model.onnx") == file(o.out + "/model.onnx"));
    const graft::checkpoint even = graft::load_checkpoint(o.out + "/checkpoint.safetensors").value().contents,
                            late = graft::load_checkpoint(slowed.out + "/checkpoint.safetensors").value().contents;
    CHECK(even.settings == late.settings);
    REQUIRE(even.tensors.size() == late.tensors.size());
    for (std::size_t i = 0; i < even.tensors.size(); ++i)
        CHECK(std::equal(even.tensors[i].second.data<float>(), even.tensors[i].second.data<float>() + even.tensors[i].second.elements(),
                         late.tensors[i].second.data<float>()));
    const std::string log = file(slowed.out + "/metrics.jsonl");
    CHECK(log.find("\"members\":[{\"rank\":0,\"host\":\"") != std::string::npos);
    CHECK(log.find("\"scaling_efficiency\":0.") != std::string::npos);
    CHECK(log.find("\"scaling\":[{\"members\":1,\"kind\":\"predicted\"") != std::string::npos);
    CHECK(log.find("{\"members\":4,\"kind\":\"measured\"") != std::string::npos);
}

TEST_CASE("a run in stages tells what each stage computed, and changes no byte of the model for it") {
    made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/parts");
    o.step.batch_norm = false;
    o.batch = 8, o.step.micro_batches = 4;
    const outcome parts = trained(folder, o, small_network("none"));
    CHECK(parts.result.stages.empty());
    o.out = folder.path + "/stages";
    o.step.stages.resize(2);
    const outcome staged = trained(folder, o, small_network("none"));
    CHECK(staged.model == parts.model);
    REQUIRE(staged.result.stages.size() == 2);
    double seconds = 0;
    for (const graft::epoch_record& r : staged.result.history) {
        REQUIRE(r.stages.size() == 2);
        seconds += r.seconds;
    }
    for (const graft::stage_record& s : staged.result.stages) {
        CHECK(s.device == "cpu");
        CHECK(s.busy > 0);
        CHECK(s.busy < s.seconds);
        CHECK(s.seconds == doctest::Approx(seconds));
        CHECK(s.bytes > 0);
    }
    CHECK(file(o.out + "/metrics.jsonl").find("\"stages\":[{\"device\":\"cpu\",\"busy_seconds\":") != std::string::npos);
    CHECK(file(folder.path + "/parts/metrics.jsonl").find("stages") == std::string::npos);
}

TEST_CASE("a replica that the others wait for is named, too") {
    made_folder folder;
    put_pictures(folder);
    graft::builder b("slow", 2);
    graft::value_id x = b.apply("Flatten", {b.apply("Slow", {b.input("input", graft::dtype::float32, {"N", 3, 8, 8})})});
    x = b.apply("Gemm", {x, b.constant("fc.weight", small_steps::numbered(1, {3, 192})), b.constant("fc.bias", small_steps::numbered(2, {3}))},
                {graft::integer_attribute("transB", 1)});
    b.output(x, "logits");
    graft::graph g = b.finish();
    g.nodes[0].domain = "my.app";
    g.opsets.push_back({"my.app", 1});
    graft::training_network n;
    n.graph = graft::load(std::move(g), graft::on_device(nullptr, slow_operators)).value().graph();
    n.logits = graft::logits_of(n.graph);
    n.parameters = graft::parameters_of(n.graph);
    graft::trainer_options o = small_options("");
    o.epochs = 1, o.batch = 4;
    o.step.operators = slow_operators;
    graft::replica_options how;
    how.replicas = 2;
    o.step.replicas = graft::make_replicas(how);
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    listener watcher;
    fast = std::this_thread::get_id(), slow = true;
    const auto made = graft::train(std::move(n), data, o, watcher);
    slow = false;
    REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
    REQUIRE(made->members.size() == 2);
    for (const graft::member_record& m : made->members) CHECK(m.samples == 12);
    CHECK(made->members[0].waiting_share() > 0.5);
    CHECK(made->members[1].waiting_share() < 0.5);
    CHECK(made->members[1].busy_seconds() > 6 * 0.4);
    REQUIRE(watcher.warnings.size() == 1);
    CHECK(watcher.warnings[0].find("in epoch 1 replica 1 takes ") == 0);
}
