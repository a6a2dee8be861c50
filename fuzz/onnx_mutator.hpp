// Bends ONNX files field by field, so that most of what comes out is still a model: other numbers, types, operators, attributes and
// connections, fields that are dropped, doubled, swapped or taken from elsewhere.
#pragma once

#include "onnx_tree.hpp"

#include <graft/ops/ops.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace fuzz {

/// splitmix64: the same numbers for a seed on every machine.
class random_numbers {
public:
    explicit random_numbers(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    /// One of 0 … n - 1; 0 where n is 0.
    std::size_t below(std::size_t n) { return n ? static_cast<std::size_t>(next() % n) : 0; }
    bool one_in(std::size_t n) { return below(n) == 0; }
    template <class List>
    auto& one_of(List& list) {
        return list[below(list.size())];
    }

private:
    std::uint64_t state_;
};

/// Bends one model. Every function changes the tree in one place, or leaves it where it has no such place.
class onnx_mutator {
public:
    onnx_mutator(field& model, std::uint64_t seed) : model_(model), random_(seed) {}

    /// One to four changes, and most of the time the sizes of tensors put right behind them.
    void mutate() {
        for (std::size_t n = 1 + random_.below(4); n; --n) change();
        if (!random_.one_in(4)) fit_tensors(model_);
    }
    /// Takes a part of another model in place of one of the same kind, or beside it.
    void cross(field& other) {
        std::vector<field*> theirs = all_of(other, [](const field& f) { return f.kind != message::none && f.number; });
        if (theirs.empty()) return;
        const field part = *random_.one_of(theirs);
        std::vector<field*> ours = all_of(model_, [&](const field& f) { return f.kind == part.kind && f.number == part.number; });
        if (!ours.empty() && !random_.one_in(3))
            *random_.one_of(ours) = part;
        else if (std::vector<field*> graphs = kind_of(message::graph); !graphs.empty() && message_in(message::graph, part.number) == part.kind)
            insert(*random_.one_of(graphs), part);
        fit_tensors(model_);
    }

private:
    using list = std::vector<field*>;

    template <class Test>
    static void gather(field& from, const Test& test, list& out) {
        for (field& f : from.fields) {
            if (test(f)) out.push_back(&f);
            gather(f, test, out);
        }
    }
    template <class Test>
    static list all_of(field& from, const Test& test) {
        list out;
        gather(from, test, out);
        return out;
    }
    list kind_of(message kind) {
        return all_of(model_, [kind](const field& f) { return f.kind == kind; });
    }
    void insert(field& into, field what) {
        into.fields.insert(into.fields.begin() + static_cast<std::ptrdiff_t>(random_.below(into.fields.size() + 1)), std::move(what));
    }

    void change() {
        switch (random_.below(17)) {
        case 0:
        case 1: bend_number(); break;
        case 2: bend_extent(); break;
        case 3: bend_bytes(); break;
        case 4: drop(); break;
        case 5: repeat(); break;
        case 6: swap_fields(); break;
        case 7: splice(); break;
        case 8: change_operator(); break;
        case 9:
        case 10: connect(); break;
        case 11: add_attribute(); break;
        case 12: add_node(); break;
        case 13: change_type(); break;
        case 14: change_version(); break;
        case 15: leave_out_output(); break;
        default: add_output(); break;
        }
    }

