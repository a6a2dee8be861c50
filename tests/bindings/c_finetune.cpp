// graft.h: a run of fine-tuning writes the bytes of one by the C++ interface, tells how far it is, and is stopped by who is told.
#include "c_handles.hpp"

#include "file_contents.hpp"

#include <graft/train.hpp>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace {

// A folder for a run, gone at the end.
struct run_folder {
    std::string path;
    explicit run_folder(const char* name) : path(std::string("graft_test_c_") + name) { std::filesystem::remove_all(path); }
    ~run_folder() { std::filesystem::remove_all(path); }
};

// What was told, and when to stop.
struct told {
    int count[5] = {};
    std::int64_t stop_at = 0, last_epoch = 0, epochs = 0;
    double loss = 0;
    std::string texts;
};
int take_down(const graft_progress* at, void* context) {
    told& t = *static_cast<told*>(context);
    ++t.count[at->event];
    t.last_epoch = at->epoch, t.epochs = at->epochs;
    if (at->event == GRAFT_EPOCH) t.loss = at->loss;
    if (*at->text) t.texts += std::string(at->text) + "\n";
    return at->event == GRAFT_STEP && t.stop_at > 0 && at->epoch >= t.stop_at;
}

options_handle short_run(const char* epochs) {
    options_handle options = options_of("epochs", epochs);
    for (const auto& each : std::vector<std::pair<const char*, const char*>>{{"lr", "0.01"}, {"device", "cpu"}, {"seed", "3"}, {"batch", "8"}})
        REQUIRE(graft_options_set(options.get(), each.first, each.second, nullptr) == GRAFT_OK);
    return options;
}
const std::string data = demo_file("new_pictures"), from = demo_file("model.onnx");

}  // namespace

TEST_CASE("a run of fine-tuning by the C interface writes the model that one by the C++ interface writes") {
    const run_folder c("run"), cpp("run_cpp");
    failure error;
    told seen;
    graft_training_result result{};
    result.size = sizeof result;
    REQUIRE_MESSAGE(graft_finetune(data.c_str(), from.c_str(), c.path.c_str(), short_run("3").get(), take_down, &seen, &result, error.out()) == GRAFT_OK,
                    error.message());
    graft::finetune_options how;
    how.epochs = 3, how.learning_rate = 0.01, how.seed = 3, how.batch = 8, how.out = cpp.path;
    const graft::training_result same = graft::finetune(data, from, how).value();
    CHECK(file_contents(c.path + "/model.onnx") == file_contents(cpp.path + "/model.onnx"));
    CHECK(result.best_top1 == same.best_top1);
    CHECK(result.best_loss == same.best_loss);
    CHECK(result.best_epoch == same.best_epoch + 1);
    CHECK(result.epochs == 3);
    CHECK(result.classes == 4);
    CHECK(result.training_pictures > result.validation_pictures);
    CHECK(result.stopped == 0);
    CHECK(seen.count[GRAFT_EPOCH] == 3);
    CHECK(seen.count[GRAFT_STEP] >= 3);
    CHECK(seen.count[GRAFT_VALIDATION] > 0);
    CHECK(seen.last_epoch == 3);
    CHECK(seen.epochs == 3);
    CHECK(seen.loss == same.history.back().loss);
    CHECK(graft_finetune(data.c_str(), from.c_str(), c.path.c_str(), short_run("3").get(), nullptr, nullptr, nullptr, error.out()) == GRAFT_FAILED);
    CHECK(error.code() == "train.out_in_use");
}

TEST_CASE("the progress function stops a run, which goes on by resume to the bytes of one that was not stopped") {
    const run_folder stopped("stopped"), whole("whole");
    failure error;
    told seen;
    seen.stop_at = 2;
    graft_training_result result{};
    result.size = sizeof result;
    const auto run = [&](const std::string& out, const graft_options* options) {
        return graft_finetune(data.c_str(), from.c_str(), out.c_str(), options, take_down, &seen, &result, error.out());
    };
    REQUIRE_MESSAGE(run(stopped.path, short_run("3").get()) == GRAFT_OK, error.message());
    CHECK(result.stopped == 1);
    CHECK(result.epochs < 3);
    CHECK(std::filesystem::exists(stopped.path + "/checkpoint.safetensors"));
    seen.stop_at = 0;
    const options_handle onwards = short_run("3");
    REQUIRE(graft_options_set(onwards.get(), "resume", "true", error.out()) == GRAFT_OK);
    REQUIRE_MESSAGE(run(stopped.path, onwards.get()) == GRAFT_OK, error.message());
    CHECK(result.stopped == 0);
    REQUIRE_MESSAGE(run(whole.path, short_run("3").get()) == GRAFT_OK, error.message());
    CHECK(file_contents(stopped.path + "/model.onnx") == file_contents(whole.path + "/model.onnx"));
}

