// The text of a header that holds a network.
#include "header_text.hpp"

#include "../pictures.hpp"

#include <graft/core/fnv1a.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace program {
namespace {

// What C++ up to C++23 keeps for itself, and what names a namespace that is there, a macro of compilers, or the program's first function.
constexpr const char* taken_names[] = {
    "alignas",   "alignof",  "and",      "and_eq",       "asm",       "auto",       "bitand",        "bitor",       "bool",
    "break",     "case",     "catch",    "char",         "char8_t",   "char16_t",   "char32_t",      "class",       "co_await",
    "co_return", "co_yield", "compl",    "concept",      "const",     "const_cast", "consteval",     "constexpr",   "constinit",
    "continue",  "decltype", "default",  "delete",       "do",        "double",     "dynamic_cast",  "else",        "enum",
    "explicit",  "export",   "extern",   "false",        "float",     "for",        "friend",        "goto",        "if",
    "inline",    "int",      "long",     "mutable",      "namespace", "new",        "noexcept",      "not",         "not_eq",
    "nullptr",   "operator", "or",       "or_eq",        "private",   "protected",  "public",        "register",    "reinterpret_cast",
    "requires",  "return",   "short",    "signed",       "sizeof",    "static",     "static_assert", "static_cast", "struct",
    "switch",    "template", "this",     "thread_local", "throw",     "true",       "try",           "typedef",     "typeid",
    "typename",  "union",    "unsigned", "using",        "virtual",   "void",       "volatile",      "wchar_t",     "while",
    "xor",       "xor_eq",   "std",      "posix",        "graft",     "main",       "linux",         "unix"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_taken(const std::string& name) { return std::find(std::begin(taken_names), std::end(taken_names), name) != std::end(taken_names); }

// Names with two underscores, or one at the beginning, are the compiler's.
bool is_identifier(const std::string& name) {
    if (name.empty() || !is_letter(name[0]) || name.find("__") != std::string::npos || is_taken(name)) return false;
    return std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

constexpr std::size_t columns = 150;

// Adds one byte; `next` is the byte behind it, which must not be read as a further digit.
void add_escaped(std::string& line, unsigned char c, unsigned char next) {
    char octal[8];
    // "??/" and its like were other characters before C++17.
    if (c >= 32 && c < 127 && c != '"' && c != '\\' && c != '?')
        line += static_cast<char>(c);
    else {
        std::snprintf(octal, sizeof octal, next >= '0' && next <= '7' ? "\\%03o" : "\\%o", c);
        line += octal;
    }
}

// For a comment: printable ASCII, without what would join the next line to it or pass for other text.
std::string comment(const std::string& text) {
    constexpr std::size_t most = 400;
    std::string plain;
    for (const char c : text.substr(0, most)) plain += c >= 32 && c < 127 && c != '\\' ? c : '?';
    return text.size() > most ? plain + "..." : plain;
}
std::string quoted(const std::string& text) { return "\"" + comment(text) + "\""; }

std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& by) {
    for (const auto& one : by)
        for (std::size_t at = 0; (at = text.find(one.first, at)) != std::string::npos; at += one.second.size()) text.replace(at, one.first.size(), one.second);
    return text;
}

std::string joined(const std::vector<std::string>& list, const char* between) {
    std::string text;
    for (const std::string& one : list) text += (text.empty() ? "" : between) + one;
    return text;
}

// Comment lines of a text that may be long, broken between words.
std::string comment_lines(const std::string& text) {
    std::string lines, line = "//";
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        if (line.size() + 1 + end - at > columns && line.size() > 2) lines += line + "\n", line = "//  ";
        line += " " + text.substr(at, end - at);
        at = end + 1;
    }
    return lines + line + "\n";
}

// Bytes of the file in one array that is as long as they are: MSVC takes 16 KiB in one literal, and 64 KiB in those that stand beside each other, so
// that there are many; and the 0 that C++ puts behind each is a byte of the file.
constexpr std::size_t most_literal = 65000, list_length = 4096;

struct part {
    std::size_t begin, size;  // of the file's bytes; `size` counts the 0
    bool literal;
};

std::vector<part> parts_of(const std::vector<std::uint8_t>& bytes) {
    std::vector<part> parts;
    std::size_t at = 0;
    while (bytes.size() - at > most_literal) {
        std::size_t end = at + most_literal;
        while (end > at && bytes[end - 1] != 0) --end;
        const bool literal = end > at;
        if (!literal) end = at + list_length;
        parts.push_back({at, end - at, literal});
        at = end;
    }
    parts.push_back({at, bytes.size() - at + 1, true});  // whose 0 is one byte more
    return parts;
}

std::string part_text(const std::vector<std::uint8_t>& bytes, const part& p) {
    const char* from = reinterpret_cast<const char*>(bytes.data()) + p.begin;
    if (p.literal) return literals(from, p.size - 1);
    std::string text = "{", line;
    for (std::size_t i = 0; i < p.size; ++i) {
        line += from[i] == '\'' ? "'\\" : "'";
        add_escaped(line, static_cast<unsigned char>(from[i]), 0);
        line += i + 1 < p.size ? "'," : "'";
        if (line.size() >= columns) text += line + "\n", line.clear();
    }
    return text + line + "}";
}

graft::status write_bytes(const std::vector<std::uint8_t>& bytes, const std::function<graft::status(const std::string&)>& write) {
    const std::vector<part> parts = parts_of(bytes);
    std::string members;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        members += i % 8 ? " " : "\n    ";
        members += "char part_" + std::to_string(i) + "[" + std::to_string(parts[i].size) + "];";
    }
    GRAFT_TRY(write(
        "namespace embedded {\n"
        "// The network's ONNX file. Compilers differ in how long a literal may be, so that there are several; the 0 that ends each is a byte of the file.\n"
        "inline constexpr std::size_t model_size = " +
        std::to_string(bytes.size()) + ";\nstruct model_parts {" + members + "\n};\ninline constexpr model_parts model_bytes = {\n"));
    for (std::size_t i = 0; i < parts.size(); ++i) GRAFT_TRY(write(part_text(bytes, parts[i]) + (i + 1 < parts.size() ? ",\n" : "\n")));
    return write("};\n"
                 "static_assert(sizeof(model_parts) == model_size + 1, \"the parts lie without gaps\");\n"
                 "}  // namespace embedded\n");
}

