// Every system call by which graft reads, writes, checkpoints and caches made to fail in turn, once and for good: EIO, ENOSPC, EMFILE are errors with
// a name (or do not matter), after which old files are what they were and nothing is left open or behind; EINTR and short ones are gone round.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // campaign.hpp says where it was
#include "../data/made_dataset.hpp"
#include "../data/pictures.hpp"
#include "../train/small_runs.hpp"
#include "campaign.hpp"
#include "shim.hpp"

#include <graft/core/file.hpp>
#include <graft/io/onnx_external.hpp>
#include <graft/train.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <dirent.h>
#include <sys/stat.h>

int main(int count, char** arguments) { return run_campaigns(count, arguments); }

namespace {

struct failing_call {
    shim::fault kind;
    bool good;
    long n;

    void begin() { shim::arm(kind, n, good); }
    void end() { shim::disarm(); }
    bool reached() const { return shim::calls() >= n; }
};

int open_files() {
    int files = 0;
    if (DIR* folder = ::opendir("/proc/self/fd")) {
        while (::readdir(folder)) ++files;
        ::closedir(folder);
    }
    return files;
}

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    if (folder.empty()) return names;
    std::error_code none;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, none)) names.push_back(entry.path().string());
    std::sort(names.begin(), names.end());
    return names;
}

// What an operation writes, and where; nothing for one that reads.
struct written {
    std::string folder;  // nothing is left behind here that a run without failures would not leave
    std::string path;    // holds what it did, or what the operation writes, at any time
    std::string old_bytes;
    std::vector<std::string> also;  // names that may be there or not
};

struct how_it_fails {
    const char* name;
    shim::fault kind;
    bool good;
};
constexpr how_it_fails ways[] = {
    {"EIO once", shim::fault::io, false},
    {"EIO for good", shim::fault::io, true},
    {"ENOSPC once", shim::fault::no_space, false},
    {"ENOSPC for good", shim::fault::no_space, true},
    {"EMFILE once", shim::fault::no_files, false},
    {"EMFILE for good", shim::fault::no_files, true},
    {"EINTR once", shim::fault::interrupted, false},
    {"EINTR, often", shim::fault::interrupted, true},
    {"short once", shim::fault::pieces, false},
    {"short, all", shim::fault::pieces, true},
};

void campaign(const char* name, const std::function<operation()>& make, const written& out = {}, long step = 1) {
    std::string expected;
    std::vector<std::string> left;
    for (int warm = 0; warm < 2; ++warm) {
        operation o = make();
        const graft::status first = o.run();
        REQUIRE_MESSAGE(first.ok(), std::string(name) << ": " << std::string(first.ok() ? "" : first.error().what()));
        expected = o.bytes();
        left = names_in(out.folder);
    }
    const std::string whole = out.path.empty() ? "" : file(out.path);
    for (const how_it_fails& way : ways) {
        const bool harmless = way.kind == shim::fault::interrupted || way.kind == shim::fault::pieces;
        const auto named = [harmless](const graft::error& e) {
            if (harmless) return false;
            for (const graft::errc code :
                 {graft::errc::file_open, graft::errc::file_write, graft::errc::image_open, graft::errc::data_open, graft::errc::checkpoint_write,
                  graft::errc::checkpoint_malformed, graft::errc::resume_mismatch, graft::errc::data_too_many_bad})
                if (e.code() == code) return e.where()[0] != 0 && e.detail()[0] != 0;
            return false;
        };
        campaign_row row;
        row.name = name;
        row.how = way.name;
        now_at() = {name, way.name, 0};
        for (failing_call failing{way.kind, way.good, 1};; failing.n += step) {
            now_at().n = failing.n;
            std::string fault;
            {
                operation o = make();
                const std::vector<std::string> there = names_in(out.folder);
                const int before = open_files();
                const long refused = row.refused;
                fault = attempt(o, expected, failing, named, row);
                const bool failed = row.refused != refused;
                if (fault.empty() && open_files() > before && failed) fault = "a file is left open";
                if (fault.empty() && !out.path.empty()) {
                    const std::string now = file(out.path);
                    if (now != out.old_bytes && now != whole) fault = "the file is neither the old one nor the new one";
                    // Where removing fails as well, what was begun stays.
                    if (!way.good)
                        for (const std::string& found : names_in(out.folder))
                            if (!std::count(there.begin(), there.end(), found) && !std::count(left.begin(), left.end(), found) &&
                                !std::count(out.also.begin(), out.also.end(), found))
                                fault = found + " is left behind";
                }
                if (fault.empty() && failing.reached()) fault = fault_afterwards(o, expected);
            }
            if (!fault.empty() && row.faults++ == 0) row.fault = "call " + std::to_string(failing.n) + ", " + shim::last() + ": " + fault;
            if (!failing.reached()) break;
        }
        campaign_table().push_back(row);
        CHECK_MESSAGE(row.faults == 0, std::string(name) << ", " << row.how << ", " << row.faults << " of " << row.points << ": " << row.fault);
    }
}

