// JSON: a text that is read is written, and what was written means the same.
#include "target.hpp"

#include <graft/core/json.hpp>

#include <cmath>

namespace {

void write(const graft::json& j, graft::json_writer& w) {
    using kind = graft::json::kind;
    switch (j.type) {
    case kind::null: w.null(); break;
    case kind::boolean: w.boolean(j.boolean); break;
    // -0 is an integer, and a number of its own.
    case kind::number: j.is_integer && (j.integer || !std::signbit(j.real)) ? w.integer(j.integer) : w.number(j.real); break;
    case kind::string: w.string(j.string); break;
    case kind::array:
        w.begin_array();
        for (const graft::json& item : j.items) write(item, w);
        w.end_array();
        break;
    case kind::object:
        w.begin_object();
        for (std::size_t i = 0; i < j.items.size(); ++i) write(j.items[i], w.key(j.keys[i]));
        w.end_object();
        break;
    }
}
std::string written(const graft::json& j) {
    graft::json_writer w;
    write(j, w);
    return w.text();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text_of(data, size);
    const auto tree = graft::parse_json(text, "input", fuzz::small_limits());
    graft::json_reader reader(text, "input", fuzz::small_limits());
    const bool skipped = reader.skip(reader.next()) && reader.next() == graft::json_token::end && fuzz::accepted(reader.finish());
    if (!fuzz::accepted(tree)) return 0;
    fuzz::require(skipped, "a text is read and cannot be skipped");
    const std::string once = written(*tree);
    const auto again = graft::parse_json(once, "what was written");
    fuzz::require(again.ok() && written(*again) == once, "what was written means something else");
    return 0;
}
