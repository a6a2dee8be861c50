// graft_options, and what values mean.
#include "options.hpp"

#include <graft/core/number_text.hpp>
#include <graft/core/suggest.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace bindings {
namespace {

graft::status wrong(const std::string& name, const std::string& value, const std::string& takes) {
    return graft::fail(graft::errc::usage, name, "it takes " + takes + ", not \"" + graft::escape(value) + "\"");
}

graft::status parse(const std::string& name, const std::string& value, std::int64_t least, std::int64_t most, std::int64_t& to) {
    char* end = nullptr;
    errno = 0;
    const long long number = std::strtoll(value.c_str(), &end, 10);
    if (value.empty() || end != value.c_str() + value.size() || errno || number < least || number > most)
        return wrong(name, value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    to = number;
    return {};
}
graft::status parse(const std::string& name, const std::string& value, double least, double most, double& to) {
    const char* end = nullptr;
    const double number = graft::detail::read_number(value.c_str(), &end);  // whatever the locale of the program is
    const bool bounded = least < most;
    if (value.empty() || end != value.c_str() + value.size() || !std::isfinite(number) || (bounded && (number < least || number > most)))
        return wrong(name, value,
                     bounded ? "a number from " + graft::detail::number_text("%g", least) + " to " + graft::detail::number_text("%g", most) : "a number");
    to = number;
    return {};
}

}  // namespace

option_row option(const std::string& name, std::int64_t& to, std::int64_t least, std::int64_t most) {
    return {name, [name, &to, least, most](const std::string& value) { return parse(name, value, least, most, to); }};
}
option_row option(const std::string& name, int& to, std::int64_t least, std::int64_t most) {
    return {name, [name, &to, least, most](const std::string& value) -> graft::status {
                std::int64_t number = 0;
                GRAFT_TRY(parse(name, value, least, most, number));
                to = static_cast<int>(number);
                return {};
            }};
}
option_row option(const std::string& name, std::uint64_t& to) {
    return {name, [name, &to](const std::string& value) -> graft::status {
                std::int64_t number = 0;
                GRAFT_TRY(parse(name, value, 0, std::numeric_limits<std::int64_t>::max(), number));
                to = static_cast<std::uint64_t>(number);
                return {};
            }};
}
option_row option(const std::string& name, double& to, double least, double most) {
    return {name, [name, &to, least, most](const std::string& value) { return parse(name, value, least, most, to); }};
}
option_row option(const std::string& name, float& to, double least, double most) {
    return {name, [name, &to, least, most](const std::string& value) -> graft::status {
                double number = 0;
                GRAFT_TRY(parse(name, value, least, most, number));
                to = static_cast<float>(number);
                return {};
            }};
}
option_row option(const std::string& name, bool& to) {
    return {name, [name, &to](const std::string& value) -> graft::status {
                const bool yes = value == "true" || value == "1";
                if (!yes && value != "false" && value != "0") return wrong(name, value, "true, 1, false or 0");
                to = yes;
                return {};
            }};
}
option_row option(const std::string& name, std::string& to) {
    return {name, [&to](const std::string& value) {
                to = value;
                return graft::status();
            }};
}

graft::status take(const graft_options* given, const std::vector<option_row>& rows) {
    if (!given) return {};
    for (const auto& each : given->given) {
        std::string name = each.first;
        std::replace(name.begin(), name.end(), '-', '_');
        const auto row = std::find_if(rows.begin(), rows.end(), [&](const option_row& r) { return r.name == name; });
        if (row == rows.end()) {
            std::vector<std::string> names;
            for (const option_row& r : rows) names.push_back(r.name);
            const std::string meant = graft::nearest_name(name, names);
            return graft::fail(graft::errc::usage, graft::escape(each.first),
                               "there is no such option; " + (meant.empty() ? "" : "did you mean " + meant + "? ") + "There are " +
                                   graft::joined_names(names, "and"));
        }
        GRAFT_TRY(row->take(each.second));
    }
    return {};
}

std::vector<option_row> load_rows(load_choice& to) {
    graft::load_options& load = to.load;
    return {option("device", load.device),
            option("precision", load.on_device.precision),
            option("threads", to.threads, 0, most_threads),
            option("exact", load.exact),
            option("deterministic", load.on_device.deterministic),
            option("strict_placement", load.strict_placement),
            option("open_batch", load.open_batch),
            option("memory_bytes", load.limits.memory_bytes, 1, std::numeric_limits<std::int64_t>::max())};
}

}  // namespace bindings

extern "C" {

graft_options* graft_options_new(void) { return new (std::nothrow) graft_options; }
graft_return_code graft_options_set(graft_options* options, const char* name, const char* value, graft_error** error) {
    return bindings::done(error, [&]() -> graft::status {
        GRAFT_TRY(bindings::wanted(options, "options"));
        GRAFT_TRY(bindings::wanted(name, "name"));
        GRAFT_TRY(bindings::wanted(value, name));
        for (auto& each : options->given)
            if (each.first == name) return each.second = value, graft::status();
        options->given.emplace_back(name, value);
        return {};
    });
}
void graft_options_free(graft_options* options) { delete options; }
}