    std::int64_t interesting() {
        constexpr auto most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
        static constexpr std::int64_t values[] = {0,
                                                  1,
                                                  -1,
                                                  2,
                                                  -2,
                                                  3,
                                                  4,
                                                  5,
                                                  7,
                                                  8,
                                                  16,
                                                  31,
                                                  32,
                                                  33,
                                                  63,
                                                  64,
                                                  127,
                                                  128,
                                                  255,
                                                  256,
                                                  1024,
                                                  65535,
                                                  65536,
                                                  std::int64_t(1) << 31,
                                                  -(std::int64_t(1) << 31),
                                                  (std::int64_t(1) << 31) - 1,
                                                  std::int64_t(1) << 32,
                                                  std::int64_t(1) << 62,
                                                  most,
                                                  most - 1,
                                                  least,
                                                  least + 1};
        // Small ones lead further: most networks have nothing large.
        return values[random_.one_in(3) ? random_.below(sizeof values / sizeof *values) : random_.below(10)];
    }
    std::uint64_t bent(std::uint64_t value) {
        switch (random_.below(5)) {
        case 0: return value + 1;
        case 1: return value - 1;
        case 2: return 0 - value;
        default: return static_cast<std::uint64_t>(interesting());
        }
    }
    float interesting_real() {
        static constexpr float values[] = {0.f,
                                           -0.f,
                                           1.f,
                                           -1.f,
                                           0.5f,
                                           2.f,
                                           1e-5f,
                                           1e-38f,
                                           3.4e38f,
                                           -3.4e38f,
                                           1e10f,
                                           -7.5f,
                                           std::numeric_limits<float>::infinity(),
                                           -std::numeric_limits<float>::infinity(),
                                           std::numeric_limits<float>::quiet_NaN()};
        return values[random_.below(sizeof values / sizeof *values)];
    }

    // Any number of the file: an attribute's, an extent, a type, a version.
    void bend_number() {
        list numbers = all_of(model_, [](const field& f) { return f.type != 2; });
        if (numbers.empty()) return;
        field& f = *random_.one_of(numbers);
        if (f.type == 5) {
            const float real = interesting_real();
            std::uint32_t bits;
            std::memcpy(&bits, &real, sizeof bits);
            f.value = bits;
        } else
            f.value = bent(f.value);
    }
    void bend_extent() {
        namespace schema = graft::onnx_schema;
        list shapes = all_of(model_, [](const field& f) { return f.kind == message::shape || f.kind == message::tensor; });
        if (shapes.empty()) return;
        field& f = *random_.one_of(shapes);
        const bool declared = f.kind == message::shape;
        const auto extent = [&](std::int64_t n) {
            return declared ? field::part(schema::tensor_shape::dim, message::dimension, {field::integer_field(schema::dimension::value, n)})
                            : field::integer_field(schema::tensor::dims, n);
        };
        list extents;
        for (field& e : f.fields)
            if (e.is(declared ? std::uint32_t(schema::tensor_shape::dim) : std::uint32_t(schema::tensor::dims))) extents.push_back(&e);
        if (extents.empty() || random_.one_in(4)) return insert(f, extent(static_cast<std::int64_t>(random_.below(5))));
        field& e = *random_.one_of(extents);
        if (declared && random_.one_in(4))  // an open one, "N" like the others
            e = field::part(schema::tensor_shape::dim, message::dimension, {field::text_field(schema::dimension::param, "N")});
        else
            e = extent(random_.one_in(5) ? interesting() : static_cast<std::int64_t>(random_.below(9)));
    }
    // A text, or the contents of a tensor: their length stays, mostly.
    void bend_bytes() {
        list leaves = all_of(model_, [](const field& f) { return f.type == 2 && f.kind == message::none; });
        if (leaves.empty()) return;
        std::string& bytes = random_.one_of(leaves)->bytes;
        if (bytes.empty() || random_.one_in(8)) bytes.resize(random_.below(64), static_cast<char>(random_.next()));
        if (bytes.empty()) return;
        const std::size_t width = std::size_t(1) << random_.below(4);
        if (width == 1 || bytes.size() < width) {
            bytes[random_.below(bytes.size())] ^= static_cast<char>(1u << random_.below(8));
            return;
        }
        char* at = &bytes[random_.below(bytes.size() / width) * width];
        const std::int64_t integer = interesting();
        const float real = interesting_real();
        const double wide = static_cast<double>(real);
        if (random_.one_in(2))
            std::memcpy(at, &integer, width);
        else if (width == 8)
            std::memcpy(at, &wide, 8);
        else
            std::memcpy(at, &real, std::min<std::size_t>(width, 4));
    }