std::string label_list(const std::vector<std::string>& labels) {
    std::string text = "/// What the classes are called, by the index of a prediction.\ninline constexpr std::string_view labels[] = {\n";
    for (const std::string& label : labels) {
        const std::string literal = literals(label.data(), label.size());
        const bool cut = label.find('\0') != std::string::npos;
        text += cut ? "{" + literal + ", " + std::to_string(label.size()) + "},\n" : literal + ",\n";
    }
    return text + "};\n";
}

// @...@ are replaced.
constexpr const char* beginning = R"(#pragma once

// Where the app does not say which operators graft is to hold, it holds those of this network. Files of a program whose headers name other ones have a copy
// of graft each.
#if !defined(GRAFT_OPS) && !defined(GRAFT_SPLIT) && !defined(GRAFT_VERSION_MAJOR)
#define GRAFT_OPS "@OPS@"
#define GRAFT_ABI_OPS _ops_@HASH@
#endif
#include <graft/graft.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

@ASSERTIONS@
namespace @NAME@ {
)";

constexpr const char* network_functions = R"(
inline namespace GRAFT_ABI {

/// The network as a graph, for who loads it otherwise than `model` does: with options, or onto a GPU by `graft::runtime<...>::load`. Errors: memory.oom.
inline graft::result<graft::graph> network() {
    using answer = graft::result<graft::graph>;
    return graft::detail::or_out_of_memory<answer>("@NAME@", []() -> answer {
        // Weights are read where they lie, which is in the program for as long as it runs.
        const std::shared_ptr<const void> always(&embedded::model_bytes, [](const void*) {});
        return graft::read_onnx(&embedded::model_bytes, embedded::model_size, "@NAME@", "", {}, always);
    });
}

/// The network on the CPU, loaded once in a process, at the first call; all threads share it. Errors: those of graft::load; the next call tries again.
inline graft::result<graft::model> model() {
    using answer = graft::result<graft::model>;
    return graft::detail::or_out_of_memory<answer>("@NAME@", []() -> answer {
        static std::mutex guard;
        static graft::model& loaded = *new graft::model;  // never deleted: threads may still ask while the program ends
        const std::lock_guard<std::mutex> lock(guard);
        if (!loaded) {
            graft::graph read;
            GRAFT_TRY_ASSIGN(read, network());
            graft::load_options options;
            options.open_batch = @OPEN@;
            GRAFT_TRY_ASSIGN(loaded, graft::load(std::move(read), options));
        }
        return loaded;
    });
}
)";

