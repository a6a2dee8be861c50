// Checkpoints: one safetensors file with a checksum of everything in it, of which two are kept and the newest good one is read.
#pragma once

#include "../core/error.hpp"
#include "../core/limits.hpp"
#include "../core/number_text.hpp"
#include "../io/safetensors.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// Everything a run needs to go on. Tensors share their memory with whoever made them: who saves in the background hands in
/// copies.
struct checkpoint {
    named_tensors tensors;  ///< weights, moments, running statistics
    named_texts settings;   ///< what must be the same on resume: "batch" -> "16"; in the order in which they are compared
    named_texts state;      ///< counters and the like: "step" -> "1200"

    const tensor* find(const std::string& name) const noexcept;
    /// The text of a part of the state; null where there is none.
    const std::string* find_state(const std::string& key) const noexcept;
};

/// What `load_checkpoint` found.
struct loaded_checkpoint {
    bool found = false;     ///< false: there is no checkpoint yet
    bool previous = false;  ///< the newest is damaged or absent, this is the one before
    std::string note;       ///< why the newest was not taken, and what was; for the log
    checkpoint contents;
};

/// The name under which the checkpoint before is kept: "x.safetensors" -> "x.previous.safetensors".
std::string previous_checkpoint(const std::string& path);

/// Writes a checkpoint: a temporary in the same folder (mode 0600), synced, renamed, the folder synced. The one there before is
/// kept as `previous_checkpoint`, if it verifies; at every moment one of the two names holds a whole file. Tensors are written
/// from where they lie, nothing is copied. With `newest_verified` the caller vouches for the file that is there (it has written
/// or loaded it itself), which spares reading it. Temporaries of killed runs are removed. Errors: checkpoint.write, naming the
/// path; then the newest is what it was and the temporary is gone. tensor.dtype and graph.duplicate for tensors that the format
/// cannot hold.
status save_checkpoint(const std::string& path, const checkpoint& contents, bool newest_verified = false);

/// Reads the newest checkpoint that verifies: the file itself, else the one before; memory of its own. Nothing there is no error,
/// see `found`. Errors: checkpoint.malformed where there are files and none verifies, memory.oom.
result<loaded_checkpoint> load_checkpoint(const std::string& path, const limits& limit = {});

/// Compares the settings of a checkpoint with those of the run that wants to go on. Errors: resume.mismatch, naming the first
/// field that differs and both its values.
status compare_settings(const named_texts& saved, const named_texts& now);

