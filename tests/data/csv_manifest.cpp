#include "dataset_golden.hpp"
#include "made_dataset.hpp"

#include <graft/data/dataset.hpp>

#include <doctest/doctest.h>

#include <map>

#include <sys/stat.h>

using namespace graft;

namespace {

using names = std::vector<std::string>;

// What opening ends with, for these lines under the header path,label,split.
std::string code_of_lines(const std::string& lines) {
    made_folder folder;
    return code_of(open_dataset(folder.put("list.csv", "path,label,split\n" + lines)));
}
const char* const good = "a.pgm,x,\nb.pgm,y,\n";

}  // namespace

TEST_CASE("a manifest has the fields that Python's csv finds in it") {
    made_folder folder;
    const dataset all = open_dataset(folder.put("list.csv", golden_csv)).value();
    const std::size_t rows = std::size(golden_csv_rows);
    REQUIRE(all.size() == static_cast<std::int64_t>(rows) - 1);
    for (std::size_t r = 1; r < rows; ++r) {
        const std::int64_t i = static_cast<std::int64_t>(r) - 1;
        CHECK(all.name(i) == folder.path + "/" + golden_csv_rows[r][0]);
        CHECK(all.classes()[static_cast<std::size_t>(all.label(i))] == golden_csv_rows[r][1]);
    }
    CHECK(all.classes() == names{" cat ", "a, b", "cat", "dog"});
    CHECK(open_splits(folder.path + "/list.csv").value().validation.size() == 1);
}

TEST_CASE("the split column divides, and rows of the test part are left alone") {
    made_folder folder;
    std::string lines = "split,label,path\n";
    for (const char* row : {"train,b,sub/1.pgm", "train,a,2.pgm", "val,a,3.pgm", "validation,b,4.pgm", "test,a,5.pgm", ",a,6.pgm"})
        lines += std::string(row) + "\n";
    folder.put("sub/1.pgm", picture(1));
    const std::string path = folder.put("list.csv", lines);
    const auto splits = open_splits(path);
    REQUIRE(splits.ok());
    CHECK(splits.value().validation_given);
    CHECK(splits.value().training.size() == 3);
    CHECK(splits.value().validation.size() == 2);
    CHECK(splits.value().training.label(0) == 1);
    CHECK(splits.value().training.read(0).value().data()[0] == 1);
    CHECK(code_of(splits.value().training.read(1)) == "data.open");  // there is no 2.pgm
    CHECK(open_dataset(path).value().size() == 6);
    dataset_options options;
    options.split = "test";
    CHECK(open_dataset(path, options).value().name(0) == folder.path + "/5.pgm");
}

TEST_CASE("labels that are all numbers are ordered by value") {
    made_folder folder;
    CHECK(open_dataset(folder.put("n.csv", "path,label\na,10\nb,9\nc,2\nd,10\n")).value().classes() == names{"2", "9", "10"});
    CHECK(open_dataset(folder.put("t.csv", "path,label\na,10\nb,9\nc,02\n")).value().classes() == names{"02", "10", "9"});
}

