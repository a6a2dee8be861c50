// Every allocation of what graft does made to fail in turn, once and for good: an error with a name, nothing lost, and the same right afterwards.
// GRAFT_FAILURES_TRACE="load:12" prints where the twelfth allocation of `load` comes from.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // campaign.hpp says where it was
#include "../data/made_dataset.hpp"
#include "../data/pictures.hpp"
#include "../train/small_runs.hpp"
#include "allocations.hpp"

#include <graft/classify.hpp>
#include <graft/data/png_encode.hpp>
#include <graft/train.hpp>

#include <cstring>
#include <fstream>
#include <new>
#include <optional>

int main(int count, char** arguments) { return run_campaigns(count, arguments); }

namespace {

std::string bytes(const graft::tensor& t) { return {reinterpret_cast<const char*>(t.raw()), t.bytes()}; }
std::string bytes(const graft::image& p) { return {reinterpret_cast<const char*>(p.data()), static_cast<std::size_t>(p.bytes())}; }

// What `f` gives, put into `kept`; its failure.
template <class T, class F>
graft::status keep(std::optional<T>& kept, const F& f) {
    kept.reset();
    graft::result<T> made = f();
    if (!made.ok()) return made.take_status();
    kept.emplace(std::move(made).value());
    return {};
}
template <class T, class F, class B>
operation making(const F& f, const B& bytes_of) {
    auto kept = std::make_shared<std::optional<T>>();
    return {[=] { return keep<T>(*kept, f); }, [=] { return bytes_of(**kept); }};
}

// Convolutions, normalisation, a residual, pooling and a classifier; an If, a Loop's kind of body and a shape that only the run tells.
graft::graph small_graph() {
    graft::builder b("net", 7);
    graft::conv2d_options conv;
    conv.kernel = 3, conv.padding = 1, conv.bias = false, conv.name = "conv1";
    graft::value_id x = b.input("x", graft::dtype::float32, {"N", 3, 8, 8});
    x = b.relu(b.batch_norm(b.conv2d(x, 6, conv)));
    conv.name = "conv2";
    x = b.relu(b.add(x, b.conv2d(x, 6, conv)));
    graft::linear_options fc;
    fc.name = "fc";
    x = b.linear(b.flatten(b.global_average_pool(x)), 4, fc);
    b.output(x, "y");
    b.output(b.apply("NonZero", {b.apply("Relu", {x})}), "positive");
    return b.finish();
}
graft::tensor small_input() { return small_steps::numbered(3, {2, 3, 8, 8}); }
std::string answers(const graft::model& m) {
    graft::session session(m, {1, nullptr});
    const std::vector<graft::named_tensor> out = session.run({{"x", small_input()}});
    std::string all;
    for (const graft::named_tensor& t : out) all += t.name + graft::text(t.value.shape()) + bytes(t.value);
    return all;
}

}  // namespace

TEST_CASE("Loading a model") {
    const made_folder folder;
    const std::string path = folder.path + "/net.onnx", outside = folder.path + "/outside.onnx";
    const graft::model net = graft::load(small_graph());
    graft::must(net.save(path));
    graft::must(graft::write_onnx_file(net.graph(), outside, 16));
    REQUIRE(file(outside + ".data").size() > 1000);
    const std::string whole = file(path);
    campaign("load", [&] { return making<graft::model>([&] { return graft::load(path); }, answers); });
    campaign("load from memory", [&] { return making<graft::model>([&] { return graft::load(whole.data(), whole.size()); }, answers); });
    campaign("load, weights outside", [&] { return making<graft::model>([&] { return graft::load(outside); }, answers); });
}

