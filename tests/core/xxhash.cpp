// XXH64 against the reference implementation (Python's xxhash 3), every path through its tail.
#include <graft/core/xxhash.hpp>

#include <doctest/doctest.h>

TEST_CASE("XXH64 gives the reference implementation's sums") {
    struct {
        std::size_t size;
        std::uint64_t plain, seeded;
    } const golden[] = {
        {0, 0xef46db3751d8e999u, 0x5a165a1e76ab9ee8u},   {1, 0x1f25c8d0bc1f4bb6u, 0x92f04058564449d2u},  {3, 0x31d2363f52e564c9u, 0xcbbc42bb337a617eu},
        {4, 0x9bb64b7d66ee9fdau, 0x16b46a566199722eu},   {7, 0x9a7b149959ce60d8u, 0x4aef02a08cae3f7bu},  {8, 0xdab99d95c6f90092u, 0x0cae87c28388ea6du},
        {11, 0x7a52cc9457cf1a1fu, 0xdeb5193765fc45afu},  {12, 0xd52e407833af5133u, 0xc71c26c2e480e65eu}, {16, 0x434850232b787be2u, 0x6eae9900410c9448u},
        {31, 0xa2aa5f33cc4a6119u, 0xf1a0b484cee19427u},  {32, 0x23c3c17ef790fd97u, 0x8576754cda0cb64fu}, {33, 0x50a7cfc7ba588784u, 0x301c7cff501b326bu},
        {63, 0x5e3e54b431c7493cu, 0xa32ee4ff1735d787u},  {64, 0x0eb64b3ef6eeb01fu, 0xf1765a6bcf1cb756u}, {100, 0xa61f8d4c170fe531u, 0x0ef8d3f2df06e9a4u},
        {199, 0xf7efd3430a01de39u, 0x616ae7f423e54794u},
    };
    unsigned char bytes[200];
    for (int i = 0; i < 200; ++i) bytes[i] = static_cast<unsigned char>(i * 7 + 3);
    for (const auto& g : golden) {
        CHECK(graft::xxh64(bytes, g.size) == g.plain);
        CHECK(graft::xxh64(bytes, g.size, 12345678901234567890u) == g.seeded);
    }
}