TEST_CASE("what breaks RFC 4180 is data.format and names the line") {
    CHECK(code_of_lines(good) == "ok");
    CHECK(code_of_lines("a.pgm,x,\r\n\r\n\nb.pgm,y,") == "ok");
    for (const char* bad : {"a.pgm,x\n", "a.pgm,x,,\n", "a\"b.pgm,x,\n", "\"a.pgm,x,\n", "\"a\"b,x,\n", "a.pgm,x,\rb.pgm,y,\n", "\"\n"})
        CHECK(code_of_lines(good + std::string(bad)) == "data.format");
    CHECK(code_of_lines(good + std::string("c\0.pgm,x,\n", 10)) == "data.format");
    CHECK(code_of_lines(good + std::string("\"c\0\",x,\n", 8)) == "data.format");
    // A NUL behind the first four KiB, by which a file is taken for a list.
    const std::string filler = std::string(4200, '\n');
    const auto told = [](const std::string& text) {
        made_folder of_its_own;
        const auto opened = open_dataset(of_its_own.put("list.csv", text));
        return opened.ok() ? std::string("ok") : opened.error().where().substr(of_its_own.path.size()) + ": " + opened.error().detail();
    };
    CHECK(told("path,label\n" + filler + std::string("c\0.pgm,x\n", 9)) == "/list.csv:4202: a NUL or a lone carriage return; this is no CSV text");
    CHECK(told("path,label\n" + filler + "c\r.pgm,x\n") == "/list.csv:4202: a NUL or a lone carriage return; this is no CSV text");
    CHECK(told("path,label\n" + filler + std::string("\"c\0.pgm\",x\n", 11)) == "/list.csv:4202: a NUL byte; this is no CSV text");
    // There the column is called so; in the whole file it is called "labels", or "paths".
    for (const char* names : {"path label", "label path"}) {
        const std::string first = std::string(names).substr(0, std::string(names).find(' ')), last = std::string(names).substr(first.size() + 1);
        const std::string head = first + "," + std::string(4096 - 11, 'x') + "," + last;
        REQUIRE(head.size() == 4096);
        CHECK(told(head + "\na,b,c\n") != "/list.csv: the first line has to name the columns: path,label or path,label,split");
        CHECK(told(head + "s\na,b,c\n") == "/list.csv: the first line has to name the columns: path,label or path,label,split");
    }
    CHECK(code_of_lines(good + std::string(2000, ',')) == "data.format");
    made_folder folder;
    const auto opened = open_dataset(folder.put("list.csv", "path,label\n\"a\nb\",x\n\nc,y\nd\n"));
    REQUIRE(!opened.ok());
    CHECK(opened.error().where() == folder.path + "/list.csv:6");
}

TEST_CASE("the header line has to name the columns") {
    made_folder folder;
    for (const char* text : {"a.pgm,x\n", "path\na.pgm\n", "Path,Label\na.pgm,x\n", "\n", "path;label\na;b\n"})
        CHECK(code_of(open_dataset(folder.put("list.csv", text))) == "data.format");
    CHECK(code_of(open_dataset(folder.put("list.csv", "path,label\n"))) == "data.no_classes");
    CHECK(code_of(open_dataset(folder.put("list.csv", "path,label"))) == "data.no_classes");
    CHECK(code_of(open_splits(folder.put("list.csv", "path,label\na,x\nb,x\n"))) == "data.no_classes");
    CHECK(code_of(open_splits(folder.put("list.csv", "path,label,split\na,x,val\nb,y,val\n"))) == "data.no_classes");
}

TEST_CASE("paths that leave the folder of the manifest are refused, in any system's writing") {
    for (const char* path :
         {"/etc/passwd", "../a.pgm", "a/../../b.pgm", "a/..", "..", "\\\\server\\a.pgm", "..\\a.pgm", "a\\..\\..\\b", "C:\\a.pgm", "c:a.pgm", ""})
        CHECK(code_of_lines(good + std::string(path) + ",x,\n") == "data.format");
    for (const char* path : {"a..pgm", "..a", "a/b..", "...", "./a.pgm", "a b.pgm"}) CHECK(code_of_lines(good + std::string(path) + ",x,\n") == "ok");
}

TEST_CASE("empty labels, unknown splits and labels that training lacks are refused") {
    CHECK(code_of_lines(good + std::string("c.pgm,,\n")) == "data.format");
    CHECK(code_of_lines(good + std::string("c.pgm,x,dev\n")) == "data.format");
    CHECK(code_of_lines(good + std::string("c.pgm,z,val\n")) == "data.class_mismatch");
    CHECK(code_of_lines(good + std::string("c.pgm,y,val\n")) == "ok");
    std::string wrong;
    for (int i = 0; i < 1001; ++i) wrong += "/a,x,\n";
    CHECK(code_of_lines(wrong) == "data.format");
}

TEST_CASE("a manifest of a hundred thousand different labels is read in time") {
    made_folder folder;
    std::string lines = "path,label\n";
    for (int i = 0; i < 100000; ++i) lines += "p" + std::to_string(i) + ",l" + std::to_string(i * 7919 % 100000) + "\n";
    CHECK(open_dataset(folder.put("list.csv", lines)).value().classes().size() == 100000);
}

TEST_CASE("a path of a manifest that is a pipe or a folder is an error of that sample") {
    made_folder folder;
    REQUIRE(::mkfifo((folder.path + "/pipe").c_str(), 0600) == 0);
    folder.make("sub");
    const dataset all = open_dataset(folder.put("list.csv", "path,label\npipe,x\nsub,y\n")).value();
    CHECK(code_of(all.read(0)) == "data.open");
    CHECK(code_of(all.read(1)) == "data.open");
}
