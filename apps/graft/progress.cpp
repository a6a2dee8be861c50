// The bar, the lines and the summaries of a training run.
#include "progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

namespace program {
namespace {

std::string count_of(std::int64_t done, std::int64_t all) {
    const std::string total = std::to_string(all);
    return padded(std::to_string(done), static_cast<int>(total.size()), true) + "/" + total;
}

std::string rate_text(double images_per_s) { return formatted(images_per_s < 9.95 ? "%.1f" : "%.0f", images_per_s); }

// A thin bar whose empty part shows too.
std::string thin_bar(const terminal& screen, double share, int columns) {
    const int full = static_cast<int>(std::lround(std::min(std::max(share, 0.0), 1.0) * columns));
    std::string done, rest;
    for (int i = 0; i < columns; ++i) (i < full ? done : rest) += screen.unicode ? "\u2501" : i < full ? "#" : "-";
    if (!screen.colors && screen.unicode) {
        rest.clear();
        for (int i = full; i < columns; ++i) rest += "\u2500";
    }
    return styled(screen, style::green, done) + styled(screen, style::dim, rest);
}

// "87 % 3.2 GB 212 W 64 C", as far as it is known.
std::string gpu_text(const gpu_figures& gpu) {
    std::string out;
    const auto add = [&](double value, const std::string& text) {
        if (std::isfinite(value)) out += (out.empty() ? "" : " ") + text;
    };
    add(gpu.busy, formatted("%.0f %%", gpu.busy * 100));
    add(gpu.bytes, bytes_text(std::isfinite(gpu.bytes) ? static_cast<std::int64_t>(gpu.bytes) : 0));
    add(gpu.watts, formatted("%.0f W", gpu.watts));
    add(gpu.celsius, formatted("%.0f C", gpu.celsius));
    return out;
}

std::vector<std::string> figures(const terminal& screen, const training_figures& at) {
    std::vector<std::string> out;
    const auto add = [&](double value, const std::string& name, const std::string& text) {
        if (std::isfinite(value)) out.push_back((name.empty() ? "" : styled(screen, style::dim, name) + " ") + text);
    };
    add(at.seconds_left, "ETA", clock_text(at.seconds_left));
    add(at.loss, "loss", formatted("%.3f", at.loss));
    if (at.joins > 0) out.push_back(styled(screen, style::dim, "head alone until epoch") + " " + std::to_string(at.joins));
    add(at.images_per_s, "", rate_text(at.images_per_s) + " img/s");
    add(at.top1, "top-1", percent_text(at.top1));
    add(at.data_wait, "wait", formatted("%.0f %%", at.data_wait * 100));
    add(at.members_wait, "members wait", formatted("%.0f %%", at.members_wait * 100));
    const std::string gpu = gpu_text(at.gpu);
    if (!gpu.empty()) out.push_back(styled(screen, style::dim, "GPU") + " " + gpu);
    return out;  // the most important first
}

}  // namespace

std::string progress_line(const terminal& screen, const training_figures& at) {
    const double share = at.steps > 0 ? static_cast<double>(at.step) / static_cast<double>(at.steps) : 0;
    const std::string head = at.phase + (at.epochs > 0 ? " " + count_of(at.epoch, at.epochs) : "");
    const int bar_width = screen.columns >= 110 ? 28 : screen.columns >= 90 ? 14 : 6;
    std::string out = styled(screen, style::bold, head) + " " + thin_bar(screen, share, bar_width) + " " + count_of(at.step, at.steps);
    for (const std::string& part : figures(screen, at)) {
        if (display_width(out) + 2 + display_width(part) >= screen.columns) break;  // the last column would wrap on some terminals
        out += "  " + part;
    }
    return display_width(out) < screen.columns ? out : shortened(head + " " + count_of(at.step, at.steps), screen.columns - 1);
}

std::string progress_log(const training_figures& at) {
    std::string out = at.phase + (at.epochs > 0 ? " " + std::to_string(at.epoch) + "/" + std::to_string(at.epochs) : "") + " step " + std::to_string(at.step) +
                      "/" + std::to_string(at.steps);
    for (const std::string& part : figures(terminal(), at)) out += ", " + part;
    return out;
}

std::string summary_line(const terminal& screen, const epoch_summary& done) {
    std::string out = styled(screen, style::bold, "epoch " + count_of(done.epoch, done.epochs));
    const auto pair = [&](const char* name, double loss, double top1) {
        if (!std::isfinite(loss) && !std::isfinite(top1)) return;
        out += "  " + styled(screen, style::dim, name);
        if (std::isfinite(loss)) out += " loss " + formatted("%.4f", loss);
        if (std::isfinite(top1)) out += " top-1 " + padded(percent_text(top1), 7, true);
    };
    pair("train", done.train_loss, done.train_top1);
    pair("val", done.val_loss, done.val_top1);
    out += uneven_text(done.val_balanced, done.val_majority);
    // What does not fit the line is left out, the least telling first.
    const auto add = [&](const std::string& part) {
        if (!screen.interactive || display_width(out) + 2 + display_width(part) < screen.columns) out += "  " + part;
    };
    if (done.head_alone) add(styled(screen, style::dim, "head alone"));
    if (done.best) add(styled(screen, style::green, screen.unicode ? "\u2605 best" : "* best"));
    if (std::isfinite(done.seconds)) add(done.seconds < 9.95 ? formatted("%.1f s", done.seconds) : clock_text(done.seconds));
    if (std::isfinite(done.images_per_s)) add(rate_text(done.images_per_s) + " images/s");
    if (std::isfinite(done.data_wait)) add(styled(screen, style::dim, "data wait ") + formatted("%.0f %%", done.data_wait * 100));
    if (std::isfinite(done.members_wait)) add(styled(screen, style::dim, "members wait ") + formatted("%.0f %%", done.members_wait * 100));
    if (const std::string gpu = gpu_text(done.gpu); !gpu.empty()) add(styled(screen, style::dim, "GPU ") + gpu);
    if (std::isfinite(done.learning_rate)) add(styled(screen, style::dim, "lr ") + formatted("%.2g", done.learning_rate));
    return out;
}

std::string uneven_text(double balanced, double majority) {
    return std::isfinite(balanced) ? ", balanced " + percent_text(balanced) + " (majority " + percent_text(majority) + ")" : "";
}

training_progress::training_progress(bool quiet, const std::string& color) : quiet_(quiet), screen_(look_at(stderr, color)) {}

void training_progress::update(const training_figures& at) {
    if (quiet_) return;
    const double now = seconds_now();
    const bool bar = screen_.interactive;
    if (last_ < -1e8 && !bar) last_ = now;  // a log needs no line for what has only begun
    if (now - last_ < (bar ? 0.1 : 10)) return;
    last_ = now;
    if (bar)
        std::fprintf(stderr, "\r%s\x1b[K", progress_line(screen_, at).c_str());
    else
        std::fprintf(stderr, "graft: %s\n", progress_log(at).c_str());
    std::fflush(stderr);
    shown_ = bar;
}

void training_progress::epoch_done(const epoch_summary& done) {
    if (quiet_) return;
    clear();
    std::fprintf(stderr, "%s%s\n", screen_.interactive ? "" : "graft: ", summary_line(screen_, done).c_str());
    std::fflush(stderr);
}

void training_progress::note(const std::string& text) {
    if (quiet_) return;
    clear();
    std::fprintf(stderr, "%s%s\n", screen_.interactive ? "" : "graft: ", printable(text).c_str());
    std::fflush(stderr);
}

void training_progress::clear() {
    if (shown_) std::fprintf(stderr, "\r\x1b[K");
    shown_ = false;
}

}  // namespace program
