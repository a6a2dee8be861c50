// Errors as values: codes, texts, results that throw when they are forced.
#include <graft/core/error.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using graft::errc;

namespace {

graft::result<int> half(int n) {
    if (n % 2) return graft::fail(errc::op_value, "half", std::to_string(n) + " is odd");
    return n / 2;
}
graft::result<int> quarter(int n) {
    int h = 0;
    GRAFT_TRY_ASSIGN(h, half(n));
    return half(h);
}
graft::status check(int n) {
    GRAFT_TRY(quarter(n).take_status());
    return {};
}

graft::result<std::vector<std::string>> words(int n) {
    return std::vector<std::string>(static_cast<std::size_t>(n), "a word that is too long to be held inline");
}

}  // namespace

TEST_CASE("every code has a text of its own") {
    std::set<std::string> texts;
    int codes = 0;
#define GRAFT_X(id, name, meaning) \
    CHECK(std::string(graft::text(errc::id)) == name); \
    CHECK(std::string(meaning).size() > 10); \
    texts.insert(name); \
    ++codes;
    GRAFT_ERROR_CODES(GRAFT_X)
#undef GRAFT_X
    CHECK(texts.size() == static_cast<std::size_t>(codes));
}

TEST_CASE("an error tells its code, its place and what is wrong, in one line of plain characters") {
    const graft::status s = graft::fail(errc::op_shape, "node 'a\nb\x1b[31m\\'", "first\nsecond");
    REQUIRE(!s.ok());
    CHECK(s.error().code() == errc::op_shape);
    CHECK(s.error().where() == "node 'a\nb\x1b[31m\\'");
    CHECK(std::string(s.error().what()) == "op.shape: node 'a\\x0ab\\x1b[31m\\x5c': first second");
    const std::string long_name(5000, 'x');
    CHECK(std::string(graft::fail(errc::file_open, long_name, "d").error().what()).size() < 300);
    CHECK(graft::escape("\x7f") == "\\x7f");
    CHECK(graft::escape("gr\xc3\xbc\xc3\x9f") == "gr\xc3\xbc\xc3\x9f");
}

TEST_CASE("results hand on their value or their failure") {
    CHECK(quarter(12).value() == 3);
    CHECK(half(4).value() == 2);
    CHECK(!quarter(6).ok());
    CHECK(quarter(6).error().detail() == "3 is odd");
    CHECK(check(8).ok());
    CHECK(!check(7).ok());
    CHECK(!check(7));
    graft::status moved = check(7), target = std::move(moved);
    CHECK(moved.ok());
    CHECK(std::move(target).error().code() == errc::op_value);
    CHECK(sizeof(graft::status) == sizeof(void*));
}

TEST_CASE("a loop over what a temporary result holds keeps it alive") {
    std::size_t letters = 0;
    for (const std::string& word : words(3).value()) letters += word.size();
    CHECK(letters == 3 * words(1).value()[0].size());
    for (const std::string& word : *words(2)) letters += word.size();
    CHECK(letters == 5 * words(1)->front().size());

    using numbers = graft::result<std::vector<int>>;
    static_assert(std::is_same_v<decltype(std::declval<numbers>().value()), std::vector<int>>, "by value: nothing else outlives a temporary");
    static_assert(std::is_same_v<decltype(*std::declval<numbers>()), std::vector<int>>, "by value");
    static_assert(std::is_same_v<decltype(std::declval<numbers>().error()), graft::error>, "by value");
    static_assert(std::is_same_v<decltype(std::declval<graft::status>().error()), graft::error>, "by value");
    static_assert(std::is_same_v<decltype(std::declval<numbers&>().value()), std::vector<int>&>, "a result that stays gives its own value");
    static_assert(std::is_same_v<decltype(*std::declval<const numbers&>()), const std::vector<int>&>, "and to be read where it is const");
    const graft::error& kept = half(3).error();
    CHECK(kept.detail() == "3 is odd");
}

#ifndef GRAFT_NO_EXCEPTIONS
TEST_CASE("a result that holds an error throws it when it is forced") {
    const auto force = [](int n) -> int { return half(n); };
    CHECK(force(8) == 4);
    CHECK_THROWS_AS(force(7), graft::error);
    CHECK_THROWS_AS(graft::must(check(5)), graft::error);
    try {
        half(9).value();
    } catch (const std::exception& e) {
        CHECK(std::string(e.what()) == "op.value: half: 9 is odd");
    }
    graft::must(check(8));
}
#endif