TEST_CASE("a caller that knows fewer results gets those") {
    const run_folder out("fewer");
    failure error;
    struct {
        graft_training_result result;
        char behind;
    } given;
    std::memset(&given, 0x5a, sizeof given);
    given.result.size = offsetof(graft_training_result, best_epoch);
    REQUIRE_MESSAGE(graft_finetune(data.c_str(), from.c_str(), out.path.c_str(), short_run("1").get(), nullptr, nullptr, &given.result, error.out()) ==
                        GRAFT_OK,
                    error.message());
    CHECK(given.result.best_loss > 0);
    CHECK(given.result.best_epoch == 0x5a5a5a5a5a5a5a5a);
    CHECK(given.result.size == offsetof(graft_training_result, best_epoch));
}

TEST_CASE("options of fine-tuning are those of the program, and what they do not take is said before anything is read") {
    failure error;
    const auto refused = [&](const char* name, const char* value) {
        const run_folder out("refused");
        CHECK(graft_finetune("there/is/none", from.c_str(), out.path.c_str(), options_of(name, value).get(), nullptr, nullptr, nullptr, error.out()) !=
              GRAFT_OK);
        CHECK(!std::filesystem::exists(out.path));
        return error.message();
    };
    CHECK(refused("epoch", "3").find("did you mean epochs?") != std::string::npos);
    CHECK(refused("epochs", "0").find("usage: epochs: it takes a whole number from 1 to 1000000") == 0);
    CHECK(refused("optimizer", "adamm").find("usage: optimizer") == 0);
    CHECK(refused("schedule", "cosinus").find("usage: schedule") == 0);
    CHECK(refused("loss", "cross").find("usage: loss") == 0);
    CHECK(refused("augment", "spin").find("usage: augment") == 0);
    CHECK(refused("batch_norm", "off").find("usage: batch_norm") == 0);
    CHECK(refused("lr", "nan").find("usage: lr") == 0);
    CHECK(refused("epochs", "1").find("data.open") == 0);
    const run_folder out("weights");
    const options_handle weighed = short_run("1");
    REQUIRE(graft_options_set(weighed.get(), "class_weights", "1:2", error.out()) == GRAFT_OK);
    CHECK(graft_finetune(data.c_str(), from.c_str(), out.path.c_str(), weighed.get(), nullptr, nullptr, nullptr, error.out()) == GRAFT_USAGE);
    CHECK(error.message().find("one weight of at least 0 for each of the 4 classes") != std::string::npos);
    REQUIRE(graft_options_set(weighed.get(), "class_weights", "balanced", error.out()) == GRAFT_OK);
    REQUIRE(graft_options_set(weighed.get(), "freeze", "trunk", error.out()) == GRAFT_OK);
    CHECK_MESSAGE(graft_finetune(data.c_str(), from.c_str(), out.path.c_str(), weighed.get(), nullptr, nullptr, nullptr, error.out()) == GRAFT_OK,
                  error.message());
    REQUIRE(graft_options_set(weighed.get(), "overwrite", "1", error.out()) == GRAFT_OK);
    const std::string own = out.path + "/model.onnx";
    CHECK(graft_finetune(data.c_str(), own.c_str(), out.path.c_str(), weighed.get(), nullptr, nullptr, nullptr, error.out()) == GRAFT_USAGE);
    CHECK(error.where() == "overwrite");
    CHECK(graft_finetune(nullptr, from.c_str(), out.path.c_str(), nullptr, nullptr, nullptr, nullptr, error.out()) == GRAFT_USAGE);
    CHECK(graft_finetune(data.c_str(), nullptr, out.path.c_str(), nullptr, nullptr, nullptr, nullptr, error.out()) == GRAFT_USAGE);
    CHECK(graft_finetune(data.c_str(), from.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr, error.out()) == GRAFT_USAGE);
    graft_training_result none{};
    CHECK(graft_finetune(data.c_str(), from.c_str(), "unused", nullptr, nullptr, nullptr, &none, error.out()) == GRAFT_USAGE);
}