TEST_CASE("A run") {
    const graft::tensor x = small_input();
    for (const int threads : {1, 3}) {
        const auto run = [&](bool first) {
            auto net = std::make_shared<graft::model>(graft::load(small_graph()).value());
            auto session = std::make_shared<std::optional<graft::session>>();
            auto out = std::make_shared<std::vector<graft::named_tensor>>();
            const std::vector<graft::named_tensor> inputs = {{"x", x}};
            const auto go = [=]() -> graft::status {
                if (!*session) session->emplace(*net, graft::session_options{threads, nullptr});
                graft::result<std::vector<graft::named_tensor>> made = (*session)->run(inputs);
                if (!made.ok()) {
                    if (first) session->reset();
                    return made.take_status();
                }
                *out = std::move(made).value();
                return {};
            };
            if (!first) graft::must(go());
            return operation{go, [=] {
                                 std::string all;
                                 for (const graft::named_tensor& t : *out) all += t.name + graft::text(t.value.shape()) + bytes(t.value);
                                 return all;
                             }};
        };
        campaign(threads == 1 ? "first run of a shape" : "first run, 3 threads", [&] { return run(true); });
        campaign(threads == 1 ? "second run of it" : "second run, 3 threads", [&] { return run(false); });
    }
}

TEST_CASE("A training step") {
    const auto network = [](bool normalised) {
        graft::builder b("small", 4);
        graft::conv2d_options conv;
        conv.kernel = 3, conv.stride = 2, conv.bias = false, conv.name = "conv1";
        graft::value_id x = b.conv2d(b.input("input", graft::dtype::float32, {"N", 3, 6, 6}), 4, conv);
        if (normalised) x = b.batch_norm(x);
        graft::linear_options fc;
        fc.name = "fc";
        b.output(b.linear(b.flatten(b.global_average_pool(b.relu(x))), 3, fc), "logits");
        return b.finish();
    };
    const graft::graph whole = small_steps::loaded(network(true)), without = small_steps::loaded(network(false));  // what looks across the batch cannot be cut
    const graft::tensor x = small_steps::numbered(5, {4, 3, 6, 6});
    const graft::tensor t = graft::tensor::zeros(graft::dtype::float32, {4, 3});
    for (int i = 0; i < 4; ++i) t.data<float>()[i * 3 + i % 3] = 1;
    for (const int parts : {1, 2})
        for (const bool first : {true, false}) {
            graft::step_options options;
            options.micro_batches = parts;
            const graft::graph& g = parts == 1 ? whole : without;
            const auto make = [&] {
                auto step =
                    std::make_shared<graft::training_step>(graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), options).value());
                auto before = std::make_shared<std::string>();
                const auto state = [=] {
                    std::string all;
                    for (const graft::training_state& s : step->state()) all += bytes(s.value);
                    return all;
                };
                auto done = std::make_shared<int>(0);
                const auto go = [=]() -> graft::status {
                    graft::step_input in;
                    in.inputs = &x, in.targets = &t, in.scale = 0.25, in.learning_rate = 0.01, in.step = *done;
                    graft::pool_executor pool(1);
                    graft::status ended = step->run(in, pool);
                    if (ended.ok()) ++*done;
                    return ended;
                };
                if (!first) graft::must(go());
                *before = state();
                // Once more after a failure: from the state that was there before, to the same bytes.
                auto tried = std::make_shared<bool>(false);
                return operation{[=]() -> graft::status {
                                     if (*tried && state() != *before) return graft::fail(graft::errc::internal, "step", "its state is not what it was");
                                     *tried = true;
                                     graft::status ended = go();
                                     return ended;
                                 },
                                 [=] {
                                     std::string all = state() + bytes(step->logits()) + std::to_string(step->loss());
                                     // What went well is taken back, so that it can be tried again.
                                     std::size_t at = 0;
                                     for (graft::training_state& s : step->state()) {
                                         std::memcpy(s.value.raw(), before->data() + at, s.value.bytes());
                                         at += s.value.bytes();
                                     }
                                     step->state_changed();
                                     *done = first ? 0 : 1;
                                     return all;
                                 }};
            };
            campaign(parts == 1 ? (first ? "first training step" : "second training step") : (first ? "first step, in parts" : "second step, in parts"), make);
        }
    campaign("making a training step", [&] {
        graft::step_options options;
        // The arguments are the caller's.
        const graft::value_id logits = graft::logits_of(whole);
        const std::vector<graft::parameter> parameters = graft::parameters_of(whole);
        return making<graft::training_step>(
            [&whole, parameters, logits, options]() -> graft::result<graft::training_step> {
                graft::graph copy;
                std::vector<graft::parameter> learning;
                try {
                    copy = whole, learning = parameters;
                } catch (const std::bad_alloc&) {
                    return graft::status::no_memory();
                }
                return graft::training_step::make(std::move(copy), logits, std::move(learning), options);
            },
            [](const graft::training_step& s) { return std::to_string(s.state().size()); });
    });
}

