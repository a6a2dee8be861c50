// Runs of training of several members, here threads: the files of a run of one, agreement, and how they end.
#include "../train/small_runs.hpp"

#include <graft/dist.hpp>

#include <thread>

namespace {

struct ending {
    graft::status status;
    std::vector<double> losses;
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
            graft::training_observer watcher;
            auto made = graft::train(small_network(freeze), data, mine, watcher);
            if (!made.ok()) {
                end.status = made.take_status();
                return;
            }
            for (const graft::epoch_record& r : made->history) end.losses.push_back(r.training_loss + r.training_top1 + r.loss);
        });
    for (std::thread& t : threads) t.join();
    return ends;
}
void nothing(graft::trainer_options&, int) {}

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
