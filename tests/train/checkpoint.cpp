// Checkpoints: what was saved is loaded, whatever happens to the files: damage, a full disk, kill -9 while writing.
#include "../file_contents.hpp"
#include "../skipped.hpp"

#include <doctest/doctest.h>
#include <graft/train/checkpoint.hpp>
#include <graft/train/crc32c.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

TEST_CASE("CRC-32C has the values of RFC 3720, in one piece or several") {
    std::vector<std::uint8_t> bytes(32, 0);
    CHECK(graft::crc32c(0, bytes.data(), 32) == 0x8a9136aau);
    for (auto& b : bytes) b = 0xff;
    CHECK(graft::crc32c(0, bytes.data(), 32) == 0x62a8ab43u);
    for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::uint8_t>(i);
    CHECK(graft::crc32c(0, bytes.data(), 32) == 0x46dd794eu);
    CHECK(graft::crc32c(0, "123456789", 9) == 0xe3069283u);
    CHECK(graft::crc32c(graft::crc32c(0, "12345", 5), "6789", 4) == 0xe3069283u);
    CHECK(graft::crc32c(0, nullptr, 0) == 0);
}

TEST_CASE("The checkpoint before has a name of its own") {
    CHECK(graft::previous_checkpoint("checkpoint.safetensors") == "checkpoint.previous.safetensors");
    CHECK(graft::previous_checkpoint("a.b/checkpoint") == "a.b/checkpoint.previous");
    CHECK(graft::previous_checkpoint("/x/.hidden") == "/x/.hidden.previous");
    CHECK(graft::previous_checkpoint("checkpoint") == "checkpoint.previous");
    CHECK(graft::previous_checkpoint(".hidden") == ".hidden.previous");
}

TEST_CASE("Settings that differ are named, with both values") {
    const graft::named_texts saved = {{"batch", "16"}, {"model", "a"}};
    CHECK(graft::compare_settings(saved, {{"model", "a"}, {"batch", "16"}}).ok());
    const graft::status batch = graft::compare_settings(saved, {{"batch", "32"}, {"model", "b"}});
    REQUIRE(!batch.ok());
    CHECK(batch.error().code() == graft::errc::resume_mismatch);
    CHECK(batch.error().where() == "batch");
    CHECK(batch.error().detail().find("it was 16 when the checkpoint was made, and is 32 now") != std::string::npos);
    CHECK(graft::compare_settings(saved, {{"batch", "16"}}).error().where() == "model");
    CHECK(graft::compare_settings(saved, {{"batch", "16"}, {"model", "a"}, {"lr", "1"}}).error().detail().find("the learning rate was nothing when") == 0);
    // Numbers are kept to the bit, and told as they were given.
    const auto told = [](const char* before, const char* now) { return graft::compare_settings({{"lr", before}}, {{"lr", now}}).error().detail(); };
    CHECK(told("0x1.89374bc6a7efap-9", "0x1.47ae147ae147bp-7").find("was 0.003 when the checkpoint was made, and is 0.01 now") != std::string::npos);
    CHECK(told("0x1.99999ap-4 -0x1p+1", "0x0p+0").find("was 0.1 -2 when the checkpoint was made, and is 0 now") != std::string::npos);
    CHECK(told("", "a b").find("was nothing when the checkpoint was made, and is a b now") != std::string::npos);
    CHECK(told("0xgreen 0x", "a\x1b").find("was 0xgreen 0x when the checkpoint was made, and is a\\x1b now") != std::string::npos);
}

