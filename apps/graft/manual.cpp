// graft --man: manual pages, made of what the verbs declare.
#include "command_line.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>

namespace program {
namespace {

// Text for roff: no letter of it is a command, a dash stays the dash that is typed, and a list without spaces may be broken.
std::string roff(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (i == 0 && (c == '.' || c == '\'')) out += "\\&";
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else
            out += c;
        if (c == ',' && i + 1 < text.size() && text[i + 1] != ' ') out += "\\:";
    }
    return out;
}

// Lines of it, none much longer than those of a terminal: as roff's own style asks.
std::string roff_lines(const std::string& text) {
    std::string lines, line;
    for (std::size_t from = 0; from < text.size();) {
        const std::size_t space = std::min(text.find(' ', from), text.size());
        const std::string word = text.substr(from, space - from);
        if (!line.empty() && line.size() + word.size() > 68) lines += roff(line) + "\n", line.clear();
        line += (line.empty() ? "" : " ") + word;
        from = space + 1;
    }
    return lines + roff(line) + "\n";
}
std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }
std::string upper(std::string text) {
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
}
std::string lower_first(std::string text) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    return text;
}

// The day that builds which can be repeated give to all they write: https://reproducible-builds.org/specs/source-date-epoch
std::string source_date() {
    const char* epoch = std::getenv("SOURCE_DATE_EPOCH");
    if (!epoch || !*epoch) return "";
    const std::time_t seconds = static_cast<std::time_t>(std::strtoll(epoch, nullptr, 10));
    char day[16] = "";
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else runs beside it
    if (const std::tm* parts = std::gmtime(&seconds)) std::strftime(day, sizeof day, "%Y-%m-%d", parts);
    return day;
}

std::string heading(const std::string& page, const std::string& what) {
    return ".TH " + roff(upper(page)) + " 1 \"" + source_date() + "\" \"graft " + graft::version() + "\" \"User Commands\"\n.ad l\n.nh\n.SH NAME\n" +
           roff(page) + " \\- " + roff(lower_first(what)) + "\n";
}

// "[FILE.csv]" has its own brackets.
std::string value_of(const option_text& option) {
    const std::string& name = value_name(option);
    if (name.front() == '[') return "[" + italic(name.substr(1, name.size() - 2)) + "]";
    return option.may_be_alone ? "[" + italic(name) + "]" : italic(name);
}

std::string entry(const option_text& option) {
    std::string line;
    if (is_argument(option))
        line = italic(option.name) + (option.repeatable ? "..." : "");
    else
        for (const std::string& name : names_of(option)) line += (line.empty() ? "" : ", ") + bold(name);
    if (!is_argument(option) && !option.flag) line += " " + value_of(option);
    return ".TP\n" + line + "\n" + roff_lines(option.what + (option.required && !is_argument(option) ? " (required)" : ""));
}

std::string section(const char* title, const std::vector<option_text>& options, bool arguments) {
    std::string text, group;
    for (const option_text& option : options) {
        if (is_argument(option) != arguments) continue;
        if (option.group != group && !option.group.empty()) text += ".SS " + roff(option.group) + "\n";
        group = option.group;
        text += entry(option);
    }
    return text.empty() ? text : std::string(".SH ") + title + "\n" + text;
}

std::string synopsis(const verb_text& verb) {
    std::string line = bold("graft " + verb.name) + " [" + italic("OPTIONS") + "]";
    for (const option_text& option : verb.options) {
        if (is_argument(option)) continue;
        if (option.required) line += " " + bold(names_of(option).back()) + " " + value_of(option);
    }
    for (const option_text& option : verb.options) {
        if (!is_argument(option)) continue;
        const std::string name = italic(option.name) + (option.repeatable ? "..." : "");
        line += " " + (option.required ? name : "[" + name + "]");
    }
    return ".SH SYNOPSIS\n" + line + "\n";
}

