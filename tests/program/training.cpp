// The verbs finetune, train, evaluate and bench --train from outside: files, JSON, equal bytes, wrong usage.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "../skipped.hpp"
#include "program.hpp"

#include <graft/train.hpp>

#include <doctest/doctest.h>

namespace {

using program_test::done;
using program_test::graft_program;

// Stripes that lie or stand, at places and levels of their own.
std::string stripes(bool standing, int variant) {
    std::string pixels;
    for (int y = 0; y < 28; ++y)
        for (int x = 0; x < 28; ++x) pixels += static_cast<char>(((standing ? x : y) + variant) % 6 < 3 ? 40 + 7 * (variant % 5) : 200 - 11 * (variant % 7));
    return "P5 28 28 255\n" + pixels;
}

void put_stripes(const made_folder& folder) {
    for (int i = 0; i < 24; ++i) {
        const std::string part = i < 16 ? "train/" : "val/";
        folder.put(part + "lying/" + std::to_string(i) + ".pgm", stripes(false, i));
        folder.put(part + "standing/" + std::to_string(i) + ".pgm", stripes(true, i));
    }
}

void put_demo_pictures(const made_folder& folder, const std::vector<std::string>& classes) {
    for (const std::string& name : classes)
        for (const char* part : {"train/", "val/"})
            for (const char* number : {"1", "2"})
                folder.put(part + name + "/" + number + ".png", file_contents(GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/" + name + "-" + number + ".png"));
}

int times(const std::string& text, const std::string& part) {
    int count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
    return count;
}

// How often a text stands in the TensorBoard events of a run.
int in_events(const std::string& out, const std::string& text) {
    int count = 0;
    for (const auto& file : std::filesystem::directory_iterator(out)) {
        if (file.path().filename().string().rfind("events.out.tfevents.", 0) != 0) continue;
        count += times(file_contents(file.path().string()), text);
    }
    return count;
}

const std::string demo = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx";

}  // namespace

TEST_CASE("info tells what memory a training step takes, and why a model cannot be trained as it is") {
    const done told = graft_program("info " + demo + " --train 32 --json");
    REQUIRE(told.code == 0);
    CHECK(told.number("batch") == 32);
    CHECK(told.number("activation_bytes") > 1e6);
    // Weights and statistics, two moments and an average of 46,920 numbers at most.
    CHECK(told.number("state_bytes") > 3 * 4 * 45000);
    CHECK(told.number("state_bytes") < 4 * 4 * 46920);
    CHECK(graft_program("info " + demo + " --train 64 --json").number("activation_bytes") > 1.8 * told.number("activation_bytes"));
    CHECK(graft_program("info " + demo + " --train 32").has("a step of 32"));
    CHECK(graft_program("info " + demo + " --train 0").code == 2);
}

TEST_CASE("train writes a model that evaluate finds as good as it was said to be") {
    made_folder folder;
    put_stripes(folder);
    const std::string out = folder.path + "/out";
    const std::string run = "train " + folder.path + " --arch lenet --epochs 10 --batch 4 --lr 0.003 --threads 2 --json --out " + out;
    const done trained = graft_program(run);
    CAPTURE(trained.err);
    REQUIRE(trained.code == 0);
    for (const char* key : {"best_top1", "epochs", "images_per_s", "peak_rss_mb", "device", "best_epoch", "step_bytes", "history"})
        CHECK(contains(trained.out, "\"" + std::string(key) + "\":"));
    for (const char* file : {"model.onnx", "checkpoint.safetensors", "checkpoint.previous.safetensors", "metrics.jsonl", "report.html", "run.json",
                             "predictions.csv", "fixes.csv"})
        CHECK(!file_contents(out + "/" + file).empty());
    CHECK(trained.number("epochs") == 10);
    CHECK(trained.number("best_top1") == 1);
    CHECK(contains(trained.err, "2 classes, 32 pictures to learn from, 16 to score by"));
    CHECK(contains(file_contents(out + "/report.html"), "Grad-CAM"));
    CHECK(in_events(out, "confusion_matrix/val") == 1);
    CHECK(in_events(out, "most_wrong/val") == 0);  // nothing was wrong
    CHECK(graft_program(run + " --resume").code == 0);
    CHECK(in_events(out, "confusion_matrix/val") == 1);  // nothing was learnt anew

    const done scored = graft_program("evaluate " + out + "/model.onnx " + folder.path + "/val --json");
    REQUIRE(scored.code == 0);
    CHECK(scored.number("top1") == trained.number("best_top1"));
    CHECK(scored.number("images") == 16);
    CHECK(contains(scored.out, "\"classes\":[\"lying\",\"standing\"],\"confusion\":[[8,0],[0,8]]"));
    const graft::model written = graft::load(out + "/model.onnx");
    CHECK(written.metadata("graft.labels") == "[\"lying\",\"standing\"]");
    CHECK(contains(written.metadata("graft.preprocess"), "order=gray"));
    CHECK(!written.metadata("graft.golden").empty());
}

TEST_CASE("A run proposes to move what is labelled wrongly, of pictures that it scored by and of those that it learnt from, and fix does") {
    made_folder folder;
    put_stripes(folder);
    const std::string data = folder.path + "/photos", out = folder.path + "/out";
    std::filesystem::create_directories(data);
    for (const char* part : {"/train", "/val"}) std::filesystem::rename(folder.path + part, data + part);
    std::filesystem::rename(data + "/train/lying/3.pgm", data + "/train/standing/x.pgm");
    std::filesystem::rename(data + "/val/standing/20.pgm", data + "/val/lying/y.pgm");
    const std::string run = "finetune " + data + " --from " + demo + " --freeze trunk --augment none --epochs 8 --threads 2 --json --out " + out;
    const done trained = graft_program(run);
    CAPTURE(trained.err);
    REQUIRE(trained.code == 0);
    const std::string fixes = file_contents(out + "/fixes.csv");
    CAPTURE(fixes);
    CHECK(contains(fixes, ",val/lying/y.pgm,move,standing,mislabelled,"));
    CHECK(contains(fixes, ",validation+neighbours,"));
    CHECK(contains(fixes, ",train/standing/x.pgm,move,lying,mislabelled,"));
    CHECK(contains(fixes, ",neighbours,"));
    CHECK(trained.has("\"fixes\":{\"file\":\"" + out + "/fixes.csv\",\"rows\":2}"));
    const std::string report = file_contents(out + "/report.html");
    CHECK(times(report, "--only ") == 2);
    CHECK(contains(report, "Labels in doubt"));
    // A network that was told nothing before: of what it learnt from it is asked again, of what it was scored by it has said it.
    const std::string scratch = "train " + data + " --arch lenet --epochs 10 --batch 4 --lr 0.003 --threads 2 --json --out " + out + "-2";
    const done made = graft_program(scratch);
    REQUIRE(made.code == 0);
    const std::string proposed = file_contents(out + "-2/fixes.csv");
    CAPTURE(proposed);
    CHECK(contains(proposed, ",val/lying/y.pgm,move,standing,mislabelled,"));
    CHECK(contains(proposed, ",validation,"));

    const done fixed = graft_program("fix " + out + "/fixes.csv --json");
    CHECK(fixed.code == 0);
    CHECK(fixed.has("\"moved\":2"));
    CHECK(std::filesystem::exists(data + "/val/standing/y.pgm"));
    CHECK(std::filesystem::exists(data + "/train/lying/x.pgm"));
    CHECK(graft_program(scratch + " --overwrite --fixes 0").code == 0);
    CHECK(times(file_contents(out + "-2/fixes.csv"), "\n") == 1);
    CHECK(!contains(file_contents(out + "-2/report.html"), "<code"));
    CHECK(times(file_contents(out + "-2/predictions.csv"), "\n") == 17);
    const done compared = graft_program("compare " + out + " " + out + "-2 --json");
    CHECK(compared.code == 0);
    CHECK(compared.number("shared") == 15);  // one has another name now
}

TEST_CASE("train --precision bfloat16 learns on the CPU, says so, and goes on in no other precision") {
    const std::string emulated = "GRAFT_EMULATED_PRODUCTS=avx512_bf16 ";
    if (graft_program("bench " + demo + " --rounds 1 --precision bfloat16 --device cpu", emulated).code)
        return say_skipped("neither this machine nor this build multiplies bfloat16");
    made_folder folder;
    put_stripes(folder);
    const std::string out = folder.path + "/out";
    const std::string run = "train " + folder.path + " --arch lenet --epochs 6 --batch 4 --lr 0.003 --threads 2 --device cpu --out " + out;
    const done trained = graft_program(run + " --precision bfloat16", emulated);
    CAPTURE(trained.err);
    REQUIRE(trained.code == 0);
    CHECK(contains(trained.err, "bfloat16, 2 threads"));
    CHECK(!contains(trained.err, "GPU"));
    CHECK(contains(file_contents(out + "/report.html"), "bfloat16"));
    CHECK(graft_program("evaluate " + out + "/model.onnx " + folder.path + "/val --json").number("top1") > 0.9);
    const done other = graft_program(run + " --resume");
    CHECK(other.refused("resume.mismatch"));
    CHECK(contains(other.last(), "precision"));
    CHECK(graft_program(run + " --precision bfloat16 --resume", emulated).code == 0);
    CHECK(!contains(graft_program("bench --arch lenet --train full --batch 4 --rounds 3 --precision bfloat16 --device cpu", emulated).out, "GPU"));
}

TEST_CASE("finetune and the same call in code have the same defaults, and say while the head learns alone") {
    made_folder folder;
    put_demo_pictures(folder, {"boat", "fish"});
    const std::string out = folder.path + "/out", again = folder.path + "/again";
    const done d = graft_program("finetune " + folder.path + " --from " + demo + " --epochs 3 --json --out " + out);
    CAPTURE(d.err);
    REQUIRE(d.code == 0);
    CHECK(contains(d.err, "weights learn; the head alone until epoch 2\n"));
    CHECK(contains(d.err, "the trunk joins; from epoch 2 on"));
    CHECK(contains(d.out, "\"history\":[{\"epoch\":1,"));
    CHECK(contains(d.out, "\"head_alone\":true"));
    const std::string metrics = file_contents(out + "/metrics.jsonl");
    CHECK(metrics.find("\"epoch\":1,\"split\":\"train\"") < metrics.find("\"epoch\":2,"));
    CHECK(!contains(metrics, "\"epoch\":0"));
    CHECK(contains(metrics, "\"epoch\":3,"));
    CHECK(metrics.find("\"head_alone\":1") < metrics.find("\"head_alone\":0"));
    CHECK(contains(file_contents(out + "/report.html"), ">whole network<"));

    graft::finetune_options options;
    options.epochs = 3;
    options.out = again;
    REQUIRE(graft::finetune(folder.path, demo, options).ok());
    CHECK(file_contents(again + "/model.onnx") == file_contents(out + "/model.onnx"));

    const std::string help = graft_program("finetune --help").out;
    for (const graft::training_setting& s : graft::training_settings()) {
        if (s.option == "--seed") continue;  // of all verbs
        CHECK_MESSAGE(contains(help, s.option), s.option);
        CHECK_MESSAGE(contains(help, "(default: " + s.by_default.substr(0, s.by_default.find(' '))), s.option);
    }
}

TEST_CASE("the bytes of a model do not depend on threads, workers, or how often the run was killed") {
    made_folder folder;
    put_stripes(folder);
    const std::string run =
        "train " + folder.path + " --arch lenet --epochs 6 --batch 4 --seed 3 --checkpoint-every 0 --augment random_horizontal_flip -q --out " + folder.path;
    REQUIRE(graft_program(run + "/one --threads 1").code == 0);
    const std::string wanted = file_contents(folder.path + "/one/model.onnx");
    REQUIRE(!wanted.empty());
    REQUIRE(graft_program(run + "/three --threads 3 --workers 2").code == 0);
    CHECK(file_contents(folder.path + "/three/model.onnx") == wanted);
    for (const char* limit : {"0.05", "0.1", "0.15", "0.2"})
        (void)graft_program(run + "/killed --threads 2 --resume", "timeout -s KILL " + std::string(limit) + " ");
    const done last = graft_program(run + "/killed --threads 1 --resume");
    CAPTURE(last.err);
    REQUIRE(last.code == 0);
    CHECK(file_contents(folder.path + "/killed/model.onnx") == wanted);
    const done other = graft_program(run + "/killed --resume --lr 0.5");
    CHECK(other.code == 1);
    CHECK(contains(other.err, "graft: error: resume.mismatch: lr: "));
}

TEST_CASE("a folder that holds a run is refused before anything is read, unless it is to be replaced") {
    made_folder folder;
    put_stripes(folder);
    const std::string out = folder.path + "/out", run = "train " + folder.path + " --arch lenet --epochs 1 --batch 8 -q --out " + out;
    REQUIRE(graft_program(run).code == 0);
    const std::string model = file_contents(out + "/model.onnx");
    const done refused = graft_program("train " + folder.path + "/nowhere --arch lenet --out " + out);
    CHECK(refused.code == 1);
    CHECK(refused.refused("train.out_in_use"));
    for (const char* word : {"checkpoint.safetensors", "--resume", "--overwrite", "/out-2"}) CHECK(contains(refused.last(), word));
    CHECK(file_contents(out + "/model.onnx") == model);
    CHECK(graft_program(run + " --seed 5 --overwrite").code == 0);
    CHECK(file_contents(out + "/model.onnx") != model);
    CHECK(in_events(out, "loss/train") == 1);
    CHECK(graft_program(run + " --overwrite --resume").code == 2);
    // What it would learn from is part of what it would replace.
    const done own = graft_program("finetune " + folder.path + " --from " + out + "/../out/model.onnx --overwrite --out " + out);
    CHECK(own.code == 2);
    CHECK(contains(own.last(), "--overwrite"));
}

TEST_CASE("a signal ends a run with a checkpoint and the line to go on with, which ends with the bytes of a run that was left alone") {
    made_folder folder;
    put_stripes(folder);
    const std::string run = "train " + folder.path + " --arch lenet --epochs 60 --batch 2 --seed 3 --threads 1 --out ";
    REQUIRE(graft_program(run + folder.path + "/whole -q").code == 0);
    // A shell that runs no jobs lets what is in the background ignore SIGINT, but not SIGTERM.
    const std::string out = folder.path + "/it's cut off", quoted = "\"" + out + "\"",
                      wait_for = "while [ ! -s " + quoted + "/metrics.jsonl ]; do sleep 0.01; done; ";
    const std::string log = folder.path + "/log", errors = folder.path + "/errors";
    const std::string command = GRAFT_PROGRAM " " + run + quoted + " --overwrite >" + log + " 2>" + errors + " & pid=$!; " + wait_for;
    int ended = std::system((command + "kill -INT $pid; sleep 0.05; kill -TERM $pid; wait $pid").c_str());
    const std::string told = file_contents(log);
    CAPTURE(told);
    CAPTURE(file_contents(errors));
    CHECK(WEXITSTATUS(ended) == 143);
    CHECK(contains(file_contents(errors), "graft: stopping as soon as the checkpoint is written; Ctrl-C again ends at once\n"));
    CHECK(contains(told, "of 60 epochs"));
    const std::string before = "To go on: ";
    const std::size_t at = told.find(before);
    REQUIRE(at != std::string::npos);
    const std::string line = told.substr(at + before.size(), told.find('\n', at) - at - before.size());
    CHECK(line == GRAFT_PROGRAM " " + run + "'" + folder.path + "/it'\\''s cut off' --resume");
    ended = std::system((line + " -q >" + log).c_str());
    CHECK(WEXITSTATUS(ended) == 0);
    CHECK(file_contents(out + "/model.onnx") == file_contents(folder.path + "/whole/model.onnx"));
    // In front, Ctrl-C does the same.
    const done in_front = graft_program("train " + folder.path + " --arch lenet --epochs 1000000 --batch 2 --json --out " + folder.path + "/long",
                                        "timeout --foreground --preserve-status -s INT 2 ");
    CHECK(in_front.code == 130);
    CHECK(contains(in_front.out, "\"stopped\":true"));
    CHECK(contains(in_front.out, "--resume\""));
}

TEST_CASE("finetune puts a head for other classes on a trunk and keeps the names of its input and output") {
    made_folder folder;
    put_demo_pictures(folder, {"sun", "tree", "moon"});
    const std::string out = folder.path + "/out", run = "finetune " + folder.path + " --from " + demo + " --batch 4 --out " + out;
    const done head = graft_program(run + " --epochs 8 --freeze trunk --lr 0.03 --json");
    CAPTURE(head.err);
    REQUIRE(head.code == 0);
    CHECK(head.number("best_top1") == 1);
    CHECK(contains(head.err, "features are computed once"));
    const graft::model before = graft::load(demo), after = graft::load(out + "/model.onnx");
    CHECK(after.inputs()[0].name == before.inputs()[0].name);
    CHECK(after.outputs()[0].name == before.outputs()[0].name);
    CHECK(after.outputs()[0].extents[1] == 3);
    CHECK(after.metadata("graft.labels") == "[\"moon\",\"sun\",\"tree\"]");
    CHECK(graft_program(run + "/named --freeze '^(?!head)' --epochs 1 -q").code == 0);
    CHECK(graft_program(run + "/staged --freeze 2 --epochs 1 --optimizer sgd --nesterov --schedule constant --ema 0.9 --clip-norm 1 "
                              "--class-weights 1:2:1 -q")
              .code == 0);
    // Factors by name and by stage are multiplied; the report tells them.
    const done rates = graft_program(run + "/rates --epochs 1 --rate '^stem=0.5' --rate '^stem.*bias=0' --layer-decay 0.5 --trunk-rate 0.1");
    CAPTURE(rates.err);
    CHECK(rates.code == 0);
    CHECK(contains(rates.err, "rates:   "));
    CHECK(contains(file_contents(out + "/rates/report.html"), "rates by layer"));
    CHECK(contains(graft_program(run + "/none --rate nowhere=2").last(), "some of them are "));
    CHECK(graft_program(run + "/taught --teacher " + out + "/model.onnx --epochs 1 --loss cross_entropy -q").code == 0);
}

TEST_CASE("what --max-ram cannot fit ends with memory.budget, and what it can fit is fitted") {
    made_folder folder;
    put_demo_pictures(folder, {"sun", "tree"});
    const std::string run = "finetune " + folder.path + " --from " + demo + " --batch 4 --epochs 1 --out " + folder.path + "/out --max-ram ";
    const done small = graft_program(run + "10K");
    CHECK(small.code == 1);
    CHECK(contains(small.err, "graft: error: memory.budget: "));
    CHECK(graft_program(run + "1G -q").code == 0);
}

TEST_CASE("wrong options of training exit with 2 and name the option") {
    made_folder folder;
    put_stripes(folder);
    const std::string run = "train " + folder.path + " --arch lenet --out " + folder.path + "/out ";
    for (const char* wrong :
         {"--epochs 0",      "--batch x",          "--optimizer rmsprop", "--loss hinge", "--schedule linear",     "--warmup 1.5",      "--augment zoom=2",
          "--max-ram much",  "--shards 3",         "--batch-norm maybe",  "--nesterov",   "--class-weights 1:2:3", "--class-weights a", "--checkpoint-every 31",
          "--ema 1",         "--distillation 0.5", "--freeze trunk",      "--rate conv",  "--rate '(=1'",          "--rate conv1=-1",   "--rate nowhere=1",
          "--layer-decay 0", "--layer-decay 2"}) {
        CAPTURE(wrong);
        const done refused = graft_program(run + wrong);
        CHECK(refused.code == 2);
        const std::string option = std::string(wrong).substr(0, std::string(wrong).find(' '));
        CHECK(contains(refused.err, "graft: error: usage"));
        CHECK(contains(refused.err, option));
        CHECK(refused.out.empty());
    }
    CHECK(graft_program("train " + folder.path + " --arch vgg --out " + folder.path + "/out").code == 2);
    CHECK(contains(graft_program(run + "--preprocess nonsense").err, "graft: error: usage.preprocess: "));
    const done pattern = graft_program("finetune " + folder.path + " --from " + demo + " --out " + folder.path + "/out --freeze '('");
    CHECK(pattern.code == 2);
    CHECK(contains(pattern.err, "graft: error: usage: --freeze: "));
}

TEST_CASE("evaluate matches folders to classes by name and refuses those that the model lacks") {
    made_folder folder;
    put_demo_pictures(folder, {"tree", "boat"});
    const done scored = graft_program("evaluate " + demo + " " + folder.path + "/val --json");
    REQUIRE(scored.code == 0);
    CHECK(scored.number("images") == 4);
    CHECK(scored.number("top1") == 1);
    folder.put("val/zebra/1.png", file_contents(GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/sun-1.png"));
    const done refused = graft_program("evaluate " + demo + " " + folder.path + "/val");
    CHECK(refused.code == 1);
    CHECK(contains(refused.err, "graft: error: data.class_mismatch: "));
    CHECK(contains(refused.err, "\"zebra\" is none of the model's 8 classes"));
}

TEST_CASE("evaluate leaves out what cannot be read as --bad-share allows, and tells of classes that are uneven or never answered") {
    made_folder folder;
    put_demo_pictures(folder, {"tree", "boat"});
    folder.put("val/boat/broken.png", "\x89PNG\r\n\x1a\n and no more");
    const std::string run = "evaluate " + demo + " " + folder.path + "/val";
    const done scored = graft_program(run + " --json");  // a single one stops nothing
    REQUIRE(scored.code == 0);
    CHECK(scored.number("images") == 4);
    CHECK(scored.number("bad_images") == 1);
    CHECK(scored.number("balanced_accuracy") == 1);
    CHECK(scored.number("majority") == 0.5);
    CHECK(scored.has("\"never_predicted\":[]"));
    CHECK(contains(scored.err, "broken.png"));
    folder.put("val/boat/broken-2.png", "");
    const done refused = graft_program(run);
    CHECK(refused.code == 1);
    CHECK(refused.refused("data.too_many_bad"));
    CHECK(contains(refused.last(), "--bad-share "));
    CHECK(graft_program(run + " --bad-share 0.4").has("2 could not be read"));
    // Two of three that are called trees are suns.
    for (const char* number : {"1", "2"})
        folder.put(std::string("uneven/tree/") + number + ".png",
                   file_contents(std::string(GRAFT_SOURCE_DIR) + "/apps/graft/demo/pictures/sun-" + number + ".png"));
    folder.put("uneven/tree/3.png", file_contents(GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/tree-1.png"));
    folder.put("uneven/boat/1.png", file_contents(GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/tree-2.png"));
    const done uneven = graft_program("evaluate " + demo + " " + folder.path + "/uneven --json");
    REQUIRE(uneven.code == 0);
    CHECK(uneven.number("top1") == 0.25);
    CHECK(uneven.number("majority") == 0.75);
    CHECK(uneven.number("balanced_accuracy") == doctest::Approx(1.0 / 6));
    CHECK(uneven.has("\"never_predicted\":[\"boat\"]"));
}

TEST_CASE("bench --train times steps of a file and of an architecture") {
    for (const std::string& what : {demo + " --train full", demo + " --train head", std::string("--arch lenet --train full")}) {
        CAPTURE(what);
        const done timed = graft_program("bench " + what + " --batch 4 --rounds 3 --json");
        REQUIRE(timed.code == 0);
        for (const char* key : {"latency_ms", "load_ms", "rss_mb", "isa", "device", "macs", "train", "step_bytes"})
            CHECK(contains(timed.out, "\"" + std::string(key) + "\":"));
    }
    CHECK(graft_program("bench --train full").code == 2);
    CHECK(graft_program("bench --arch lenet").code == 2);
    CHECK(graft_program("bench " + demo + " --train some").code == 2);
}

TEST_CASE("--batch-per-device is a batch for each replica, and a run that goes on with other replicas keeps the batch of all") {
    made_folder folder;
    put_stripes(folder);
    const std::string run = "train " + folder.path + " --arch lenet --epochs 2 --threads 1 --json ";
    const done whole = graft_program(run + "--batch 8 -q --out " + folder.path + "/whole");
    REQUIRE(whole.code == 0);
    CHECK(!contains(whole.out, "\"members\""));
    const std::string parted = run + "--batch-per-device 4 --replicas 2 --out " + folder.path + "/parted";
    const done d = graft_program(parted);
    CAPTURE(d.err);
    REQUIRE(d.code == 0);
    CHECK(d.number("batch") == 8);
    CHECK(contains(d.err, "batch:   8 pictures of one update, 4 for each of 2 replicas\n"));
    const std::string model = file_contents(folder.path + "/whole/model.onnx");
    CHECK(file_contents(folder.path + "/parted/model.onnx") == model);
    // What the replicas did is told everywhere.
    for (const char* key : {"members", "members_wait", "scaling_efficiency", "busy_seconds", "waiting_share"})
        CHECK_MESSAGE(contains(d.out, "\"" + std::string(key) + "\":"), key);
    CHECK(d.number("scaling_efficiency") > 0);
    CHECK(d.number("scaling_efficiency") <= 1.001);
    CHECK(contains(d.err, "members wait "));
    CHECK(contains(file_contents(folder.path + "/parted/report.html"), "<h2>Members</h2>"));
    CHECK(contains(file_contents(folder.path + "/parted/metrics.jsonl"), "\"members\":[{\"rank\":0,\"samples\":16,"));
    CHECK(!contains(file_contents(folder.path + "/whole/metrics.jsonl"), "members"));
    CHECK(!contains(file_contents(folder.path + "/whole/report.html"), "<h2>Members</h2>"));

    const done other = graft_program(run + "--batch-per-device 4 --replicas 4 --resume --out " + folder.path + "/parted");
    CHECK(other.code == 0);
    CHECK(other.number("batch") == 8);
    CHECK(contains(other.err, "8 pictures of one update, as the run has it that goes on (--batch-per-device would make it 16)"));
    CHECK(graft_program(run + "--batch 8 -q --resume --out " + folder.path + "/parted").code == 0);
    const done both = graft_program(run + "--batch 8 --batch-per-device 4 --out " + folder.path + "/both");
    CHECK(both.code == 2);
    CHECK(contains(both.err, "graft: error: usage"));
    CHECK(contains(both.err, "--batch-per-device"));
    CHECK(contains(both.err, "--batch "));
    CHECK(graft_program(run + "--batch-per-device 0 --out " + folder.path + "/both").code == 2);
}

TEST_CASE("--scale-lr multiplies the rate by the batch, and a run that goes on takes it or the rate that came of it") {
    made_folder folder;
    put_stripes(folder);
    const std::string run = "train " + folder.path + " --arch lenet --epochs 2 --threads 1 --json ", out = " --out " + folder.path;
    const done scaled = graft_program(run + "--batch 16 --lr 0.001 --scale-lr 8" + out + "/scaled");
    CAPTURE(scaled.err);
    REQUIRE(scaled.code == 0);
    CHECK(contains(scaled.err, "rate:    0.002 for a batch of 16: 0.001 is for 8, reached behind a warm-up of 5 % of the steps\n"));
    REQUIRE(graft_program(run + "--batch 16 --lr 0.002 -q" + out + "/plain").code == 0);
    CHECK(file_contents(folder.path + "/scaled/model.onnx") == file_contents(folder.path + "/plain/model.onnx"));
    CHECK(graft_program(run + "--batch 16 --lr 0.002 -q --resume" + out + "/scaled").code == 0);
    CHECK(graft_program(run + "--batch 16 --lr 0.001 --scale-lr 8 -q --resume" + out + "/plain").code == 0);
    CHECK(graft_program(run + "--batch 16 --lr 0.001 -q --resume" + out + "/plain").refused("resume.mismatch"));
    CHECK(contains(graft_program(run + "--batch 16 --scale-lr 8 --warmup 0" + out + "/cold").err, "wants a warm-up"));
    const done found = graft_program("train " + folder.path + " --arch lenet --batch 8 --find-lr --scale-lr 8");
    CHECK(found.code == 2);
    CHECK(contains(found.err, "--scale-lr"));
}

TEST_CASE("--batch auto tries powers of two, keeps the fastest, and goes on with it") {
    made_folder folder;
    put_stripes(folder);
    const std::string run = "train " + folder.path + " --arch lenet --batch auto --epochs 1 --threads 1 --device cpu --json --out " + folder.path + "/out ";
    const done found = graft_program(run);
    CAPTURE(found.err);
    REQUIRE(found.code == 0);
    const double batch = found.number("batch");
    CHECK((batch == 8 || batch == 16 || batch == 32));  // of 32 pictures
    CHECK(contains(found.out, "\"batch_trials\":[{\"batch\":8,\"samples_per_s\":"));
    CHECK(contains(found.err, "batch     8 "));
    CHECK(contains(found.err, "batch " + std::to_string(static_cast<int>(batch)) + " is taken"));
    const done again = graft_program(run + "--resume");
    CHECK(again.code == 0);
    CHECK(again.number("batch") == batch);
    CHECK(contains(again.out, "\"batch_trials\":[]"));
    CHECK(graft_program(run + "--overwrite --max-ram 10K").refused("memory.budget"));

    const done timed = graft_program("bench --arch lenet --train full --batch auto --rounds 1 --device cpu --json -q");
    REQUIRE(timed.code == 0);
    CHECK(timed.err.empty());
    CHECK(timed.number("batch") >= 8);
    const done runs = graft_program("bench " + demo + " --batch auto --rounds 1 --device cpu --json -q");
    REQUIRE(runs.code == 0);
    CHECK(runs.number("batch") >= 8);
    CHECK(graft_program("bench " + demo + " --batch few").code == 2);
    CHECK(graft_program("bench " + demo + " --batch 0").code == 2);
}

TEST_CASE("train --find-lr suggests a rate and writes no model") {
    made_folder folder;
    put_stripes(folder);
    const done found = graft_program("train " + folder.path + " --arch lenet --batch 8 --find-lr --json");
    REQUIRE(found.code == 0);
    CHECK(found.number("suggestion") > 0);
    for (const char* name : {"rates", "losses", "smoothed", "device"}) CHECK(contains(found.out, "\"" + std::string(name) + "\":"));
    // A folder that holds a run is as it was.
    folder.put("out/model.onnx", "mine");
    const std::string sweep = "train " + folder.path + " --arch lenet --batch 8 --find-lr -q --out " + folder.path + "/out";
    const done shown = graft_program(sweep), plain = graft_program(sweep, "LC_ALL=POSIX TERM=linux ");
    REQUIRE(shown.code == 0);
    CHECK(file_contents(folder.path + "/out/model.onnx") == "mine");
    CHECK(!contains(file_contents(folder.path + "/out/metrics.jsonl"), "step"));
    char suggested[32];
    std::snprintf(suggested, sizeof suggested, "--lr %.2g", found.number("suggestion"));
    for (const done& d : {shown, plain}) {
        CHECK(contains(d.out, "1e-7"));
        CHECK(times(d.out, suggested) == 2);
        // Twelve rows of the curve, the axis, its numbers, the mark: none wider than 80 columns.
        int rows = 0;
        for (std::size_t at = 0, end; (end = d.out.find('\n', at)) != std::string::npos; at = end + 1, ++rows) {
            int columns = 0;
            for (std::size_t i = at; i < end; ++i) columns += (d.out[i] & 0xc0) != 0x80;
            CHECK(columns <= 80);
        }
        CHECK(rows >= 16);
    }
    CHECK(contains(shown.out, "\xe2\xa0"));
    CHECK(!contains(plain.out, "\xe2"));
    CHECK(contains(plain.out, "*"));
    const done nowhere = graft_program("train " + folder.path + " --arch lenet");
    CHECK(nowhere.code == 2);
    CHECK(contains(nowhere.last(), "--out"));
}
#endif
