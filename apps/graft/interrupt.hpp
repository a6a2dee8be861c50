// Ctrl-C while something is at work that can be ended in order.
#pragma once

#include <string>

namespace program {

/// While one of these lives, the first SIGINT or SIGTERM is only noted, and says so on stderr; the next ends the program at once, as it would
/// have without. A signal that was ignored stays so. One at a time.
class interrupt_guard {
public:
    /// `notice` is what the first signal prints; "" prints nothing.
    explicit interrupt_guard(std::string notice);
    ~interrupt_guard();
    interrupt_guard(const interrupt_guard&) = delete;
    interrupt_guard& operator=(const interrupt_guard&) = delete;

    /// The signal that came, 0 where none has.
    int caught() const noexcept;

private:
    std::string notice_;
};

/// A word as a shell takes it back: as it is, or in quotes.
std::string shell_quoted(const std::string& word);

}  // namespace program
