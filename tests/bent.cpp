// Files with a byte wrong, too few or too many: whatever reads them gives an answer or an error with a name, and what a model or an array says
// when it is taken is kept by writing it and reading it again. A checksum that covers the byte is made to fit: what lies behind it is tried too.
#include "data/made_dataset.hpp"
#include "data/pictures.hpp"
#include "io/wire_model.hpp"

#include <doctest/doctest.h>
#include <graft/core/json.hpp>
#include <graft/io/npy.hpp>
#include <graft/io/onnx_read.hpp>
#include <graft/io/onnx_write.hpp>
#include <graft/io/safetensors.hpp>

#include <cstring>
#include <map>
#include <memory>

using namespace wire_model;

namespace {

// Calls `use` with the seed cut at every byte, and with every byte of [begin, end) changed, left out and doubled.
template <class Use>
void each_bent(const std::string& seed, std::size_t begin, std::size_t end, Use use) {
    for (std::size_t i = begin; i < end; ++i) {
        const auto byte = static_cast<std::uint8_t>(seed[i]);
        for (const int value : {0, 1, 0x7f, 0x80, 0xff, byte ^ 1, byte ^ 2, byte ^ 8, byte + 1, byte - 1}) {
            if (static_cast<std::uint8_t>(value) == byte) continue;
            std::string bent = seed;
            bent[i] = static_cast<char>(value);
            use(bent);
        }
        use(seed.substr(0, i));
        use(seed.substr(0, i) + seed.substr(i + 1));
        use(seed.substr(0, i) + seed[i] + seed.substr(i));
    }
}

// A block of exactly that size, so that a sanitizer sees every byte that is read too far.
struct exact {
    explicit exact(const std::string& bytes) : data(new char[bytes.size() + (bytes.empty() ? 1 : 0)]), size(bytes.size()) {
        bytes.copy(data.get(), bytes.size());
    }
    std::unique_ptr<char[]> data;
    std::size_t size;
};

// How often each verdict came.
struct verdicts {
    std::map<std::string, int> counts;
    template <class T>
    bool add(const graft::result<T>& r) {
        const std::string code = r.ok() ? "ok" : graft::text(r.error().code());
        ++counts[code];
        if (!r.ok()) CHECK(!r.error().detail().empty());
        return r.ok();
    }
    int of(const char* code) const { return counts.count(code) ? counts.at(code) : 0; }
    // All of these came, and none but those whose names begin so.
    void are(std::initializer_list<const char*> wanted, std::initializer_list<const char*> families) const {
        for (const char* code : wanted) CHECK_MESSAGE(of(code) > 0, std::string(code));
        for (const auto& c : counts) {
            bool known = c.first == "ok";
            for (const char* family : families) known |= c.first.compare(0, std::strlen(family), family) == 0;
            CHECK_MESSAGE(known, c.first);
        }
    }
};

message attribute(const std::string& name, std::int64_t type) { return message().text(schema::attribute::name, name).integer(schema::attribute::type, type); }
message tensor_of(const std::string& name, std::initializer_list<std::int64_t> extents, int type) {
    message m;
    for (const std::int64_t e : extents) m.integer(schema::tensor::dims, e);
    m.integer(schema::tensor::data_type, type);
    return name.empty() ? m : m.text(schema::tensor::name, name);
}
message opset(const std::string& domain, std::int64_t version) {
    message m;
    if (!domain.empty()) m.text(schema::operator_set::domain, domain);
    return m.integer(schema::operator_set::version, version);
}

// A small model that has every kind of field: attributes of all kinds, bodies, functions with attributes, defaults and calls, initializers in
// every field that numbers may lie in, and what no graph of images has.
std::string model_of_everything() {
    using a = schema::attribute;
    using t = schema::tensor;
    using g = schema::graph;
    using f = schema::function;
    const message inner = message().text(g::name, "inner").part(g::node, node("Neg", {"x"}, {"v"})).part(g::output, value_info("v", {2}));
    message all = node("Relu", {"x", "", "x"}, {"z"});
    all.text(schema::node::name, "all")
        .part(schema::node::attribute, attribute("i", a::is_int).integer(a::i, -3))
        .part(schema::node::attribute, attribute("f", a::is_float).real(a::f, 0.5f));
    all.part(schema::node::attribute, attribute("s", a::is_string).text(a::s, "text"))
        .part(schema::node::attribute, attribute("fs", a::is_floats).real(a::floats, 1).real(a::floats, 2));
    all.part(schema::node::attribute, attribute("is", a::is_ints).part(a::ints, message().raw({1, 2, 0x80, 1})))
        .part(schema::node::attribute, attribute("ss", a::is_strings).text(a::strings, "a").text(a::strings, ""));
    all.part(schema::node::attribute, attribute("t", a::is_tensor).part(a::t, tensor_of("", {2}, 7).integer(t::int64_data, 5).integer(t::int64_data, -6)));
    message choice = node("If", {"b"}, {"w"});
    choice.part(schema::node::attribute, attribute("then_branch", a::is_graph).part(a::g, inner))
        .part(schema::node::attribute, attribute("else_branch", a::is_graph).part(a::g, inner));

    message scaled = node("LeakyRelu", {"p"}, {"q"});
    scaled.part(schema::node::attribute, attribute("alpha", a::is_float).text(a::ref_attr_name, "slope"))
        .part(schema::node::attribute, attribute("extra", a::is_int).text(a::ref_attr_name, "more"));
    message own_choice = node("If", {"c"}, {"r"}), body = message().part(g::node, node("twice", {"q"}, {"o"}, "own")).part(g::output, value_info("o", {2}));
    own_choice.part(schema::node::attribute, attribute("then_branch", a::is_graph).part(a::g, body))
        .part(schema::node::attribute, attribute("else_branch", a::is_graph).part(a::g, body));
    const message scale = message()
                              .text(f::name, "scale")
                              .text(f::domain, "own")
                              .text(f::input, "p")
                              .text(f::input, "c")
                              .text(f::output, "r")
                              .text(f::attribute, "more")
                              .text(f::overload, "")
                              .part(f::attribute_proto, attribute("slope", a::is_float).real(a::f, 0.25f))
                              .part(f::node, scaled)
                              .part(f::node, own_choice)
                              .part(f::opset_import, opset("", 17))
                              .part(f::opset_import, opset("own", 1));
    const message twice = message()
                              .text(f::name, "twice")
                              .text(f::domain, "own")
                              .text(f::input, "p")
                              .text(f::output, "r")
                              .part(f::node, node("Add", {"p", "p"}, {"r"}))
                              .part(f::opset_import, opset("ai.onnx", 17));
    message call = node("scale", {"x", "b"}, {"u"}, "own");
    call.part(schema::node::attribute, attribute("more", a::is_int).integer(a::i, 1));

    message graph = message()
                        .text(g::name, "everything")
                        .text(g::doc_string, "doc")
                        .part(g::node, node("Relu", {"x"}, {"y"}))
                        .part(g::node, all)
                        .part(g::node, choice)
                        .part(g::node, call);
    graph.part(g::input, value_info("x", {2})).part(g::input, value_info("b", {}, 9));
    const message open_dim =
        message().part(schema::tensor_shape::dim, message().text(schema::dimension::param, "N")).part(schema::tensor_shape::dim, message());
    graph.part(g::input, message()
                             .text(schema::value_info::name, "open")
                             .part(schema::value_info::type,
                                   message().part(schema::type::tensor,
                                                  message().integer(schema::tensor_type::elem_type, 1).part(schema::tensor_type::shape, open_dim))));
    for (const char* out : {"y", "z", "w", "u"}) graph.part(g::output, message().text(schema::value_info::name, out));
    graph.part(g::value_info, value_info("z", {2}));
    graph.part(g::initializer, tensor_of("raw", {1}, 1).text(t::raw_data, "1234"))
        .part(g::initializer, tensor_of("floats", {2}, 1).real(t::float_data, 1).real(t::float_data, 2));
    graph.part(g::initializer, tensor_of("bytes", {3}, 3).part(t::int32_data, message().raw({1, 0x7f, 5})))
        .part(g::initializer, tensor_of("flags", {2}, 9).integer(t::int32_data, 1).integer(t::int32_data, 0));
    graph.part(g::initializer, tensor_of("halves", {2}, 10).integer(t::int32_data, 0x3c00).integer(t::int32_data, 1))
        .part(g::initializer, tensor_of("longs", {2}, 7).part(t::int64_data, message().raw({3, 4})));
    graph.part(g::initializer, tensor_of("unsigned", {2}, 13).part(t::uint64_data, message().raw({3, 4})))
        .part(g::initializer, tensor_of("words", {1}, 12).integer(t::uint64_data, 7));
    graph.part(g::initializer, tensor_of("doubles", {1}, 11).part(t::double_data, message().raw({0, 0, 0, 0, 0, 0, 0xf0, 0x3f})))
        .part(g::initializer, tensor_of("packed", {2}, 1).part(t::float_data, message().raw({0, 0, 0x80, 0x3f, 0, 0, 0, 0x40})));
    graph.part(g::initializer, tensor_of("fours", {3}, 22).integer(t::int32_data, 0x21).integer(t::int32_data, 3))
        .part(g::initializer, tensor_of("twos", {3}, 25).text(t::raw_data, "\x1b"));
    graph.part(g::initializer, tensor_of("eights", {2}, 17).text(t::raw_data, "ab"))
        .part(g::initializer, tensor_of("none", {0, 3}, 16))
        .part(g::initializer, tensor_of("words16", {2}, 16).text(t::raw_data, "abcd"));
    message m = message()
                    .integer(schema::model::ir_version, 13)
                    .text(schema::model::producer_name, "p")
                    .text(schema::model::producer_version, "1")
                    .text(schema::model::domain, "d")
                    .integer(schema::model::model_version, 4)
                    .text(schema::model::doc_string, "doc");
    m.part(schema::model::graph, graph)
        .part(schema::model::opset_import, opset("", 17))
        .part(schema::model::opset_import, opset("own", 1))
        .part(schema::model::functions, scale)
        .part(schema::model::functions, twice);
    m.part(schema::model::metadata_props, message().text(schema::entry::key, "k").text(schema::entry::value, "v"));
    // A group that nobody knows, with a group and one number of each kind in it.
    m.raw({0x9b, 0x3f, 0x08, 0x81, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1d, 1, 2, 3, 4, 0x22, 1, 'a', 0x2b, 0x2c, 0x9c, 0x3f});
    return {reinterpret_cast<const char*>(m.data.data()), m.data.size()};
}

graft::result<graft::graph> read_model(const std::string& bytes) {
    const exact copy(bytes);
    return graft::read_onnx(copy.data.get(), copy.size, "m", "", {}, nullptr);
}

const std::initializer_list<const char*> model_errors = {"model.", "graph.", "op.", "tensor.", "external.", "memory.budget"};

}  // namespace