#if !defined(_WIN32)
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__) && defined(__x86_64__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#include <cerrno>
#include <cstddef>
#endif

namespace {

std::vector<std::string> files_in(const std::string& path) {
    std::vector<std::string> names;
    DIR* folder = ::opendir(path.c_str());
    while (const dirent* entry = ::readdir(folder))
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) names.push_back(entry->d_name);
    ::closedir(folder);
    return names;
}

struct folder {
    std::string path;
    folder() {
        char name[] = "/tmp/graft_checkpoint_XXXXXX";
        path = ::mkdtemp(name);
    }
    ~folder() {
        for (const std::string& file : files_in(path)) ::unlink((path + "/" + file).c_str());
        ::rmdir(path.c_str());
    }
    std::string newest() const { return path + "/checkpoint.safetensors"; }
    std::string previous() const { return path + "/checkpoint.previous.safetensors"; }
};

graft::checkpoint at_step(std::int64_t step, std::int64_t size = 100) {
    graft::checkpoint c;
    graft::tensor w = graft::tensor::make(graft::dtype::float32, {size, 3}).value();
    for (std::int64_t i = 0; i < w.elements(); ++i) w.data<float>()[i] = static_cast<float>(step * 7 + i);
    const std::int64_t count[] = {step};
    c.tensors.emplace_back("weights/w", w);
    c.tensors.emplace_back("count", graft::tensor::from(count, {}).value());
    c.tensors.emplace_back("empty", graft::tensor::make(graft::dtype::float16, {0, 4}).value());
    c.settings = {{"batch", "16"}, {"model", "net \"x\" \xc3\xa9"}};
    c.state = {{"step", std::to_string(step)}, {"order", "a"}};
    return c;
}

bool equal(const graft::checkpoint& a, const graft::checkpoint& b) {
    if (a.settings != b.settings || a.state != b.state || a.tensors.size() != b.tensors.size()) return false;
    for (const auto& t : a.tensors) {
        const graft::tensor* o = b.find(t.first);
        if (!o || o->type() != t.second.type() || o->shape() != t.second.shape()) return false;
        if (o->bytes() && std::memcmp(o->raw(), t.second.raw(), o->bytes()) != 0) return false;
    }
    return true;
}

void overwrite(const std::string& path, const std::string& bytes) {
    std::FILE* f = std::fopen(path.c_str(), "wb");
    REQUIRE(f);
    CHECK(std::fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size());
    std::fclose(f);
}

// The step of the checkpoint that is loaded; -1 where there is none, -2 for an error.
std::int64_t loaded_step(const std::string& path) {
    auto loaded = graft::load_checkpoint(path);
    if (!loaded.ok()) return -2;
    if (!loaded->found) return -1;
    const std::int64_t step = std::atoll(loaded->contents.find_state("step")->c_str());
    return equal(loaded->contents, at_step(step, loaded->contents.find("weights/w")->shape()[0])) ? step : -2;
}

constexpr int skipped = 77;

// Runs f in a process of its own, and gives what f does: the exit code.
template <class F>
int in_child(const F& f) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(f());
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// 0 where a save ended as it has to when it cannot write.
int refused(const graft::status& s, const std::string& path) {
    return !s.ok() && s.error().code() == graft::errc::checkpoint_write && s.error().where() == path ? 0 : 1;
}

#if defined(__linux__) && defined(__x86_64__)
// From now on a call of the system ends so in this process. False where the kernel does not do that.
bool from_now_on(int call, unsigned action) {
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {4, rules};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// In the place of write: every other call is interrupted, the others take a thousand bytes at most.
void write_in_pieces(int, siginfo_t*, void* context) {
    static int calls = 0;
    const int before = errno;
    greg_t* const r = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const iovec piece = {reinterpret_cast<void*>(r[REG_RSI]), r[REG_RDX] < 1000 ? static_cast<std::size_t>(r[REG_RDX]) : 1000};
    r[REG_RAX] = ++calls % 2 ? -EINTR : ::writev(static_cast<int>(r[REG_RDI]), &piece, 1);
    errno = before;
}
#endif

}  // namespace

TEST_CASE("A checkpoint comes back as it was saved, and the one before is kept") {
    const folder here;
    auto none = graft::load_checkpoint(here.newest());
    REQUIRE(none.ok());
    CHECK(!none->found);
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(1)).ok());
    CHECK(files_in(here.path).size() == 1);
    struct stat info;
    REQUIRE(::stat(here.newest().c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(loaded_step(here.newest()) == 1);
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(2)).ok());
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(3)).ok());
    CHECK(loaded_step(here.newest()) == 3);
    CHECK(loaded_step(here.previous()) == 2);
    CHECK(files_in(here.path).size() == 2);
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(4), true).ok());
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(3), true).ok());
    CHECK(loaded_step(here.previous()) == 4);
    const std::string once = file_contents(here.newest());
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(3)).ok());
    CHECK(file_contents(here.newest()) == once);
}

