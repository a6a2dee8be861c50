// Options as C and other languages give them, names with values in text, read into what the library takes.
#pragma once

#include "handles.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bindings {

constexpr int most_threads = 1024;

/// An option and what takes its value.
struct option_row {
    std::string name;
    std::function<graft::status(const std::string& value)> take;
};

/// A whole number from `least` to `most`; its error says so.
option_row option(const std::string& name, int& to, std::int64_t least, std::int64_t most);
option_row option(const std::string& name, std::int64_t& to, std::int64_t least, std::int64_t most);
option_row option(const std::string& name, std::uint64_t& to);
/// A number in [least, most]; any finite one where they are equal.
option_row option(const std::string& name, double& to, double least, double most);
option_row option(const std::string& name, float& to, double least, double most);
option_row option(const std::string& name, bool& to);
option_row option(const std::string& name, std::string& to);

/// Gives each option that is set to its row. `-` in a name is `_`. Errors: usage, where there is no such option (with the one that was meant, and all
/// there are), and those of the rows.
graft::status take(const graft_options* given, const std::vector<option_row>& rows);

/// What the options of graft_model_load are read into.
struct load_choice {
    graft::load_options load;
    int threads = 0;
};
/// Their rows; `to` must outlive them.
std::vector<option_row> load_rows(load_choice& to);

}  // namespace bindings
