// A door for some threads at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace program {

/// Lets a number of threads through at a time, however many ask.
class turnstile {
public:
    explicit turnstile(int places) : left_(places) {}

    /// A place, for as long as this lives.
    class pass {
    public:
        /// Waits for it.
        explicit pass(turnstile& through) : through_(through) {
            std::unique_lock<std::mutex> hold(through_.lock_);
            through_.free_.wait(hold, [&] { return through_.left_ > 0; });
            --through_.left_;
        }
        /// Waits so long at most: there may be none.
        pass(turnstile& through, std::chrono::seconds longest) : through_(through) {
            std::unique_lock<std::mutex> hold(through_.lock_);
            in_ = through_.free_.wait_for(hold, longest, [&] { return through_.left_ > 0; });
            if (in_) --through_.left_;
        }
        ~pass() {
            if (!in_) return;
            {
                const std::lock_guard<std::mutex> hold(through_.lock_);
                ++through_.left_;
            }
            through_.free_.notify_one();
        }
        pass(const pass&) = delete;
        pass& operator=(const pass&) = delete;
        explicit operator bool() const noexcept { return in_; }

    private:
        turnstile& through_;
        bool in_ = true;
    };

private:
    std::mutex lock_;
    std::condition_variable free_;
    int left_;
};

}  // namespace program
