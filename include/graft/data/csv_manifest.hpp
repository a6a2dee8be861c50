// A CSV file that lists pictures: a header line, then path,label[,split]. RFC 4180; paths are relative to the file's folder and
// stay under it.
#pragma once

#include "../core/read_file.hpp"
#include "dataset_state.hpp"

#include <algorithm>
#include <map>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Takes the records of an RFC 4180 text one after the other. Fields may be quoted, and hold line ends then.
class csv_records {
public:
    csv_records(const std::string& text, std::string path) : text_(text), path_(std::move(path)) {
        if (text_.compare(0, 3, "\xef\xbb\xbf") == 0) at_ = 3;  // spreadsheets put a byte order mark there
    }
    // The path, and the line that the last record began on, from 1.
    std::string where() const { return path_ + ":" + std::to_string(record_line_); }

    // No fields: there is no further record. Empty lines are none. Errors: data.format.
    status next(std::vector<std::string>& fields) {
        while (at_ < text_.size() && line_end(at_)) skip_line_end();
        fields.clear();
        record_line_ = line_;
        if (at_ >= text_.size()) return {};
        for (;;) {
            std::string field;
            GRAFT_TRY(at_ < text_.size() && text_[at_] == '"' ? quoted(field) : plain(field));
            if (fields.size() >= most_fields) return fail(errc::data_format, where(), "more than " + std::to_string(most_fields) + " fields in a line");
            fields.push_back(std::move(field));
            if (at_ >= text_.size()) return {};
            if (line_end(at_)) return skip_line_end(), status();
            ++at_;  // a comma: `quoted` and `plain` stop at nothing else
        }
    }

private:
    static constexpr std::size_t most_fields = 1000;

    // Bytes of the line end at a place, 0 where there is none.
    std::size_t line_end(std::size_t at) const noexcept {
        if (text_[at] == '\n') return 1;
        return text_[at] == '\r' && at + 1 < text_.size() && text_[at + 1] == '\n' ? 2 : 0;
    }
    void skip_line_end() noexcept { at_ += line_end(at_), ++line_; }

    status plain(std::string& field) {
        const std::size_t from = at_;
        while (at_ < text_.size() && text_[at_] != ',' && !line_end(at_)) {
            if (text_[at_] == '"') return fail(errc::data_format, where(), "a quote within a field; quote the whole field and double the quote");
            if (text_[at_] == '\0' || text_[at_] == '\r') return fail(errc::data_format, where(), "a NUL or a lone carriage return; this is no CSV text");
            ++at_;
        }
        field = text_.substr(from, at_ - from);
        return {};
    }
    status quoted(std::string& field) {
        ++at_;
        for (; at_ < text_.size(); ++at_) {
            if (text_[at_] == '\0') return fail(errc::data_format, where(), "a NUL byte; this is no CSV text");
            line_ += text_[at_] == '\n';
            if (text_[at_] != '"') {
                field += text_[at_];
                continue;
            }
            ++at_;
            if (at_ >= text_.size() || text_[at_] == ',' || line_end(at_)) return {};
            if (text_[at_] != '"') return fail(errc::data_format, where(), "text follows the quote that ends a field");
            field += '"';
        }
        return fail(errc::data_format, where(), "a quote is never closed");
    }

    const std::string& text_;
    std::string path_;
    std::size_t at_ = 0;
    std::int64_t line_ = 1, record_line_ = 1;
};

// Why a path may not be followed, null where it may: it has to stay under the manifest's folder, by its text, on any system.
inline const char* manifest_path_fault(const std::string& path) {
    if (path.empty()) return "the path is empty";
    if (path[0] == '/' || path[0] == '\\' || (path.size() > 1 && path[1] == ':' && ascii_lower(path[0]) >= 'a' && ascii_lower(path[0]) <= 'z'))
        return "the path is absolute; paths are relative to the folder of the CSV file";
    for (std::size_t from = 0; from <= path.size();) {
        std::size_t end = path.find_first_of("/\\", from);
        if (end == std::string::npos) end = path.size();
        if (end - from == 2 && path.compare(from, 2, "..") == 0) return "the path leaves the folder of the CSV file";
        from = end + 1;
    }
    return nullptr;
}

// The value of a decimal number as labels are written, -1 where it is none: "0", "17", not "01", "+1" or "1e3".
inline std::int64_t label_number(const std::string& text) noexcept {
    if (text.empty() || text.size() > 9 || (text[0] == '0' && text.size() > 1)) return -1;
    std::int64_t value = 0;
    for (char c : text) {
        if (c < '0' || c > '9') return -1;
        value = value * 10 + (c - '0');
    }
    return value;
}

class csv_manifest_reader {
public:
    explicit csv_manifest_reader(dataset_state& state) : state_(state) {}

