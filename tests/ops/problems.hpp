// Test problems of the op table: the text that a row carries, made into a graph of one node and its inputs.
#pragma once

#include <graft/graft.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace problems {

// splitmix64: the same numbers on every machine.
struct numbers {
    std::uint64_t state;
    std::uint64_t next() {
        std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    double uniform(double low, double high) { return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53; }
};

inline std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::string part;
    for (char c : text) {
        if (c == at) {
            if (!part.empty()) parts.push_back(part);
            part.clear();
        } else
            part += c;
    }
    if (!part.empty()) parts.push_back(part);
    return parts;
}

inline graft::dtype type_named(const std::string& name) {
    using graft::dtype;
    const struct {
        const char* name;
        dtype type;
    } types[] = {{"f32", dtype::float32}, {"f64", dtype::float64}, {"f16", dtype::float16}, {"bf16", dtype::bfloat16}, {"i8", dtype::int8},
                 {"u8", dtype::uint8},    {"i16", dtype::int16},   {"u16", dtype::uint16},  {"i32", dtype::int32},     {"u32", dtype::uint32},
                 {"i64", dtype::int64},   {"u64", dtype::uint64},  {"b", dtype::boolean}};
    for (const auto& t : types)
        if (name == t.name) return t.type;
    return dtype::undefined;
}

struct problem {
    graft::graph g;
    std::vector<graft::tensor> inputs;
    std::string error;
};

// One input: "f32[2,3]~-1:1", "i64{1,2}", "i64(5)", "-". False where the text is none.
inline bool add_input(problem& p, graft::node& n, const std::string& text, numbers& random) {
    if (text == "-") {
        n.inputs.push_back(graft::no_value);
        return true;
    }
    const std::size_t open = text.find_first_of("[{(");
    if (open == std::string::npos || open == 0) return false;
    const graft::dtype type = type_named(text.substr(0, open));
    if (type == graft::dtype::undefined) return false;
    const std::size_t close = text.find_first_of("]})", open);
    const std::vector<std::string> items = split(text.substr(open + 1, close - open - 1), ',');
    graft::shape shape;
    std::vector<double> values;
    if (text[open] == '[')
        for (const std::string& item : items) shape.push_back(std::atoll(item.c_str()));
    else {
        if (text[open] == '{') shape.push_back(static_cast<std::int64_t>(items.size()));
        for (const std::string& item : items) values.push_back(std::atof(item.c_str()));
    }
    double low = graft::is_float(type)                                       ? -2
                 : graft::is_unsigned(type) || type == graft::dtype::boolean ? 0
                                                                             : -5,
           high = type == graft::dtype::boolean ? 2
                  : graft::is_float(type)       ? 2
                                                : 6;
    const std::size_t range = text.find('~', close);
    if (range != std::string::npos) {
        low = std::atof(text.c_str() + range + 1);
        high = std::atof(text.c_str() + text.find(':', range) + 1);
    }
    graft::tensor t = graft::tensor::make(type, shape);
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        double v = values.empty() ? random.uniform(low, high) : values[static_cast<std::size_t>(i)];
        if (type == graft::dtype::boolean) v = v >= 1;
        graft::store_from_double(type, t.raw(), i, 1, &v);
    }
    const std::string name = "x" + std::to_string(n.inputs.size());
    if (!values.empty())
        n.inputs.push_back(p.g.add_constant(name, t));
    else {
        const graft::value_id id = p.g.add_value(name);
        graft::value& v = p.g.at(id);
        v.type = type;
        v.has_shape = true;
        v.extents = shape;
        p.g.inputs.push_back(id);
        p.inputs.push_back(t);
        n.inputs.push_back(id);
    }
    return true;
}

inline bool add_attribute(graft::node& n, const graft::op_row& row, const std::string& name, const std::string& text) {
    for (const std::string& known : split(row.attributes, ' ')) {
        if (known.substr(0, known.find(':')) != name) continue;
        const std::string kind = known.substr(known.find(':') + 1);
        graft::attribute a;
        a.name = name;
        if (kind == "i")
            a.kind = graft::attribute_kind::integer, a.integer = std::atoll(text.c_str());
        else if (kind == "f")
            a.kind = graft::attribute_kind::real, a.real = static_cast<float>(std::atof(text.c_str()));
        else if (kind == "s")
            a.kind = graft::attribute_kind::string, a.string = text;
        else if (kind == "is") {
            a.kind = graft::attribute_kind::integers;
            for (const std::string& item : split(text, ',')) a.integers.push_back(std::atoll(item.c_str()));
        } else if (kind == "fs") {
            a.kind = graft::attribute_kind::reals;
            for (const std::string& item : split(text, ',')) a.reals.push_back(static_cast<float>(std::atof(item.c_str())));
        } else if (kind == "ss") {
            a.kind = graft::attribute_kind::strings;
            a.strings = split(text, ',');
        } else
            return false;
        n.attributes.push_back(std::move(a));
        return true;
    }
    return false;
}

// The problem that `text` describes; `error` says what is wrong with the text.
inline problem read(const graft::op_row& row, const std::string& text) {
    problem p;
    graft::node n;
    n.op_type = row.name;
    n.domain = row.domain;
    n.name = row.name;
    int version = row.until ? row.until : graft::newest_opset;
    numbers random{42};
    for (const std::string& word : split(text, ' ')) {
        const std::size_t equals = word.find('=');
        if (word[0] == '@')
            version = std::atoi(word.c_str() + 1);
        else if (equals != std::string::npos && word.find_first_of("[{(") > equals) {
            if (!add_attribute(n, row, word.substr(0, equals), word.substr(equals + 1))) p.error = "attribute " + word;
        } else if (!add_input(p, n, word, random))
            p.error = "input " + word;
    }
    const int outputs = row.min_outputs > 1 ? row.min_outputs : 1;
    const bool many = row.max_outputs == -1;
    const graft::attribute* count = n.find("num_outputs");
    for (int i = 0; i < (many && count ? static_cast<int>(count->integer) : outputs); ++i) {
        n.outputs.push_back(p.g.add_value("y" + std::to_string(i)));
        p.g.outputs.push_back(n.outputs.back());
    }
    p.g.opsets.push_back({row.domain, version});
    if (row.domain[0]) p.g.opsets.push_back({"", graft::newest_opset});
    p.g.ir_version = 10;
    p.g.name = text;
    p.g.nodes.push_back(std::move(n));
    return p;
}

// What came of a problem that was run.
struct answer {
    std::vector<graft::tensor> outputs;
    std::string error, code;  // of what went wrong: its text, and its code's
    graft::model network;     // empty where it could not be loaded
};

inline answer run(const problem& p, const graft::load_options& options, int threads = 1) {
    answer a;
    const auto failed = [&a](const class graft::error& e) {
        a.error = e.what();
        a.code = graft::text(e.code());
        return a;
    };
    auto loaded = graft::load(p.g, options);
    if (!loaded.ok()) return failed(loaded.error());
    a.network = loaded.value();
    graft::session session(a.network, {threads, nullptr});
    for (std::size_t i = 0; i < p.inputs.size(); ++i)
        if (const graft::status s = session.set_input(i, p.inputs[i]); !s.ok()) return failed(s.error());
    if (const graft::status s = session.run(); !s.ok()) return failed(s.error());
    for (std::size_t i = 0; i < a.network.outputs().size(); ++i) a.outputs.push_back(session.output(i));
    return a;
}

}  // namespace problems