TEST_CASE("A model with any byte wrong is refused by name, or is the same model after it was written and read again") {
    const std::string seed = model_of_everything();
    {
        const auto g = read_model(seed);
        REQUIRE_MESSAGE(g.ok(), std::string(g.ok() ? "" : g.error().what()));
        CHECK(g->nodes.size() == 5);
        CHECK(g->model_version == 4);
    }
    verdicts seen;
    int written = 0;
    each_bent(seed, 0, seed.size(), [&](const std::string& bytes) {
        const auto g = read_model(bytes);
        if (!seen.add(g)) return;
        std::vector<std::uint8_t> first, second;
        const graft::status wrote = graft::write_onnx(*g, first);
        if (!wrote.ok()) {
            // Nodes of a function's operator sets may not fit into one file: said, not written wrongly.
            CHECK((wrote.error().code() == graft::errc::model_version || wrote.error().code() == graft::errc::op_unsupported));
            return;
        }
        const auto again = graft::read_onnx(first.data(), first.size(), "m", "", {}, nullptr);
        REQUIRE_MESSAGE(again.ok(), std::string(again.ok() ? "" : again.error().what()));
        REQUIRE(graft::write_onnx(*again, second).ok());
        REQUIRE(first == second);
        ++written;
    });
    CHECK(written > 1000);
    seen.are({"model.truncated", "model.malformed", "graph.dangling", "graph.duplicate", "op.attribute", "tensor.bytes", "tensor.dtype"}, model_errors);
}

