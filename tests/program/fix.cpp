// The verb fix from outside: rows carried out, taken back, refused; what a kill leaves.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "../skipped.hpp"
#include "program.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

namespace {

using program_test::done;
using program_test::graft_program;

namespace fs = std::filesystem;

done fix(const std::string& arguments) { return graft_program("fix " + arguments); }

// Every file below a folder, with its bytes.
std::map<std::string, std::string> files_in(const std::string& folder) {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file()) all[entry.path().lexically_relative(folder).string()] = file_contents(entry.path().string());
    return all;
}

// A dataset of two classes in a folder of its own, and what to fix beside it.
struct fixable {
    made_folder folder;
    std::string data = folder.path + "/photos", fixes = folder.path + "/fixes.csv";

    explicit fixable(int pictures = 3) {
        for (int i = 0; i < pictures; ++i)
            for (const char* name : {"a", "b"}) folder.put("photos/" + std::string(name) + "/" + std::to_string(i) + ".pgm", wide(name[0] == 'a', i));
    }
    static std::string wide(bool first, int level) {
        return "P5 2 2 255\n" + std::string(1, static_cast<char>(level % 256)) + std::string(1, static_cast<char>(level / 256)) + (first ? "xy" : "zw");
    }
    void write(const std::string& rows) const { folder.put("fixes.csv", rows); }
    done run(const std::string& more = "") const { return fix(fixes + " --data " + data + " --json " + more); }
};

bool tells(const done& d, const std::string& outcome, int count) { return d.has("\"" + outcome + "\":" + std::to_string(count)); }

}  // namespace

TEST_CASE("fix moves, drops and takes back, under names that are free, and never twice") {
    fixable f;
    const auto before = files_in(f.folder.path);
    f.write("path,action,to,reason\r\na/0.pgm,move,b,mislabelled\r\nb/1.pgm,drop,,leak\r\n");
    const done dry = f.run("--dry-run");
    CHECK(dry.code == 0);
    CHECK(tells(dry, "moved", 1));
    CHECK(tells(dry, "dropped", 1));
    auto unchanged = files_in(f.folder.path);
    unchanged.erase("fixes.csv");
    CHECK(unchanged == before);

    const done all = f.run();
    CHECK(all.code == 0);
    CHECK(tells(all, "moved", 1));
    CHECK(tells(all, "dropped", 1));
    auto now = files_in(f.folder.path);
    CHECK(now["photos/b/0.pgm"] == before.at("photos/b/0.pgm"));  // the name was taken
    CHECK(now["photos/b/0-2.pgm"] == before.at("photos/a/0.pgm"));
    CHECK(now["photos.dropped/b/1.pgm"] == before.at("photos/b/1.pgm"));
    CHECK(now.count("photos/a/0.pgm") == 0);
    CHECK(now.count("fixes.journal.csv") == 1);

    const done again = f.run();
    CHECK(again.code == 0);
    CHECK(tells(again, "done_before", 2));
    CHECK(files_in(f.folder.path) == now);

    const done back = f.run("--undo");
    CHECK(back.code == 0);
    CHECK(tells(back, "restored", 2));
    auto restored = files_in(f.folder.path);
    restored.erase("fixes.csv");
    CHECK(restored == before);
    CHECK(!fs::exists(f.data + ".dropped"));
    CHECK(f.run("--undo").refused("data.open"));
}

TEST_CASE("fix takes rows by id, action, reason and path, and says so where there is none") {
    fixable f(6);
    f.write("id,path,action,to,reason\n3,a/0.pgm,move,b,mislabelled\n7,a/1.pgm,drop,,leak\n9,b/2.pgm,drop,,unreadable\n11,b/5.pgm,move,a,mislabelled\n");
    CHECK(tells(f.run("--dry-run --only 7"), "dropped", 1));
    CHECK(tells(f.run("--dry-run --only drop"), "dropped", 2));
    CHECK(tells(f.run("--dry-run --only mislabelled"), "moved", 2));
    CHECK(tells(f.run("--dry-run --only 'a/*'"), "moved", 1));
    const done two = f.run("--dry-run --only 'b/?.pgm' --only 3");
    CHECK(tells(two, "moved", 2));
    CHECK(tells(two, "dropped", 1));
    const done none = f.run("--only 'c/*'");
    CHECK(none.code == 2);
    CHECK(none.refused("usage"));
    CHECK(f.run("--only 3 --undo").code == 2);
    const done table = fix(f.fixes + " --data " + f.data + " --dry-run");
    CHECK(table.has("would move to b"));
    CHECK(table.has("would be dropped"));
    CHECK(table.has("2 would move, 2 would be dropped; nothing was changed"));
}