    // Whether a text begins with a header line that has both columns.
    static bool recognised(const std::string& head) {
        if (head.find('\0') != std::string::npos) return false;
        csv_records records(head, "");
        std::vector<std::string> fields;
        return records.next(fields).ok() && column(fields, "path") >= 0 && column(fields, "label") >= 0;
    }

    status read(const std::string& path) {
        std::string text;
        GRAFT_TRY_ASSIGN(text, read_file(path, most_bytes, errc::data_open, errc::memory_budget));
        csv_records records(text, path);
        std::vector<std::string> fields;
        GRAFT_TRY(records.next(fields));
        GRAFT_TRY(find_columns(fields, path));
        const std::size_t width = fields.size();
        for (;;) {
            GRAFT_TRY(records.next(fields));
            if (fields.empty()) break;
            if (fields.size() != width)
                return fail(errc::data_format, records.where(), std::to_string(fields.size()) + " fields; the header line has " + std::to_string(width));
            if (!take(fields, records.where()) && ++faults_ > most_faults)
                return fail(errc::data_format, path, "more than " + std::to_string(most_faults) + " lines are wrong");
            if (static_cast<std::int64_t>(rows_.size()) > dataset_state::most_samples)
                return fail(errc::memory_budget, path, "more than " + std::to_string(dataset_state::most_samples) + " lines");
        }
        return label_rows(path);
    }

private:
    static constexpr std::int64_t most_bytes = std::int64_t(1) << 30;
    static constexpr int most_faults = 1000;

    struct row {
        std::string path;
        std::size_t label;
        data_part part;
    };

    static int column(const std::vector<std::string>& fields, const char* name) {
        for (std::size_t i = 0; i < fields.size(); ++i)
            if (fields[i] == name) return static_cast<int>(i);
        return -1;
    }
    status find_columns(const std::vector<std::string>& fields, const std::string& path) {
        path_column_ = column(fields, "path");
        label_column_ = column(fields, "label");
        split_column_ = column(fields, "split");
        if (path_column_ < 0 || label_column_ < 0)
            return fail(errc::data_format, path, "the first line has to name the columns: path,label or path,label,split");
        return {};
    }

    // Whether the line is sound; what is wrong with it is noted.
    bool take(std::vector<std::string>& fields, const std::string& where) {
        std::string& path = fields[static_cast<std::size_t>(path_column_)];
        const std::string& label = fields[static_cast<std::size_t>(label_column_)];
        if (const char* fault = manifest_path_fault(path)) return state_.refuse(where, errc::data_format, fault), false;
        if (label.empty()) return state_.refuse(where, errc::data_format, "the label is empty"), false;
        data_part part = data_part::training;
        if (split_column_ >= 0 && !part_named(fields[static_cast<std::size_t>(split_column_)], part)) {
            state_.refuse(where, errc::data_format,
                          "split \"" + escape(fields[static_cast<std::size_t>(split_column_)]) + "\"; say train, val, validation or test");
            return false;
        }
        rows_.push_back({std::move(path), intern(label), part});
        return true;
    }
    static bool part_named(const std::string& name, data_part& part) {
        if (name.empty() || name == "train") return part = data_part::training, true;
        if (name == "val" || name == "validation") return part = data_part::validation, true;
        if (name == "test") return part = data_part::test, true;
        return false;
    }
    // The number of a label, in the order that labels were first met.
    std::size_t intern(const std::string& label) { return known_.emplace(label, known_.size()).first->second; }

    // Classes are the labels of the training rows, by number where all are numbers, else by bytes.
    status label_rows(const std::string& path) {
        bool training = false;
        for (const row& r : rows_) training |= r.part == data_part::training;
        std::vector<bool> used(known_.size());
        for (const row& r : rows_)
            if (!training || r.part == data_part::training) used[r.label] = true;
        std::vector<const std::pair<const std::string, std::size_t>*> order;
        bool numbers = true;
        for (const auto& label : known_) {
            if (!used[label.second]) continue;
            order.push_back(&label);
            numbers = numbers && label_number(label.first) >= 0;
        }
        if (numbers) std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return label_number(a->first) < label_number(b->first); });
        std::vector<int> index(known_.size(), -1);
        for (const auto* label : order) {
            index[label->second] = static_cast<int>(state_.classes.size());
            state_.classes.push_back(label->first);
        }
        for (const row& r : rows_)
            if (index[r.label] >= 0) GRAFT_TRY(state_.add_file(r.path, index[r.label], r.part));
        for (const auto& label : known_)
            if (index[label.second] < 0)
                state_.refuse(path, errc::data_class_mismatch, "no training line has the label \"" + escape(label.first) + "\", but others do");
        return {};
    }

    dataset_state& state_;
    int path_column_ = -1, label_column_ = -1, split_column_ = -1, faults_ = 0;
    std::vector<row> rows_;
    std::map<std::string, std::size_t> known_;  // labels and their numbers
};

}  // namespace detail
GRAFT_END_NAMESPACE