TEST_CASE("Every kind of attribute and every type of number is written and read again") {
    graft::graph g = graft::graph();
    const auto whole = read_model(model_of_everything());
    REQUIRE(whole.ok());
    g = *whole;
    g.opsets.push_back({"", 17});
    g.nodes[0].domain = "ai.onnx";
    std::vector<std::uint8_t> out, again;
    REQUIRE(graft::write_onnx(g, out).ok());
    const auto back = graft::read_onnx(out.data(), out.size(), "m", "", {}, nullptr);
    REQUIRE(back.ok());
    CHECK(back->nodes[0].domain.empty());
    CHECK(back->model_version == 4);
    REQUIRE(back->nodes[1].attributes.size() == whole->nodes[1].attributes.size());
    for (std::size_t i = 0; i < whole->nodes[1].attributes.size(); ++i) {
        const graft::attribute &before = whole->nodes[1].attributes[i], &after = back->nodes[1].attributes[i];
        CAPTURE(before.name);
        CHECK(after.name == before.name);
        CHECK(after.kind == before.kind);
        CHECK(after.integer == before.integer);
        CHECK(after.real == before.real);
        CHECK(after.string == before.string);
        CHECK(after.reals == before.reals);
        CHECK(after.integers == before.integers);
        CHECK(after.strings == before.strings);
        if (before.tensor) CHECK(std::memcmp(after.tensor.raw(), before.tensor.raw(), before.tensor.bytes()) == 0);
    }
    std::size_t constants = 0;
    for (const graft::value& v : whole->values)
        for (const graft::value& w : back->values)
            if (v.constant && v.name == w.name) {
                CAPTURE(v.name);
                ++constants;
                REQUIRE(w.constant.type() == v.constant.type());
                REQUIRE(w.constant.bytes() == v.constant.bytes());
                CHECK((v.constant.bytes() == 0 || std::memcmp(w.constant.raw(), v.constant.raw(), v.constant.bytes()) == 0));
            }
    CHECK(constants == 15);
    // What a file cannot say.
    g.nodes[1].attributes[0].kind = graft::attribute_kind::none;
    CHECK(graft::write_onnx(g, again).error().code() == graft::errc::internal);
    g.nodes[1].attributes[0].kind = graft::attribute_kind::graph;
    CHECK(!graft::write_onnx(g, again).ok());
}