TEST_CASE("fix swaps pictures between two classes without losing one") {
    fixable f;
    const auto before = files_in(f.data);
    f.write("path,action,to\na/0.pgm,move,b\nb/0.pgm,move,a\na/1.pgm,move,b\nb/1.pgm,move,a\n");
    CHECK(f.run().code == 0);
    std::map<std::string, std::string> now = files_in(f.data);
    CHECK(now.size() == before.size());
    std::multimap<std::string, std::string> contents, were;
    for (const auto& file : now) contents.emplace(file.second, file.first.substr(0, 1));
    for (const auto& file : before) {
        const bool swapped = file.first[2] != '2';
        were.emplace(file.second, swapped ? (file.first[0] == 'a' ? "b" : "a") : file.first.substr(0, 1));
    }
    CHECK(contents == were);
    CHECK(f.run("--undo").code == 0);
    CHECK(files_in(f.data) == before);
}

TEST_CASE("fix leaves alone what does not fit, says why and exits with 1") {
    fixable f;
    f.write("path,action,to,contents\na/9.pgm,drop,,\na/0.pgm,drop,,xxh64:0000000000000000\na/1.pgm,move,a,\na/1.pgm,move,c,\nb/0.pgm,drop,,\nb/"
            "0.pgm,move,a,\nb/1.pgm,"
            "drop,,\nb/2.pgm,drop,,\n");
    const done d = f.run();
    CHECK(d.code == 1);
    CHECK(tells(d, "dropped", 2));
    CHECK(tells(d, "skipped", 5));
    CHECK(tells(d, "refused", 1));
    for (const char* why : {"the picture is gone", "the picture was changed since", "it is in that class already", "there is no class \\\"c\\\"",
                            "a row before has dealt with this picture", "it is the last picture of its class"})
        CHECK_MESSAGE(d.has(why), why);
    CHECK(d.refused("data.empty_class"));  // of the last row
    CHECK(f.run("--undo").code == 0);
}

TEST_CASE("fix stays in the dataset: no other folder is written to, by no path and by no link") {
    fixable f;
    f.folder.put("outside/x.pgm", picture(7));
    f.folder.put("outside/y/z.pgm", picture(8));
    fs::create_directory_symlink(f.folder.path + "/outside/y", f.data + "/linked");
    fs::create_symlink(f.folder.path + "/outside/x.pgm", f.data + "/a/link.pgm");
    const auto outside = files_in(f.folder.path + "/outside");
    const std::string absolute = f.folder.path + "/outside/x.pgm";
    f.write("path,action,to\n../outside/x.pgm,drop,\n" + absolute +
            ",drop,\na/../../outside/x.pgm,drop,\nlinked/z.pgm,drop,\na/link.pgm,move,b\nC:\\x.pgm,drop,\n" +
            "a/0.pgm,move,../outside\na/0.pgm,move,/tmp\n\"\",drop,\na/1.pgm,move,linked\n");
    const done d = f.run();
    CHECK(d.code == 1);
    CHECK(tells(d, "refused", 10));
    CHECK(d.has("data.format"));
    CHECK(d.has("data.class_mismatch"));
    CHECK(files_in(f.folder.path + "/outside") == outside);
    CHECK(fs::exists(f.data + "/a/0.pgm"));
    // The folder of what is dropped is a link.
    fs::create_directory_symlink(f.folder.path + "/outside", f.data + ".dropped");
    f.write("path,action,to\na/0.pgm,drop,\n");
    const done linked = f.run();
    CHECK(linked.code == 1);
    CHECK(tells(linked, "refused", 1));
    CHECK(files_in(f.folder.path + "/outside") == outside);
}

