// metrics.jsonl: one JSON object a line, written as training goes; a run that resumes cuts it back to its checkpoint.
#pragma once

#include "log_file.hpp"
#include "member_record.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Figures by name, in the order in which they are written.
using named_numbers = std::vector<std::pair<std::string, double>>;

/// Appends lines such as {"step":120,"epoch":3,"split":"val","loss":0.41,"top1":0.88} to a file, each flushed as a whole.
class metrics_log {
public:
    /// Opens the file. Lines before the first whose "step" is over `keep_step`, or that is not whole, are kept, the rest is cut
    /// off, so that no step stands there twice; -1 begins afresh. Errors: file.open (a log over 1 GiB), file.write.
    static result<metrics_log> open(const std::string& path, std::int64_t keep_step);

    /// Writes a line: the step, the epoch (from 1), the split ("train", "val"), and figures, NaN and infinities as null; where there are members, what each
    /// did as the array "members", and what more or fewer of them would reach as "scaling"; where there are stages, theirs as "stages". Errors: file.write.
    status append(std::int64_t step, std::int64_t epoch, const std::string& split, const named_numbers& figures, const std::vector<member_record>& members = {},
                  const std::vector<stage_record>& stages = {});
    /// Errors: file.write, which the system may tell only now.
    status close() { return file_.close(); }

private:
    detail::log_file file_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/file.hpp"
#include "../core/json.hpp"

#include <cerrno>
#include <limits>
#include <string_view>
GRAFT_BEGIN_NAMESPACE
namespace detail {

// Bytes of whole lines up to the step.
inline result<std::size_t> metrics_to_keep(std::string_view text, std::int64_t step) {
    std::size_t kept = 0;
    while (kept < text.size()) {
        const std::size_t end = text.find('\n', kept);
        if (end == std::string_view::npos) break;
        auto line = parse_json(text.substr(kept, end - kept), "metrics");
        if (!line.ok() && line.error().code() == errc::memory_oom) return line.take_status();
        const json* at = line.ok() ? line->find("step") : nullptr;
        if (!at || !at->is_integer || at->integer > step) break;
        kept = end + 1;
    }
    return kept;
}

}  // namespace detail

GRAFT_INLINE result<metrics_log> metrics_log::open(const std::string& path, std::int64_t keep_step) GRAFT_MEMORY_TRY {
    std::shared_ptr<const mapped_file> old;
    std::size_t kept = 0;
    if (keep_step >= 0) {
        if (detail::descriptor::open(path, detail::descriptor::use::read).is_open()) {
            GRAFT_TRY_ASSIGN(old, mapped_file::open(path, std::int64_t(1) << 30, errc::file_open));
            GRAFT_TRY_ASSIGN(kept, detail::metrics_to_keep({reinterpret_cast<const char*>(old->data()), old->size()}, keep_step));
        } else if (errno != ENOENT)
            return fail(errc::file_open, path, detail::system_message());
    }
    if (!old || kept != old->size()) {
        atomic_file cut;
        GRAFT_TRY(cut.open(path));
        if (kept) GRAFT_TRY(cut.write(old->data(), kept));
        old.reset();
        GRAFT_TRY(cut.commit());
    }
    metrics_log log;
    detail::descriptor file = detail::descriptor::open(path, detail::descriptor::use::append);
    if (!file.is_open()) return fail(errc::file_write, path, detail::system_message());
    log.file_.begin(std::move(file), path);
    return log;
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE status metrics_log::append(std::int64_t step, std::int64_t epoch, const std::string& split, const named_numbers& figures,
                                        const std::vector<member_record>& members, const std::vector<stage_record>& stages) GRAFT_MEMORY_TRY {
    json_writer w;
    w.begin_object().key("step").integer(step).key("epoch").integer(epoch).key("split").string(split);
    for (const auto& f : figures) w.key(f.first).number(f.second);
    if (!members.empty()) {
        w.key("members").begin_array();
        for (const member_record& m : members) {
            w.begin_object().key("rank").integer(m.rank);
            if (!m.host.empty()) w.key("host").string(m.host);
            w.key("samples").integer(m.samples).key("images_per_s").number(m.images_per_s());
            w.key("busy_seconds").number(m.busy_seconds()).key("waiting_share").number(m.waiting_share());
            if (!m.device.empty()) w.key("device").string(m.device);
            if (m.bytes > 0) w.key("bytes").integer(m.bytes);
            w.end_object();
        }
        w.end_array();
    }
    if (const std::vector<scaling_row> rows = scaling_table(members); !rows.empty()) {
        w.key("scaling").begin_array();
        for (const scaling_row& r : rows) {
            w.begin_object().key("members").integer(r.members).key("kind").string(r.measured ? "measured" : "predicted");
            w.key("images_per_s").begin_array().number(r.least_images_per_s).number(r.most_images_per_s).end_array();
            w.key("efficiency").begin_array().number(r.least_efficiency).number(r.most_efficiency).end_array().end_object();
        }
        w.end_array();
    }
    if (!stages.empty()) {
        constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
        w.key("stages").begin_array();
        for (const stage_record& s : stages) {
            w.begin_object().key("device").string(s.device).key("busy_seconds").number(s.busy < 0 ? unknown : s.busy);
            w.key("waiting_share").number(s.waiting_share() < 0 ? unknown : s.waiting_share()).key("bytes").integer(s.bytes).end_object();
        }
        w.end_array();
    }
    w.end_object();
    const std::string line = w.text() + "\n";
    return file_.write(line.data(), line.size());
}
GRAFT_MEMORY_CATCH("metrics_log::append")

GRAFT_END_NAMESPACE
#endif