constexpr const char* idle_text = R"(
namespace detail {
// @TITLE@ that nobody uses just now. Each serves one thread at a time, so that there are as many as threads have asked at once.
class idle_@WORKER@s {
public:
    static idle_@WORKER@s& all() {
        static idle_@WORKER@s& only = *new idle_@WORKER@s;  // never deleted: threads may still ask while the program ends
        return only;
    }
    std::optional<graft::@WORKER@> take() {
        const std::lock_guard<std::mutex> lock(guard_);
        if (idle_.empty()) return std::nullopt;
        std::optional<graft::@WORKER@> one(std::move(idle_.back()));
        idle_.pop_back();
        return one;
    }
    void give_back(graft::@WORKER@ one) {
        const std::lock_guard<std::mutex> lock(guard_);
        idle_.push_back(std::move(one));
    }

private:
    std::mutex guard_;
    std::vector<graft::@WORKER@> idle_;
};
}  // namespace detail
)";

constexpr const char* classifier_functions = R"(
/// A classifier of the caller's own, for one thread at a time: for many pictures at once, and for the probabilities of all classes. The network is shared.
/// Errors: those of `model` and of graft::classifier::make.
inline graft::result<graft::classifier> classifier(const graft::session_options& how = {}) {
    graft::model shared;
    GRAFT_TRY_ASSIGN(shared, model());
    graft::classifier_options options;
    options.session = how;@OUTPUT@
    return graft::classifier::make(shared, options);
}
@IDLE@
/// The `top` likeliest classes of a picture in memory, likeliest first; threads may call it at the same time. Errors: preprocess.crop, those of `model` and
/// of a run.
inline graft::result<std::vector<graft::prediction>> classify(const graft::image& picture, int top = 5) {
    using answer = graft::result<std::vector<graft::prediction>>;
    return graft::detail::or_out_of_memory<answer>("@NAME@", [&]() -> answer {
        std::optional<graft::classifier> mine = detail::idle_classifiers::all().take();
        if (!mine) {
            auto made = classifier();
            if (!made.ok()) return made.take_status();
            mine.emplace(std::move(made).value());
        }
        answer named = mine->classify(picture, top);
        detail::idle_classifiers::all().give_back(std::move(*mine));
        return named;
    });
}
/// The same of a picture's file. More errors: image.*.
inline graft::result<std::vector<graft::prediction>> classify(const std::string& path, int top = 5) {
    graft::image picture;
    GRAFT_TRY_ASSIGN(picture, graft::decode_file(path));
    return classify(picture, top);
}
/// The same of the bytes of a picture's file, such as a camera, a request or an archive gives them.
inline graft::result<std::vector<graft::prediction>> classify_bytes(const void* bytes, std::size_t size, int top = 5) {
    graft::image picture;
    GRAFT_TRY_ASSIGN(picture, graft::decode(bytes, size, "picture in memory"));
    return classify(picture, top);
}
)";

constexpr const char* run_functions = R"(@IDLE@
namespace detail {
template <class Answer, class Input>
Answer run_idle(const Input& input) {
    return graft::detail::or_out_of_memory<Answer>("@NAME@", [&]() -> Answer {
        std::optional<graft::session> mine = idle_sessions::all().take();
        if (!mine) {
            graft::model shared;
            GRAFT_TRY_ASSIGN(shared, model());
            mine.emplace(shared);
        }
        Answer outputs = mine->run(input);
        idle_sessions::all().give_back(std::move(*mine));
        return outputs;
    });
}
}  // namespace detail

/// Runs the network on inputs by name; threads may call it at the same time. Errors: those of `model` and of graft::session::run.
inline graft::result<std::vector<graft::named_tensor>> run(const std::vector<graft::named_tensor>& inputs) {
    return detail::run_idle<graft::result<std::vector<graft::named_tensor>>>(inputs);
}
/// The same of a network with one input: its first output.
inline graft::result<graft::tensor> run(const graft::tensor& input) { return detail::run_idle<graft::result<graft::tensor>>(input); }
)";

