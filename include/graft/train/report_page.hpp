// What all pages share: the head with its policy and its look, and the script at the end.
#pragma once

#include "report_charts.hpp"
#include "report_script.hpp"
#include "report_style.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Nothing is fetched, and no other script runs: whatever names from files hold.
inline std::string page_begin(const std::string& title) {
    return "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta "
           "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';img-src data:;style-src 'unsafe-inline';script-src '" +
           std::string(report_script_hash()) + "'\"><title>" + html_text(title) + "</title><style>" + report_style() + "</style></head><body><main>";
}
inline std::string page_end() { return "</main><script>" + std::string(report_script()) + "</script></body></html>\n"; }

}  // namespace detail
GRAFT_END_NAMESPACE
