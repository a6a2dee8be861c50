// FNV-1a against values that its authors publish (RFC 9923, test_fnv.c).
#include <graft/core/fnv1a.hpp>

#include <doctest/doctest.h>

#include <cstring>

TEST_CASE("FNV-1a gives its authors' values") {
    struct {
        const char* text;
        std::uint64_t hash;
    } const golden[] = {{"", 0xcbf29ce484222325u},    {"a", 0xaf63dc4c8601ec8cu},    {"b", 0xaf63df4c8601f1a5u},
                        {"foo", 0xdcb27518fed9d577u}, {"foob", 0xdd120e790c2512afu}, {"foobar", 0x85944171f73967e8u}};
    for (const auto& g : golden) CHECK(graft::fnv1a(g.text, std::strlen(g.text)) == g.hash);
    CHECK(graft::fnv1a("bar", 3, graft::fnv1a("foo", 3)) == graft::fnv1a("foobar", 6));
}
