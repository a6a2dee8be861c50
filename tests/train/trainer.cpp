// Whole runs on a small folder of pictures: the same model for any threads and workers and after any interruption; frozen trunks.
#include "../exec/host_device.hpp"
#include "small_runs.hpp"
#include "../skipped.hpp"

#include <graft/io/onnx_write.hpp>

#include <algorithm>
#include <cmath>

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

// Ends the process at a step, as a kill would.
class killer final : public graft::training_observer {
public:
    explicit killer(int steps) : left_(steps) {}
    inline graft::training_verdict on_step(const graft::trainer_progress&) override {
#if !defined(_WIN32)
        if (--left_ == 0) ::_exit(7);
#endif
        return graft::training_verdict::go_on;
    }

private:
    int left_;
};

}  // namespace

TEST_CASE("A run learns, writes its files, and gives the same model for any threads and workers") {
    const made_folder folder;
    put_pictures(folder);
    const outcome first = trained(folder, small_options(folder.path + "/first"), small_network("none"));
    CHECK(first.result.epochs == 3);
    CHECK(first.result.history.size() == 3);
    CHECK(first.result.history[2].training_loss < first.result.history[0].training_loss);
    CHECK(first.result.best_top1 > 0.5);
    CHECK(first.result.bad_pictures == 0);
    REQUIRE(!first.model.empty());
    for (const char* name : {"checkpoint.safetensors", "metrics.jsonl"}) CHECK(!file(folder.path + "/first/" + name).empty());
    int run = 0;
    for (const int threads : {2, 3})
        for (const int workers : {1, 3}) {
            graft::trainer_options o = small_options(folder.path + "/" + std::to_string(++run));
            o.threads = threads;
            o.workers = workers;
            CAPTURE(threads);
            CAPTURE(workers);
            CHECK(trained(folder, o, small_network("none")).model == first.model);
        }
    // Another seed is another model.
    graft::trainer_options o = small_options(folder.path + "/other");
    o.seed = 10;
    CHECK(trained(folder, o, small_network("none")).model != first.model);
}

TEST_CASE("A run on a device ends with the model that the reference kernels of the CPU make, also where the trunk joins later") {
    const made_folder folder;
    put_pictures(folder);
    for (const int stages : {0, 1}) {
        CAPTURE(stages);
        graft::trainer_options o = small_options(folder.path + "/cpu" + std::to_string(stages)),
                               device = small_options(folder.path + "/device" + std::to_string(stages));
        if (stages) {
            o.unfreeze_epoch = device.unfreeze_epoch = 1;
            o.step.optimizer.ema_decay = device.step.optimizer.ema_decay = 0.9;
        }
        o.step.reference = true;
        const auto on = host_devices::make();
        device.step.on = on;
        const outcome cpu = trained(folder, o, small_network("none")), made = trained(folder, device, small_network("none"));
        CHECK(made.result.best_epoch == cpu.result.best_epoch);
        CHECK(made.model == cpu.model);
        CHECK(made.result.history[2].training_loss == cpu.result.history[2].training_loss);
        CHECK(on->did.segments > 15);               // three epochs of five steps, and what scores them
        if (!stages) CHECK(on->did.expected == 9);  // of five steps three are followed by a batch of their size
    }
}

TEST_CASE("A run on a device that is stopped anywhere and resumed ends with the bytes of one that is not") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options plain = small_options(folder.path + "/whole");
    plain.unfreeze_epoch = 1;
    plain.step.on = host_devices::make();
    const outcome whole = trained(folder, plain, small_network("none"));
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    for (const int segment : {3, 7, 11}) {
        CAPTURE(segment);
        graft::trainer_options o = plain;
        const auto on = host_devices::make();
        o.out = folder.path + "/stopped" + std::to_string(segment);
        o.checkpoint_seconds = 0;
        o.step.on = on;
        on->failing_run = segment;
        graft::training_observer watcher;
        const auto stopped = graft::train(small_network("none"), data, o, watcher);
        REQUIRE(!stopped.ok());
        CHECK(stopped.error().code() == graft::errc::device_lost);
        o.resume = true;
        CHECK(trained(folder, o, small_network("none")).model == whole.model);
    }
}

