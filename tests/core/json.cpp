// JSON: what is taken, what is refused, and writing.
#include <doctest/doctest.h>
#include <graft/core/json.hpp>
#include <graft/core/utf8.hpp>

#include <cmath>

TEST_CASE("A JSON text becomes a tree") {
    auto read = graft::parse_json(R"( {"a": [1, -2.5e1, "x\u00e9\ud83d\ude00\n", true, null], "b": {}, "a2": 9007199254740993} )", "t");
    REQUIRE(read.ok());
    const graft::json* a = read->find("a");
    REQUIRE(a);
    REQUIRE(a->items.size() == 5);
    CHECK((a->items[0].is_integer && a->items[0].integer == 1));
    CHECK((!a->items[1].is_integer && a->items[1].real == -25.0));
    CHECK(a->items[2].string == "x\xc3\xa9\xf0\x9f\x98\x80\n");
    CHECK((a->items[3].type == graft::json::kind::boolean && a->items[3].boolean));
    CHECK(a->items[4].type == graft::json::kind::null);
    CHECK(read->find("a2")->integer == 9007199254740993);
    CHECK(!read->find("c"));
}

TEST_CASE("Texts that are not JSON are refused") {
    for (const char* text : {"",
                             "{",
                             "[1,]",
                             "[,1]",
                             "{\"a\":1,}",
                             "{a:1}",
                             "01",
                             "1.",
                             ".5",
                             "+1",
                             "-",
                             "1e",
                             "tru",
                             "nul",
                             "[1 2]",
                             "1 2",
                             "\"\\x\"",
                             "\"\t\"",
                             "\"a",
                             "\"\\ud800\"",
                             "\"\\ude00\\ud800\"",
                             "\"\xff\"",
                             "\"\xc0\x80\"",
                             "\"\xed\xa0\x80\"",
                             "NaN",
                             "Infinity",
                             "'a'",
                             "[1}",
                             "{\"a\" 1}",
                             "\xef\xbb\xbf{}",
                             "1e999",
                             "/**/1"}) {
        auto read = graft::parse_json(text, "t");
        CHECK_MESSAGE(!read.ok(), text);
        if (!read.ok()) CHECK(read.error().code() == graft::errc::json_malformed);
    }
}

TEST_CASE("Depth and length of a JSON text have limits") {
    graft::limits limit;
    CHECK(graft::parse_json(std::string(64, '[') + std::string(64, ']'), "t", limit).ok());
    CHECK(!graft::parse_json(std::string(65, '[') + std::string(65, ']'), "t", limit).ok());
    CHECK(!graft::parse_json(std::string(1000000, '['), "t", limit).ok());
    limit.json_bytes = 3;
    CHECK(!graft::parse_json("[12]", "t", limit).ok());
}

TEST_CASE("A value is gone past whole, and one that is cut is a fault") {
    graft::json_reader r("[[1,{\"a\":[2]}],3]", "t");
    REQUIRE(r.next() == graft::json_token::begin_array);
    CHECK(r.skip(r.next()));
    CHECK(r.next() == graft::json_token::number);
    std::int64_t value = 0;
    CHECK((r.integer(value) && value == 3));
    CHECK(r.skip(graft::json_token::number));
    graft::json_reader words("\"w\\u00f6rd\"", "t");
    const graft::json_reader& seen = words;
    REQUIRE(words.next() == graft::json_token::string);
    CHECK(seen.string() == "w\xc3\xb6rd");
    graft::json_reader cut("[[1,{", "t");
    REQUIRE(cut.next() == graft::json_token::begin_array);
    CHECK(!cut.skip(cut.next()));
    REQUIRE(!cut.finish().ok());
    CHECK(cut.finish().error().detail() == "the text ends too early at byte 5");
}

TEST_CASE("Numbers that JSON does not have are written as null, and DEL as an escape") {
    graft::json_writer w;
    w.begin_array().number(HUGE_VAL).number(-HUGE_VAL).number(std::nan("")).boolean(true).string("a\x7f").end_array();
    CHECK(w.text() == "[null,null,null,true,\"a\\u007f\"]");
    CHECK(graft::parse_json(w.text(), "t")->items[4].string == "a\x7f");
}

TEST_CASE("A tree that is written reads back") {
    graft::json_writer w;
    w.begin_object().key("a\"\\\n").begin_array().integer(-3).number(0.1).boolean(false).null().begin_object().end_object().end_array();
    w.key("bad").string("\xff\xc3").key("z").string("\xc3\xa9").end_object();
    CHECK(w.text() == "{\"a\\\"\\\\\\u000a\":[-3,0.1,false,null,{}],\"bad\":\"\xef\xbf\xbd\xef\xbf\xbd\",\"z\":\"\xc3\xa9\"}");
    CHECK(graft::parse_json(w.text(), "t").ok());
}

TEST_CASE("UTF-8 is told from what only looks like it") {
    for (const char* good : {"", "a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
        CHECK(graft::is_utf8(good));
    for (const char* bad : {"\x80", "\xc1\xbf", "\xc2", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
        CHECK(!graft::is_utf8(bad));
    for (const std::uint32_t c : {0x41u, 0xe9u, 0x20acu, 0x1f600u}) {
        std::string text;
        graft::append_utf8(text, c);
        CHECK(graft::utf8_length(text) == text.size());
    }
}
