// The command line as data: what its manual pages and the completions of shells are made of.
#pragma once

#include "verb.hpp"

#include <string>
#include <vector>

namespace program {

/// A verb with its own options, as it declares them.
struct verb_text {
    std::string name, what;
    std::vector<option_text> options;
};

/// All verbs, and the options that each of them takes besides.
struct command_line {
    std::vector<verb_text> verbs;
    std::vector<option_text> common;
};

/// What stands for a value of the option, or for the argument: "FILE", "IMAGE".
inline const std::string& value_name(const option_text& option) { return option.takes.empty() ? option.name : option.takes; }
/// Whether it is an argument, and no option.
inline bool is_argument(const option_text& option) { return option.name[0] != '-'; }
/// The names of an option, each with its dashes.
std::vector<std::string> names_of(const option_text& option);

/// A manual page of section 1 in man's macros: of the program where `verb` is empty. Its date is that of SOURCE_DATE_EPOCH, or none. Errors: usage.
graft::result<std::string> manual_page(const command_line& all, const std::string& verb);
/// What teaches a shell the command line: bash, fish or zsh. Errors: usage.
graft::result<std::string> shell_completions(const command_line& all, const std::string& shell);

}  // namespace program