TEST_CASE("A frozen trunk that a device runs once for each picture gives the head that the CPU's gives") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options("");
    o.augmentation = graft::parse_augmentation("none");
    const outcome cpu = trained(folder, o, small_network("trunk"));
    o.step.on = host_devices::make();
    const outcome device = trained(folder, o, small_network("trunk"));
    CHECK(weight(device.result.network, "conv1.weight") == weight(cpu.result.network, "conv1.weight"));
    CHECK(device.result.history[2].loss == doctest::Approx(cpu.result.history[2].loss).epsilon(1e-4));
}

#if !defined(_WIN32)
TEST_CASE("A run that is killed and resumed ends with the bytes of one that is not") {
#if defined(__SANITIZE_THREAD__)
    say_skipped("the thread sanitizer takes no threads after a fork");
    return;
#endif
    const made_folder folder;
    put_pictures(folder);
    // With the head alone in the first epoch and an average of the weights, every step is one after which it may be cut off.
    graft::trainer_options plain = small_options(folder.path + "/whole"), staged = small_options(folder.path + "/staged");
    staged.unfreeze_epoch = 1;
    staged.step.optimizer.ema_decay = 0.9;
    const outcome whole_plain = trained(folder, plain, small_network("none")), whole_staged = trained(folder, staged, small_network("none"));
    for (const int kind_and_steps : {1, 4, 5, 7, 14, 102, 104, 105, 106, 107, 108, 109, 113}) {
        const int steps = kind_and_steps % 100;
        const bool stages = kind_and_steps > 100;
        const outcome& whole = stages ? whole_staged : whole_plain;
        CAPTURE(kind_and_steps);
        graft::trainer_options o = stages ? staged : plain;
        o.out = folder.path + "/killed" + std::to_string(kind_and_steps);
        o.checkpoint_seconds = 0;  // after every step
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            auto data = graft::open_splits(folder.path + "/data");
            killer at(steps);
            if (data.ok()) (void)graft::train(small_network("none"), *data, o, at).ok();
            ::_exit(1);
        }
        int ended = 0;
        REQUIRE(::waitpid(child, &ended, 0) == child);
        REQUIRE(WIFEXITED(ended));
        REQUIRE(WEXITSTATUS(ended) == 7);
        o.resume = true;
        o.threads = 2;
        const outcome resumed = trained(folder, o, small_network("none"));
        CHECK(resumed.model == whole.model);
        CHECK(resumed.result.best_epoch == whole.result.best_epoch);
        CHECK(resumed.result.history.size() == 3);
    }
}
#endif

TEST_CASE("A precision that the CPU does not have is refused before anything is read or written") {
    const made_folder folder;
    graft::trainer_options o = small_options(folder.path + "/run");
    graft::training_observer watcher;
    o.precision = "bfloat16";
    const auto made = graft::train(small_network("none"), {}, o, watcher);
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::device_unavailable);
    CHECK(made.error().where() == "precision");
    CHECK(file(o.out + "/checkpoint.safetensors").empty());
}