TEST_CASE("Other programs read a checkpoint as a safetensors file") {
    const folder here;
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(5)).ok());
    const graft::safetensors file = graft::read_safetensors_file(here.newest()).value();
    CHECK(file.find("weights/w")->extents == std::vector<std::int64_t>{100, 3});
    CHECK(*file.find_metadata("format") == "graft.checkpoint.1");
}

TEST_CASE("Any damaged byte is found, and the checkpoint before is taken instead") {
    const folder here;
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(1, 4)).ok());
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(2, 4)).ok());
    const std::string good = file_contents(here.newest());
    int padding = 0;
    for (std::size_t i = 0; i < good.size(); ++i) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ 1);
        overwrite(here.newest(), bad);
        const std::int64_t step = loaded_step(here.newest());
        // A space of the header's padding that becomes '!' is a fault too: only equal contents may still load as step 2.
        if (step != 1) CHECK_MESSAGE(step == 2, "byte " << i);
        padding += step == 2;
    }
    CHECK(padding == 0);
    for (std::size_t n = 0; n < good.size(); n += 13) {
        overwrite(here.newest(), good.substr(0, n));
        CHECK(loaded_step(here.newest()) == 1);
    }
    auto loaded = graft::load_checkpoint(here.newest()).value();
    CHECK(loaded.previous);
    CHECK(loaded.note.find(here.newest() + ": ") != std::string::npos);
    CHECK(loaded.note.find("; the one before is taken: " + here.previous()) != std::string::npos);
    // Saving over a damaged file keeps the good one behind it.
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(3, 4)).ok());
    CHECK(loaded_step(here.previous()) == 1);
    ::unlink(here.newest().c_str());
    CHECK(loaded_step(here.newest()) == 1);
    CHECK(graft::load_checkpoint(here.newest())->note == here.newest() + " is not there; the one before is taken: " + here.previous());
}

TEST_CASE("Where no checkpoint is whole the error says so, and what is no checkpoint is not taken for one") {
    const folder here;
    overwrite(here.newest(), "not a checkpoint");
    auto loaded = graft::load_checkpoint(here.newest());
    REQUIRE(!loaded.ok());
    CHECK(loaded.error().code() == graft::errc::checkpoint_malformed);
    CHECK(loaded.error().where() == here.newest());
    REQUIRE(graft::write_safetensors_file({}, {{"format", "pt"}}, here.newest()).ok());
    CHECK(graft::load_checkpoint(here.newest()).error().code() == graft::errc::checkpoint_malformed);
    REQUIRE(graft::write_safetensors_file({}, {{"format", "graft.checkpoint.9"}, {"settings", "[]"}, {"state", "[]"}, {"crc32c", "[]"}}, here.newest()).ok());
    CHECK(graft::load_checkpoint(here.newest()).error().detail().find("another version") != std::string::npos);
    overwrite(here.previous(), "nor this one");
    const auto neither = graft::load_checkpoint(here.newest());
    REQUIRE(!neither.ok());
    CHECK(neither.error().detail().find("no checkpoint here is whole (checkpoint.malformed: " + here.newest() +
                                        ": it was written by another version of graft: 'graft.checkpoint.9'; safetensors.malformed: " + here.previous() +
                                        ": ") == 0);
    ::unlink(here.previous().c_str());
    ::unlink(here.newest().c_str());
    REQUIRE(::mkfifo(here.newest().c_str(), 0600) == 0);
    CHECK(graft::load_checkpoint(here.newest()).error().code() == graft::errc::checkpoint_malformed);
    CHECK(graft::save_checkpoint(here.newest(), at_step(1)).error().code() == graft::errc::checkpoint_write);
    struct stat info;
    REQUIRE(::stat(here.newest().c_str(), &info) == 0);
    CHECK(S_ISFIFO(info.st_mode));
}