TEST_CASE("Decoding pictures") {
    const std::pair<const char*, const char*> kinds[] = {
        {"decode png", "png colour 2 depth 8"},
        {"decode png, palette", "png palette depth 4"},
        {"decode png, interlaced", "png interlaced, rgb, 11x9"},
        {"decode jpeg", "jpeg 4:2:0"},
        {"decode jpeg, progressive", "jpeg 4:4:4, progressive, exif 6"},
        {"decode jpeg, cmyk", "jpeg cmyk, as Adobe writes it"},
        {"decode bmp", "bmp 24 bits"},
        {"decode bmp, rle", "bmp rle8"},
        {"decode pnm", "ppm"},
        {"decode pnm, plain", "pgm plain"},
#if GRAFT_HAS_LIBWEBP
        {"decode webp", "webp lossless"},
#endif
    };
    const made_folder folder;
    for (const auto& kind : kinds) {
        const std::string encoded = golden_file(kind.second);
        if (!graft::decode(encoded.data(), encoded.size(), "picture").ok()) continue;  // a build without this decoder
        const std::string path = folder.put("picture", encoded);
        of_libraries = std::string(kind.first) != "decode webp";  // libwebp 1.2.4 reads through a null pointer where its own malloc fails
        campaign(kind.first, [&] { return making<graft::image>([&] { return graft::decode_file(path); }, [](const graft::image& p) { return bytes(p); }); });
    }
    of_libraries = true;
    const graft::image picture = noise(5, 4, 3);
    campaign("encode png", [&] { return making<std::string>([&] { return graft::encode_png(picture); }, [](const std::string& s) { return s; }); });
    const graft::preprocess_spec spec = graft::parse_preprocess("imagenet,resize=8,crop=6");
    campaign("preprocess",
             [&] { return making<graft::tensor>([&] { return graft::preprocess(picture, spec, {}); }, [](const graft::tensor& t) { return bytes(t); }); });
}

namespace {

std::string everything_in(const graft::dataset& data) {
    std::string all;
    for (const std::string& c : data.classes()) all += c + ",";
    for (const graft::dataset_problem& p : data.problems()) all += p.path + p.detail;
    for (std::int64_t i = 0; i < data.size(); ++i) all += data.name(i) + std::to_string(data.label(i));
    return all;
}

}  // namespace