TEST_CASE("Going on with another setting, dataset or network is refused, and the first that differs is named") {
    const made_folder folder, more;
    put_pictures(folder);
    put_pictures(more);
    more.put("data/train/a/new.png", file(more.path + "/data/train/a/1.png"));
    graft::trainer_options o = small_options(folder.path + "/run");
    o.epochs = 1;
    (void)trained(folder, o, small_network("none"));
    o.resume = true;
    const std::string kept = file(o.out + "/checkpoint.safetensors");
    const auto refused = [&](const graft::trainer_options& with, const graft::training_network& network, const made_folder& from) {
        const graft::dataset_splits data = graft::open_splits(from.path + "/data");
        graft::training_observer watcher;
        auto made = graft::train(network, data, with, watcher);
        REQUIRE(!made.ok());
        CHECK(made.error().code() == graft::errc::resume_mismatch);
        CHECK(file(o.out + "/checkpoint.safetensors") == kept);
        return made.error().where();
    };
    const auto with = [&](void (*change)(graft::trainer_options&)) {
        graft::trainer_options other = o;
        change(other);
        return refused(other, small_network("none"), folder);
    };
    CHECK(with([](graft::trainer_options& other) { other.batch = 6; }) == "batch");
    CHECK(with([](graft::trainer_options& other) { other.epochs = 2; }) == "epochs");
    CHECK(with([](graft::trainer_options& other) { other.seed = 10; }) == "seed");
    CHECK(with([](graft::trainer_options& other) { other.learning_rate = 0.5; }) == "lr");
    CHECK(with([](graft::trainer_options& other) { other.schedule.kind = graft::schedule_kind::constant; }) == "schedule");
    CHECK(with([](graft::trainer_options& other) { other.step.optimizer.kind = graft::optimizer_kind::adam; }) == "optimizer");
    CHECK(with([](graft::trainer_options& other) { other.step.optimizer.weight_decay = 0; }) == "weight decay");
    CHECK(with([](graft::trainer_options& other) { other.step.loss.kind = graft::loss_of("focal"); }) == "loss");
    CHECK(with([](graft::trainer_options& other) { other.augmentation = graft::parse_augmentation("none"); }) == "augmentation");
    CHECK(with([](graft::trainer_options& other) { other.preprocess = graft::parse_preprocess("unit,resize=8x8"); }) == "preprocess");
    CHECK(with([](graft::trainer_options& other) { other.precision = "float32"; }) == "precision");
    CHECK(refused(o, small_network("none"), more) == "training data");
    CHECK(refused(o, small_network("trunk"), folder) == "weights that learn");
    // Other pictures under the same names, one of them in either part; another encoding of the same size is another picture too.
    for (const char* name : {"data/train/b/3.png", "data/val/c/1.png"}) {
        const std::string was = file(folder.path + "/" + name);
        folder.put(name, file(folder.path + "/data/train/a/1.png"));
        CHECK(refused(o, small_network("none"), folder) == (name[5] == 't' ? "training pictures" : "validation pictures"));
        std::string touched = was;
        touched[was.size() / 2] = static_cast<char>(touched[was.size() / 2] ^ 1);
        folder.put(name, touched);
        CHECK(refused(o, small_network("none"), folder) == (name[5] == 't' ? "training pictures" : "validation pictures"));
        folder.put(name, was);
    }
    {
        graft::trainer_options changed = o;
        changed.learning_rate = 0.003;
        graft::training_observer watcher;
        const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
        const std::string said = graft::train(small_network("none"), data, changed, watcher).error().detail();
        CHECK(said.find("the learning rate was 0.01 when the checkpoint was made, and is 0.003 now") == 0);
        CHECK(said.find("0x") == std::string::npos);
    }
    // The same layers with one other number, as those of another file would have.
    graft::training_network other = small_network("none");
    for (graft::value& v : other.graph.values)
        if (v.name == "conv1.weight") v.constant.data<float>()[3] += 1;
    CHECK(refused(o, other, folder) == "network");
    CHECK(trained(folder, o, small_network("none")).result.epochs == 1);
}

// Keeps what it is told.
class listener final : public graft::training_observer {
public:
    std::vector<std::string> warnings;
    inline void on_warning(const std::string& text) override { warnings.push_back(text); }
    int count(const std::string& text) const {
        return static_cast<int>(std::count_if(warnings.begin(), warnings.end(), [&](const std::string& w) { return w.find(text) != std::string::npos; }));
    }
};