    field* any_message() {
        list with_fields = all_of(model_, [](const field& f) { return !f.fields.empty(); });
        return with_fields.empty() ? nullptr : random_.one_of(with_fields);
    }
    void drop() {
        field* f = any_message();
        if (f) f->fields.erase(f->fields.begin() + static_cast<std::ptrdiff_t>(random_.below(f->fields.size())));
    }
    void repeat() {
        field* f = any_message();
        if (!f) return;
        const field again = random_.one_of(f->fields);
        insert(*f, again);
    }
    void swap_fields() {
        field* f = any_message();
        if (f && f->fields.size() > 1) std::swap(random_.one_of(f->fields), f->fields.front());
    }
    // A part takes the place of another of its kind.
    void splice() {
        list parts = all_of(model_, [](const field& f) { return f.kind != message::none || f.type == 2; });
        if (parts.empty()) return;
        field& to = *random_.one_of(parts);
        list alike = all_of(model_, [&](const field& f) { return f.kind == to.kind && f.number == to.number && f.type == to.type; });
        const field from = *random_.one_of(alike);  // a copy: it may hold `to`, or lie in it
        to = from;
    }

    const graft::op_row& any_operator() {
        const graft::ops::table_list all = graft::ops::all_op_tables();
        for (;;) {
            const graft::op_table& table = all.rows[random_.below(static_cast<std::size_t>(all.size))];
            if (table.size) return table.rows[random_.below(static_cast<std::size_t>(table.size))];
        }
    }
    static const graft::op_row* operator_of(const field& node) {
        namespace schema = graft::onnx_schema;
        for (const graft::op_table& table : graft::ops::all_op_tables())
            for (const graft::op_row& row : table)
                if (node.text(schema::node::op_type) == row.name) return &row;
        return nullptr;
    }
    void change_operator() {
        namespace schema = graft::onnx_schema;
        list nodes = kind_of(message::node);
        if (nodes.empty()) return;
        field& node = *random_.one_of(nodes);
        const graft::op_row& row = any_operator();
        node.set_text(schema::node::op_type, row.name);
        if (*row.domain || node.find(schema::node::domain)) node.set_text(schema::node::domain, row.domain);
    }

    // Names that a graph has: of its inputs, its constants and what its nodes make.
    static std::vector<std::string> names_of(const field& graph) {
        namespace schema = graft::onnx_schema;
        std::vector<std::string> names;
        for (const field& f : graph.fields) {
            if (f.is(schema::graph::input)) names.push_back(f.text(schema::value_info::name));
            if (f.is(schema::graph::initializer)) names.push_back(f.text(schema::tensor::name));
            if (f.kind == message::node)
                for (const field& out : f.fields)
                    if (out.is(schema::node::output)) names.push_back(out.bytes);
        }
        return names;
    }
    // An input of a node becomes another value of its graph, or is left out.
    void connect() {
        namespace schema = graft::onnx_schema;
        list graphs = kind_of(message::graph), nodes;
        if (graphs.empty()) return;
        field& graph = *random_.one_of(graphs);
        for (field& f : graph.fields)
            if (f.kind == message::node) nodes.push_back(&f);
        const std::vector<std::string> names = names_of(graph);
        if (nodes.empty() || names.empty()) return;
        field& node = *random_.one_of(nodes);
        list inputs;
        for (field& f : node.fields)
            if (f.is(schema::node::input)) inputs.push_back(&f);
        const std::string name = random_.one_in(8) ? std::string() : names[random_.below(names.size())];
        if (inputs.empty() || random_.one_in(6))
            node.fields.push_back(field::text_field(schema::node::input, name));
        else
            random_.one_of(inputs)->bytes = name;
    }

