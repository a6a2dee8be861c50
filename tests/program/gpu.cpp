// The program on GPUs, which the CUDA simulator poses: choosing devices, what is said where there are none, training and scoring,
// faults.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"
#include "../skipped.hpp"

#include <graft/gpu/runtime/hardware.hpp>

#include <doctest/doctest.h>

namespace {

using program_test::done;
using program_test::graft_program;

const std::string demo = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx", fish = GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/fish-1.png";
const std::string clean = "env -u CUDA_VISIBLE_DEVICES -u GRAFT_DEVICE -u GRAFT_REQUIRE_GPU -u LD_LIBRARY_PATH ";

int times(const std::string& text, const std::string& part) {
    int n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
    return n;
}

}  // namespace

TEST_CASE("on a machine without a GPU the program runs on the CPU and says nothing of it") {
    if (graft::gpu::has_hardware()) {
        say_skipped("this machine has an NVIDIA GPU");
        return;
    }
    const made_folder folder;
    for (const std::string& verb : {"bench " + demo + " --rounds 1 --json", "bench " + demo + " --rounds 1 --json --device auto", std::string("doctor --json"),
                                    "classify " + demo + " " + fish + " --json", "info " + demo + " --placement --device auto --json"}) {
        CAPTURE(verb);
        const done d = graft_program(verb, clean + "-u GRAFT_CUDA_PATH ");
        CHECK(d.code == 0);
        CHECK(d.err == "");
        CHECK(d.has("\"device\":\"cpu\""));
    }
    // Who asks for one is told all the same.
    CHECK(graft_program("bench " + demo + " --rounds 1 --device cuda", clean + "-u GRAFT_CUDA_PATH ").refused("device.unavailable"));
}

// Where GRAFT_CUDA_PATH is set, a GPU is wanted, and cuDNN and the others come from there or not at all.
TEST_CASE("without the libraries the program says so in one line, and runs on the CPU") {
    const made_folder nothing;
    const std::string before = clean + "GRAFT_CUDA_PATH=" + nothing.path + " ";
    for (const std::string& verb : {"bench " + demo + " --rounds 1 --json", "classify " + demo + " " + fish + " --json"}) {
        CAPTURE(verb);
        const done d = graft_program(verb, before);
        CAPTURE(d.err);
        CHECK(d.code == 0);
        CHECK(d.has("\"device\":\"cpu\""));
        CHECK(times(d.err, "graft: warning: running on the CPU: device.unavailable: ") == 1);
        CHECK(graft_program(verb + " -q", before).err.empty());
        CHECK(graft_program(verb + " --device cpu", before).err.find("warning") == std::string::npos);
        CHECK(graft_program(verb + " --device cuda", before).refused("device.unavailable"));
        CHECK(graft_program(verb, before + "GRAFT_REQUIRE_GPU=1 ").refused("device.unavailable"));
        CHECK(graft_program(verb + " --device cpu", before + "GRAFT_REQUIRE_GPU=1 ").refused("device.unavailable"));
        CHECK(graft_program(verb, before + "GRAFT_REQUIRE_GPU=0 ").code == 0);
    }
    const done told = graft_program("doctor --json", before);
    CHECK(told.code == 0);
    CHECK(told.has("\"device\":\"cpu\""));
    const done asked = graft_program("doctor --device cuda", before);
    CHECK(asked.refused("device.unavailable"));
    CHECK(asked.has("cuda cannot be had"));
    // What runs nothing does not look for a GPU.
    CHECK(graft_program("info " + demo, before).err.empty());
}

#ifdef GRAFT_CUDA_SIMULATOR
namespace {

const std::string posed = clean + "GRAFT_CUDA_PATH=" GRAFT_CUDA_SIMULATOR " GRAFT_CACHE_DIR=" GRAFT_CUDA_SIMULATOR "/cache ";

// Runs the program on so many posed devices; more of the environment may be given.
done on_devices(int count, const std::string& arguments, const std::string& more = "") {
    return graft_program(arguments, posed + "GRAFT_SIMULATOR_DEVICES=" + std::to_string(count) + " " + more);
}

// Pictures of two classes: dark ones and bright ones.
void put_grays(const made_folder& folder) {
    for (int i = 0; i < 12; ++i)
        for (const bool bright : {false, true}) {
            std::string pixels(28 * 28, '\0');
            for (std::size_t p = 0; p < pixels.size(); ++p)
                pixels[p] = static_cast<char>((bright ? 160 : 20) + (p * 7 + static_cast<std::size_t>(i) * 13) % 60);
            folder.put((i < 8 ? "train/" : "val/") + std::string(bright ? "bright/" : "dark/") + std::to_string(i) + ".pgm", "P5 28 28 255\n" + pixels);
        }
}

std::string lenet(const made_folder& folder) { return "train " + folder.path + " --arch lenet --batch 4 --lr 0.01 --threads 1 --out " + folder.path + "/out "; }

}  // namespace

