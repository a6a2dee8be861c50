// The wire reader: any bytes, as any kind of field; what it reads is written and read again.
#include "target.hpp"

#include <graft/core/protobuf.hpp>

#include <vector>

namespace {

// Fields of bytes are read as messages of their own. The field's number says how it is read, as a schema would.
void read(const graft::wire_source& source, graft::wire_bytes part, int depth, graft::wire_writer& w) {
    graft::wire_reader r(source, part);
    std::vector<std::int64_t> integers;
    std::vector<float> reals;
    std::vector<graft::wire_bytes> parts;
    while (r.next()) {
        std::int64_t integer = 0, count = 0;
        float real = 0;
        std::string text;
        bool good = true;
        switch (r.field() % 10) {
        case 0:
            if ((good = r.integer(integer))) w.integer(r.field(), integer);
            break;
        case 1:
            if ((good = r.real(real))) w.real(r.field(), real);
            break;
        case 2:
            if ((good = r.text(text))) w.text(r.field(), text);
            break;
        case 3: good = r.add(integers); break;
        case 4: good = r.add(reals); break;
        case 5: good = r.count(0, count); break;
        case 6: good = r.count(4, count); break;
        case 7: good = r.count(8, count); break;
        case 8:
            if ((good = r.add(parts)) && depth > 0) {
                const std::size_t mark = w.begin(r.field());
                read(source, parts.back(), depth - 1, w);
                w.end(mark);
            }
            break;
        default:
            if (r.type() == 2 && r.view().size && r.view().data[0] == 'x') good = r.fault("a fault of the caller's");
            break;
        }
        graft::wire_bytes whole = source.bytes;
        fuzz::require(count >= 0 && static_cast<std::size_t>(count) <= whole.size, "more elements are counted than there are bytes");
        if (!good) fuzz::require(!r.next(), "a fault does not end the reading");
    }
    fuzz::accepted(r.finish());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    graft::wire_source source;
    source.bytes = {data, size};
    source.name = "input";
    source.nesting = 8;
    std::vector<std::uint8_t> out;
    graft::wire_writer w(out);
    read(source, source.bytes, 6, w);
    graft::wire_source again;
    again.bytes = {out.data(), out.size()};
    again.name = "what was written";
    graft::wire_reader r(again, again.bytes);
    while (r.next()) {
    }
    fuzz::require(r.finish().ok(), "what was written cannot be read");
    return 0;
}
