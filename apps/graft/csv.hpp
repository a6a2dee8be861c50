// CSV by RFC 4180, as verbs write and read it.
#pragma once

#include <graft/core/error.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace program {

/// A field, in quotes where it needs them.
std::string csv_field(const std::string& text);

/// Where each record of a CSV text ends, behind its line end; of the last one, which may lack that, the end of the text.
std::vector<std::size_t> csv_record_ends(const std::string& text);

/// The records of a text, the header line too; `name` stands for it in messages. Errors: data.format, memory.budget.
graft::result<std::vector<std::vector<std::string>>> parse_csv(const std::string& text, const std::string& name, std::size_t most_records);
/// The records of a CSV file, the header line too; empty lines are none. Errors: data.open, data.format (no CSV text, a record of another width than
/// the first), memory.budget (over `most_bytes`, or over `most_records`).
graft::result<std::vector<std::vector<std::string>>> read_csv(const std::string& path, std::int64_t most_bytes, std::size_t most_records);

/// Writes a file, which stays what it was until the new one is whole. Errors: file.write.
graft::status write_text(const std::string& text, const std::string& path);

}  // namespace program