/// A copy of every tensor's memory, for saving in the background while training goes on. Errors: memory.oom.
result<named_tensors> copy_tensors(const named_tensors& tensors);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/file.hpp"
#include "../core/json.hpp"
#include "checkpoint_file.hpp"
#include "crc32c.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>
GRAFT_BEGIN_NAMESPACE
namespace detail {

inline const std::string* find_text(const named_texts& texts, const std::string& key) noexcept {
    for (const auto& t : texts)
        if (t.first == key) return &t.second;
    return nullptr;
}

// Pairs as a JSON array of pairs: their order is kept.
inline std::string pairs_text(const named_texts& pairs) {
    json_writer w;
    w.begin_array();
    for (const auto& p : pairs) w.begin_array().string(p.first).string(p.second).end_array();
    w.end_array();
    return w.text();
}

// A value as people read it: numbers are kept as hexadecimal fractions, to the bit, and told by the fewest digits that mean them.
inline std::string setting_text(const std::string& value) {
    std::string out;
    for (std::size_t at = 0; at < value.size();) {
        const std::size_t end = std::min(value.find(' ', at), value.size());
        const std::string word = value.substr(at, end - at);
        const char* stop = nullptr;
        const double number = read_number(word.c_str(), &stop);
        if (word.find("0x") <= 1 && stop == word.c_str() + word.size())
            out += shortest_text(number, static_cast<double>(static_cast<float>(number)) == number);
        else
            out += escape(word);
        if (end < value.size()) out += ' ';
        at = end + 1;
    }
    return value.empty() ? "nothing" : out;
}

inline status parse_pairs(const std::string& text, const std::string& name, const limits& limit, named_texts& out) {
    json tree;
    GRAFT_TRY_ASSIGN(tree, parse_json(text, name, limit));
    bool good = tree.type == json::kind::array;
    for (json& pair : tree.items) {
        good = good && pair.type == json::kind::array && pair.items.size() == 2 && pair.items[0].type == json::kind::string &&
               pair.items[1].type == json::kind::string;
        if (!good) break;
        out.emplace_back(std::move(pair.items[0].string), std::move(pair.items[1].string));
    }
    return good ? status() : fail(errc::checkpoint_malformed, name, "its settings or its state are no list of pairs");
}

inline std::string hex_text(std::uint32_t value) {
    char hex[12];
    std::snprintf(hex, sizeof hex, "%08x", static_cast<unsigned>(value));
    return hex;
}

// A tensor's type, shape and checksum: "F32[3,4] 1a2b3c4d". A header that lies about a shape is found out by it.
inline std::string tensor_checksum(const char* type, const std::int64_t* extents, std::size_t rank, const void* data, std::size_t bytes) {
    std::string out = std::string(type) + "[";
    for (std::size_t i = 0; i < rank; ++i) out += (i ? "," : "") + std::to_string(extents[i]);
    return out + "] " + hex_text(crc32c(0, data, bytes));
}

// One number over all texts, each with its length before it.
inline std::string texts_checksum(const named_texts& texts) {
    std::uint32_t crc = 0;
    for (const auto& t : texts)
        for (const std::string* part : {&t.first, &t.second}) {
            const std::uint64_t size = part->size();
            crc = crc32c(crc, &size, sizeof size);
            crc = crc32c(crc, part->data(), part->size());
        }
    return hex_text(crc);
}

inline const char* safetensors_name(dtype type) noexcept {
    int count = 0;
    const safetensors_type* types = safetensors_types(count);
    for (int i = 0; i < count; ++i)
        if (types[i].type == type && type != dtype::undefined) return types[i].name;
    return "";
}

inline named_texts checkpoint_metadata(const checkpoint& c) {
    named_texts sums;
    for (const auto& t : c.tensors) {
        const tensor& x = t.second;
        std::vector<std::int64_t> extents;
        for (const std::int64_t d : x.shape()) extents.push_back(d);
        sums.emplace_back(t.first, tensor_checksum(safetensors_name(x.type()), extents.data(), extents.size(), x.raw(), x.bytes()));
    }
    named_texts out = {{"format", "graft.checkpoint.1"}, {"settings", pairs_text(c.settings)}, {"state", pairs_text(c.state)}, {"crc32c", pairs_text(sums)}};
    out.emplace_back("crc32c.metadata", texts_checksum(out));
    return out;
}

// Checks a file against its own checksums. `sums` and the texts of `out` are read, tensors are not.
inline status verify_checkpoint(const safetensors& file, const std::string& path, const limits& limit, checkpoint& out) {
    const auto fault = [&path](const std::string& what) { return fail(errc::checkpoint_malformed, path, what); };
    named_texts texts;
    for (const char* key : {"format", "settings", "state", "crc32c"}) {
        const std::string* value = file.find_metadata(key);
        if (!value) return fault("its metadata have no '" + std::string(key) + "': this is no checkpoint of graft");
        texts.emplace_back(key, *value);
    }
    if (texts[0].second != "graft.checkpoint.1") return fault("it was written by another version of graft: '" + escape(texts[0].second) + "'");
    const std::string* own = file.find_metadata("crc32c.metadata");
    if (!own || *own != texts_checksum(texts)) return fault("the checksum of its metadata does not fit");
    GRAFT_TRY(parse_pairs(texts[1].second, path, limit, out.settings));
    GRAFT_TRY(parse_pairs(texts[2].second, path, limit, out.state));
    named_texts sums;
    GRAFT_TRY(parse_pairs(texts[3].second, path, limit, sums));
    if (sums.size() != file.tensors.size()) return fault("it has not the tensors that it had when it was written");
    for (const auto& sum : sums) {
        const safetensors_entry* e = file.find(sum.first);
        if (!e) return fault("tensor '" + escape(sum.first) + "' is missing");
        if (tensor_checksum(e->type_name.c_str(), e->extents.data(), e->extents.size(), e->data, e->bytes) != sum.second)
            return fault("the checksum of tensor '" + escape(sum.first) + "' does not fit");
        out.tensors.emplace_back(sum.first, tensor());
    }
    return {};
}

inline status read_checkpoint(const std::string& path, const limits& limit, bool load, checkpoint& out) {
    out = {};
    safetensors file;
    GRAFT_TRY_ASSIGN(file, read_safetensors_file(path, limit));
    GRAFT_TRY(verify_checkpoint(file, path, limit, out));
    if (!load) return {};
    for (auto& t : out.tensors) GRAFT_TRY_ASSIGN(t.second, file.load(*file.find(t.first)));
    return {};
}

}  // namespace detail

