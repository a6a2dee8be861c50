// TensorBoard's event files: scalars and pictures as TFRecords of Event messages (tensorflow/core/util/event.proto).
#pragma once

#include "log_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Writes one event file. Each event is flushed as a whole, so that a running TensorBoard shows it and a killed run loses none.
class event_writer {
public:
    /// A new file in a folder that exists: "events.out.tfevents.<seconds>.graft" and a number where that is taken. `first_step` >
    /// 0 tells TensorBoard to forget what earlier files of the folder say about that step and later ones: a resumed run. Errors:
    /// file.write.
    static result<event_writer> open(const std::string& folder, double wall_time, std::int64_t first_step = 0);

    /// A figure; names with '/' are grouped by what stands before it. `wall_time` in seconds since 1970. Errors: file.write.
    status scalar(const std::string& name, std::int64_t step, double value, double wall_time);
    /// A PNG file as a picture of `height` x `width` with 1 (gray) or 3 channels.
    status picture(const std::string& name, std::int64_t step, const std::string& png, std::int64_t height, std::int64_t width, int channels, double wall_time);
    status close() { return file_.close(); }
    const std::string& path() const noexcept { return file_.path(); }

private:
    status record(const std::vector<std::uint8_t>& event);

    detail::log_file file_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/descriptor.hpp"
#include "../core/protobuf.hpp"
#include "crc32c.hpp"

#include <cerrno>
#include <cstdio>
GRAFT_BEGIN_NAMESPACE
namespace detail {

// A CRC that may be stored beside what it is the CRC of, as TensorFlow masks it.
inline std::uint32_t masked_crc32c(const void* bytes, std::size_t n) noexcept {
    const std::uint32_t crc = crc32c(0, bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

inline wire_writer begin_event(std::vector<std::uint8_t>& out, double wall_time, std::int64_t step) {
    wire_writer w(out);
    w.tag(1, 1);
    w.raw(&wall_time, sizeof wall_time);
    if (step) w.integer(2, step);
    return w;
}

// A file that did not exist: whoever logs into the same folder in the same second has one of their own.
inline descriptor make_event_file(const std::string& base, std::string& path) {
    for (int i = 0; i < 1000; ++i) {
        char number[16] = "";
        if (i) std::snprintf(number, sizeof number, ".%03d", i);
        path = base + number;
        descriptor made = descriptor::open(path, descriptor::use::create);
        if (made.is_open() || errno != EEXIST) return made;
    }
    return {};
}

}  // namespace detail

GRAFT_INLINE result<event_writer> event_writer::open(const std::string& folder, double wall_time, std::int64_t first_step) GRAFT_MEMORY_TRY {
    event_writer made;
    const std::string seconds = std::to_string(static_cast<std::int64_t>(wall_time));
    std::string path;
    detail::descriptor file = detail::make_event_file(folder + "/events.out.tfevents." + seconds + ".graft", path);
    if (!file.is_open()) return fail(errc::file_write, path, detail::system_message());
    made.file_.begin(std::move(file), path);
    std::vector<std::uint8_t> event;
    detail::begin_event(event, wall_time, 0).text(3, "brain.Event:2");
    GRAFT_TRY(made.record(event));
    if (first_step > 0) {
        event.clear();
        wire_writer w = detail::begin_event(event, wall_time, first_step);
        const std::size_t log = w.begin(7);  // session_log
        w.integer(1, 1);                     // START: older events from this step on are void
        w.end(log);
        GRAFT_TRY(made.record(event));
    }
    return made;
}
GRAFT_MEMORY_CATCH(folder)

// A TFRecord: length, its CRC, the bytes, their CRC.
GRAFT_INLINE status event_writer::record(const std::vector<std::uint8_t>& event) GRAFT_MEMORY_TRY {
    std::vector<std::uint8_t> out;
    wire_writer w(out);
    const std::uint64_t size = event.size();
    const std::uint32_t size_crc = detail::masked_crc32c(&size, sizeof size), crc = detail::masked_crc32c(event.data(), event.size());
    w.raw(&size, sizeof size);
    w.raw(&size_crc, sizeof size_crc);
    w.raw(event.data(), event.size());
    w.raw(&crc, sizeof crc);
    return file_.write(out.data(), out.size());
}
GRAFT_MEMORY_CATCH("event_writer::record")

GRAFT_INLINE status event_writer::scalar(const std::string& name, std::int64_t step, double value, double wall_time) GRAFT_MEMORY_TRY {
    std::vector<std::uint8_t> event;
    wire_writer w = detail::begin_event(event, wall_time, step);
    const std::size_t summary = w.begin(5), entry = w.begin(1);
    w.text(1, name);
    w.real(2, static_cast<float>(value));
    w.end(entry);
    w.end(summary);
    return record(event);
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE status event_writer::picture(const std::string& name, std::int64_t step, const std::string& png, std::int64_t height, std::int64_t width,
                                          int channels, double wall_time) GRAFT_MEMORY_TRY {
    std::vector<std::uint8_t> event;
    wire_writer w = detail::begin_event(event, wall_time, step);
    const std::size_t summary = w.begin(5), entry = w.begin(1);
    w.text(1, name);
    const std::size_t image = w.begin(4);
    w.integer(1, height);
    w.integer(2, width);
    w.integer(3, channels);
    w.text(4, png);
    w.end(image);
    w.end(entry);
    w.end(summary);
    return record(event);
}
GRAFT_MEMORY_CATCH(name)

GRAFT_END_NAMESPACE
#endif
