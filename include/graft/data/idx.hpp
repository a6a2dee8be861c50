// IDX, the format of MNIST and its kin: a file of pictures and a file of labels, gzipped or not.
// http://yann.lecun.com/exdb/mnist: magic 0, 0, type, dimensions; big-endian sizes; the data, last dimension fastest.
#pragma once

#include "dataset_state.hpp"
#include "gzip.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// One name of a pair taken apart: "train" + "-" + "images" + "-idx3-ubyte" + ".gz".
struct idx_name {
    std::string stem;  // all before "images" or "labels"
    char separator = '-';
    bool images = false, packed = false;

    static bool parse(const std::string& name, idx_name& out) {
        std::string rest = name;
        const auto ends_with = [&rest](const std::string& tail) {
            return rest.size() >= tail.size() && rest.compare(rest.size() - tail.size(), tail.size(), tail) == 0;
        };
        const auto drop = [&rest](std::size_t n) { rest.resize(rest.size() - n); };
        out.packed = ends_with(".gz");
        if (out.packed) drop(3);
        out.images = ends_with("idx3-ubyte");
        if (!out.images && !ends_with("idx1-ubyte")) return false;
        drop(10);
        if (rest.empty() || (rest.back() != '-' && rest.back() != '.')) return false;
        out.separator = rest.back();
        drop(1);
        if (!ends_with(out.images ? "images" : "labels")) return false;
        drop(6);
        out.stem = rest;
        return true;
    }
    std::string text() const { return stem + (images ? "images" : "labels") + separator + (images ? "idx3-ubyte" : "idx1-ubyte") + (packed ? ".gz" : ""); }
    std::string partner() const {
        idx_name other = *this;
        other.images = !images;
        return other.text();
    }
    data_part part() const {
        std::size_t last = stem.size();
        while (last && (stem[last - 1] == '-' || stem[last - 1] == '_' || stem[last - 1] == '.')) --last;
        const auto ends_with = [&](const std::string& tail) { return last >= tail.size() && stem.compare(last - tail.size(), tail.size(), tail) == 0; };
        // MNIST has no other part to score by than its test part.
        return ends_with("t10k") || ends_with("test") || ends_with("val") || ends_with("valid") || ends_with("validation") ? data_part::validation
                                                                                                                           : data_part::training;
    }
};

// The header of an IDX file, checked, and how many bytes the file has to have.
struct idx_header {
    std::int64_t count = 0, height = 1, width = 1;
    std::uint64_t header_bytes = 0, bytes = 0;

    static status parse(const std::string& head, int dimensions, const std::string& path, const limits& caps, idx_header& out) {
        const auto* p = reinterpret_cast<const std::uint8_t*>(head.data());
        const auto bad = [&](const std::string& what) { return fail(errc::data_format, path, what); };
        if (head.size() < 4) return bad("the file ends within its IDX header");
        if (p[0] || p[1]) return bad("this is not an IDX file: it does not begin with two zero bytes");
        if (p[2] != 8) {
            char hex[8];
            std::snprintf(hex, sizeof hex, "0x%02x", p[2]);
            return bad(std::string("element type ") + hex + "; only unsigned bytes (0x08) are read");
        }
        if (p[3] != dimensions) return bad(std::to_string(p[3]) + " dimensions; " + (dimensions == 3 ? "pictures have 3" : "labels have 1"));
        if (head.size() < 4 + 4 * static_cast<std::size_t>(dimensions)) return bad("the file ends within its IDX header");
        out.count = big_endian(p + 4);
        if (dimensions == 3) {
            out.height = big_endian(p + 8);
            out.width = big_endian(p + 12);
            const status sides = check_image_size(out.width, out.height, path, caps);
            if (!sides.ok()) return bad(sides.error().detail());
        }
        // Sides are capped and the count has 32 bits: no product wraps.
        out.header_bytes = 4 + 4 * static_cast<std::uint64_t>(dimensions);
        out.bytes = out.header_bytes + static_cast<std::uint64_t>(out.count) * static_cast<std::uint64_t>(out.height * out.width);
        return {};
    }
};

class idx_reader {
public:
    idx_reader(dataset_state& state, const dataset_options& options) : state_(state), options_(options) {}

    static bool found_in(const std::vector<folder_entry>& entries) {
        idx_name name;
        for (const folder_entry& e : entries)
            if (e.kind == entry_kind::file && idx_name::parse(e.name, name)) return true;
        return false;
    }