TEST_CASE("An array with any byte wrong is refused by name, or is what its bytes say") {
    verdicts seen;
    std::string seed("\x93NUMPY\x01\x00\x46\x00", 10);
    seed += "{'descr': '<f4', 'fortran_order': True, \"shape\": (2, 3L), }";
    seed.resize(80, ' ');
    seed += std::string(24, 'n');
    REQUIRE(graft::read_npy(seed.data(), seed.size(), "a").ok());
    each_bent(seed, 0, seed.size(), [&](const std::string& bytes) {
        const exact copy(bytes);
        const auto read = graft::read_npy(copy.data.get(), copy.size, "a");
        if (seen.add(read)) CHECK(read->bytes() <= 24);
    });
    for (const char* header :
         {"{'descr': [('a', '<f4')]}", "{'descr': {}}", "{'descr': ('<f4',)}", "{'descr': \"<f4\", 'fortran_order': False,\t'shape': (2,\r\n3), }",
          "{'descr': 'f4", "{'descr' '<f4'}", "{descr: 1}", "{'descr': '=f4', 'fortran_order': False, 'shape': (2, 3)}",
          "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2",
          "{'descr':", "{'fortran_order': Tr", "{'shape': (12345678901234567890123,)}", "{'shape': (99999999999, 99999999999, 99999999999)",
          "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "{'descr': '<f4', 'fortran_order': True, 'shape': (6,)}", "{'descr': '<f4'",
          "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3) 7}"}) {
        for (const int version : {0, 1, 2, 3, 4}) {
            std::string file = "\x93NUMPY" + std::string(1, static_cast<char>(version)) + std::string(1, '\0') +
                               std::string(1, static_cast<char>(std::strlen(header))) + std::string(version > 1 ? 3 : 1, '\0') + header + std::string(24, 'n');
            const exact copy(file);
            seen.add(graft::read_npy(copy.data.get(), copy.size, "a"));
        }
    }
    graft::limits little;
    little.memory_bytes = 8;
    CHECK(graft::read_npy(seed.data(), seed.size(), "a", little).error().code() == graft::errc::memory_budget);
    seen.are({"ok", "npy.malformed", "npy.dtype"}, {"npy.", "memory.budget", "tensor."});
}

TEST_CASE("A JSON text with any byte wrong is refused by name, or is a tree") {
    const std::string seed =
        "\r\n{\t\"a\\u00e9\\ud83d\\ude00\\n\\/\" : [1, -0.5E+10, 2e-3, true,false , null, \"\\\"\\\\\\b\\f\\r\\t\"], \"b\":{},\"c\":[ ]\n}";
    REQUIRE(graft::parse_json(seed, "j").ok());
    verdicts seen;
    each_bent(seed, 0, seed.size(), [&](const std::string& bytes) {
        const exact copy(bytes);
        seen.add(graft::parse_json({copy.data.get(), copy.size}, "j"));
    });
    for (const char* text : {"]",
                             "}",
                             "[1}",
                             "{\"a\":1]",
                             "1 ",
                             " 1,",
                             "-",
                             "1.",
                             "1.e2",
                             "1e",
                             "1e+",
                             "01",
                             "-01",
                             "\"\\u12G4\"",
                             "\"\\uD800\"",
                             "\"\\uDC00\"",
                             "\"\\uD800\\u0041\"",
                             "\"\\uD800\\uE000\"",
                             "\"\\uABcd\"",
                             "\"\\",
                             "\"a",
                             "tru",
                             "nul",
                             "falsy",
                             "[1 2]",
                             "{\"a\" 1}",
                             "{\"a\"",
                             "{\"a\":",
                             "{1:2}",
                             "{\"a\":1,}",
                             "[1,]",
                             "[",
                             "{",
                             "1e400",
                             "-1e400",
                             "1e-400",
                             "[1e5",
                             "9223372036854775808",
                             "/"}) {
        const exact copy(text);
        seen.add(graft::parse_json({copy.data.get(), copy.size}, "j"));
    }
    seen.are({"ok", "json.malformed"}, {"json.malformed"});
    graft::json_reader after("[1]x", "j");
    while (after.next() != graft::json_token::end) {
    }
    CHECK(!after.finish().ok());
    CHECK(after.next() == graft::json_token::end);
    CHECK(!after.skip(graft::json_token::number));
    CHECK(after.fault("a second fault does not hide the first") == graft::json_token::end);
    CHECK(after.finish().error().detail().find("something follows") == 0);
    graft::json_reader once("1", "j");
    while (once.next() != graft::json_token::end) {
    }
    CHECK(once.next() == graft::json_token::end);
}

TEST_CASE("A safetensors file with any byte of its header wrong is refused by name, or has what it says") {
    std::string header = "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"BOOL\",\"shape\":"
                         "[2],\"data_offsets\":[8,10]},\"c\":{\"dtype\":\"F8_E4M3\",\"shape\":[],\"data_offsets\":[10,11]},"
                         "\"d\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[11,19]},\"e\":{\"dtype\":\"I64\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                         "1],\"data_offsets\":[19,27]}}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string seed(8, '\0');
    seed[0] = static_cast<char>(header.size() & 255), seed[1] = static_cast<char>(header.size() >> 8);
    seed += header + std::string(27, '\1');
    verdicts seen, loaded;
    const auto use = [&](const std::string& bytes) {
        const exact copy(bytes);
        const auto file = graft::read_safetensors(copy.data.get(), copy.size, "s", {}, nullptr);
        if (!seen.add(file)) return;
        for (const graft::safetensors_entry& e : file->tensors) loaded.add(file->load(e));
    };
    use(seed);
    CHECK(seen.of("ok") == 1);
    CHECK(loaded.of("ok") >= 2);
    each_bent(seed, 0, 8 + header.size(), use);
    seen.are({"ok", "safetensors.malformed"}, {"safetensors.", "tensor.", "json.", "memory.budget", "graph.duplicate"});
    loaded.are({"ok", "tensor.dtype", "tensor.shape"}, {"tensor."});
}