TEST_CASE("Datasets") {
    const made_folder folder;
    for (const char* name : {"a/1.pgm", "a/2.pgm", "a/deeper/3.pgm", "b/4.pgm", "b/readme.txt", "val/x"})
        if (name[0] != 'v') folder.put(std::string("tree/") + name, name[2] == 'r' ? "text" : picture(name[2]));
    put_idx(folder, "idx/train", std::string("\0\1\2\1", 4));
    folder.put("list.csv", "path,label\ntree/a/1.pgm,dog\ntree/b/4.pgm,cat\n");
    folder.put("cifar/data_batch_1.bin", cifar_record(0, 9) + cifar_record(7, 3));
    // 6146 times the byte 7, by Python's gzip.
    folder.put("packed/data_batch_1.bin.gz", from_base64("H4sIAAAAAAACA+3BMQ0AAADDoLP+Hc/HAhQAAAAAAPBnwBQhOwIYAAA="));
    put_idx(folder, "scored/train", std::string("\0\1\2\1", 4));
    put_idx(folder, "scored/t10k", std::string("\0\1", 2));
    std::filesystem::remove(folder.path + "/scored/t10k-labels-idx1-ubyte");
    folder.put("scored/t10k-labels-idx1-ubyte.gz", from_base64("H4sIAAAAAAACA2Ng4GBkYGBgYmAEAI+cm+IKAAAA"));
    for (const char* name : {"tree", "idx", "list.csv", "cifar", "packed", "scored"}) {
        const std::string path = folder.path + "/" + name;
        campaign((std::string("open dataset ") + name).c_str(),
                 [&] { return making<graft::dataset>([&] { return graft::open_dataset(path); }, everything_in); });
    }
    const graft::dataset data = graft::open_dataset(folder.path + "/tree");
    campaign("read a sample", [&] { return making<graft::image>([&] { return data.read(1); }, [](const graft::image& p) { return bytes(p); }); });
    campaign("find pictures", [&] {
        return making<graft::picture_files>([&] { return graft::find_pictures(folder.path); },
                                            [](const graft::picture_files& f) {
                                                std::string all;
                                                for (const std::string& p : f.paths) all += p + "\n";
                                                return all + std::to_string(f.problems.size());
                                            });
    });
    graft::loader_options options;
    options.batch_size = 3;
    options.workers = 1;
    options.ahead = 1;
    options.sample.preprocess = graft::parse_preprocess("imagenet,resize=2x2");
    campaign("an epoch of batches", [&] {
        auto made = std::make_shared<graft::loader>(graft::loader::make(data, options).value());
        auto all = std::make_shared<std::string>();
        all->reserve(4096);
        return operation{[=]() -> graft::status {
                             all->clear();
                             GRAFT_TRY(made->start(0));
                             graft::batch b;
                             for (std::int64_t i = 0; i < made->batches(); ++i) {
                                 GRAFT_TRY(made->next(b));
                                 all->append(reinterpret_cast<const char*>(b.inputs.raw()), b.inputs.bytes());
                             }
                             made->stop();
                             return {};
                         },
                         [=] { return *all; }};
    });
    campaign("making a loader", [&] {
        return making<graft::loader>([&] { return graft::loader::make(data, options); }, [](const graft::loader& l) { return std::to_string(l.batches()); });
    });
}

namespace {

// Writing a file where an older one lies: it is the old one or the new one, and nothing else is left in its folder.
void campaign_of_writing(const char* name, const std::string& path, const std::string& beside, const std::function<graft::status()>& write) {
    const std::string folder = path.substr(0, path.rfind('/'));
    graft::must(write());
    const std::string whole = file(path);
    campaign(name, [&, path] {
        std::filesystem::remove_all(folder);
        std::filesystem::create_directories(folder);
        std::ofstream(path, std::ios::binary) << "old";
        auto tried = std::make_shared<bool>(false);
        return operation{[=, &write]() -> graft::status {
                             if (*tried) {
                                 const std::string there = file(path);
                                 if (there != "old" && there != whole) return graft::fail(graft::errc::internal, path, "neither the old file nor the new one");
                                 for (const auto& entry : std::filesystem::directory_iterator(folder)) {
                                     const std::string found = entry.path().string();
                                     if (found != path && (beside.empty() || found != beside))
                                         return graft::fail(graft::errc::internal, found, "it was left behind");
                                 }
                             }
                             *tried = true;
                             return write();
                         },
                         [=] { return file(path); }};
    });
}

}  // namespace

