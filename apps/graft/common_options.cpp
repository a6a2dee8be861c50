// What the values of options mean that every verb takes: a device, a size, a number of threads.
#include "console.hpp"
#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

namespace program {

graft::result<std::vector<std::string>> wanted_devices(const common_options& common) {
    std::string device = common.device, from = "--device";
    if (device.empty()) {
        const char* set = std::getenv("GRAFT_DEVICE");
        device = set && *set ? set : "auto";
        from = "GRAFT_DEVICE";
    }
    const std::string kind = device.substr(0, device.find(':'));
    std::vector<std::string> devices;
    bool known = device == "auto" || device == "cpu" || device == "cuda";
    if (known) devices.push_back(device);
    if (!known) {
        std::stringstream list(device + ",");
        known = true;
        bool numbered = false;  // "cuda:0,1": numbers go on behind a first
        for (std::string item; std::getline(list, item, ',');) {
            const bool named = item.compare(0, 5, "cuda:") == 0;
            const std::string number = named ? item.substr(5) : item;
            const bool is_number = !number.empty() && number.size() <= 4 && number.find_first_not_of("0123456789") == std::string::npos;
            numbered |= named;
            known &= item == "cpu" || (is_number && numbered);
            devices.push_back(item == "cpu" ? item : "cuda:" + number);
        }
    }
    if (!known) {
        const std::string meant = graft::nearest_name(device, {"auto", "cpu", "cuda"});
        return graft::fail(graft::errc::usage, from,
                           "\"" + printable(device) + "\" is no device; say auto, cpu, cuda, cuda:N, or cuda:0,1 for several" +
                               (meant.empty() ? "" : "; did you mean " + meant + "?"));
    }
    std::vector<std::string> sorted = devices;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        return graft::fail(graft::errc::usage, from, "\"" + printable(device) + "\" names a device twice");
    return devices;
}
graft::result<std::string> wanted_device(const common_options& common) {
    std::vector<std::string> devices;
    GRAFT_TRY_ASSIGN(devices, wanted_devices(common));
    if (devices.size() == 1) return devices[0];
    return graft::fail(graft::errc::usage, "--device", "it names " + std::to_string(devices.size()) + " devices, and this takes one: say cuda:N");
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
