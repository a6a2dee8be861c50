// Runs of training that are killed by kill -9 at moments drawn at random, often while a checkpoint is being written: each is resumed, and ends
// with the bytes of one that was left alone. The environment may ask for more (scripts/kills): GRAFT_TEST_KILLS=COUNT, GRAFT_TEST_FIRST=SEED.
#include "../sanitized.hpp"
#include "../skipped.hpp"
#include "small_runs.hpp"

#include <graft/core/rng.hpp>
#include <graft/train/checkpoint.hpp>

#include <cstdlib>

#if !defined(_WIN32)
#include <chrono>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::uint64_t asked(const char* name, std::uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Where the first step of a run was, counted from the run's beginning; -1: it made none.
class first_step final : public graft::training_observer {
public:
    inline graft::training_verdict on_step(const graft::trainer_progress& p) override {
        if (at < 0) at = p.epoch * p.steps + p.step;
        return graft::training_verdict::go_on;
    }
    std::int64_t at = -1;
};

graft::checkpoint last_checkpoint(const std::string& run) {
    auto loaded = graft::load_checkpoint(run + "/checkpoint.safetensors");
    REQUIRE_MESSAGE(loaded.ok(), std::string(loaded.ok() ? "" : loaded.error().what()));
    return loaded->contents;
}
std::int64_t counted(const graft::checkpoint& c, const char* key) {
    const std::string* value = c.find_state(key);
    return value ? std::stoll(*value) : 0;
}

// Everything of a checkpoint but the seconds that the run took.
std::string bytes_of(const graft::checkpoint& c) {
    std::string out;
    for (const auto& t : c.tensors) out += t.first + std::string(reinterpret_cast<const char*>(t.second.raw()), t.second.bytes());
    for (const auto& s : c.settings) out += s.first + s.second;
    for (const char* key : {"epoch", "batch", "step", "correct", "seen", "loss_sum", "best_epoch", "best_top1", "best_loss", "epochs_done"}) {
        const std::string* value = c.find_state(key);
        REQUIRE(value);
        out += key + *value;
    }
    return out;
}

// The names of what killed writers left, one behind the other.
std::string temporaries_in(const std::string& run) {
    std::string names;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(run, ignored)) {
        const std::string name = entry.path().filename().string();
        if (name.find(".tmp") != std::string::npos) names += name + " ";
    }
    return names;
}

}  // namespace

TEST_CASE("Runs that are killed at any moment, again and again, end with the bytes of one that was left alone") {
#if defined(__SANITIZE_THREAD__)
    say_skipped("the thread sanitizer takes no threads after a fork");
    return;
#endif
    const made_folder folder;
    put_pictures(folder);
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    graft::trainer_options o = small_options(folder.path + "/whole");
    o.epochs = 8;
    o.unfreeze_epoch = 1;
    o.step.optimizer.ema_decay = 0.9;
    o.checkpoint_seconds = 0.02;
    const double began = seconds();
    const outcome whole = trained(folder, o, small_network("none"));
    const double lasts = seconds() - began;
    const std::string whole_state = bytes_of(last_checkpoint(o.out));
    const std::int64_t steps_an_epoch = counted(last_checkpoint(o.out), "step") / 8;
    REQUIRE(steps_an_epoch == 5);

#if defined(GRAFT_TEST_SANITIZED)
    const std::uint64_t count = asked("GRAFT_TEST_KILLS", 5);
#else
    const std::uint64_t count = asked("GRAFT_TEST_KILLS", 20);
#endif
    const graft::random_stream random(asked("GRAFT_TEST_FIRST", 1));
    std::uint64_t drawn = 0, kills = 0, runs = 0, amid_a_write = 0, halfway = 0;
    while (kills < count) {
        ++runs;
        CAPTURE(runs);
        o.out = folder.path + "/killed" + std::to_string(runs);
        o.resume = true;
        do {
            const double moment = random.uniform(drawn++) * lasts;
            const pid_t child = ::fork();
            REQUIRE(child >= 0);
            if (child == 0) {
                graft::training_observer watcher;
                ::_exit(graft::train(small_network("none"), data, o, watcher).ok() ? 0 : 1);
            }
            ::usleep(static_cast<useconds_t>(moment * 1e6));
            ::kill(child, SIGKILL);
            int ended = 0;
            REQUIRE(::waitpid(child, &ended, 0) == child);
            if (!WIFSIGNALED(ended)) {
                REQUIRE(WEXITSTATUS(ended) == 0);  // it was done before
                break;
            }
            ++kills;
            amid_a_write += !temporaries_in(o.out).empty();
        } while (random.uniform(drawn++) < 0.5);

        // A run that began afresh would end with the same bytes too: it goes on from the step behind the checkpoint.
        const graft::checkpoint reached = last_checkpoint(o.out);
        const std::int64_t done = counted(reached, "epoch") * steps_an_epoch + counted(reached, "batch");
        halfway += done > 0 && done < 8 * steps_an_epoch;
        first_step watcher;
        const auto resumed = graft::train(small_network("none"), data, o, watcher);
        REQUIRE_MESSAGE(resumed.ok(), std::string(resumed.ok() ? "" : resumed.error().what()));
        CHECK(watcher.at == (done == 8 * steps_an_epoch ? -1 : done + 1));
        CHECK((file(o.out + "/model.onnx") == whole.model));
        CHECK((bytes_of(last_checkpoint(o.out)) == whole_state));
        CHECK(temporaries_in(o.out) == "");
        std::error_code ignored;
        std::filesystem::remove_all(o.out, ignored);
    }
    MESSAGE(kills << " kills of " << runs << " runs of " << static_cast<int>(lasts * 1e3) << " ms, " << amid_a_write << " left a half-written file, " << halfway
                  << " runs went on halfway: all ended with the same bytes");
    CHECK(halfway > 0);
}
#endif