std::string bytes(const graft::tensor& t) { return {reinterpret_cast<const char*>(t.raw()), t.bytes()}; }
std::string bytes(const graft::image& p) { return {reinterpret_cast<const char*>(p.data()), static_cast<std::size_t>(p.bytes())}; }

template <class T, class F, class B>
operation making(const F& f, const B& bytes_of) {
    auto kept = std::make_shared<std::optional<T>>();
    return {[=]() -> graft::status {
                kept->reset();
                graft::result<T> made = f();
                if (!made.ok()) return made.take_status();
                kept->emplace(std::move(made).value());
                return {};
            },
            [=] { return bytes_of(**kept); }};
}

graft::graph small_graph() {
    graft::builder b("net", 7);
    graft::linear_options fc;
    fc.name = "fc";
    b.output(b.linear(b.relu(b.input("x", graft::dtype::float32, {"N", 8})), 4, fc), "y");
    return b.finish();
}
std::string answers(const graft::model& m) {
    graft::session session(m, {1, nullptr});
    return bytes(session.run(small_steps::numbered(3, {2, 8})).value());
}

}  // namespace

TEST_CASE("Loading a model") {
    const made_folder folder;
    const std::string path = folder.path + "/net.onnx", outside = folder.path + "/outside.onnx";
    graft::must(graft::write_onnx_file(small_graph(), path));
    graft::must(graft::write_onnx_file(small_graph(), outside, 16));
    campaign("load", [&] { return making<graft::model>([&] { return graft::load(path); }, answers); });
    campaign("load, weights outside", [&] { return making<graft::model>([&] { return graft::load(outside); }, answers); });
    shim::map_files(false);
    campaign("load by reading", [&] { return making<graft::model>([&] { return graft::load(outside); }, answers); });
    shim::map_files(true);
}

// Where the kernel has no openat2, or forbids it, every part of a path is opened by itself; what may be opened is the same.
TEST_CASE("External data without openat2") {
    const made_folder folder;
    folder.put("secret", "s");
    folder.put("in/w.bin", "0123456789abcdef");
    folder.put("in/sub/deeper/w.bin", "fedcba9876543210");
    folder.put("in/hard", "h");
    const std::string in = folder.path + "/in";
    std::filesystem::create_hard_link(in + "/hard", in + "/hard2");
    std::filesystem::create_symlink("w.bin", in + "/soft");
    std::filesystem::create_directory_symlink("sub", in + "/softsub");
    std::filesystem::create_symlink("../secret", in + "/out");
    REQUIRE(::mkfifo((in + "/pipe").c_str(), 0600) == 0);
    const auto opened = [&](const std::string& location) {
        const auto file = graft::open_external(in, location, 1000);
        return file.ok() ? std::string(reinterpret_cast<const char*>((*file)->data()), 4) : std::string(graft::text(file.error().code()));
    };
    const int before = open_files();
    for (const int error : {ENOSYS, EPERM, EINVAL, E2BIG}) {
        CAPTURE(error);
        shim::refuse_openat2(error);
        CHECK(opened("w.bin") == "0123");
        CHECK(opened("sub/deeper/w.bin") == "fedc");
        CHECK(opened("./sub//./deeper/w.bin") == "fedc");
        for (const char* bad : {"soft", "softsub/deeper/w.bin", "out", "hard", "hard2", "pipe", "sub", "sub/deeper", "w.bin/x"})
            CHECK_MESSAGE(opened(bad) == "external.path", bad);
        for (const char* absent : {"absent", "sub/absent/w.bin", "sub/deeper/absent"}) CHECK_MESSAGE(opened(absent) == "file.open", absent);
    }
    shim::refuse_openat2(EACCES);
    CHECK(opened("w.bin") == "file.open");
    shim::refuse_openat2(ENOSYS);
    campaign("open external, no openat2", [&] {
        return making<std::string>(
            [&]() -> graft::result<std::string> {
                std::shared_ptr<const graft::mapped_file> file;
                GRAFT_TRY_ASSIGN(file, graft::open_external(in, "sub/deeper/w.bin", 1000));
                return std::string(reinterpret_cast<const char*>(file->data()), file->size());
            },
            [](const std::string& s) { return s; });
    });
    shim::refuse_openat2(0);
    CHECK(opened("w.bin") == "0123");
    CHECK(open_files() == before);
}

