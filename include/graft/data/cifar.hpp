// CIFAR-10 and CIFAR-100 in their binary versions, gzipped or not. https://www.cs.toronto.edu/~kriz/cifar.html: one record a
// picture, one label byte (CIFAR-100: coarse, then fine), then 32x32 bytes each of red, green and blue.
#pragma once

#include "dataset_state.hpp"
#include "gzip.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

class cifar_reader {
public:
    explicit cifar_reader(dataset_state& state) : state_(state) {}

    // Whether the folder holds CIFAR's files: data_batch_*.bin, test_batch.bin, or CIFAR-100's train.bin and test.bin.
    static bool found_in(const std::vector<folder_entry>& entries) {
        for (const folder_entry& e : entries)
            if (e.kind == entry_kind::file && part_of(e.name) != nowhere) return true;
        return false;
    }

    // Every file of a folder. A damaged one is refused; the others are read.
    status read_folder(const std::vector<folder_entry>& entries) {
        for (const int part : {static_cast<int>(data_part::training), static_cast<int>(data_part::validation)})
            for (const folder_entry& e : entries) {
                if (e.kind != entry_kind::file || part_of(e.name) != part || is_twin(entries, e.name)) continue;
                const status done = read_one(e.name, static_cast<data_part>(part));
                if (!done.ok()) state_.refuse(done.error());
            }
        return {};
    }
    status read_file(const std::string& name) {
        const status done = read_one(name, data_part::training);
        if (!done.ok()) state_.refuse(done.error());
        return {};
    }

private:
    static constexpr int nowhere = -1;
    static constexpr std::size_t pixels = 3 * 32 * 32;

    static std::string unpacked_name(const std::string& name) {
        return name.size() > 3 && name.compare(name.size() - 3, 3, ".gz") == 0 ? name.substr(0, name.size() - 3) : name;
    }
    // A packed file beside the same one unpacked.
    static bool is_twin(const std::vector<folder_entry>& entries, const std::string& name) {
        const std::string plain = unpacked_name(name);
        if (plain == name) return false;
        for (const folder_entry& e : entries)
            if (e.name == plain && e.kind == entry_kind::file) return true;
        return false;
    }
    static int part_of(const std::string& packed_name) {
        const std::string name = unpacked_name(packed_name);
        const bool binary = name.size() > 4 && name.compare(name.size() - 4, 4, ".bin") == 0;
        if (!binary) return nowhere;
        if (name.compare(0, 11, "data_batch_") == 0 || name == "train.bin") return static_cast<int>(data_part::training);
        return name == "test_batch.bin" || name == "test.bin" ? static_cast<int>(data_part::validation) : nowhere;
    }

    // Names of the classes, one a line, from the file that comes with the data; none where it is not there.
    result<std::vector<std::string>> listed_classes(const char* file) const {
        std::vector<std::string> names;
        const std::string path = join_path(state_.folder, file);
        if (!look_at(path, errc::data_open).ok()) return names;
        std::string text;
        GRAFT_TRY_ASSIGN(text, graft::read_file(path, 1 << 16, errc::data_open, errc::data_format));
        for (std::size_t at = 0; at < text.size();) {
            std::size_t end = text.find('\n', at);
            if (end == std::string::npos) end = text.size();
            std::string line = text.substr(at, end - at);
            if (!line.empty() && line.back() == '\r') line.pop_back();
            if (!line.empty()) names.push_back(std::move(line));
            at = end + 1;
        }
        if (names.size() < 2 || names.size() > 256)
            return fail(errc::data_format, path, std::to_string(names.size()) + " names of classes; a label byte tells 2 to 256 apart");
        return names;
    }
    result<std::vector<std::string>> class_names(int label_bytes) const {
        std::vector<std::string> names;
        GRAFT_TRY_ASSIGN(names, listed_classes(label_bytes == 1 ? "batches.meta.txt" : "fine_label_names.txt"));
        if (!names.empty()) return names;
        if (label_bytes == 1) return std::vector<std::string>{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
        for (int i = 0; i < 100; ++i) names.push_back(std::to_string(i));
        return names;
    }

    // The first record whose label is outside of the classes, -1 where there is none.
    static std::int64_t first_bad_label(const raw_file& file, int label_bytes, std::size_t classes) {
        const std::size_t record = pixels + static_cast<std::size_t>(label_bytes);
        for (std::size_t at = static_cast<std::size_t>(label_bytes) - 1, i = 0; at < file.size(); at += record, ++i)
            if (file.data()[at] >= classes) return static_cast<std::int64_t>(i);
        return -1;
    }

    status read_one(const std::string& name, data_part part) {
        const std::string path = join_path(state_.folder, name);
        raw_file file;
        GRAFT_TRY_ASSIGN(file, raw_file::open(path, state_.room()));
        GRAFT_TRY(file.unpack(file.claimed_size(), state_.room()));
        const bool ten = file.size() % (pixels + 1) == 0, hundred = file.size() % (pixels + 2) == 0;
        if (file.size() == 0 || (!ten && !hundred))
            return fail(errc::data_format, path,
                        std::to_string(file.size()) + " bytes are no whole number of CIFAR records (3073 bytes each, CIFAR-100's 3074)");
        std::vector<std::string> names;
        int label_bytes = ten ? 1 : 2;
        GRAFT_TRY_ASSIGN(names, class_names(label_bytes));
        std::int64_t bad = first_bad_label(file, label_bytes, names.size());
        if (bad >= 0 && ten && hundred) {  // a size that both could have
            label_bytes = 2;
            GRAFT_TRY_ASSIGN(names, class_names(label_bytes));
            bad = first_bad_label(file, label_bytes, names.size());
        }
        const std::size_t record = pixels + static_cast<std::size_t>(label_bytes);
        if (bad >= 0)
            return fail(errc::data_label_range, path,
                        "record " + std::to_string(bad) + " has label " +
                            std::to_string(file.data()[static_cast<std::size_t>(bad) * record + static_cast<std::size_t>(label_bytes) - 1]) + "; there are " +
                            std::to_string(names.size()) + " classes");
        if (!state_.classes.empty() && state_.classes != names)
            return fail(errc::data_class_mismatch, path, "CIFAR-10 and CIFAR-100 files lie in one folder; name one of them");
        state_.classes = std::move(names);
        state_.classes_declared = true;
        raw_block block;
        block.name = path;
        block.owner = file.owner();
        block.pixels = file.data() + label_bytes;
        block.count = static_cast<std::int64_t>(file.size() / record);
        block.bytes = pixels;
        block.stride = record;
        block.height = block.width = 32;
        block.channels = 3;
        block.planar = true;
        return state_.add_block(std::move(block), file.data() + label_bytes - 1, record, part);
    }

    dataset_state& state_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