TEST_CASE("Writing and reading files") {
    const made_folder folder;
    const graft::graph g = small_steps::loaded(small_graph());
    const graft::named_tensors tensors = {{"first", small_steps::numbered(1, {3, 4})}, {"second", small_steps::numbered(2, {5})}};
    const graft::checkpoint kept{tensors, {{"batch", "16"}, {"lr", "0x1p-3"}}, {{"step", "7"}}};
    const std::string model = folder.path + "/w/net.onnx", outside = folder.path + "/w/outside.onnx", weights = folder.path + "/w/x.safetensors",
                      array = folder.path + "/w/x.npy", png = folder.path + "/w/x.png", point = folder.path + "/w/checkpoint.safetensors";
    const graft::named_texts notes = {{"a", "b"}};
    const graft::image picture = noise(5, 4, 3);
    folder.make("w");
    campaign_of_writing("save onnx", model, "", [&] { return graft::write_onnx_file(g, model); });
    campaign_of_writing("save onnx, weights outside", outside, outside + ".data", [&] { return graft::write_onnx_file(g, outside, 16); });
    campaign_of_writing("save safetensors", weights, "", [&] { return graft::write_safetensors_file(tensors, notes, weights); });
    campaign_of_writing("save npy", array, "", [&] { return graft::write_npy(array, tensors[0].second); });
    campaign_of_writing("save png", png, "", [&] { return graft::write_png(png, picture); });
    campaign_of_writing("save checkpoint", point, graft::previous_checkpoint(point), [&] { return graft::save_checkpoint(point, kept); });

    graft::must(graft::write_safetensors_file(tensors, {{"a", "b"}}, weights));
    graft::must(graft::write_npy(array, tensors[0].second));
    std::filesystem::remove(point);
    graft::must(graft::save_checkpoint(point, kept));
    graft::must(graft::save_checkpoint(point, kept));
    REQUIRE(file(graft::previous_checkpoint(point)) == file(point));
    campaign("load safetensors", [&] {
        return making<graft::safetensors>([&] { return graft::read_safetensors_file(weights); },
                                          [](const graft::safetensors& s) { return bytes(s.load(*s.find("first")).value()); });
    });
    campaign("load npy", [&] { return making<graft::tensor>([&] { return graft::read_npy_file(array); }, [](const graft::tensor& t) { return bytes(t); }); });
    campaign("load checkpoint", [&] {
        return making<graft::loaded_checkpoint>([&] { return graft::load_checkpoint(point); },
                                                [](const graft::loaded_checkpoint& c) {
                                                    return std::to_string(c.found) + std::to_string(c.previous) + c.note + bytes(*c.contents.find("second")) +
                                                           *c.contents.find_state("step");
                                                });
    });
    campaign("read a log to go on", [&] {
        const std::string log = folder.put("w/metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
        return operation{[=]() -> graft::status {
                             graft::result<graft::metrics_log> made = graft::metrics_log::open(log, 2);
                             if (!made.ok()) return made.take_status();
                             return made->close();
                         },
                         [=] { return file(log); }};
    });
}

TEST_CASE("Classifying a picture") {
    const std::string model = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx", path = GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/boat-1.png";
    graft::classifier_options options;
    options.session.threads = 1;
    graft::classifier named = graft::classifier::load(model, options);
    campaign("classify", [&] {
        return making<std::vector<graft::prediction>>([&] { return named.classify(path, 3); },
                                                      [](const std::vector<graft::prediction>& all) {
                                                          std::string said;
                                                          for (const graft::prediction& p : all) said += p.label + std::to_string(p.probability) + " ";
                                                          return said;
                                                      });
    });
}

// A whole run: datasets, loaders, steps, scoring, checkpoints, logs, the model.
TEST_CASE("Training") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/run");
    o.epochs = 2;
    o.overwrite = true;
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    const graft::training_network network = small_network("none");
    campaign(
        "a run of training",
        [&] {
            // What is handed in is copied by the caller, whose memory does not fail.
            auto copies = std::make_shared<std::vector<graft::training_network>>(2, network);
            return operation{[&, copies]() -> graft::status {
                                 graft::training_observer watcher;
                                 graft::training_network own = std::move(copies->back());
                                 copies->pop_back();
                                 return graft::train(std::move(own), data, o, watcher).take_status();
                             },
                             [&] { return file(o.out + "/model.onnx"); }};
        },
        211);
}