TEST_CASE("doctor lists the posed devices and tells which auto takes") {
    const done d = on_devices(3, "doctor --json");
    CAPTURE(d.out);
    REQUIRE(d.code == 0);
    CHECK(d.err.empty());
    CHECK(times(d.out, "\"ordinal\":") == 3);
    CHECK(d.has("\"device\":\"cuda:2\""));
    CHECK(d.has("],\"device\":\"cuda:0\",\"libraries\""));
    CHECK(on_devices(3, "doctor --json --device cuda:2").has("],\"device\":\"cuda:2\",\"libraries\""));
    CHECK(on_devices(3, "doctor").has("auto: models run on cuda:0 "));
    CHECK(on_devices(0, "doctor --json").has("],\"device\":\"cpu\",\"libraries\""));
}

TEST_CASE("--device takes the device of that number, among those that CUDA_VISIBLE_DEVICES leaves") {
    // The device that doctor opens for these.
    const auto opened = [](const std::string& arguments, const std::string& more = "") { return on_devices(2, "doctor --json " + arguments, more); };
    const auto is = [](const done& d, const std::string& device) { return d.code == 0 && d.has("],\"device\":\"" + device + "\",\"libraries\""); };
    CHECK(is(opened(""), "cuda:0"));
    CHECK(is(opened("--device cuda"), "cuda:0"));
    CHECK(is(opened("--device cuda:1"), "cuda:1"));
    CHECK(is(opened("", "GRAFT_DEVICE=cuda:1 "), "cuda:1"));
    CHECK(is(opened("--device cpu", "GRAFT_DEVICE=cuda:1 "), "cpu"));
    const done third = opened("--device cuda:2");
    CHECK(third.refused("device.unavailable"));
    CHECK(contains(third.err, "2 devices"));
    CHECK(opened("--device cuda:0,1").refused("usage"));
    CHECK(opened("--device cuda:").refused("usage"));
    const done one = opened("", "CUDA_VISIBLE_DEVICES=1 ");
    CHECK(times(one.out, "\"ordinal\":") == 1);
    CHECK(one.has("\"ordinal\":0,\"physical\":1,"));
    CHECK(is(one, "cuda:0"));
    CHECK(opened("--device cuda:1", "CUDA_VISIBLE_DEVICES=1 ").refused("device.unavailable"));
    CHECK(is(opened("", "CUDA_VISIBLE_DEVICES= "), "cpu"));
    CHECK(opened("", "GRAFT_REQUIRE_GPU=1 CUDA_VISIBLE_DEVICES= ").refused("device.unavailable"));

    const done bench = on_devices(2, "bench " + demo + " --rounds 1 --device cuda:1 --json");
    CAPTURE(bench.err);
    CHECK(bench.has("\"device\":\"cuda:1\""));
    CHECK(bench.number("device_bytes") > 4 * 46920);
    // None of them is left: a warning, and the CPU.
    const done none = on_devices(2, "bench " + demo + " --rounds 1 --json", "CUDA_VISIBLE_DEVICES= ");
    CHECK(none.has("\"device\":\"cpu\""));
    CHECK(times(none.err, "graft: warning: ") == 1);
}

TEST_CASE("a precision that a GPU does not have is refused, and runs on a CPU that has it with a warning, where any device will do") {
    const std::string old = "GRAFT_SIMULATOR_COMPUTE=7.5 ", verb = "classify " + demo + " " + fish + " --json ";
    const bool on_cpu = program_test::cpu_has_bfloat16();
    for (const std::string device : {"", "--device cuda ", "--device cuda:0 "})
        for (const std::string precision : {"--precision bfloat16", "--precision tf32"}) {
            CAPTURE(device);
            if (on_cpu && device.empty() && precision == "--precision bfloat16") {
                const done d = on_devices(1, verb + precision, old);
                CHECK(d.has("\"device\":\"cpu\""));
                CHECK(d.err.find("running on the CPU") != std::string::npos);
                CHECK(d.err.find("this device has 7.5") != std::string::npos);
                continue;
            }
            const done d = on_devices(1, verb + device + precision, old);
            CHECK(d.refused("device.unavailable"));
            CHECK(d.last().find("needs compute capability 8.0; this device has 7.5") != std::string::npos);
            CHECK(d.out.empty());
            CHECK(times(d.err, "graft: warning: ") == 0);
        }
    CHECK(on_devices(1, verb + "--precision float16", old).has("\"device\":\"cuda:0\""));
}