TEST_CASE("Figures that an observer adds stand behind those of each epoch's training") {
    class counter final : public graft::training_observer {
    public:
        inline void add_figures(graft::named_numbers& figures) override { figures.emplace_back("watched", ++epochs_ / 2.0); }

    private:
        int epochs_ = 0;
    };
    const made_folder folder;
    put_pictures(folder);
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    const graft::trainer_options o = small_options(folder.path + "/run");
    counter watcher;
    REQUIRE(graft::train(small_network("none"), data, o, watcher).ok());
    const std::string log = file(o.out + "/metrics.jsonl");
    std::size_t at = 0;
    for (const char* value : {"0.5", "1", "1.5"}) {
        at = log.find(std::string(",\"watched\":") + value + "}\n", at + 1);
        REQUIRE(at != std::string::npos);
        const std::string line = log.substr(log.rfind('\n', at) + 1, at - log.rfind('\n', at));
        CHECK(line.find("\"split\":\"train\"") != std::string::npos);
    }
}

TEST_CASE("A damaged checkpoint is named, and so is the one before, from which the run goes on to the same model") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/run");
    const outcome whole = trained(folder, o, small_network("none"));
    const std::string newest = o.out + "/checkpoint.safetensors", previous = o.out + "/checkpoint.previous.safetensors";
    std::string bytes = file(newest);
    REQUIRE(!bytes.empty());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    folder.put("run/checkpoint.safetensors", bytes);
    folder.put("run/model.onnx", "");
    o.resume = true;
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    listener heard;
    auto made = graft::train(small_network("none"), data, o, heard);
    REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
    CHECK(heard.count("checkpoint.malformed: " + newest + ": ") == 1);
    CHECK(heard.count("the one before is taken: " + previous) == 1);
    CHECK(made->history.size() == 3);
    CHECK(made->best_epoch == whole.result.best_epoch);
    if (made->best_epoch == 2) CHECK(file(o.out + "/model.onnx") == whole.model);
    CHECK(graft::load_checkpoint(newest)->previous == false);
}

TEST_CASE("More unreadable pictures than are allowed end a run, and all of them have been named") {
    const made_folder folder;
    put_pictures(folder);
    const std::string half = file(folder.path + "/data/train/a/0.png").substr(0, 100);
    for (const char* name : {"train/a/1.png", "train/b/2.png", "train/c/3.png", "val/b/0.png"}) folder.put(std::string("data/") + name, half);
    graft::trainer_options o = small_options("");
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    o.bad_share = 0.13;  // three of 24, one of 9
    listener allowed, heard;
    auto made = graft::train(small_network("none"), data, o, allowed);
    REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
    CHECK(made->bad_pictures == 4);  // each once, though every epoch meets it
    CHECK(allowed.count("/val/b/0.png: left out: ") == 1);
    o.bad_share = 0.1;
    auto refused = graft::train(small_network("none"), data, o, heard);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::data_too_many_bad);
    for (const char* name : {"/train/a/1.png: left out: ", "/train/b/2.png: left out: ", "/train/c/3.png: left out: "}) {
        INFO(std::string(name));
        CHECK(allowed.count(name) == 1);
        CHECK(heard.count(name) == 1);
    }
    CHECK(std::string(refused.error().what()).find("3 of 24 pictures cannot be read, 2 may") != std::string::npos);
    CHECK(std::string(refused.error().what()).find("--bad-share 0.125 leaves them out") != std::string::npos);
}

TEST_CASE("One unreadable picture in either part stops no run that asks for nothing else, whether features are kept or not") {
    const made_folder folder;
    put_pictures(folder);
    for (const char* name : {"train/b/2.png", "val/b/0.png"}) folder.put(std::string("data/") + name, "no picture");
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    for (const char* freeze : {"none", "trunk"}) {
        CAPTURE(std::string(freeze));
        graft::trainer_options o = small_options(folder.path + "/" + freeze);
        if (std::string(freeze) == "trunk") o.augmentation = {};
        o.bad_share = graft::trainer_options().bad_share;
        listener heard;
        auto made = graft::train(small_network(freeze), data, o, heard);
        REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
        CHECK(made->bad_pictures == 2);
        CHECK(made->validation.metrics.samples() == 8);
        // A run that goes on still knows them.
        o.resume = true;
        auto again = graft::train(small_network(freeze), data, o, heard);
        REQUIRE(again.ok());
        CHECK(again->bad_pictures == 2);
        o.resume = false;
        o.out.clear();
        o.bad_share = 0;
        CHECK(graft::train(small_network(freeze), data, o, heard).error().code() == graft::errc::data_too_many_bad);
    }
}

