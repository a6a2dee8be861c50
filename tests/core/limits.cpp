// The page about limits says what the limits are.
#include "../file_contents.hpp"

#include <graft/core/limits.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

// "2 GiB - 1", "16 777 216", "512 MiB".
std::int64_t number_in(const std::string& text) {
    std::string digits;
    std::size_t at = 0;
    while (at < text.size() && (text[at] == ' ' || (text[at] >= '0' && text[at] <= '9'))) {
        if (text[at] != ' ') digits += text[at];
        ++at;
    }
    std::int64_t value = std::atoll(digits.c_str());
    const std::string unit = text.substr(at, 3);
    value *= unit == "GiB" ? std::int64_t(1) << 30 : unit == "MiB" ? std::int64_t(1) << 20 : 1;
    return text.find(" - 1") == std::string::npos ? value : value - 1;
}

}  // namespace

TEST_CASE("docs/limits.md names every limit with the number that it has") {
    const graft::limits l;
    const std::pair<const char*, std::int64_t> all[] = {{"model_bytes", l.model_bytes},
                                                        {"external_bytes", l.external_bytes},
                                                        {"memory_bytes", l.memory_bytes},
                                                        {"fold_bytes", l.fold_bytes},
                                                        {"load_work", l.load_work},
                                                        {"nesting", l.nesting},
                                                        {"function_depth", l.function_depth},
                                                        {"nodes", l.nodes},
                                                        {"loop_iterations", l.loop_iterations},
                                                        {"image_side", l.image_side},
                                                        {"image_pixels", l.image_pixels},
                                                        {"image_bytes", l.image_bytes},
                                                        {"image_scans", l.image_scans},
                                                        {"json_bytes", l.json_bytes},
                                                        {"json_depth", l.json_depth}};
    // Whoever adds a limit adds it here: all of them are numbers of these two widths.
    CHECK(sizeof all / sizeof *all * 8 >= sizeof l);
    const std::string page = file_contents(GRAFT_SOURCE_DIR "/docs/limits.md");
    for (const auto& limit : all) {
        CAPTURE(limit.first);
        const std::string row = "| `" + std::string(limit.first) + "` | ";
        const std::size_t at = page.find(row);
        REQUIRE(at != std::string::npos);
        CHECK(number_in(page.substr(at + row.size(), page.find(" |", at + row.size()) - at - row.size())) == limit.second);
    }
}
