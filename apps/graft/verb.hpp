// A verb of the program: the options that it takes, and what it does with them.
#pragma once

#include "program.hpp"

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace program {

/// An option, an argument or a flag as it was declared: what manual pages and the completions of shells are made of.
struct option_text {
    std::string name;   ///< such as "-o,--output"; of an argument "IMAGE"
    std::string takes;  ///< what stands behind the name; empty: nothing, or an argument
    std::string what, group;
    std::vector<std::string> words;  ///< what a shell completes its value to; empty: files where `takes` says so
    bool flag = false, required = false, repeatable = false, may_be_alone = false;
};

/// Declares options, and says of the last one added what it takes. CLI11 does the work; its header takes longer to compile than most verbs.
class option_list {
public:
    explicit option_list(CLI::App& verb) : verb_(verb) {}
    option_list(const option_list&) = delete;

    /// Options added from here on stand under this title in --help.
    option_list& group(const char* title);
    /// An option, an argument where the name has no dash, or a flag where `to` is a bool. `takes` is what stands behind the name in --help.
    /// `Value`: std::string, std::vector<std::string>, bool, int, std::int64_t, std::uint64_t, float or double.
    template <class Value>
    option_list& add(const std::string& name, Value& to, const std::string& what, const std::string& takes = "");
    option_list& required();
    option_list& within(int least, int most);
    option_list& within(double least, double most);
    option_list& one_of(const std::vector<std::string>& words);
    option_list& one_of_numbers(const std::vector<int>& numbers);
    /// One of graft::architecture_names().
    option_list& architecture();
    /// A number from 1 on, or auto, which becomes batch_auto.
    option_list& batch();
    /// One value each time, and it may be given again.
    option_list& repeatable();
    /// It may stand without a value, for this one.
    option_list& alone_means(const char* value);
    /// Words that a shell offers for it, among others that it takes too.
    option_list& completes_to(const std::vector<std::string>& words);
    option_list& shows_default();
    option_list& excludes(const char* other);
    option_list& needs(const char* other);
    /// Makes another one the last.
    option_list& of(const char* name);
    /// All that were added, in their order.
    const std::vector<option_text>& texts() const { return texts_; }

private:
    CLI::App& verb_;
    CLI::Option* last_ = nullptr;
    std::size_t last_text_ = 0;
    std::vector<option_text> texts_;
    std::string group_;
};

/// What a verb does once its options are read. It returns the exit code, or fails and leaves the message to main.
using action = std::function<graft::result<int>(const common_options&)>;

/// Does it, with the file of packed weights open that --packed names. Who looks at command lines alone has one of its own (fuzz/options.cpp).
graft::result<int> perform(const action& what, common_options common);

/// Does what a command line says, without the program's name; errors are reported. Returns the exit code.
int run_command(std::vector<std::string> words);

/// A verb; its name stands in main.cpp alone.
struct verb {
    const char* what;  ///< a sentence, for --help
    action (*declare)(option_list& options);
};

}  // namespace program