TEST_CASE("A run on uneven classes tells balanced accuracy, and which class its network never answers") {
    const made_folder folder;
    put_pictures(folder);
    for (const char* part : {"train/", "val/"})
        for (const char* rare : {"b", "c"})
            for (int i = 1; i < 8; ++i) std::filesystem::remove(folder.path + "/data/" + part + rare + "/" + std::to_string(i) + ".png");
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    graft::trainer_options o = small_options(folder.path + "/run");
    o.epochs = 1;
    o.learning_rate = 1e-12;
    graft::training_network network = small_network("none");
    // A network that answers "a" whatever it sees.
    for (graft::value& v : network.graph.values)
        if (v.name == "fc.bias") v.constant.data<float>()[0] = 100;
    listener heard;
    auto made = graft::train(network, data, o, heard);
    REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
    REQUIRE(made->history.size() == 1);
    CHECK(made->history[0].top1 == doctest::Approx(0.6));
    CHECK(made->history[0].majority == doctest::Approx(0.6));
    CHECK(made->history[0].balanced_accuracy == doctest::Approx(1.0 / 3));
    CHECK(file(o.out + "/metrics.jsonl").find("\"balanced_accuracy\":0.333") != std::string::npos);
    CHECK(heard.count("the best network never answers \"b\", \"c\" (top-1 60.0 %, balanced 33.3 %); the classes are uneven: --class-weights balanced") == 1);
    // Who has asked for weights is not told to.
    o.step.loss.class_weights = {0.1f, 1, 1};
    o.out = folder.path + "/weighed";
    listener weighed;
    REQUIRE(graft::train(network, data, o, weighed).ok());
    CHECK(weighed.count("never answers") == 1);
    CHECK(weighed.count("--class-weights") == 0);
    // The figures are there again when a run goes on.
    o.resume = true;
    auto again = graft::train(network, data, o, weighed);
    REQUIRE(again.ok());
    CHECK(again->history[0].balanced_accuracy == made->history[0].balanced_accuracy);
}

TEST_CASE("A checkpoint that cannot be written ends a run with its path") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/run");
    o.checkpoint_seconds = 0;
    folder.make("run/checkpoint.safetensors");
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    graft::training_observer watcher;
    auto made = graft::train(small_network("none"), data, o, watcher);
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::checkpoint_write);
    CHECK(made.error().where() == folder.path + "/run/checkpoint.safetensors");
}

TEST_CASE("A frozen trunk is run once for each picture, stays as it was, and its head is that of a run without the cache") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options("");
    o.augmentation = graft::parse_augmentation("none");
    const graft::training_network before = small_network("trunk");
    const outcome cached = trained(folder, o, small_network("trunk"));
    const outcome plain = trained(folder, o, small_network("trunk", false));
    for (const char* name : {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"}) {
        INFO(std::string(name));
        CHECK(!weight(before.graph, name).empty());
        CHECK(weight(cached.result.network, name) == weight(before.graph, name));
        CHECK(weight(plain.result.network, name) == weight(before.graph, name));
    }
    for (const char* name : {"fc.weight", "fc.bias"}) {
        const std::string a = weight(cached.result.network, name), b = weight(plain.result.network, name), was = weight(before.graph, name);
        REQUIRE(a.size() == b.size());
        CHECK(a != was);
        for (std::size_t i = 0; i < a.size(); i += 4) {
            float x = 0, y = 0;
            std::memcpy(&x, a.data() + i, 4);
            std::memcpy(&y, b.data() + i, 4);
            CHECK(static_cast<double>(x) == doctest::Approx(static_cast<double>(y)).epsilon(1e-4));
        }
    }
    CHECK(cached.result.history[2].loss == doctest::Approx(plain.result.history[2].loss).epsilon(1e-5));
}

