// Manual pages and completions: they name what --help names, and bash makes of them what is meant.
#if defined(GRAFT_PROGRAM) && !defined(_WIN32)
#include "program.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace {

using program_test::done;
using program_test::graft_program;

// The first word of each line of --help that begins with two spaces: verbs, or options.
std::vector<std::string> names_in(const std::string& help, const std::string& start) {
    std::vector<std::string> names;
    for (std::size_t at = help.find("\n  " + start); at != std::string::npos; at = help.find("\n  " + start, at + 1)) {
        const std::size_t from = at + 3;
        names.push_back(help.substr(from, help.find_first_of(" ,\n", from) - from));
    }
    return names;
}
std::vector<std::string> verbs() {
    const std::string help = graft_program("--help").out;
    const std::vector<std::string> names = names_in(help.substr(help.find("Subcommands:")), "");
    REQUIRE(names.size() > 10);
    return names;
}

// What bash offers behind words, of which the last one is being typed. compopt, which bash knows while it completes alone, tells what it was given.
std::string offered(const std::string& words) {
    const made_folder folder;
    const std::string script = folder.put("script", "compopt() { printf '%s' \"compopt $*\"; }\n"
                                                    "source <(" GRAFT_PROGRAM " --completions bash)\n"
                                                    "COMP_WORDS=(graft " +
                                                        words +
                                                        ") COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                                                        "_graft && printf '%s' \"${COMPREPLY[*]}\"\n");
    const std::string out = folder.path + "/out";
    REQUIRE(std::system(("bash " + script + " >" + out + " 2>&1").c_str()) == 0);
    return file_contents(out);
}

}  // namespace

TEST_CASE("each verb has a manual page with its options, and the program's names them all") {
    const done whole = graft_program("--man");
    CHECK(whole.code == 0);
    CHECK(whole.has(".TH GRAFT 1 "));
    for (const std::string& verb : verbs()) {
        CAPTURE(verb);
        CHECK(whole.has(".BR graft\\-" + verb + " (1)"));
        const done page = graft_program("--man " + verb);
        CHECK(page.code == 0);
        CHECK(page.has("\\fBgraft " + verb + "\\fR"));
        std::string roff = page.out + whole.out;
        roff.erase(std::remove(roff.begin(), roff.end(), '\\'), roff.end());
        for (const std::string& option : names_in(graft_program(verb + " --help").out, "-"))
            if (option != "-h") CHECK_MESSAGE(contains(roff, "fB" + option + "fR"), option);
    }
    CHECK(graft_program("--man classify").has("\\fBgraft classify\\fR [\\fIOPTIONS\\fR] \\fIMODEL\\fR \\fIIMAGE\\fR..."));
    // As builds that can be repeated have it.
    CHECK(graft_program("--man", "SOURCE_DATE_EPOCH=1000000000 ").has(" 1 \"2001-09-09\" "));
    CHECK(graft_program("--man", "SOURCE_DATE_EPOCH=1000000000 ").out == graft_program("--man", "SOURCE_DATE_EPOCH=1000000000 ").out);
    CHECK(graft_program("--man", "env -u SOURCE_DATE_EPOCH ").has(" 1 \"\" "));
}

TEST_CASE("completions of each shell name all verbs and options") {
    for (const char* shell : {"bash", "fish", "zsh"}) {
        CAPTURE(shell);
        const done d = graft_program(std::string("--completions ") + shell);
        CHECK(d.code == 0);
        for (const std::string& verb : verbs()) CHECK_MESSAGE(d.has(verb), verb);
        const std::string dash = std::string(shell) == "fish" ? " -l " : "--";
        for (const char* option : {"sort-into", "max-drop", "access-log", "strict-placement"}) CHECK_MESSAGE(d.has(dash + option), option);
    }
}

TEST_CASE("bash completes verbs, options, words, files and folders") {
    const std::pair<const char*, const char*> all[] = {{"cl", "classify"},
                                                       {"ex", "explain export"},
                                                       {"classify --so", "--sort-into"},
                                                       {"classify --color ''", "auto always never"},
                                                       {"classify --color = al", "always"},
                                                       {"classify --color =", "auto always never"},
                                                       {"quantize --method p", "percentile"},
                                                       {"train --arch ''", "lenet resnet20 mobilenet_v2"},
                                                       {"bench --shards 6", "64"},
                                                       {"classify m", "compopt -o default"},
                                                       {"classify --labels ''", "compopt -o default"},
                                                       {"run -i input = ''", "compopt -o default"},
                                                       {"classify --sort-into ''", "compopt -o dirnames"},
                                                       {"classify --top ''", ""},
                                                       {"doctor ''", ""},
                                                       {"nonsense ''", ""},
                                                       {"--man eval", "evaluate"},
                                                       {"--completions ''", "bash fish zsh"}};
    for (const auto& typed : all) {
        CAPTURE(typed.first);
        CHECK(offered(typed.first) == typed.second);
    }
}

TEST_CASE("what is neither a verb nor a shell has no page and no completions") {
    for (const char* arguments : {"--man nonsense", "--man classify info", "--completions", "--completions tcsh", "--completions bash zsh"}) {
        CAPTURE(arguments);
        const done d = graft_program(arguments);
        CHECK(d.code == 2);
        CHECK(d.refused("usage"));
        CHECK(d.out.empty());
    }
}

#endif