TEST_CASE("info --placement tells the device of each node") {
    const done gpu = on_devices(2, "info " + demo + " --placement --device cuda:1 --json");
    REQUIRE(gpu.code == 0);
    CHECK(times(gpu.out, "\"device\":\"cuda:1\"") > 10);
    CHECK(gpu.number("device_bytes") > 4 * 46920);
    CHECK(on_devices(2, "info " + demo + " --placement --device cuda:1").has("on cuda:1 "));
    const done cpu = on_devices(1, "info " + demo + " --placement --device cpu --json");
    CHECK(times(cpu.out, "\"device\":\"cuda") == 0);
}

TEST_CASE("pictures are named on a device as on the CPU") {
    const done d = on_devices(1, "classify " + demo + " " + fish + " --device cuda --json --top 1"),
               cpu = graft_program("classify " + demo + " " + fish + " --device cpu --json --top 1");
    CAPTURE(d.err);
    CHECK(d.code == 0);
    CHECK(d.err.empty());
    CHECK(d.has("\"device\":\"cuda:0\""));
    CHECK(d.has("\"label\":\"fish\""));
    CHECK(d.number("probability") == doctest::Approx(cpu.number("probability")).epsilon(1e-2));
}

TEST_CASE("training on several devices learns what one learns, and evaluation on several finds what one finds") {
    made_folder folder;
    put_grays(folder);
    const std::string how = lenet(folder) + "--overwrite --epochs 2 --precision float32 --json --device ";
    const done one = on_devices(4, how + "cuda:0"), two = on_devices(4, how + "cuda:1,0"), four = on_devices(4, how + "cuda:0,1,2,3");
    for (const done* several : {&two, &four}) {
        CAPTURE(several->err);
        REQUIRE(several->code == 0);
        CHECK(several->number("replicas") == (several == &two ? 2 : 4));
        CHECK(several->number("loss") == doctest::Approx(one.number("loss")).epsilon(1e-4));
        CHECK(several->number("best_top1") == one.number("best_top1"));
    }
    CHECK(contains(two.err, "2 replicas on cuda:1,0"));
    CHECK(on_devices(4, how + "cuda:0,1 --replicas 3").refused("usage"));
    CHECK(on_devices(2, how + "cuda:0,2").refused("device.unavailable"));
    const std::string score = "evaluate " + folder.path + "/out/model.onnx " + folder.path + "/val --precision float32 --json --device ";
    const done first = on_devices(4, score + "cuda:0 --batch 3"), all = on_devices(4, score + "cuda:0,1,3 --batch 3"),
               twice = on_devices(4, score + "cuda:1,0 --replicas 4 --batch 3");
    REQUIRE(first.code == 0);
    for (const done* several : {&all, &twice}) {
        CAPTURE(several->err);
        REQUIRE(several->code == 0);
        CHECK(several->has(several == &all ? "\"device\":\"cuda:0,1,3\"" : "\"device\":\"cuda:1,0\""));
        for (const char* key : {"images", "top1", "loss", "calibration_error", "macro_f1"}) CHECK(several->number(key) == first.number(key));
    }
    // One that is lost ends the others.
    CHECK(on_devices(2, score + "cuda:0,1 --batch 1", "GRAFT_SIMULATOR_FAIL=cuGraphLaunch:1:700 ").refused("device.lost"));
    CHECK(on_devices(4, score + "cuda:0,1 --replicas 3").refused("usage"));
    CHECK(on_devices(2, score + "cuda:0,2").refused("device.unavailable"));
}

