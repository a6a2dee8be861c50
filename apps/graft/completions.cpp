// graft --completions: what teaches bash, fish and zsh the verbs and their options, made of what the verbs declare.
#include "command_line.hpp"

namespace program {
namespace {

const std::vector<std::string> shells = {"bash", "fish", "zsh"};

enum class completed { by_nothing, by_words, by_files, by_folders };

// What a value is, as its name in --help tells.
completed completion_of(const option_text& option) {
    if (!option.words.empty()) return completed::by_words;
    const std::string& name = value_name(option);
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (has("DIR")) return completed::by_folders;
    return has("FILE") || name == "MODEL" || name == "IMAGE" || name == "DATA" ? completed::by_files : completed::by_nothing;
}

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
    return text;
}
std::vector<std::string> verb_names(const command_line& all) {
    std::vector<std::string> names;
    for (const verb_text& verb : all.verbs) names.push_back(verb.name);
    return names;
}
// In single quotes, as all three shells read them; a quote inside is written as `quote`.
std::string quoted(const std::string& text, const char* quote) {
    std::string out = "'";
    for (char c : text) out += c == '\'' ? std::string(quote) : std::string(1, c);
    return out + "'";
}

// ---- bash

std::string bash_values(const std::vector<option_text>& options) {
    std::string text;
    for (const option_text& option : options) {
        if (option.flag || is_argument(option)) continue;
        text += "        " + joined(names_of(option), " | ") + ") value=";
        switch (completion_of(option)) {
        case completed::by_words: text += "words words=\"" + joined(option.words) + "\""; break;
        case completed::by_files: text += "files"; break;
        case completed::by_folders: text += "folders"; break;
        case completed::by_nothing: text += "nothing"; break;
        }
        text += " ;;\n";
    }
    return text;
}
std::vector<std::string> option_names(const std::vector<option_text>& options) {
    std::vector<std::string> names;
    for (const option_text& option : options)
        if (!is_argument(option))
            for (const std::string& name : names_of(option)) names.push_back(name);
    return names;
}
bool takes_files(const verb_text& verb) {
    for (const option_text& option : verb.options)
        if (is_argument(option) && completion_of(option) == completed::by_files) return true;
    return false;
}

// Files and folders are left to readline, which knows how names are quoted. bash cuts words at '='.
std::string bash_completions(const command_line& all) {
    const std::string verbs = joined(verb_names(all));
    std::string text = "# graft for bash, by graft --completions bash\n"
                       "_graft() {\n"
                       "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} value=argument words='' options='' argument=nothing\n"
                       "    COMPREPLY=()\n"
                       "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                       "        mapfile -t COMPREPLY < <(compgen -W \"" +
                       verbs +
                       " --help --version --man --completions\" -- \"$current\")\n"
                       "        return\n"
                       "    fi\n"
                       "    if [ \"$current\" = \"=\" ]; then\n"
                       "        current=\n"
                       "    elif [ \"$before\" = \"=\" ]; then\n"
                       "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
                       "    fi\n"
                       "    case ${COMP_WORDS[1]} in\n"
                       "    --completions) value=words words=\"" +
                       joined(shells) +
                       "\" ;;\n"
                       "    --man) value=words words=\"" +
                       verbs + "\" ;;\n";
    for (const verb_text& verb : all.verbs)
        text += "    " + verb.name + ")\n        options=\"" + joined(option_names(verb.options)) + "\"" + (takes_files(verb) ? " argument=files" : "") +
                "\n        case $before in\n" + bash_values(verb.options) + "        esac ;;\n";
    text += "    *) return ;;\n"
            "    esac\n"
            "    if [ \"$value\" = argument ]; then\n"
            "        case $before in\n" +
            bash_values(all.common) +
            "        esac\n"
            "    fi\n"
            "    if [ \"$value\" = argument ] && [ \"${current:0:1}\" = - ]; then\n"
            "        value=words words=\"$options " +
            joined(option_names(all.common)) +
            " --help\"\n"
            "    elif [ \"$value\" = argument ]; then\n"
            "        value=$argument\n"
            "    fi\n"
            "    case $value in\n"
            "    words) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\") ;;\n"
            "    files) compopt -o default ;;\n"
            "    folders) compopt -o dirnames ;;\n"
            "    esac\n"
            "}\n"
            "complete -F _graft graft\n";
    return text;
}

// ---- fish

std::string fish_option(const std::string& when, const option_text& option) {
    std::string text = "complete -c graft" + when;
    for (const std::string& name : names_of(option)) text += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.flag) {
        switch (completion_of(option)) {
        case completed::by_words: text += " -x -a " + quoted(joined(option.words), "\\'"); break;
        case completed::by_files: text += " -r -F"; break;
        case completed::by_folders: text += " -x -a '(__fish_complete_directories)'"; break;
        case completed::by_nothing: text += " -x"; break;
        }
    }
    return text + " -d " + quoted(option.what, "\\'") + "\n";
}

std::string fish_completions(const command_line& all) {
    const std::string first = " -n __fish_use_subcommand", verbs = joined(verb_names(all));
    std::string text = "# graft for fish, by graft --completions fish\ncomplete -c graft -f\n";
    for (const verb_text& verb : all.verbs) text += "complete -c graft" + first + " -a " + verb.name + " -d " + quoted(verb.what, "\\'") + "\n";
    text += "complete -c graft" + first + " -l version -d 'Print the version'\n";
    text += "complete -c graft" + first + " -l man -x -a '" + verbs + "' -d 'Print a manual page'\n";
    text += "complete -c graft" + first + " -l completions -x -a '" + joined(shells) + "' -d 'Print the completions of a shell'\n";
    text += "complete -c graft -l help -d 'Print help'\n";
    for (const verb_text& verb : all.verbs) {
        const std::string when = " -n '__fish_seen_subcommand_from " + verb.name + "'";
        if (takes_files(verb)) text += "complete -c graft" + when + " -F\n";
        for (const option_text& option : verb.options)
            if (!is_argument(option)) text += fish_option(when, option);
    }
    for (const option_text& option : all.common) text += fish_option(" -n '__fish_seen_subcommand_from " + verbs + "'", option);
    return text;
}

// ---- zsh

// What ends a part of _arguments' specifications stands behind a backslash.
std::string zsh_text(const std::string& text) {
    std::string out;
    for (char c : text) {
        if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}
std::string zsh_value(const option_text& option) {
    const std::string name = ":" + zsh_text(value_name(option)) + ":";
    switch (completion_of(option)) {
    case completed::by_words: return name + "(" + joined(option.words) + ")";
    case completed::by_files: return name + "_files";
    case completed::by_folders: return name + "_files -/";
    case completed::by_nothing: break;
    }
    return name + " ";
}
std::string zsh_options(const std::vector<option_text>& options) {
    std::string text;
    for (const option_text& option : options) {
        if (is_argument(option)) {
            text += " " + quoted((option.repeatable ? "*" : "") + zsh_value(option), "'\\''");
            continue;
        }
        const std::vector<std::string> names = names_of(option);
        const std::string rest = "[" + zsh_text(option.what) + "]" + (option.flag ? "" : (option.may_be_alone ? ":" : "") + zsh_value(option));
        const std::string besides = option.repeatable ? "*" : "(" + joined(names) + ")";
        for (const std::string& name : names)
            text += " \\\n                " + quoted(besides + name + (option.flag ? "" : name[1] == '-' ? "=" : "+") + rest, "'\\''");
    }
    return text;
}

std::string zsh_completions(const command_line& all) {
    std::string text = "#compdef graft\n"
                       "# graft for zsh, by graft --completions zsh\n"
                       "_graft() {\n"
                       "    local state line curcontext=$curcontext\n"
                       "    local -a verbs common\n"
                       "    typeset -A opt_args\n"
                       "    verbs=(";
    for (const verb_text& verb : all.verbs) text += "\n        " + quoted(verb.name + ":" + zsh_text(verb.what), "'\\''");
    text += "\n    )\n    common=('(- *)--help[Print help]'" + zsh_options(all.common) + ")\n" +
            "    _arguments -C '(- *)--help[Print help]' '(- *)--version[Print the version]' '(- *)--man[Print a manual page]:VERB:(" +
            joined(verb_names(all)) + ")' \\\n        '(- *)--completions[Print the completions of a shell]:SHELL:(" + joined(shells) +
            ")' '1:verb:->verb' '*::argument:->argument'\n"
            "    case $state in\n"
            "    verb) _describe verb verbs ;;\n"
            "    argument)\n"
            "        case $words[1] in\n";
    for (const verb_text& verb : all.verbs) text += "        " + verb.name + ")\n            _arguments $common" + zsh_options(verb.options) + " ;;\n";
    text += "        esac ;;\n"
            "    esac\n"
            "}\n"
            "if [ \"$funcstack[1]\" = _graft ]; then _graft \"$@\"; else compdef _graft graft; fi\n";
    return text;
}

}  // namespace

graft::result<std::string> shell_completions(const command_line& all, const std::string& shell) {
    if (shell == "bash") return bash_completions(all);
    if (shell == "fish") return fish_completions(all);
    if (shell == "zsh") return zsh_completions(all);
    return graft::fail(graft::errc::usage, "--completions", "\"" + printable(shell) + "\" is none of " + joined(shells, ", "));
}

}  // namespace program
