// Signals that are noted first, and words for a shell.
#include "interrupt.hpp"

#include <csignal>
#include <cstdio>
#include <cstring>
#if defined(_WIN32)
#include <io.h>
#else
#include <unistd.h>
#endif

namespace program {
namespace {

constexpr int noted_signals[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t caught_signal = 0;
const char* notice_text = "";
unsigned notice_size = 0;

// Only what is allowed in a handler.
extern "C" void note_signal(int which) {
    for (const int s : noted_signals) std::signal(s, SIG_DFL);
    caught_signal = which;
#if defined(_WIN32)
    if (::_write(2, notice_text, notice_size) < 0) return;
#else
    if (::write(2, notice_text, notice_size) < 0) return;
#endif
}

}  // namespace

interrupt_guard::interrupt_guard(std::string notice) : notice_(std::move(notice)) {
    notice_text = notice_.c_str();
    notice_size = static_cast<unsigned>(notice_.size());
    caught_signal = 0;
    // A job that a script started in the background ignores Ctrl-C, which is meant for what is in front.
    for (const int s : noted_signals)
        if (std::signal(s, note_signal) == SIG_IGN) std::signal(s, SIG_IGN);
}

interrupt_guard::~interrupt_guard() {
    for (const int s : noted_signals)
        if (std::signal(s, SIG_DFL) == SIG_IGN) std::signal(s, SIG_IGN);
    notice_size = 0;
}

int interrupt_guard::caught() const noexcept { return caught_signal; }

std::string shell_quoted(const std::string& word) {
    const char* plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
    bool control = false;
    for (const char c : word) control |= static_cast<unsigned char>(c) < 32 || c == 127;
    std::string out = control ? "$'" : "'";
    for (const char c : word) {
        char hex[8];
        if (static_cast<unsigned char>(c) < 32 || c == 127)
            std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(c)), out += hex;
        else if (c == '\'')
            out += control ? "\\'" : "'\\''";
        else
            out += control && c == '\\' ? "\\\\" : std::string(1, c);
    }
    return out + "'";
}

}  // namespace program
