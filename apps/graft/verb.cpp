// How verbs declare their options: a thin layer over CLI11.
#include "verb.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <type_traits>

namespace program {

option_list& option_list::group(const char* title) {
    group_ = title;
    return *this;
}

template <class Value>
option_list& option_list::add(const std::string& name, Value& to, const std::string& what, const std::string& takes) {
    if constexpr (std::is_same<Value, bool>::value)
        last_ = verb_.add_flag(name, to, what);
    else
        last_ = verb_.add_option(name, to, what);
    if (!takes.empty()) last_->type_name(takes);
    if (!group_.empty()) last_->group(group_);
    last_text_ = texts_.size();
    texts_.emplace_back();
    option_text& text = texts_.back();
    text.name = name, text.takes = takes, text.what = what, text.group = group_;
    text.flag = std::is_same<Value, bool>::value;
    text.repeatable = std::is_same<Value, std::vector<std::string>>::value;
    return *this;
}
template option_list& option_list::add(const std::string&, std::string&, const std::string&, const std::string&);
template option_list& option_list::add(const std::string&, std::vector<std::string>&, const std::string&, const std::string&);
template option_list& option_list::add(const std::string&, bool&, const std::string&, const std::string&);
template option_list& option_list::add(const std::string&, int&, const std::string&, const std::string&);
template option_list& option_list::add(const std::string&, std::int64_t&, const std::string&, const std::string&);
template option_list& option_list::add(const std::string&, std::uint64_t&, const std::string&, const std::string&);
template option_list& option_list::add(const std::string&, float&, const std::string&, const std::string&);
template option_list& option_list::add(const std::string&, double&, const std::string&, const std::string&);

option_list& option_list::required() {
    last_->required();
    texts_[last_text_].required = true;
    return *this;
}
option_list& option_list::within(int least, int most) { return last_->check(CLI::Range(least, most)), *this; }
option_list& option_list::within(double least, double most) { return last_->check(CLI::Range(least, most)), *this; }
option_list& option_list::one_of_numbers(const std::vector<int>& numbers) {
    last_->check(CLI::IsMember(numbers));
    for (int number : numbers) texts_[last_text_].words.push_back(std::to_string(number));
    return *this;
}
option_list& option_list::repeatable() { return last_->expected(1)->take_all()->allow_extra_args(false), *this; }
option_list& option_list::alone_means(const char* value) {
    last_->expected(0, 1)->default_str(value);
    texts_[last_text_].may_be_alone = true;
    return *this;
}
option_list& option_list::completes_to(const std::vector<std::string>& words) { return texts_[last_text_].words = words, *this; }
option_list& option_list::shows_default() {
    last_->capture_default_str();
    texts_[last_text_].what += " (default: " + last_->get_default_str() + ")";
    return *this;
}
option_list& option_list::excludes(const char* other) { return last_->excludes(verb_.get_option(other)), *this; }
option_list& option_list::needs(const char* other) { return last_->needs(verb_.get_option(other)), *this; }
option_list& option_list::of(const char* name) {
    last_ = verb_.get_option(name);
    const std::string end = std::string(",") + name;
    const auto is_it = [&](const option_text& text) {
        const std::string names = "," + text.name;
        return names.size() >= end.size() && names.compare(names.size() - end.size(), end.size(), end) == 0;
    };
    const auto found = std::find_if(texts_.begin(), texts_.end(), is_it);
    if (found == texts_.end()) throw std::logic_error(std::string(name) + " is no option of the verb's own");
    last_text_ = static_cast<std::size_t>(found - texts_.begin());
    return *this;
}

option_list& option_list::batch() {
    last_->transform(CLI::Validator(
        [](std::string& text) {
            if (text == "auto") {
                text = std::to_string(batch_auto);
                return std::string();
            }
            const bool number = !text.empty() && text.size() <= 7 && text.find_first_not_of("0123456789") == std::string::npos;
            const int batch = number ? std::atoi(text.c_str()) : 0;
            return batch >= 1 && batch <= 1 << 20 ? std::string() : "it takes a number from 1 to 1048576, or auto, and not " + printable(text);
        },
        ""));
    return *this;
}

option_list& option_list::one_of(const std::vector<std::string>& words) {
    last_->check(CLI::Validator(
        [words](std::string& text) {
            if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
            std::string all;
            for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
            const std::string meant = graft::nearest_name(text, words);
            return "\"" + printable(text) + "\" is none of " + all + (meant.empty() ? "" : "; did you mean " + meant + "?");
        },
        ""));
    return completes_to(words);
}

option_list& option_list::architecture() {
    last_->check(CLI::Validator(
        [](std::string& text) {
            const std::vector<std::string> names = graft::architecture_names();
            if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
            graft::architecture_options how;
            return "\"" + printable(text) + "\": " + graft::build_architecture(text, how).error().detail();
        },
        ""));
    return completes_to(graft::architecture_names());
}

}  // namespace program