TEST_CASE("A picture with any byte wrong is refused by name, or is a picture; of PNG also behind its checksums") {
    verdicts seen;
    const auto use = [&](const std::string& bytes) {
        const exact copy(bytes);
        const auto picture = graft::decode(copy.data.get(), copy.size, "p");
        if (seen.add(picture)) CHECK(picture->bytes() == picture->width * picture->height * 3);
    };
    const auto four = [](const std::string& s, std::size_t at) {
        std::uint32_t n = 0;
        for (std::size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<std::uint8_t>(s[at + i]);
        return n;
    };
    for (const golden_picture& golden : golden_pictures) {
        const std::string name = golden.name, file = golden_file(name);
        const std::size_t most = std::min<std::size_t>(file.size(), 400);
        if (name.compare(0, 3, "png") != 0) {
            each_bent(file, 0, most, use);
            continue;
        }
        for (std::size_t at = 8; at + 12 <= file.size();) {
            const std::size_t size = four(file, at);
            // Type and body of the chunk, then a length and a checksum that fit.
            each_bent(file.substr(at + 4, size + 4), 0, std::min<std::size_t>(size + 4, 80), [&](const std::string& part) {
                if (part.size() < 4) return;
                use(file.substr(0, at) + big_endian(static_cast<std::uint32_t>(part.size() - 4)) + part + big_endian(crc_of(part.data(), part.size())) +
                    file.substr(at + 12 + size));
            });
            use(file.substr(0, at) + file.substr(at + 12 + size));
            use(file.substr(0, at) + file.substr(at, 12 + size) + file.substr(at));
            at += 12 + size;
        }
    }
    seen.are({"ok", "image.malformed", "image.truncated", "image.unsupported", "image.dimensions"}, {"image."});
}

TEST_CASE("Bitmaps with old headers, gaps in their runs and bit fields of every kind have the pixels that they say") {
    const auto little = [](std::uint32_t n, int bytes) {
        std::string s;
        for (int i = 0; i < bytes; ++i) s += static_cast<char>(n >> (8 * i));
        return s;
    };
    const auto bitmap = [&](const std::string& header, const std::string& behind, const std::string& pixels) {
        const auto at = static_cast<std::uint32_t>(14 + header.size() + behind.size());
        return "BM" + little(at + static_cast<std::uint32_t>(pixels.size()), 4) + little(0, 4) + little(at, 4) + header + behind + pixels;
    };
    const auto decoded = [](const std::string& file) {
        const auto picture = graft::decode(file.data(), file.size(), "p");
        if (!picture.ok()) return std::string(graft::text(picture.error().code()));
        return std::string(reinterpret_cast<const char*>(picture->data()), static_cast<std::size_t>(picture->bytes()));
    };
    const auto header = [&](std::uint32_t size, std::uint32_t width, std::uint32_t height, std::uint32_t bits, std::uint32_t compression) {
        std::string h = little(size, 4) + little(width, 4) + little(height, 4) + little(1, 2) + little(bits, 2) + little(compression, 4);
        h.resize(size, '\0');
        return h;
    };
    // OS/2's header of 12 bytes, colours of three bytes; the picture has one row of "blue red".
    const std::string old = little(12, 4) + little(2, 2) + little(1, 2) + little(1, 2);
    CHECK(decoded(bitmap(old + little(24, 2), "", std::string("\xff\0\0\0\0\xff\0\0", 8))) == std::string("\0\0\xff\xff\0\0", 6));
    CHECK(decoded(bitmap(old + little(1, 2), std::string("\xff\0\0\0\0\xff", 6), std::string("\x40\0\0\0", 4))) == std::string("\0\0\xff\xff\0\0", 6));
    // Bit fields behind a header of 40 bytes, and within longer ones.
    const std::string masks = little(0xff, 4) + little(0xff00, 4) + little(0xff0000, 4), sixes = little(0xf800, 4) + little(0x7e0, 4) + little(0x1f, 4),
                      pixel = std::string("\x0a\x14\x1e\x28", 4);
    CHECK(decoded(bitmap(header(40, 1, 1, 32, 3), masks, pixel)) == "\x0a\x14\x1e");
    CHECK(decoded(bitmap(header(40, 1, 1, 32, 3), little(0xff000000u, 4) + little(0xff0000, 4) + little(0xff00, 4), pixel)) == "\x28\x1e\x14");
    CHECK(decoded(bitmap(header(40, 1, 1, 32, 3), std::string(12, '\0'), pixel)) == "\x1e\x14\x0a");
    CHECK(decoded(bitmap(header(40, 1, 1, 32, 3), little(0x7f, 4) + little(0xff00, 4) + little(0xff, 4), pixel)) == "image.unsupported");
    // Pillow refuses fields that some colour lacks.
    CHECK(decoded(bitmap(header(40, 1, 1, 32, 3), little(0, 4) + little(0xff00, 4) + little(0xff, 4), pixel)) == "image.unsupported");
    CHECK(decoded(bitmap(header(40, 1, 1, 32, 3), little(0, 4) + little(0, 4) + little(0xff, 4), pixel)) == "image.unsupported");
    CHECK(decoded(bitmap(header(40, 1, 1, 16, 3), sixes, std::string("\x1f\xf8\0\0", 4))) == std::string("\xff\0\xff", 3));
    CHECK(decoded(bitmap(header(40, 1, 1, 16, 3), little(0x7c00, 4) + little(0x3e0, 4) + little(0x1f, 4), std::string("\x1f\x7c\0\0", 4))) ==
          std::string("\xff\0\xff", 3));
    CHECK(decoded(bitmap(header(40, 1, 1, 16, 3), masks, pixel)) == "image.unsupported");
    CHECK(decoded(bitmap(header(40, 1, 1, 24, 3), little(0xff0000, 4) + little(0xff00, 4) + little(0xff, 4), pixel)) == "\x1e\x14\x0a");
    CHECK(decoded(bitmap(header(40, 1, 1, 32, 3), "", "")) == "image.truncated");
    for (const std::uint32_t size : {52u, 56u, 108u, 124u}) {
        std::string h = header(size, 1, 1, 32, 3);
        h.replace(40, 12, masks);
        CHECK(decoded(bitmap(h, "", pixel)) == "\x0a\x14\x1e");
    }
    CHECK(decoded(bitmap(header(64, 1, 1, 24, 0), "", pixel)) == "\x1e\x14\x0a");
    CHECK(decoded(bitmap(header(41, 1, 1, 24, 0), "", pixel)) == "image.unsupported");
    // Runs: two of colour 1, then a jump by one to the right and one row up, then one of colour 1; what was jumped over is colour 0.
    std::string grays(4 * 256, '\0');
    for (std::size_t i = 0; i < 256; ++i) grays[4 * i] = grays[4 * i + 1] = grays[4 * i + 2] = static_cast<char>(i);
    std::string jumped = decoded(bitmap(header(40, 3, 2, 8, 1), grays, std::string("\x02\x07\0\x02\x01\x00\x03\x09\0\x01", 10)));
    CHECK(jumped ==
          std::string("\x09\x09\x09\x07\x07\0", 6).replace(0, 6, std::string("\x09\x09\x09\x09\x09\x09\x09\x09\x09\x07\x07\x07\x07\x07\x07\0\0\0", 18)));
    CHECK(decoded(bitmap(header(40, 3, 2, 8, 1), grays, std::string("\x02\x07\0\x02\x01", 5))) == "image.truncated");
    CHECK(decoded(bitmap(header(40, 3, 2, 8, 1), grays, std::string("\x02\x07\0\x05\x01\x02", 6))) == "image.truncated");
    CHECK(decoded(bitmap(header(40, 3, 2, 8, 1), grays, std::string("\0\x02\xff\xff\0\x01", 6))) == std::string(18, '\0'));
}

TEST_CASE("Data sets with any byte wrong are refused by name, or are read") {
    const made_folder folder;
    put_idx(folder, "train", std::string("\0\1\0\1", 4));
    const std::string images = folder.path + "/train-images-idx3-ubyte",
                      list = folder.put("list.csv", "split,label,path\r\ntrain,\"a\"\"b\",1.pgm\n\nval,b,2.pgm\n"), record = cifar_record(3, 7);
    const std::string label_bytes = idx_labels(std::string("\0\1\0\1", 4));
    verdicts seen;
    const auto use = [&](const std::string& path) {
        const auto data = graft::open_dataset(path);
        if (seen.add(data) && data->size() > 0) (void)data->read(0).ok();
    };
    each_bent(label_bytes, 0, label_bytes.size(), [&](const std::string& bytes) {
        folder.put("train-labels-idx1-ubyte", bytes);
        use(folder.path);
    });
    folder.put("train-labels-idx1-ubyte", label_bytes);
    const std::string image_bytes = idx_images(4, 1, 1, "abcd");
    each_bent(image_bytes, 0, image_bytes.size(), [&](const std::string& bytes) {
        folder.put("train-images-idx3-ubyte", bytes);
        use(folder.path);
    });
    folder.put("train-images-idx3-ubyte", image_bytes);
    const std::string lines = "split,label,path\r\ntrain,\"a\"\"b\",1.pgm\n\nval,b,2.pgm\n";
    each_bent(lines, 0, lines.size(), [&](const std::string& bytes) {
        folder.put("list.csv", bytes);
        use(list);
    });
    seen.are({"ok", "data.format", "data.count_mismatch"}, {"data.", "memory.budget"});
}

TEST_CASE("Compressed streams of any bytes, whose code lengths say anything, are refused by name or are pictures") {
    verdicts seen;
    std::string header(13, '\0');
    header[3] = header[7] = 4, header[8] = 8, header[9] = 2;
    const auto chunk = [](const std::string& part) {
        return big_endian(static_cast<std::uint32_t>(part.size() - 4)) + part + big_endian(crc_of(part.data(), part.size()));
    };
    std::uint32_t state = 7;
    for (int round = 0; round < 5000; ++round) {
        std::string data("\x78\x01", 2);
        for (int i = 0; i < 60; ++i) data += static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
        // The last block, and one of each kind: stored, with fixed and with own codes; of the last, half with few lengths.
        data[2] = static_cast<char>((data[2] & 0xf8) | 1 | (round % 4 < 2 ? 4 : round % 4 == 2 ? 2 : 0));
        if (round % 4 == 0) data[2] = static_cast<char>(data[2] & 7), data[3] = static_cast<char>(data[3] & 0xe0);
        const std::string file = "\x89PNG\r\n\x1a\n" + chunk("IHDR" + header) + chunk("IDAT" + data) + chunk("IEND");
        const exact copy(file);
        seen.add(graft::decode(copy.data.get(), copy.size, "p"));
    }
    seen.are({"image.malformed", "image.truncated"}, {"image."});
}

TEST_CASE("Lists and folders of data with other names, columns and records are refused by name, or are read") {
    const made_folder folder;
    verdicts seen;
    for (const char* lines : {"path,split\na,train\n", "label\na\n", "", "path,label\na,1234567890\nb,1\n", "path,label\na,\n", "path,label\n1:/x,a\n",
                              "path,label\n{:/x,a\n", "path,label\n[:/x,a\n", "path,label\n\"a\"\r\n", "path,label,split\na,b,nowhere\n", "path,path\na,b\n"})
        seen.add(graft::open_dataset(folder.put("list.csv", lines)));
    for (const char* part : {"val", "valid", "validation", "test", "own_test", "x.train", "train.", "_train"}) {
        const made_folder own;
        put_idx(own, part, std::string("\0\1", 2));
        own.make("images-idx3-ubyte");
        own.put("labels-idx3-ubyte", "x");
        own.put("train-pictures-idx3-ubyte", "x");
        seen.add(graft::open_dataset(own.path));
        const auto splits = graft::open_splits(own.path);
        ++seen.counts[splits.ok() ? "ok" : graft::text(splits.error().code())];
    }
    for (const char* name : {"train.bin", "test.bin", "data_batch_1.bin", "train.bin.gz", "b.bin"}) {
        const made_folder own;
        own.make("test.bin.d");
        const std::string record = "\1\2" + std::string(3072, 'x');
        for (const std::string& bytes :
             {record, record + record, "\xff\2" + record.substr(2), "\1\xff" + record.substr(2), record.substr(1), std::string("x")}) {
            own.put(name, bytes);
            seen.add(graft::open_dataset(own.path));
            seen.add(graft::open_dataset(own.path + "/" + name));
        }
        for (const std::string& names : {std::string("a\nb\nc"), std::string(600, '\n'), std::string("a\r\nb\r\n")}) {
            for (const char* list : {"fine_label_names.txt", "batches.meta.txt"}) own.put(list, names);
            own.put(name, record);
            seen.add(graft::open_dataset(own.path));
        }
    }
    seen.are({"ok", "data.format"}, {"data.", "memory.budget", "image."});
}
