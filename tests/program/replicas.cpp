// evaluate, classify and bench by replicas of a model in one process: the same bytes, and wrong usage.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <doctest/doctest.h>

namespace {

using program_test::done;
using program_test::graft_program;
using program_test::timeless;

const std::string model = GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx", pictures = GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/";

// The demo's pictures by their classes, five times, and one that cannot be read.
void put_demo(const made_folder& folder) {
    for (const char* label : {"boat", "fish", "flower", "house", "moon", "mountain", "sun", "tree"})
        for (int i = 0; i < 10; ++i)
            folder.put(std::string(label) + "/" + std::to_string(i) + ".png",
                       file_contents(pictures + label + (i % 2 ? "-2.png" : "-1.png")) + std::string(static_cast<std::size_t>(i), ' '));
    folder.put("fish/99.png", "no picture");
}

}  // namespace

TEST_CASE("evaluate by replicas on the CPU prints what one prints") {
    const made_folder folder;
    put_demo(folder);
    const std::string run = "evaluate " + model + " " + folder.path + " --device cpu --json --bad-share 0.1 --batch ";
    for (const char* batch : {"7", "32"}) {
        const done one = graft_program(run + batch + " --threads 2");
        REQUIRE(one.code == 0);
        CHECK(one.number("images") == 80);
        CHECK(one.number("bad_images") == 1);
        for (const char* how : {" --replicas 2 --threads 2", " --replicas 3 --threads 7", " --replicas 5 --threads 1"}) {
            CAPTURE(how);
            const done several = graft_program(run + batch + how);
            CHECK(several.code == 0);
            CHECK(timeless(several) == timeless(one));
            CHECK(several.err == one.err);
        }
    }
    CHECK(graft_program("evaluate " + model + " " + folder.path + " --bad-share 0 --replicas 2").refused("data.too_many_bad"));
    CHECK(graft_program("evaluate " + model + " " + folder.path + " --replicas 0").refused("usage"));
}

TEST_CASE("classify by replicas on the CPU prints what one prints, and copies the same") {
    const made_folder folder, first, second;
    put_demo(folder);
    const std::string run = "classify " + model + " " + folder.path + " --device cpu --top 3 --unsure 0.6 ";
    const done one = graft_program(run + "--csv --threads 2 --sort-into " + first.path + "/sorted");
    CHECK(one.code == 1);  // for the one that cannot be read
    for (const char* how : {"--replicas 2 --threads 2", "--replicas 3 --threads 4"}) {
        CAPTURE(how);
        const done several = graft_program(run + "--csv " + how);
        CHECK(several.code == 1);
        CHECK(several.out == one.out);
        CHECK(several.err == one.err);
        CHECK(timeless(graft_program(run + "--json " + how)) == timeless(graft_program(run + "--json")));
    }
    CHECK(graft_program(run + "--csv --replicas 3 --sort-into " + second.path + "/sorted").out == one.out);
    CHECK(std::system(("diff -r " + first.path + "/sorted " + second.path + "/sorted >/dev/null").c_str()) == 0);
}

TEST_CASE("bench of replicas tells the speed of all and of each, and does not run as one of several processes") {
    const done d = graft_program("bench " + model + " --device cpu --replicas 2 --threads 2 --batch 2 --rounds 4 --json");
    CAPTURE(d.err);
    REQUIRE(d.code == 0);
    CHECK(d.number("replicas") == 2);
    CHECK(d.number("batch") == 2);
    CHECK(d.number("samples_per_s") > 0);
    CHECK(d.has("\"devices\":[{\"device\":\"cpu\",\"runs\":"));
    CHECK(d.has("\"device\":\"cpu\",\"threads\":2"));
    const done table = graft_program("bench " + model + " --device cpu --replicas 2 --rounds 2");
    CHECK(table.has("2 replicas on cpu"));
    CHECK(graft_program("bench " + model + " --rounds 1", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 ").refused("usage"));
}
#endif