GRAFT_INLINE const tensor* checkpoint::find(const std::string& name) const noexcept {
    for (const auto& t : tensors)
        if (t.first == name) return &t.second;
    return nullptr;
}
GRAFT_INLINE const std::string* checkpoint::find_state(const std::string& key) const noexcept { return detail::find_text(state, key); }

GRAFT_INLINE std::string previous_checkpoint(const std::string& path) {
    const std::size_t slash = path.find_last_of("/\\"), dot = path.find_last_of('.');
    const bool suffix = dot != std::string::npos && dot > 0 && (slash == std::string::npos || dot > slash + 1);
    return suffix ? path.substr(0, dot) + ".previous" + path.substr(dot) : path + ".previous";
}

GRAFT_INLINE status save_checkpoint(const std::string& path, const checkpoint& contents, bool newest_verified) GRAFT_MEMORY_TRY {
    std::string header;
    std::vector<std::size_t> order;
    GRAFT_TRY(detail::safetensors_header(contents.tensors, detail::checkpoint_metadata(contents), header, order));
    detail::checkpoint_file file;
    GRAFT_TRY(file.open(path));
    GRAFT_TRY(file.write(header.data(), header.size()));
    for (const std::size_t i : order) GRAFT_TRY(file.write(contents.tensors[i].second.raw(), contents.tensors[i].second.bytes()));
    // A damaged file must not push out the good one before it.
    checkpoint there;
    bool keep = detail::file_exists(path);
    if (keep && !newest_verified) {
        status verified = detail::read_checkpoint(path, limits(), false, there);
        // That says nothing about the file.
        if (!verified.ok() && verified.error().code() == errc::memory_oom) return verified;
        keep = verified.ok();
    }
    return file.commit(previous_checkpoint(path), keep);
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE result<loaded_checkpoint> load_checkpoint(const std::string& path, const limits& limit) GRAFT_MEMORY_TRY {
    loaded_checkpoint out;
    std::string faults;
    for (const bool previous : {false, true}) {
        const std::string name = previous ? previous_checkpoint(path) : path;
        if (!detail::file_exists(name)) continue;
        const status read = detail::read_checkpoint(name, limit, true, out.contents);
        if (read.ok()) {
            out.found = true;
            out.previous = previous;
            if (previous) out.note = (faults.empty() ? path + " is not there" : faults) + "; the one before is taken: " + name;
            return out;
        }
        if (read.error().code() == errc::memory_oom) return fail(errc::memory_oom, name, read.error().detail());
        faults += (faults.empty() ? "" : "; ") + std::string(read.error().what());
    }
    if (faults.empty()) return out;
    return fail(errc::checkpoint_malformed, path, "no checkpoint here is whole (" + faults + "); remove them, or train into another folder, to begin afresh");
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE status compare_settings(const named_texts& saved, const named_texts& now) GRAFT_MEMORY_TRY {
    const auto differs = [](const std::string& field, const std::string* before, const std::string* here) {
        const auto value = [](const std::string* text) { return text ? detail::setting_text(*text) : std::string("nothing"); };
        return fail(errc::resume_mismatch, field,
                    (field == "lr" ? "the learning rate was " : "it was ") + value(before) + " when the checkpoint was made, and is " + value(here) +
                        " now; go on with what the checkpoint has, or train into another folder");
    };
    for (const auto& field : now) {
        const std::string* before = detail::find_text(saved, field.first);
        if (!before || *before != field.second) return differs(field.first, before, &field.second);
    }
    for (const auto& field : saved)
        if (!detail::find_text(now, field.first)) return differs(field.first, &field.second, nullptr);
    return {};
}
GRAFT_MEMORY_CATCH("compare_settings")

GRAFT_INLINE result<named_tensors> copy_tensors(const named_tensors& tensors) GRAFT_MEMORY_TRY {
    named_tensors out;
    out.reserve(tensors.size());
    for (const auto& t : tensors) {
        tensor copy;
        GRAFT_TRY_ASSIGN(copy, tensor::make(t.second.type(), t.second.shape()));
        if (copy.bytes()) std::memcpy(copy.raw(), t.second.raw(), copy.bytes());
        out.emplace_back(t.first, std::move(copy));
    }
    return out;
}
GRAFT_MEMORY_CATCH("copy_tensors")

GRAFT_END_NAMESPACE
#endif