TEST_CASE("fix moves a picture within its part alone, to a class that has a folder there") {
    made_folder folder;
    for (int i = 0; i < 2; ++i)
        for (const char* name : {"a", "b", "c"}) folder.put("d/train/" + std::string(name) + "/" + std::to_string(i) + ".pgm", picture(10 * name[0] + i));
    for (int i = 0; i < 3; ++i)
        for (const char* name : {"a", "b"}) folder.put("d/val/" + std::string(name) + "/deep/" + std::to_string(i) + ".pgm", picture(10 * name[0] + 5 + i));
    const std::string fixes = folder.put("fixes.csv", "path,action,to\nval/a/deep/0.pgm,move,b\nval/a/deep/1.pgm,move,c\ntrain/c/0.pgm,move,a\n");
    const done d = fix(fixes + " --data " + folder.path + "/d/ --json");
    CHECK(d.code == 1);
    CHECK(tells(d, "moved", 2));
    CHECK(d.has("its part of the dataset has no folder of the class c"));
    CHECK(fs::exists(folder.path + "/d/val/b/0.pgm"));
    CHECK(fs::exists(folder.path + "/d/train/a/0-2.pgm"));
    CHECK(!fs::exists(folder.path + "/d/val/c"));
}

TEST_CASE("fix undoes nothing outside of the dataset, whatever a journal says") {
    fixable f;
    f.folder.put("outside/x.pgm", picture(7));
    f.write("path,action,to\na/0.pgm,drop,\n");
    const std::string root = fs::canonical(f.data).string(), head = "id,action,path,now,before,after,dataset\n";
    for (const std::string& line :
         {"1,move,a/5.pgm,../outside/x.pgm,,," + root, "1,drop,../outside/y.pgm,a/0.pgm,,," + root, "1,edit,photos,../outside/x.pgm,,," + root}) {
        f.folder.put("fixes.journal.csv", head + line + "\n");
        const done d = f.run("--undo");
        CHECK(d.code == 1);
        CHECK(tells(d, "refused", 1));
        CHECK(fs::exists(f.folder.path + "/outside/x.pgm"));
    }
    for (const std::string& line :
         {std::string("1,move,a/5.pgm,a/6.pgm,,,/elsewhere"), std::string("1,erase,a/5.pgm,a/6.pgm,,,") + root, std::string("what")}) {
        f.folder.put("fixes.journal.csv", head + line + "\n");
        CHECK(f.run("--undo").refused("data.format"));
        CHECK(f.run().refused("data.format"));
    }
    CHECK(fs::exists(f.data + "/a/0.pgm"));
}

TEST_CASE("fix refuses a list that is none, and a dataset whose pictures are no files") {
    fixable f;
    for (const std::string& text :
         {std::string(""), std::string("\n"), std::string("name,label\nx,y\n"), std::string("path,action\na/0.pgm,erase\n"), std::string("path,action\n\"a"),
          std::string("path,action\na/0.pgm\n"), std::string("path,action\na\0b,drop\n", 23), std::string("id,path,action\n1,a,drop\n1,b,drop\n"),
          std::string("id,path,action\nx,a,drop\n"), std::string("path,action,dataset\na,drop,/x\nb,drop,/y\n")}) {
        f.write(text);
        const done d = f.run();
        CHECK_MESSAGE(d.refused("data.format"), text);
        CHECK(d.code == 1);
    }
    CHECK(fix(f.folder.path + "/none.csv").refused("data.open"));
    f.write("\xef\xbb\xbfpath,action\na/0.pgm,drop\n");
    CHECK(fix(f.fixes).refused("usage"));  // of which dataset
    CHECK(f.run("--dry-run").code == 0);
    f.write("path,action,dataset\na/0.pgm,drop," + fs::canonical(f.data).string() + "\n");
    CHECK(fix(f.fixes).refused("data.format"));  // which picture that was
    made_folder raw;
    put_idx(raw, "train", std::string("\0\1", 2));
    CHECK(fix(f.fixes + " --data " + raw.path).refused("data.format"));
    std::string many = "path,action\n";
    for (int i = 0; i < 5000; ++i) many += "a/" + std::to_string(i) + ".pgm,drop\n";
    f.write(many);
    CHECK(tells(f.run("--dry-run"), "skipped", 4998));
}