    // "name:kind" of a row, with a value that is drawn.
    field drawn_attribute(const std::string& known) {
        namespace schema = graft::onnx_schema;
        using attribute = schema::attribute;
        const std::size_t colon = std::min(known.find(':'), known.size());
        const std::string kind = known.substr(std::min(colon + 1, known.size()));
        field a = field::part(schema::node::attribute, message::attribute, {field::text_field(attribute::name, known.substr(0, colon))});
        const auto add = [&](field f, std::int64_t type) {
            a.fields.push_back(std::move(f));
            a.fields.push_back(field::integer_field(attribute::type, type));
        };
        const auto real = [&](std::uint32_t number) {
            field f;
            const float value = interesting_real();
            std::uint32_t bits;
            std::memcpy(&bits, &value, sizeof bits);
            f.number = number, f.type = 5, f.value = bits;
            return f;
        };
        static const char* const words[] = {"",
                                            "linear",
                                            "nearest",
                                            "cubic",
                                            "reflect",
                                            "edge",
                                            "wrap",
                                            "constant",
                                            "SAME_UPPER",
                                            "SAME_LOWER",
                                            "VALID",
                                            "sum",
                                            "mean",
                                            "none",
                                            "bilinear",
                                            "half_pixel",
                                            "align_corners",
                                            "asymmetric",
                                            "floor",
                                            "ceil",
                                            "add",
                                            "mul",
                                            "max",
                                            "min",
                                            "DCR",
                                            "CRD",
                                            "forward",
                                            "reverse",
                                            "bidirectional",
                                            "ij,jk->ik",
                                            "ii->i",
                                            "...i->...",
                                            "Tanh",
                                            "tf_crop_and_resize",
                                            "LEFT"};
        const std::size_t count = random_.below(7);
        if (kind == "i") add(field::integer_field(attribute::i, interesting()), attribute::is_int);
        if (kind == "f") add(real(attribute::f), attribute::is_float);
        if (kind == "s") add(field::text_field(attribute::s, words[random_.below(sizeof words / sizeof *words)]), attribute::is_string);
        if (kind == "is") {
            for (std::size_t n = 0; n < count; ++n) a.fields.push_back(field::integer_field(attribute::ints, interesting()));
            a.fields.push_back(field::integer_field(attribute::type, attribute::is_ints));
        }
        if (kind == "fs") {
            for (std::size_t n = 0; n < count; ++n) a.fields.push_back(real(attribute::floats));
            a.fields.push_back(field::integer_field(attribute::type, attribute::is_floats));
        }
        if (kind == "ss") {
            for (std::size_t n = 0; n < count; ++n)
                a.fields.push_back(field::text_field(attribute::strings, words[random_.below(sizeof words / sizeof *words)]));
            a.fields.push_back(field::integer_field(attribute::type, attribute::is_strings));
        }
        if (kind == "t" || kind == "g") {  // of those that the file has
            const message inner = kind == "t" ? message::tensor : message::graph;
            list there = kind_of(inner);
            if (!there.empty()) {
                field copy = *random_.one_of(there);
                copy.number = kind == "t" ? attribute::t : attribute::g;
                add(std::move(copy), kind == "t" ? attribute::is_tensor : attribute::is_graph);
            }
        }
        return a;
    }
    static std::vector<std::string> words_of(const char* text) {
        std::vector<std::string> words(1);
        for (; *text; ++text)
            if (*text != ' ')
                words.back() += *text;
            else if (!words.back().empty())
                words.emplace_back();
        if (words.back().empty()) words.pop_back();
        return words;
    }
    void add_attribute() {
        namespace schema = graft::onnx_schema;
        list nodes = kind_of(message::node);
        if (nodes.empty()) return;
        field& node = *random_.one_of(nodes);
        const graft::op_row* row = operator_of(node);
        const std::vector<std::string> known = row ? words_of(row->attributes) : std::vector<std::string>();
        if (known.empty()) return;
        field made = drawn_attribute(known[random_.below(known.size())]);
        for (field& f : node.fields)
            if (f.kind == message::attribute && f.text(schema::attribute::name) == made.text(schema::attribute::name)) {
                f = std::move(made);
                return;
            }
        node.fields.push_back(std::move(made));
    }