TEST_CASE("Metadata that are no lists of pairs, or of other tensors, are refused though their checksum fits") {
    const folder here;
    // As the file has it: format, settings, state and checksums, and over all of these one number more.
    const auto told = [&](const char* settings, const char* state, const char* sums) {
        graft::named_texts texts = {{"format", "graft.checkpoint.1"}, {"settings", settings}, {"state", state}, {"crc32c", sums}};
        std::uint32_t crc = 0;
        for (const auto& t : texts)
            for (const std::string* part : {&t.first, &t.second}) {
                const std::uint64_t size = part->size();
                crc = graft::crc32c(graft::crc32c(crc, &size, sizeof size), part->data(), part->size());
            }
        char hex[12];
        std::snprintf(hex, sizeof hex, "%08x", static_cast<unsigned>(crc));
        texts.emplace_back("crc32c.metadata", hex);
        const float one = 1;
        REQUIRE(graft::write_safetensors_file({{"w", graft::tensor::scalar(one).value()}}, texts, here.newest()).ok());
        const auto loaded = graft::load_checkpoint(here.newest());
        return loaded.ok() ? std::string() : loaded.error().detail();
    };
    const auto says = [&](const std::string& detail, const char* what) { return detail.find(here.newest() + ": " + what) != std::string::npos; };
    // The checksum of the four bytes of 1.0f, by Python's crc32c.
    const char* const sum = R"([["w","F32[] dd54c4ab"]])";
    CHECK(told("[]", R"([["step","7"]])", sum) == "");
    CHECK(*graft::load_checkpoint(here.newest())->contents.find_state("step") == "7");
    CHECK(graft::load_checkpoint(here.newest())->contents.find("w")->data<float>()[0] == 1);
    CHECK(graft::load_checkpoint(here.newest())->contents.find("v") == nullptr);
    CHECK(graft::load_checkpoint(here.newest())->contents.find_state("v") == nullptr);
    const char* const no_pairs = "its settings or its state are no list of pairs";
    for (const char* bad :
         {"{}", R"({"a":["b","c"]})", "7", "[7]", "[{}]", "[[]]", R"([["a"]])", R"([["a","b","c"]])", R"([[7,"b"]])", R"([["a",7]])", R"([["a","b"],["c"]])"}) {
        CAPTURE(bad);
        CHECK(says(told(bad, "[]", sum), no_pairs));
        CHECK(says(told("[]", bad, sum), no_pairs));
        CHECK(says(told("[]", "[]", bad), no_pairs));
    }
    CHECK(told("[", "[]", sum).find("json.malformed") != std::string::npos);
    CHECK(says(told("[]", "[]", "[]"), "it has not the tensors that it had when it was written"));
    CHECK(says(told("[]", "[]", R"([["v","F32[] dd54c4ab"]])"), "tensor 'v' is missing"));
    CHECK(says(told("[]", "[]", R"([["w","F32[1] dd54c4ab"]])"), "the checksum of tensor 'w' does not fit"));
    // What no file can hold is not begun.
    for (const graft::tensor& none : {graft::tensor(), graft::tensor::make(graft::dtype::int4, {2}).value()}) {
        const graft::status s = graft::save_checkpoint(here.path + "/other", {{{"t", none}}, {}, {}});
        REQUIRE(!s.ok());
        CHECK(s.error().code() == graft::errc::tensor_dtype);
        CHECK(s.error().where() == "tensor 't'");
    }
    CHECK(files_in(here.path).size() == 1);
}

TEST_CASE("A checkpoint that cannot be written leaves the old one as it was, and no temporary") {
    const folder here;
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(1)).ok());
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(2)).ok());
    const std::string newest = file_contents(here.newest()), previous = file_contents(here.previous());
    for (const std::string& path : {here.path + "/absent/c.safetensors", std::string(), here.newest() + std::string(1, '\0') + "x"}) {
        const graft::status s = graft::save_checkpoint(path, at_step(3));
        REQUIRE(!s.ok());
        CHECK(s.error().code() == graft::errc::checkpoint_write);
        CHECK(s.error().where() == path);
    }
    // A limit on the size of files stands in for a full disk: writing stops in the middle.
    CHECK(in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit = {20000, 20000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              return refused(graft::save_checkpoint(here.newest(), at_step(3, 10000)), here.newest());
          }) == 0);
    CHECK(file_contents(here.newest()) == newest);
    CHECK(file_contents(here.previous()) == previous);
    CHECK(files_in(here.path).size() == 2);
}