TEST_CASE("pictures are named, and a model is measured, on several devices") {
    const std::string run = "classify " + demo + " " GRAFT_SOURCE_DIR "/apps/graft/demo/pictures --precision float32 ";
    const done one = on_devices(3, run + "--csv --device cuda:0"), three = on_devices(3, run + "--csv --device cuda:0,1,2");
    CAPTURE(three.err);
    REQUIRE(three.code == 0);
    CHECK(three.out == one.out);
    CHECK(on_devices(3, run + "--json --device cuda:2,1").has("\"device\":\"cuda:2,1\""));
    CHECK(on_devices(3, run + "--json --device cpu,cuda:0").has("\"device\":\"cpu,cuda:0\""));
    const done measured = on_devices(2, "bench " + demo + " --rounds 2 --device cuda:0,1 --json");
    CAPTURE(measured.err);
    REQUIRE(measured.code == 0);
    CHECK(measured.has("\"device\":\"cuda:0,1\""));
    CHECK(measured.has("\"devices\":[{\"device\":\"cuda:0\",\"runs\":"));
    CHECK(measured.number("samples_per_s") > 0);
    // Who takes one device says so.
    CHECK(on_devices(2, "info " + demo + " --placement --device cuda:0,1").refused("usage"));
}

TEST_CASE("a model that was trained on one device scores alike on the others, and the run tells what the GPU did") {
    made_folder folder;
    put_grays(folder);
    const std::string out = folder.path + "/out";
    const done trained = on_devices(2, lenet(folder) + "--epochs 4 --device cuda:1 --precision float32 --json");
    CAPTURE(trained.err);
    REQUIRE(trained.code == 0);
    CHECK(trained.has("\"device\":\"cuda:1\""));
    CHECK(trained.number("device_bytes") > 0);
    CHECK(contains(trained.err, "device:  cuda:1 "));
    const std::string log = file_contents(out + "/metrics.jsonl");
    for (const char* key : {"gpu_utilization", "gpu_memory_access", "gpu_memory_bytes", "gpu_watts", "gpu_celsius", "gpu_throttled"})
        CHECK(times(log, "\"" + std::string(key) + "\":") == 4);
    CHECK(times(log, "null") == 0);
    CHECK(contains(file_contents(out + "/report.html"), "What the GPU did"));
    const std::string score = "evaluate " + out + "/model.onnx " + folder.path + "/val --json ";
    const done cpu = graft_program(score + "--device cpu"), first = on_devices(2, score + "--precision float32"),
               second = on_devices(2, score + "--device cuda:1");
    REQUIRE(cpu.code == 0);
    REQUIRE(first.code == 0);
    CHECK(first.has("\"device\":\"cuda:0\""));
    CHECK(second.has("\"device\":\"cuda:1\""));
    CHECK(cpu.number("top1") == trained.number("best_top1"));
    CHECK(first.number("top1") == cpu.number("top1"));
    CHECK(second.number("top1") == cpu.number("top1"));
    CHECK(first.number("loss") == doctest::Approx(cpu.number("loss")).epsilon(1e-4));
    CHECK(second.number("loss") == doctest::Approx(cpu.number("loss")).epsilon(1e-2));
}

TEST_CASE("a GPU that is slower for heat is told once, with what to do") {
    made_folder folder;
    put_grays(folder);
    const done hot = on_devices(1, lenet(folder) + "--epochs 2", "GRAFT_SIMULATOR_THROTTLE=0x40 ");
    CAPTURE(hot.err);
    REQUIRE(hot.code == 0);
    CHECK(contains(hot.err, "cuda:0 ran slower than it can for 100 % of epoch 1, for heat ("));
    CHECK(contains(hot.err, "nvidia-smi -pl"));
    CHECK(times(hot.err, "ran slower") == 1);
    CHECK(times(file_contents(folder.path + "/out/metrics.jsonl"), "\"gpu_throttled\":1") == 2);
    const done capped = on_devices(1, lenet(folder) + "--epochs 1 --overwrite", "GRAFT_SIMULATOR_THROTTLE=0x4 ");
    CHECK(times(capped.err, "ran slower") == 0);
}