    // Every pair of a folder. A part that is damaged is refused; the others are read.
    status read_folder(const std::vector<folder_entry>& entries) {
        for (const data_part part : {data_part::training, data_part::validation}) {
            std::vector<std::string> pairs;  // by the name of one of their files
            idx_name name, last;
            for (const folder_entry& e : entries) {
                if (e.kind != entry_kind::file || !idx_name::parse(e.name, name) || name.part() != part) continue;
                if (!pairs.empty() && last.stem == name.stem && last.separator == name.separator) continue;
                pairs.push_back(e.name);
                last = name;
            }
            if (pairs.size() > 1) {
                state_.refuse(join_path(state_.folder, pairs[1]), errc::data_format,
                              "a second pair beside " + escape(pairs[0]) + "; name one of the files to say which is meant");
                continue;
            }
            if (!pairs.empty()) read_pair(pairs[0], part);
        }
        return name_classes();
    }
    // The pair that one of its files belongs to.
    status read_file_pair(const std::string& name) {
        idx_name parsed;
        if (!idx_name::parse(name, parsed))
            return fail(errc::data_format, join_path(state_.folder, name),
                        "an IDX file needs its partner: call them X-images-idx3-ubyte and X-labels-idx1-ubyte");
        read_pair(name, data_part::training);
        return name_classes();
    }

private:
    void read_pair(const std::string& name, data_part part) {
        const status done = try_pair(name, part);
        if (!done.ok()) state_.refuse(done.error());
    }

    status try_pair(const std::string& name, data_part part) {
        idx_name parsed;
        idx_name::parse(name, parsed);
        if (!parsed.images) idx_name::parse(parsed.partner(), parsed);
        raw_file pictures, labels;
        GRAFT_TRY_ASSIGN(pictures, open_either(parsed));
        idx_name::parse(parsed.partner(), parsed);
        GRAFT_TRY_ASSIGN(labels, open_either(parsed));
        idx_header shape, listed;
        std::string head;
        GRAFT_TRY_ASSIGN(head, pictures.head(16));
        GRAFT_TRY(idx_header::parse(head, 3, pictures.path(), state_.caps, shape));
        GRAFT_TRY_ASSIGN(head, labels.head(8));
        GRAFT_TRY(idx_header::parse(head, 1, labels.path(), state_.caps, listed));
        if (shape.count != listed.count)
            return fail(errc::data_count_mismatch, pictures.path(),
                        std::to_string(shape.count) + " pictures, but " + std::to_string(listed.count) + " labels in " + escape(labels.path()));
        if (shape.count == 0) return fail(errc::data_format, pictures.path(), "the file holds no pictures");
        GRAFT_TRY(labels.unpack(listed.bytes, state_.room()));
        GRAFT_TRY(pictures.unpack(shape.bytes, state_.room()));
        return add(pictures, labels, shape, part);
    }

    // The file of that name, packed or not: whichever is there, the plain one if both are.
    result<raw_file> open_either(idx_name name) const {
        name.packed = false;
        const std::string plain = join_path(state_.folder, name.text());
        auto there = look_at(plain, errc::data_open);
        if (there.ok()) return raw_file::open(plain, state_.room());
        if (there.error().code() == errc::memory_oom) return there.take_status();
        name.packed = true;
        const std::string packed = join_path(state_.folder, name.text());
        there = look_at(packed, errc::data_open);
        if (!there.ok() && there.error().code() == errc::memory_oom) return there.take_status();
        if (!there.ok()) return fail(errc::data_open, plain, std::string("the ") + (name.images ? "pictures" : "labels") + " of this IDX pair are not there");
        return raw_file::open(packed, state_.room());
    }

    status add(const raw_file& pictures, const raw_file& labels, const idx_header& shape, data_part part) {
        const std::uint8_t* given = labels.data() + 8;
        int highest = 0;
        for (std::int64_t i = 0; i < shape.count; ++i) highest = given[i] > highest ? given[i] : highest;
        // The training part, which comes first, says which labels there are.
        if (part != data_part::training && !state_.labels.empty() && highest > highest_)
            return fail(errc::data_label_range, labels.path(),
                        "label " + std::to_string(highest) + "; the training part's labels end at " + std::to_string(highest_));
        if (state_.labels.empty()) highest_ = highest, labels_path_ = labels.path();
        raw_block block;
        block.name = pictures.path();
        block.owner = pictures.owner();
        block.pixels = pictures.data() + shape.header_bytes;
        block.count = shape.count;
        block.height = shape.height;
        block.width = shape.width;
        block.bytes = block.stride = static_cast<std::size_t>(shape.height * shape.width);
        block.channels = 1;
        return state_.add_block(std::move(block), given, 1, part);
    }

    status name_classes() {
        if (state_.labels.empty()) return {};
        std::vector<bool> present(static_cast<std::size_t>(highest_) + 1);
        for (std::size_t i = 0; i < state_.labels.size() && state_.parts[i] == state_.parts[0]; ++i) present[static_cast<std::size_t>(state_.labels[i])] = true;
        std::string missing;
        for (int c = 0; c <= highest_; ++c) {
            state_.classes.push_back(std::to_string(c));
            if (!present[static_cast<std::size_t>(c)]) missing += (missing.empty() ? "" : ", ") + std::to_string(c);
        }
        if (!missing.empty() && !options_.allow_empty)
            state_.refuse(labels_path_, errc::data_empty_class,
                          "labels reach " + std::to_string(highest_) + ", but no picture has " + missing +
                              "; number them without gaps, or allow empty classes (--allow-empty)");
        return {};
    }

    dataset_state& state_;
    const dataset_options& options_;
    int highest_ = 0;
    std::string labels_path_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