TEST_CASE("A trunk that is let go later learns from then on") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options("");
    o.epochs = 1;
    o.unfreeze_epoch = 1;
    const graft::training_network before = small_network("none");
    CHECK(weight(trained(folder, o, small_network("none")).result.network, "conv1.weight") == weight(before.graph, "conv1.weight"));
    o.epochs = 3;
    const outcome later = trained(folder, o, small_network("none"));
    CHECK(later.result.best_epoch >= 0);
    if (later.result.best_epoch > 0) CHECK(weight(later.result.network, "conv1.weight") != weight(before.graph, "conv1.weight"));
}

TEST_CASE("A limit of memory is kept by computing again and in parts, or refused before the first step") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/whole");
    o.batch = 16;
    o.step.exact = true;
    const outcome whole = trained(folder, o, small_network("none"));
    o.out = folder.path + "/less";
    o.max_ram = whole.result.memory.total() * 3 / 4;
    const outcome less = trained(folder, o, small_network("none"));
    CHECK(less.result.memory.total() <= o.max_ram);
    CHECK(less.model == whole.model);
    o.max_ram = 1000;
    o.out = "";
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    graft::training_observer watcher;
    auto refused = graft::train(small_network("none"), data, o, watcher);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::memory_budget);
}

TEST_CASE("A run that diverges names the step, and the last good checkpoint stays") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/run");
    o.learning_rate = 1e30;
    o.trunk_rate = 0.1;
    o.step.optimizer.kind = graft::optimizer_kind::sgd;
    o.schedule = graft::parse_schedule("constant");
    o.checkpoint_seconds = 0;
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    graft::training_observer watcher;
    auto made = graft::train(small_network("none"), data, o, watcher);
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::train_diverged);
    INFO(std::string(made.error().what()));
    const std::string newest = folder.path + "/run/checkpoint.safetensors";
    CHECK(made.error().where() == "step 1");
    CHECK(made.error().detail().find("'") != std::string::npos);
    CHECK(made.error().detail().find("; the last good checkpoint is " + newest) != std::string::npos);
    CHECK(file(folder.path + "/run/model.onnx").empty());
    // What is there can be read, and all of it is finite.
    const graft::loaded_checkpoint kept = graft::load_checkpoint(newest);
    REQUIRE(kept.found);
    CHECK(*kept.contents.find_state("step") == "1");
    // Another run in the same folder does not take that checkpoint for its own.
    o.checkpoint_seconds = 30;
    o.overwrite = true;
    auto again = graft::train(small_network("none"), data, o, watcher);
    REQUIRE(!again.ok());
    CHECK(again.error().detail().find("; there is no checkpoint yet") != std::string::npos);
    for (const auto& t : kept.contents.tensors)
        for (std::int64_t i = 0; i < t.second.elements(); ++i) CHECK(std::isfinite(t.second.data<float>()[i]));
}

TEST_CASE("An observer is given each network that is better than those before it, the last of them is the result's, and its error ends the run") {
    class keeper final : public graft::training_observer {
    public:
        std::vector<std::uint8_t> last;
        int given = 0, most = 100;
        graft::status on_better(const graft::graph& network) override {
            if (++given > most) return graft::fail(graft::errc::file_write, "keeper", "there is no room");
            return graft::write_onnx(network, last);
        }
    };
    const made_folder folder;
    put_pictures(folder);
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    keeper watcher;
    const auto made = graft::train(small_network("none"), data, small_options(""), watcher);
    REQUIRE(made.ok());
    int better = 0;
    for (const graft::epoch_record& r : made->history) better += r.best;
    CHECK(watcher.given == better);
    std::vector<std::uint8_t> bytes;
    REQUIRE(graft::write_onnx(made->network, bytes).ok());
    CHECK(watcher.last == bytes);
    CHECK(graft::load(bytes.data(), bytes.size())->metadata("graft.labels") != "");
    watcher.given = watcher.most = 0;
    const auto refused = graft::train(small_network("none"), data, small_options(""), watcher);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::file_write);
}
