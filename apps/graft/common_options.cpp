// What the values of options mean that every verb takes: a device, a size, a number of threads.
#include "console.hpp"
#include "program.hpp"

#include <cmath>
#include <cstdlib>

namespace program {

graft::result<std::string> wanted_device(const common_options& common) {
    std::string device = common.device, from = "--device";
    if (device.empty()) {
        const char* set = std::getenv("GRAFT_DEVICE");
        device = set && *set ? set : "auto";
        from = "GRAFT_DEVICE";
    }
    const std::string kind = device.substr(0, device.find(':'));
    const std::string numbers = kind.size() < device.size() ? device.substr(kind.size() + 1) : "0";
    if (kind == "cuda" && numbers.find(',') != std::string::npos)
        return graft::fail(graft::errc::usage, from,
                           "\"" + printable(device) + "\" names several devices, and one is taken: say cuda:N, and start a process for each");
    const bool known = kind == "cuda" ? !numbers.empty() && numbers.find_first_not_of("0123456789") == std::string::npos : device == "auto" || device == "cpu";
    if (!known) {
        const std::string meant = graft::nearest_name(device, {"auto", "cpu", "cuda"});
        return graft::fail(graft::errc::usage, from,
                           "\"" + printable(device) + "\" is no device; say auto, cpu, cuda or cuda:N" +
                               (meant.empty() ? "" : "; did you mean " + meant + "?"));
    }
    return device;
}

graft::result<std::int64_t> size_of_text(const std::string& text, const char* option) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    std::string unit = end;
    if (!unit.empty() && (unit.back() == 'B' || unit.back() == 'b')) unit.pop_back();
    if (!unit.empty() && unit.back() == 'i') unit.pop_back();
    const std::size_t power = unit.empty() ? 0 : std::string("kmgt").find(static_cast<char>(unit[0] | 0x20)) + 1;
    const bool number_first = !text.empty() && ((text[0] >= '0' && text[0] <= '9') || text[0] == '.');
    const double bytes = number * std::pow(1024.0, static_cast<double>(power));
    if (!number_first || unit.size() > 1 || (unit.size() == 1 && power == 0) || !(bytes >= 1 && bytes < 9e18))
        return graft::fail(graft::errc::usage, option, "\"" + printable(text) + "\" is no size; say 512M, 2G, or a number of bytes");
    return static_cast<std::int64_t>(bytes);
}

int thread_count(const common_options& common) { return common.threads > 0 ? common.threads : graft::default_threads(); }

}  // namespace program