TEST_CASE("Pictures and datasets") {
    const made_folder folder;
    const std::string png = folder.put("one.png", golden_file("png colour 2 depth 8")), jpeg = folder.put("one.jpg", golden_file("jpeg 4:2:0"));
    const auto pixels = [](const graft::image& p) { return bytes(p); };
    campaign("decode png", [&] { return making<graft::image>([&] { return graft::decode_file(png); }, pixels); });
    campaign("decode jpeg", [&] { return making<graft::image>([&] { return graft::decode_file(jpeg); }, pixels); });
    for (const char* name : {"a/1.pgm", "a/2.pgm", "a/deeper/3.pgm", "b/4.pgm", "b/5"}) folder.put(std::string("tree/") + name, picture(name[2]));
    put_idx(folder, "idx/train", std::string("\0\1\2\1", 4));
    folder.put("list.csv", "path,label\ntree/a/1.pgm,dog\ntree/b/4.pgm,cat\n");
    folder.put("cifar/data_batch_1.bin", cifar_record(0, 9) + cifar_record(7, 3));
    for (const char* name : {"tree", "idx", "list.csv", "cifar"}) {
        const std::string path = folder.path + "/" + name;
        campaign((std::string("dataset ") + name).c_str(), [&] {
            return making<std::string>(
                [&]() -> graft::result<std::string> {
                    graft::dataset data;
                    GRAFT_TRY_ASSIGN(data, graft::open_dataset(path));
                    // A folder that cannot be read is told, and nothing of it is there.
                    for (const graft::dataset_problem& p : data.problems())
                        if (p.code == graft::errc::data_open) return graft::fail(p.code, p.path, p.detail);
                    std::string all;
                    for (std::int64_t i = 0; i < data.size(); ++i) {
                        graft::image one;
                        GRAFT_TRY_ASSIGN(one, data.read(i));
                        std::uint64_t tag = 0;
                        GRAFT_TRY_ASSIGN(tag, data.tag(i));
                        all += data.name(i) + std::to_string(data.label(i)) + bytes(one) + std::to_string(tag);
                    }
                    return all;
                },
                [](const std::string& s) { return s; });
        });
    }
}

TEST_CASE("The cache of pictures") {
    const made_folder folder;
    const graft::image kept = noise(5, 4, 3), other = noise(3, 3, 3);
    const auto cached = [&](const std::string& where, bool filled) {
        std::filesystem::remove_all(where);
        if (filled) {
            graft::result<std::shared_ptr<graft::image_cache>> cache = graft::image_cache::open(where);
            (*cache)->put({1, 2}, kept);
        }
        return making<std::string>(
            [=]() -> graft::result<std::string> {
                std::shared_ptr<graft::image_cache> cache;
                GRAFT_TRY_ASSIGN(cache, graft::image_cache::open(where));
                cache->put({1, 2}, kept);
                cache->put({3, 4}, other);
                // A cache that fails is one that has less: what it gives is right.
                for (const auto& one : {std::make_pair(graft::image_cache::key{1, 2}, kept), std::make_pair(graft::image_cache::key{3, 4}, other)})
                    if (const graft::image found = cache->find(one.first))
                        if (bytes(found) != bytes(one.second)) return graft::fail(graft::errc::internal, where, "it gives another picture");
                return std::string("right");
            },
            [](const std::string& s) { return s; });
    };
    campaign("cache, new", [&] { return cached(folder.path + "/new", false); });
    campaign("cache, there already", [&] { return cached(folder.path + "/old", true); });
    // What was in it before a call failed is in it afterwards.
    for (long n = 1; n < 12; ++n) {
        const std::string where = folder.path + "/keep";
        (void)cached(where, true);
        shim::arm(shim::fault::io, n, false);
        { const graft::result<std::shared_ptr<graft::image_cache>> none = graft::image_cache::open(where); }
        shim::disarm();
        const graft::result<std::shared_ptr<graft::image_cache>> cache = graft::image_cache::open(where);
        REQUIRE(cache.ok());
        CAPTURE(n);
        CHECK((*cache)->pictures() == 1);
    }
}

TEST_CASE("Writing files") {
    const made_folder folder;
    const graft::graph g = small_steps::loaded(small_graph());
    const graft::named_tensors tensors = {{"first", small_steps::numbered(1, {3, 4})}, {"second", small_steps::numbered(2, {5})}};
    const graft::image picture = noise(5, 4, 3);
    const auto writing = [&](const char* name, const char* as, const std::function<graft::status(const std::string&)>& write,
                             std::vector<std::string> also = {}) {
        const std::string where = folder.path + "/w", path = where + "/" + as;
        for (std::string& one : also) one = where + "/" + one;
        campaign(name,
                 [=] {
                     std::filesystem::remove_all(where);
                     std::filesystem::create_directories(where);
                     std::ofstream(path, std::ios::binary) << "old";
                     return operation{[=] { return write(path); }, [=] { return file(path); }};
                 },
                 {where, path, "old", also});
    };
    writing("save onnx", "net.onnx", [&](const std::string& path) { return graft::write_onnx_file(g, path); });
    writing("save onnx, weights outside", "net.onnx", [&](const std::string& path) { return graft::write_onnx_file(g, path, 16); }, {"net.onnx.data"});
    writing("save safetensors", "x.safetensors", [&](const std::string& path) { return graft::write_safetensors_file(tensors, {}, path); });
    writing("save npy", "x.npy", [&](const std::string& path) { return graft::write_npy(path, tensors[0].second); });
    writing("save png", "x.png", [&](const std::string& path) { return graft::write_png(path, picture); });
}