TEST_CASE("fix on a CSV manifest changes its lines alone, keeps what was, and takes it back") {
    made_folder folder;
    for (int i = 0; i < 6; ++i) folder.put("p/" + std::to_string(i) + ".pgm", picture(i));
    folder.put("p/x, y.pgm", picture(9));
    const std::string before =
        "\xef\xbb\xbfpath,note,label\r\np/0.pgm,\"kept, as it is\",a\r\n\r\n\"p/1.pgm\",,a\r\n\"p/x, y.pgm\",,b\r\np/2.pgm,,a\r\np/3.pgm,,b\r\np/4.pgm,,b";
    const std::string data = folder.put("labels.csv", before);
    const std::string fixes = folder.put("fixes.csv", "path,action,to\n\"p/x, y.pgm\",move,a\np/1.pgm,drop,\np/4.pgm,move,a\np/5.pgm,drop,\np/3.pgm,drop,\n");
    const done d = fix(fixes + " --data " + data + " --json");
    CHECK(d.code == 1);
    CHECK(tells(d, "moved", 2));
    CHECK(tells(d, "dropped", 1));
    CHECK(tells(d, "skipped", 2));  // one without a line, and the last of b
    CHECK(file_contents(data) ==
          "\xef\xbb\xbfpath,note,label\r\np/0.pgm,\"kept, as it is\",a\r\n\r\n\"p/x, y.pgm\",,a\r\np/2.pgm,,a\r\np/3.pgm,,b\r\np/4.pgm,,a");
    CHECK(file_contents(data + ".before-fix-1") == before);
    CHECK(fs::exists(folder.path + "/p/1.pgm"));
    // A second turn, and one by hand in between.
    const std::string more = folder.put("fixes.csv", "path,action,to\np/0.pgm,move,b\n");
    CHECK(fix(more + " --data " + data).code == 0);
    CHECK(file_contents(data + ".before-fix-2").size() > 0);
    const std::string after = file_contents(data);
    folder.put("labels.csv", after + "\r\np/5.pgm,,b");
    const done changed = fix(fixes + " --data " + data + " --undo --json");
    CHECK(changed.code == 1);
    CHECK(tells(changed, "skipped", 2));
    CHECK(changed.has("it was changed since it was fixed"));
    folder.put("labels.csv", after);
    CHECK(fix(fixes + " --data " + data + " --undo").code == 0);
    CHECK(file_contents(data) == before);
    CHECK(!fs::exists(data + ".before-fix-1"));
    CHECK(!fs::exists(folder.path + "/fixes.journal.csv"));
}

TEST_CASE("What check proposes fix carries out, and then check has nothing more to say of it") {
    made_folder folder;
    for (int i = 0; i < 4; ++i)
        for (const char* name : {"a", "b"}) folder.put("d/train/" + std::string(name) + "/" + std::to_string(i) + ".pgm", fixable::wide(name[0] == 'a', i));
    folder.put("d/val/a/9.pgm", fixable::wide(true, 9));
    folder.put("d/val/b/9.pgm", fixable::wide(false, 9));
    folder.put("d/val/a/leak.pgm", fixable::wide(true, 1));
    folder.put("d/train/a/second.pgm", fixable::wide(true, 1));
    folder.put("d/train/b/wrong.pgm", fixable::wide(true, 2));
    folder.put("d/train/b/cut.png", "x");
    const std::string data = folder.path + "/d", fixes = folder.path + "/f.csv";
    const done checked = graft_program("check " + data + " --json --fixes " + fixes);
    CHECK(checked.code == 0);
    CHECK(checked.has("\"rows\":4"));
    const std::string rows = file_contents(fixes);
    CHECK(contains(rows, ",train/b/cut.png,drop,,unreadable,"));
    CHECK(contains(rows, ",train/a/1.pgm,drop,,leak,"));  // both that are learnt from; what is scored by stays
    CHECK(contains(rows, ",train/a/second.pgm,drop,,leak,"));
    CHECK(contains(rows, ",train/b/wrong.pgm,drop,,label_conflict,"));
    const done fixed = fix(fixes);
    CHECK(fixed.code == 0);
    CHECK(fixed.has("4 dropped"));
    CHECK(graft_program("check " + data + " --json").has("\"problems\":[]"));
    CHECK(graft_program("check " + data + " --fixes " + fixes).has("0 of the pictures may be dropped"));
    const done nothing = fix(fixes);
    CHECK(nothing.code == 0);
    CHECK(nothing.has("nothing to fix"));
    made_folder raw;
    put_idx(raw, "train", std::string("\0\1", 2));
    CHECK(graft_program("check " + raw.path + " --fixes " + fixes).refused("usage"));
}