TEST_CASE("A folder in its place is left there, and a link that lies in that of the temporary is not followed") {
    const folder here;
    REQUIRE(::mkdir(here.newest().c_str(), 0700) == 0);
    const graft::status s = graft::save_checkpoint(here.newest(), at_step(1));
    REQUIRE(!s.ok());
    CHECK(s.error().code() == graft::errc::checkpoint_write);
    CHECK(s.error().detail().find("no regular file") != std::string::npos);
    CHECK(files_in(here.path).size() == 1);
    REQUIRE(::rmdir(here.newest().c_str()) == 0);
    // Somebody who guesses the temporary's name cannot have another file written over by it.
    const std::string other = here.path + "/other", guess = here.path + "/.checkpoint.safetensors." + std::to_string(::getpid()) + "-0.tmp";
    overwrite(other, "mine");
    REQUIRE(::symlink(other.c_str(), guess.c_str()) == 0);
    const mode_t mask = ::umask(0);
    const bool saved = graft::save_checkpoint(here.newest(), at_step(1)).ok();
    ::umask(mask);
    CHECK(saved);
    CHECK(file_contents(other) == "mine");
    CHECK(loaded_step(here.newest()) == 1);
    struct stat info;
    REQUIRE(::lstat(here.newest().c_str(), &info) == 0);
    CHECK(S_ISREG(info.st_mode));
    CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("A folder that may not be written to leaves both checkpoints as they were") {
    const folder here;
    for (int step : {1, 2}) REQUIRE(graft::save_checkpoint(here.newest(), at_step(step)).ok());
    const std::string newest = file_contents(here.newest()), previous = file_contents(here.previous());
    REQUIRE(::chmod(here.path.c_str(), 0555) == 0);
    // Root may write everywhere: as nobody, then.
    const int ended = in_child([&] {
        if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return skipped;
        return refused(graft::save_checkpoint(here.newest(), at_step(3)), here.newest());
    });
    REQUIRE(::chmod(here.path.c_str(), 0700) == 0);
    if (ended == skipped) say_skipped("there is no user to change to");
    CHECK((ended == 0 || ended == skipped));
    CHECK(file_contents(here.newest()) == newest);
    CHECK(file_contents(here.previous()) == previous);
    CHECK(files_in(here.path).size() == 2);
}

#if defined(__linux__) && defined(__x86_64__)
TEST_CASE("Errors of write, fsync, close and rename leave both checkpoints as they were, and no temporary") {
    for (const int call : {__NR_write, __NR_fsync, __NR_close, __NR_rename}) {
        CAPTURE(call);
        const folder here;
        for (int step : {1, 2}) REQUIRE(graft::save_checkpoint(here.newest(), at_step(step)).ok());
        const std::string newest = file_contents(here.newest()), previous = file_contents(here.previous());
        const int ended = in_child([&] {
            const graft::checkpoint next = at_step(3);
            if (!from_now_on(call, SECCOMP_RET_ERRNO | EIO)) return skipped;
            return refused(graft::save_checkpoint(here.newest(), next, true), here.newest());
        });
        if (ended == skipped) {
            say_skipped("the kernel takes no filter of calls");
            return;
        }
        CHECK(ended == 0);
        CHECK(file_contents(here.newest()) == newest);
        CHECK(file_contents(here.previous()) == previous);
        CHECK(files_in(here.path).size() == 2);
    }
}

TEST_CASE("Calls of write that are interrupted or write a part only make the same file") {
    const folder here, there;
    REQUIRE(graft::save_checkpoint(there.newest(), at_step(1)).ok());
    const int ended = in_child([&] {
        struct sigaction in_pieces = {};
        in_pieces.sa_sigaction = write_in_pieces;
        in_pieces.sa_flags = SA_SIGINFO;
        if (::sigaction(SIGSYS, &in_pieces, nullptr) != 0 || !from_now_on(__NR_write, SECCOMP_RET_TRAP)) return skipped;
        return graft::save_checkpoint(here.newest(), at_step(1)).ok() ? 0 : 1;
    });
    if (ended == skipped) {
        say_skipped("the kernel takes no filter of calls");
        return;
    }
    CHECK(ended == 0);
    CHECK(file_contents(here.newest()) == file_contents(there.newest()));
}
#endif

TEST_CASE("A full disk leaves the old checkpoint as it was") {
    const folder here;
    const std::string command = "mount -t tmpfs -o size=64k tmpfs " + here.path + " 2>/dev/null";
    if (std::system(command.c_str()) != 0) {
        say_skipped("no tmpfs can be mounted here");
        return;
    }
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(1, 2000)).ok());
    const std::string newest = file_contents(here.newest());
    for (int attempt = 0; attempt < 3; ++attempt) {
        const graft::status s = graft::save_checkpoint(here.newest(), at_step(2, 20000));
        REQUIRE(!s.ok());
        CHECK(s.error().code() == graft::errc::checkpoint_write);
        CHECK(s.error().where() == here.newest());
        CHECK(file_contents(here.newest()) == newest);
        CHECK(files_in(here.path).size() == 1);
    }
    CHECK(loaded_step(here.newest()) == 1);
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(2, 2000)).ok());
    CHECK(loaded_step(here.newest()) == 2);
    CHECK(std::system(("umount " + here.path).c_str()) == 0);
}