std::string head(const embedded_network& network, const header_names& names) {
    const bool named = !network.unfit;
    std::string text = comment_lines(comment(names.file) + ": the network of " + quoted(names.model) + ", made by graft " + graft::version() +
                                     " (`graft export MODEL --header FILE`). Make it anew rather than edit it.");
    text += "//\n//   #include " + quoted(names.file) + "\n";
    text += "//   auto " + std::string(named ? "top" : "output") + " = " + names.name_space;
    text += named                        ? "::classify(\"photo.png\", 3).value();  // likeliest first: top[0].label, .probability, .index\n"
            : network.inputs.size() == 1 ? "::run(array).value();  // both are a graft::tensor\n"
                                         : "::run({{\"name\", array}, ...}).value();  // a graft::named_tensor for each\n";
    text += "//\n//   g++ -std=c++17 -Os -I<where graft/graft.hpp lies> app.cpp -pthread\n//\n";
    for (const std::string& one : network.inputs) text += comment_lines("Input: " + comment(one) + ".");
    for (const std::string& one : network.outputs) text += comment_lines("Output: " + comment(one) + ".");
    text += comment_lines("Operators: " + joined(network.operators, ", ") + ".");
    text += comment_lines("The model takes " + std::to_string(network.bytes.size()) + " bytes, with " + std::to_string(network.parameters) + " parameters.");
    if (named)
        text += comment_lines("Pictures are prepared by " + quoted(network.preprocessing.text) +
                              (network.preprocessing.source == graft::preprocess_source::assumed ? ", which is assumed: nothing says so." : "."));
    else
        text += comment_lines("It is no classifier: " + comment(network.unfit->where() + ": " + network.unfit->detail()) + ".");
    return text;
}

}  // namespace

bool is_namespace(const std::string& name) {
    std::size_t at = 0;
    for (;;) {
        const std::size_t end = name.find("::", at);
        if (!is_identifier(name.substr(at, end == std::string::npos ? end : end - at))) return false;
        if (end == std::string::npos) return true;
        at = end + 2;
    }
}

std::string namespace_of(const std::string& path) {
    std::string file = base_name(path), name;
    file = file.substr(0, file.find('.', 1));
    for (const char c : file) {
        if (is_letter(c) || is_digit(c))
            name += c;
        else if (!name.empty() && name.back() != '_')
            name += '_';
    }
    while (!name.empty() && name.back() == '_') name.pop_back();
    if (name.empty()) return "model";
    if (is_digit(name[0])) name = "model_" + name;
    return is_taken(name) ? name + "_" : name;
}

std::string literals(const char* bytes, std::size_t size) {
    std::string text, line;
    for (std::size_t i = 0; i < size; ++i) {
        // What ends a literal need not mind what begins the next.
        const bool ends = i + 1 == size || line.size() >= columns;
        add_escaped(line, static_cast<unsigned char>(bytes[i]), ends ? 0 : static_cast<unsigned char>(bytes[i + 1]));
        if (!ends) continue;
        text += (text.empty() ? "\"" : "\n\"") + line + "\"";
        line.clear();
    }
    return text.empty() ? "\"\"" : text;
}

graft::status header_text(const embedded_network& network, const header_names& names, const std::function<graft::status(const std::string&)>& write) {
    const bool named = !network.unfit;
    const std::string ops = joined(network.operators, ",");
    char hash[20];
    std::snprintf(hash, sizeof hash, "%08x", static_cast<unsigned>(graft::fnv1a(ops.data(), ops.size(), graft::fnv1a_basis) & 0xffffffffu));
    std::string assertions, output;
    for (const std::string& op : network.operators)
        assertions += "static_assert(graft::wanted(\"" + op + "\"), \"" + names.name_space + " needs " + op + ": add it to GRAFT_OPS\");\n";
    if (!names.output.empty())
        output = "\n    options.output = std::string(" + literals(names.output.data(), names.output.size()) + ", " + std::to_string(names.output.size()) + ");";
    const std::string idle = replaced(idle_text, {{"@WORKER@", named ? "classifier" : "session"}, {"@TITLE@", named ? "Classifiers" : "Sessions"}});
    // The last is a name of the file's, in which nothing is replaced.
    const std::vector<std::pair<std::string, std::string>> by{
        {"@IDLE@", idle},    {"@OPS@", ops}, {"@HASH@", hash}, {"@ASSERTIONS@", assertions}, {"@NAME@", names.name_space}, {"@OPEN@", named ? "true" : "false"},
        {"@OUTPUT@", output}};
    GRAFT_TRY(write(head(network, names) + replaced(beginning, by)));
    if (named) {
        GRAFT_TRY(write("/// How many classes it tells apart.\ninline constexpr int classes = " + std::to_string(network.classes) + ";\n"));
        if (!network.labels.empty()) GRAFT_TRY(write(label_list(network.labels)));
    }
    GRAFT_TRY(write_bytes(network.bytes, write));
    GRAFT_TRY(write(replaced(network_functions, by) + replaced(named ? classifier_functions : run_functions, by)));
    return write("\n}  // namespace GRAFT_ABI\n}  // namespace " + names.name_space + "\n");
}

}  // namespace program