TEST_CASE("a run goes on on another device, and not in another precision") {
    made_folder folder;
    put_grays(folder);
    const std::string run = lenet(folder) + "--checkpoint-every 0 ";
    const std::string fault = "GRAFT_SIMULATOR_FAIL=cuGraphLaunch:30:700 ";
    const done lost = on_devices(1, run + "--epochs 12", fault);
    CAPTURE(lost.err);
    CHECK(lost.code == 1);
    CHECK(lost.refused("device.lost"));
    CHECK(contains(lost.last(), "resume"));
    CHECK(contains(lost.err, "epoch  1/12"));
    const done other = on_devices(1, run + "--epochs 12 --precision bfloat16 --resume");
    CHECK(other.refused("resume.mismatch"));
    CHECK(contains(other.last(), "precision"));
    const done rest = graft_program(run + "--epochs 12 --resume --device cpu --json");
    CAPTURE(rest.err);
    REQUIRE(rest.code == 0);
    CHECK(rest.number("epochs") == 12);
    // What was learnt on the device is part of the run.
    CHECK(times(file_contents(folder.path + "/out/metrics.jsonl"), "gpu_watts") >= 1);
}

TEST_CASE("a device without room for it ends a run with memory.oom and what to do") {
    made_folder folder;
    put_grays(folder);
    const done full = on_devices(1, lenet(folder) + "--epochs 1", "GRAFT_SIMULATOR_MEMORY=524288 ");
    CAPTURE(full.err);
    CHECK(full.code == 1);
    CHECK(full.refused("memory.oom"));
    CHECK(contains(full.last(), "smaller batch"));
    const done limited = on_devices(1, lenet(folder) + "--epochs 1 --memory-limit 256K");
    CHECK(limited.refused("memory.budget"));
    CHECK(contains(limited.last(), "--memory-limit"));
}

TEST_CASE("float16 is trained with a scaled loss, and its checkpoints hold the scale") {
    made_folder folder;
    put_grays(folder);
    for (const char* precision : {"float16", "bfloat16"}) {
        CAPTURE(precision);
        const done d = on_devices(1, lenet(folder) + "--epochs 1 --overwrite --json --precision " + precision);
        CAPTURE(d.err);
        REQUIRE(d.code == 0);
        CHECK(contains(file_contents(folder.path + "/out/checkpoint.safetensors"), "loss_scale") == (std::string(precision) == "float16"));
    }
}

TEST_CASE("bench tells what --deterministic costs on a device, of inference and of training") {
    for (const std::string& what : {demo, std::string("--arch lenet --train full --batch 2")}) {
        CAPTURE(what);
        const std::string bench = "bench " + what + " --rounds 3 --deterministic ";
        const done d = on_devices(1, bench + "--json");
        CAPTURE(d.err);
        REQUIRE(d.code == 0);
        CHECK(d.number("deterministic_cost") > 0);
        CHECK(on_devices(1, bench).has(" times as long as without --deterministic"));
        CHECK(!on_devices(1, "bench " + what + " --rounds 1 --json").has("deterministic_cost"));
        CHECK(!graft_program(bench + "--device cpu --json").has("deterministic_cost"));
    }
}

TEST_CASE("a profile names the steps of a device, which it does not measure, and gives them no time") {
    const made_folder folder;
    const std::string bench = "bench " + demo + " --rounds 2 --device cuda --profile " + folder.path + "/trace.json --profile-nodes 5";
    const done d = on_devices(1, bench + " --json");
    REQUIRE_MESSAGE(d.code == 0, d.err);
    CHECK(d.has("\"operators\":[],\"nodes\":[],\"not_measured\":[{\"operator\":\"Conv\",\"device\":\"cuda:0\",\"calls\":26}"));
    const done text = on_devices(1, bench);
    CHECK(text.has("not measured on cuda:0: Conv, 26 calls"));
    CHECK(!text.has("all steps"));
    CHECK(!text.has("outside of steps"));
    const std::string trace = file_contents(folder.path + "/trace.json");
    CHECK(times(trace, "\"op\":\"run\"") == 2);
    CHECK(times(trace, "\"op\":\"Conv\"") == 0);
}

TEST_CASE("--batch auto on a device tries what fits its memory") {
    const std::string bench = "bench --arch lenet --train head --batch auto --rounds 1 --json";
    const done d = on_devices(1, bench);
    CAPTURE(d.err);
    REQUIRE(d.code == 0);
    CHECK(d.number("batch") >= 8);
    CHECK(d.has("\"batch_trials\":[{\"batch\":8,"));
    CHECK(contains(d.err, " of the GPU's"));
    const done none = on_devices(1, bench, "GRAFT_SIMULATOR_MEMORY=131072 ");
    CAPTURE(none.err);
    CHECK(none.code == 1);
    CHECK(contains(none.err, "batch     8  does not fit: memory.oom: "));
}
#endif
#endif