std::string page_of_verb(const verb_text& verb) {
    return heading("graft-" + verb.name, verb.what) + synopsis(verb) + ".SH DESCRIPTION\n" + roff_lines(verb.what + ".") +
           "Options that all verbs take, exit codes and the environment are told in\n.BR graft (1).\n" + section("ARGUMENTS", verb.options, true) +
           section("OPTIONS", verb.options, false) + ".SH SEE ALSO\n.BR graft (1)\n";
}

struct named_text {
    const char *name, *what;
};
constexpr named_text environment[] = {
    {"GRAFT_NUM_THREADS, OMP_NUM_THREADS", "Threads, where --threads is not given"},
    {"GRAFT_DEVICE", "What --device says, where that is not given"},
    {"GRAFT_REQUIRE_GPU", "Set and not 0: fail where there is no GPU, and do not run on the CPU"},
    {"GRAFT_ISA", "The instruction set to use: a name that graft doctor lists"},
    {"GRAFT_CACHE_DIR", "Where compiled kernels of GPUs are kept"},
    {"GRAFT_CUDA_PATH", "Where the libraries for NVIDIA GPUs are looked for first"},
    {"NO_COLOR", "No colours, unless --color always"},
};
constexpr named_text exit_codes[] = {
    {"0", "Done"}, {"1", "Failed: the last line on standard error says why"}, {"2", "Wrong usage"}, {"128+N", "Signal N stopped a run of training"}};
constexpr named_text examples[] = {
    {"graft doctor", "What this machine and this build can do"},
    {"graft classify model.onnx photo.jpg", "What is in a picture"},
    {"graft finetune flowers/ --from model.onnx --out run", "Teach a model the classes of a folder of pictures; run/report.html tells how it went"},
    {"graft serve run/model.onnx --port 8000", "Answer over HTTP what is in pictures"},
};

template <std::size_t N>
std::string terms(const char* title, const named_text (&all)[N]) {
    std::string text = std::string(".SH ") + title + "\n";
    for (const named_text& t : all) text += ".TP\n" + bold(t.name) + "\n" + roff_lines(t.what);
    return text;
}

std::string page_of_program(const command_line& all) {
    std::string text = heading("graft", "runs image models from ONNX files, and trains them");
    text += ".SH SYNOPSIS\n" + bold("graft") + " " + italic("VERB") + " [" + italic("OPTIONS") + "] " + italic("ARGUMENTS") + "\n.br\n" + bold("graft") + " " +
            bold("--help") + " | " + bold("--version") + " | " + bold("--man") + " [" + italic("VERB") + "] | " + bold("--completions") + " " +
            italic("SHELL") + "\n.SH DESCRIPTION\nEach verb has a manual page of its own, and tells the same by\n" + bold("--help") + ".\n";
    text += ".SS Verbs\n";
    for (const verb_text& verb : all.verbs) text += ".TP\n.BR graft\\-" + verb.name + " (1)\n" + roff_lines(verb.what);
    text += section("OPTIONS", all.common, false);
    text += terms("EXIT STATUS", exit_codes) + terms("ENVIRONMENT", environment) + terms("EXAMPLES", examples) + ".SH SEE ALSO\n";
    for (const verb_text& verb : all.verbs) text += ".BR graft\\-" + verb.name + (&verb == &all.verbs.back() ? " (1)\n" : " (1),\n");
    return text;
}

}  // namespace

std::vector<std::string> names_of(const option_text& option) {
    std::vector<std::string> names;
    for (std::size_t from = 0; from <= option.name.size();) {
        const std::size_t comma = std::min(option.name.find(',', from), option.name.size());
        names.push_back(option.name.substr(from, comma - from));
        from = comma + 1;
    }
    return names;
}

graft::result<std::string> manual_page(const command_line& all, const std::string& verb) {
    if (verb.empty()) return page_of_program(all);
    for (const verb_text& v : all.verbs)
        if (v.name == verb) return page_of_verb(v);
    return graft::fail(graft::errc::usage, "--man", "there is no verb \"" + printable(verb) + "\"; graft --help lists them");
}

}  // namespace program