TEST_CASE("A writer that is killed at any moment leaves a checkpoint that loads, and its temporaries go with the next") {
    const folder here;
    std::int64_t last = 0;
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(0, 3000)).ok());
    std::uint32_t random = 1;
    int left_behind = 0;
    for (int round = 0; round < 50; ++round) {
        const pid_t child = ::fork();
        if (child == 0) {
            for (std::int64_t step = last + 1;; ++step)
                if (!graft::save_checkpoint(here.newest(), at_step(step, 3000)).ok()) ::_exit(1);
        }
        random = random * 1664525 + 1013904223;
        ::usleep(500 + random % 12000);
        ::kill(child, SIGKILL);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE(WIFSIGNALED(status));
        left_behind += files_in(here.path).size() > 2;
        const std::int64_t step = loaded_step(here.newest());
        CHECK(step >= last);
        last = step;
    }
    MESSAGE("50 kills over " << last << " checkpoints, temporaries left behind " << left_behind << " times");
    CHECK(last > 0);
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(last + 1)).ok());
    CHECK(files_in(here.path).size() == 2);
    CHECK(loaded_step(here.newest()) == last + 1);
}

TEST_CASE("A temporary that somebody is still writing is left alone") {
    const folder here;
    const std::string stale = here.path + "/.checkpoint.safetensors.1-0.tmp", other = here.path + "/.other.safetensors.1-0.tmp";
    const std::string alive = here.path + "/.checkpoint.safetensors.1-1.tmp";
    for (const std::string& path : {stale, other, alive}) overwrite(path, "x");
    const int writer = ::open(alive.c_str(), O_WRONLY | O_CLOEXEC);
    REQUIRE(::flock(writer, LOCK_EX | LOCK_NB) == 0);  // as a writer does
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(1)).ok());
    CHECK(::access(stale.c_str(), F_OK) != 0);
    CHECK(::access(other.c_str(), F_OK) == 0);
    CHECK(::access(alive.c_str(), F_OK) == 0);
    ::close(writer);
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(2)).ok());
    CHECK(::access(alive.c_str(), F_OK) != 0);
    // A hundred names are tried.
    std::vector<int> writers;
    for (int i = 0; i < 100; ++i) {
        const std::string taken = here.path + "/.checkpoint.safetensors." + std::to_string(::getpid()) + "-" + std::to_string(i) + ".tmp";
        writers.push_back(::open(taken.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        REQUIRE(::flock(writers.back(), LOCK_EX | LOCK_NB) == 0);
    }
    const graft::status s = graft::save_checkpoint(here.newest(), at_step(3));
    for (const int w : writers) ::close(w);
    REQUIRE(!s.ok());
    CHECK(s.error().code() == graft::errc::checkpoint_write);
    CHECK(s.error().detail() == "a temporary file cannot be made in its folder: File exists");
    CHECK(loaded_step(here.newest()) == 2);
    REQUIRE(graft::save_checkpoint(here.newest(), at_step(3)).ok());
    CHECK(files_in(here.path).size() == 3);  // the newest, the one before, and what is not its own
}

TEST_CASE("Tensors are copied for a save in the background") {
    const graft::checkpoint c = at_step(3);
    graft::checkpoint copy = c;
    copy.tensors = graft::copy_tensors(c.tensors).value();
    CHECK(equal(c, copy));
    CHECK(copy.tensors[0].second.raw() != c.tensors[0].second.raw());
}
#endif