TEST_CASE("A kill in the middle of fix leaves what --undo restores to the byte") {
    constexpr int pictures = 400;
    fixable f(pictures);
    const auto before = files_in(f.data);
    std::string rows = "path,action,to\n";
    for (int i = 0; i < pictures - 1; ++i) rows += "a/" + std::to_string(i) + (i % 2 ? ".pgm,move,b\n" : ".pgm,drop,\n");
    f.write(rows);
    int in_the_middle = 0;
    for (int i = 0; i < 12; ++i) {
        const std::string wait = "0.0" + std::to_string(2 + i % 6 * 1);
        graft_program("fix " + f.fixes + " --data " + f.data, "timeout -s KILL " + wait + " ");
        const std::size_t left = files_in(f.data + "/a").size();
        in_the_middle += left > 1 && left < pictures;
        if (left == pictures && !fs::exists(f.folder.path + "/fixes.journal.csv")) continue;  // it had not begun
        if (i % 3 == 0) CHECK(f.run().code == 0);                                             // goes on, and is taken back as a whole
        const done back = f.run("--undo");
        // A journal without a line is none.
        CHECK((back.code == 0 || back.refused("data.open")));
        REQUIRE(files_in(f.data) == before);
        CHECK(!fs::exists(f.data + ".dropped"));
    }
    MESSAGE(in_the_middle << " of 12 kills were in the middle");
}

TEST_CASE("fix says which folder it may not write to, moves nothing, and undo finds all in its place") {
    fixable f;
    f.write("path,action,to\na/0.pgm,move,b\nb/1.pgm,drop,\n");
    const auto before = files_in(f.data);
    // A superuser may write everywhere.
    const std::string other = ::geteuid() == 0 ? "setpriv --reuid=65534 --clear-groups " : "";
    const auto run = [&](const std::string& more) { return graft_program("fix " + f.fixes + " --data " + f.data + " --json " + more, other); };
    const auto allow = [](const std::string& path, ::mode_t mode) { ::chmod(path.c_str(), mode); };
    if (graft_program("--version", other).code) return say_skipped("the program cannot be run as another user here");
    allow(f.folder.path, 0555);
    const done no_journal = run("");
    CHECK(no_journal.code == 1);
    CHECK(no_journal.refused("file.write"));
    CHECK(tells(no_journal, "failed", 2));
    allow(f.folder.path, 0777);
    for (const char* folder : {"/a", "/b"}) allow(f.data + folder, 0555);
    const done no_moves = run("");
    CHECK(no_moves.code == 1);
    CHECK(no_moves.refused("file.write"));
    CHECK(tells(no_moves, "failed", 2));
    CHECK(run("--undo").code == 0);
    CHECK(files_in(f.data) == before);
    CHECK(!fs::exists(f.folder.path + "/fixes.journal.csv"));
    for (const char* folder : {"/a", "/b"}) allow(f.data + folder, 0755);
    allow(f.folder.path, 0755);
    f.folder.put("photos.dropped", "a file, and no folder");
    const done in_the_way = f.run("--only drop");
    CHECK(in_the_way.code == 1);
    CHECK(in_the_way.refused("file.write"));
    CHECK(files_in(f.data) == before);
}
#endif