    // A new node that reads what is there, and is read by another node or is an output.
    void add_node() {
        namespace schema = graft::onnx_schema;
        list graphs = kind_of(message::graph);
        if (graphs.empty()) return;
        field& graph = *random_.one_of(graphs);
        const std::vector<std::string> names = names_of(graph);
        if (names.empty()) return;
        const graft::op_row& row = any_operator();
        field node = field::part(schema::graph::node, message::node, {});
        const auto least = static_cast<std::size_t>(row.min_inputs), most = static_cast<std::size_t>(row.max_inputs < 0 ? 4 : row.max_inputs);
        for (std::size_t n = least + random_.below(std::max(most, least) - least + 1); n; --n)
            node.fields.push_back(field::text_field(schema::node::input, names[random_.below(names.size())]));
        const std::string made = "made" + std::to_string(random_.below(100));
        node.fields.push_back(field::text_field(schema::node::output, made));
        node.fields.push_back(field::text_field(schema::node::op_type, row.name));
        if (*row.domain) node.fields.push_back(field::text_field(schema::node::domain, row.domain));
        for (const std::string& known : words_of(row.attributes))
            if (random_.one_in(3)) node.fields.push_back(drawn_attribute(known));
        graph.fields.push_back(std::move(node));
        graph.fields.push_back(field::part(schema::graph::output, message::value_info, {field::text_field(schema::value_info::name, made)}));
    }
    void add_output() {
        namespace schema = graft::onnx_schema;
        list graphs = kind_of(message::graph);
        if (graphs.empty()) return;
        field& graph = *random_.one_of(graphs);
        const std::vector<std::string> names = names_of(graph);
        if (!names.empty())
            graph.fields.push_back(
                field::part(schema::graph::output, message::value_info, {field::text_field(schema::value_info::name, names[random_.below(names.size())])}));
    }

    // An output of a node that nobody asks for any more, such as the values of a TopK beside its indices.
    void leave_out_output() {
        namespace schema = graft::onnx_schema;
        list outputs;
        for (field* node : kind_of(message::node))
            for (field& f : node->fields)
                if (f.is(schema::node::output)) outputs.push_back(&f);
        if (!outputs.empty()) random_.one_of(outputs)->bytes.clear();
    }

    void change_type() {
        namespace schema = graft::onnx_schema;
        list types = all_of(model_, [](const field& f) { return f.kind == message::tensor || f.kind == message::tensor_type; });
        if (types.empty()) return;
        field& f = *random_.one_of(types);
        const std::uint32_t number = f.kind == message::tensor ? std::uint32_t(schema::tensor::data_type) : std::uint32_t(schema::tensor_type::elem_type);
        if (field* type = f.find(number)) type->value = random_.one_in(4) ? random_.below(30) : 1 + random_.below(13);
    }
    void change_version() {
        namespace schema = graft::onnx_schema;
        list imports = kind_of(message::opset);
        if (imports.empty()) return;
        if (field* version = random_.one_of(imports)->find(schema::operator_set::version))
            version->value = random_.one_in(6) ? static_cast<std::uint64_t>(interesting()) : 6 + random_.below(23);
    }

    // Bytes of an element in raw_data, 0 where that is not known (or less than one).
    static std::size_t element_bytes(std::uint64_t type) {
        static constexpr std::uint8_t bytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2, 1, 1, 1, 1};
        return type < sizeof bytes ? bytes[type] : 0;
    }
    // raw_data of tensors becomes as long as type and extents say, so that files are not refused for that alone.
    static void fit_tensors(field& from) {
        namespace schema = graft::onnx_schema;
        for (field& f : from.fields) {
            fit_tensors(f);
            field* raw = f.kind == message::tensor ? f.find(schema::tensor::raw_data) : nullptr;
            if (!raw) continue;
            const field* type = f.find(schema::tensor::data_type);
            std::uint64_t size = element_bytes(type ? type->value : 0);
            for (const field& e : f.fields)
                if (e.is(schema::tensor::dims)) size = e.value <= 4096 ? size * e.value : 1 << 20;
            if (size && size <= 4096) raw->bytes.resize(static_cast<std::size_t>(size), '\x3f');
        }
    }

    field& model_;
    random_numbers random_;
};

}  // namespace fuzz
