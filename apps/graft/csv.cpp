// CSV by RFC 4180: fields, and the records of a file by the library's own reader.
#include "csv.hpp"

#include <graft/core/file.hpp>
#include <graft/core/read_file.hpp>
#include <graft/data/csv_manifest.hpp>

namespace program {

std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string out = "\"";
    for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
}

std::vector<std::size_t> csv_record_ends(const std::string& text) {
    std::vector<std::size_t> ends;
    bool quoted = false;  // a doubled quote is two that change nothing together
    for (std::size_t i = 0; i < text.size(); ++i) {
        quoted ^= text[i] == '"';
        if (text[i] == '\n' && !quoted) ends.push_back(i + 1);
    }
    if (!text.empty() && (ends.empty() || ends.back() != text.size())) ends.push_back(text.size());
    return ends;
}

graft::result<std::vector<std::vector<std::string>>> parse_csv(const std::string& text, const std::string& path, std::size_t most_records) {
    graft::detail::csv_records reader(text, path);
    std::vector<std::vector<std::string>> records;
    for (;;) {
        std::vector<std::string> fields;
        GRAFT_TRY(reader.next(fields));
        if (fields.empty()) return records;
        if (!records.empty() && fields.size() != records[0].size())
            return graft::fail(graft::errc::data_format, reader.where(),
                               std::to_string(fields.size()) + " fields; the header line has " + std::to_string(records[0].size()));
        if (records.size() == most_records) return graft::fail(graft::errc::memory_budget, path, "more than " + std::to_string(most_records) + " lines");
        records.push_back(std::move(fields));
    }
}

graft::result<std::vector<std::vector<std::string>>> read_csv(const std::string& path, std::int64_t most_bytes, std::size_t most_records) {
    std::string text;
    GRAFT_TRY_ASSIGN(text, graft::read_file(path, most_bytes, graft::errc::data_open, graft::errc::memory_budget));
    return parse_csv(text, path, most_records);
}

graft::status write_text(const std::string& text, const std::string& path) {
    graft::atomic_file file;
    GRAFT_TRY(file.open(path));
    GRAFT_TRY(file.write(text.data(), text.size()));
    return file.commit();
}

}  // namespace program
