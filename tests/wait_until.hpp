// Waits for what other threads do: as long as a busy machine may take, and not for ever.
#pragma once

#include <chrono>
#include <thread>

// Whether it came to be so within 20 seconds.
template <class Done>
bool wait_until(const Done& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
}