TEST_CASE("Checkpoints") {
    const made_folder folder;
    const auto at_step = [](int step) {
        return graft::checkpoint{{{"w", small_steps::numbered(static_cast<std::uint64_t>(step), {3, 4})}}, {{"batch", "16"}}, {{"step", std::to_string(step)}}};
    };
    const std::string where = folder.path + "/c", path = where + "/checkpoint.safetensors";
    const auto fresh = [&] {
        std::filesystem::remove_all(where);
        std::filesystem::create_directories(where);
        graft::must(graft::save_checkpoint(path, at_step(1)));
        graft::must(graft::save_checkpoint(path, at_step(2)));
    };
    fresh();
    const std::string second = file(path);
    for (const bool verified : {false, true})
        campaign(verified ? "save checkpoint, known" : "save checkpoint",
                 [&, verified] {
                     fresh();
                     return operation{[&, verified] { return graft::save_checkpoint(path, at_step(3), verified); },
                                      [&] {
                                          // Whatever happened, a resumed run finds one that is whole: the newest, or the one before.
                                          const graft::result<graft::loaded_checkpoint> found = graft::load_checkpoint(path);
                                          return found.ok() && found->found && !found->previous ? *found->contents.find_state("step") : std::string("none");
                                      }};
                 },
                 {where, path, second, {}});
    fresh();
    campaign("load checkpoint", [&] {
        return making<graft::loaded_checkpoint>(
            [&]() -> graft::result<graft::loaded_checkpoint> {
                graft::loaded_checkpoint found;
                GRAFT_TRY_ASSIGN(found, graft::load_checkpoint(path));
                // Taking the one before is told.
                if (found.previous) return graft::fail(graft::errc::checkpoint_malformed, path, found.note);
                if (!found.found) return graft::fail(graft::errc::internal, path, "it is not there");
                return found;
            },
            [](const graft::loaded_checkpoint& c) { return *c.contents.find_state("step") + bytes(*c.contents.find("w")); });
    });
}

TEST_CASE("Logs and folders") {
    const made_folder folder;
    const std::string deep = folder.path + "/d/e/f", log = folder.path + "/log/metrics.jsonl";
    campaign("make folders", [&] {
        std::filesystem::remove_all(folder.path + "/d");
        return operation{[&] { return graft::make_folder(deep); }, [&] { return std::to_string(std::filesystem::is_directory(deep)); }};
    });
    campaign("a log gone on with", [&] {
        std::filesystem::remove_all(folder.path + "/log");
        folder.put("log/metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
        return operation{[&]() -> graft::status {
                             graft::metrics_log opened;
                             GRAFT_TRY_ASSIGN(opened, graft::metrics_log::open(log, 2));
                             GRAFT_TRY(opened.append(3, 1, "val", {{"loss", 0.5}}));
                             return opened.close();
                         },
                         [&] { return file(log); }};
    });
}

// A whole run of training that goes on from a checkpoint: what it reads, writes and keeps.
TEST_CASE("A run of training goes on") {
    const made_folder folder;
    put_pictures(folder);
    const std::string out = folder.path + "/run", kept = folder.path + "/kept";
    graft::trainer_options o = small_options(out);
    o.epochs = 2;
    o.bad_share = 0;  // a picture that cannot be read just now is an error, and not left out
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    struct : graft::training_observer {
        graft::training_verdict on_epoch(const graft::epoch_record&) override { return graft::training_verdict::stop; }
    } stopper;
    REQUIRE(graft::train(small_network("none"), data, o, stopper).ok());
    std::filesystem::rename(out, kept);
    o.resume = true;
    campaign(
        "a run gone on with",
        [&] {
            std::filesystem::remove_all(out);
            std::filesystem::copy(kept, out);
            auto network = std::make_shared<graft::training_network>(small_network("none"));
            return operation{[&, network]() -> graft::status {
                                 graft::training_observer watcher;
                                 auto made = graft::train(*network, data, o, watcher);
                                 return made.ok() ? graft::status() : made.take_status();
                             },
                             [&] { return file(out + "/model.onnx") + std::to_string(graft::run_files(out).value().size() > 3); }};
        },
        {}, 3);
}
