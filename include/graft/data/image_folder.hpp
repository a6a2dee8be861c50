// Image folders: one folder a class, or train/ and val/ with one folder a class in each. The order is torchvision's.
#pragma once

#include "dataset_state.hpp"
#include "picture_files.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class image_folder_reader {
public:
    image_folder_reader(dataset_state& state, const dataset_options& options) : state_(state), options_(options), walk_(state.folder, state.problems) {}

    status read(const std::vector<folder_entry>& top) {
        bool divided = false;
        GRAFT_TRY(find_training_part(top, divided));
        GRAFT_TRY(walk_.claim(state_.folder));
        if (!divided) {
            GRAFT_TRY(list_part("", top, data_part::training));
        } else {
            GRAFT_TRY(list_part("train", data_part::training));
            for (const char* name : {"val", "valid", "validation"})
                if (is_folder(top, name)) {
                    GRAFT_TRY(list_part(name, data_part::validation));
                    break;
                }
            if (is_folder(top, "test")) GRAFT_TRY(list_part("test", data_part::test));
        }
        // Only now, when a link out of a class can no longer lead into another one's folder first.
        for (const class_folder& folder : folders_) GRAFT_TRY(read_class(folder));
        return {};
    }

private:
    struct class_folder {
        std::string relative, name;
        data_part part;
        bool first;  // reached for the first time: no link to another class folder
    };

    static bool is_folder(const std::vector<folder_entry>& entries, const std::string& name) {
        for (const folder_entry& e : entries)
            if (e.kind == entry_kind::folder && e.name == name) return true;
        return false;
    }
    // A class may be called "train": it is the training part if it holds folders, or if a validation part lies beside it.
    status find_training_part(const std::vector<folder_entry>& top, bool& found) {
        found = is_folder(top, "train") && (is_folder(top, "val") || is_folder(top, "valid") || is_folder(top, "validation"));
        if (found || !is_folder(top, "train")) return {};
        std::vector<folder_entry> inside;
        GRAFT_TRY_ASSIGN(inside, list_folder(join_path(state_.folder, "train"), errc::data_open));
        for (const folder_entry& e : inside) found = found || (e.kind == entry_kind::folder && e.name[0] != '.');
        return {};
    }

    status list_part(const std::string& name, data_part part) {
        const std::string path = join_path(state_.folder, name);
        std::vector<folder_entry> entries;
        GRAFT_TRY_ASSIGN(entries, list_folder(path, errc::data_open));
        GRAFT_TRY(walk_.claim(path));
        return list_part(name, entries, part);
    }
    status list_part(const std::string& part_name, const std::vector<folder_entry>& entries, data_part part) {
        const std::string path = part_name.empty() ? state_.folder : join_path(state_.folder, part_name);
        int unlabelled = 0, classes = 0;
        for (const folder_entry& e : entries) {
            if (e.name[0] == '.') continue;
            if (e.kind == entry_kind::folder) {
                ++classes;
                if (part == data_part::training) state_.classes.push_back(e.name);
                folders_.push_back({join_path(part_name, e.name), e.name, part, walk_.claim(e.identity)});
            } else if (e.kind == entry_kind::other) {
                walk_.skip_other(join_path(path, e.name), e);
            } else
                unlabelled += has_picture_suffix(e.name);
        }
        if (part == data_part::training) {
            if (!classes) return no_classes(path, unlabelled);
            find_twins(path);
        }
        if (unlabelled)
            state_.note(path, errc::data_format,
                        std::to_string(unlabelled) + " pictures lie beside the class folders; move them into the folder of their class");
        return {};
    }

    status read_class(const class_folder& folder) {
        const auto at = std::lower_bound(state_.classes.begin(), state_.classes.end(), folder.name);
        const std::string path = join_path(state_.folder, folder.relative);
        if (at == state_.classes.end() || *at != folder.name) {
            state_.refuse(path, errc::data_class_mismatch, "the training part has no class of this name; its classes are " + some_classes());
            return {};
        }
        const std::int64_t before = state_.size();
        if (!folder.first) walk_.second_visit(path);
        std::vector<std::string> files;
        if (folder.first) {
            auto found = walk_.below(folder.relative);
            if (!found.ok() && found.error().code() == errc::memory_oom) return found.take_status();
            // A class whose folder cannot be read is not one that has no pictures.
            if (!found.ok()) {
                state_.refuse(found.error());
                return {};
            }
            files = std::move(found).value();
        }
        for (const std::string& file : files) GRAFT_TRY(state_.add_file(file, static_cast<int>(at - state_.classes.begin()), folder.part));
        if (state_.size() != before) return {};
        if (folder.part != data_part::training)
            state_.note(path, errc::data_empty_class, "the folder holds no pictures");
        else if (!options_.allow_empty)
            state_.refuse(path, errc::data_empty_class, "the class folder holds no pictures; fill it, remove it, or allow empty classes (--allow-empty)");
        return {};
    }

    // Names that some file systems cannot keep apart: copied there, two classes become one.
    void find_twins(const std::string& path) {
        std::vector<std::pair<std::string, const std::string*>> lowered;
        for (const std::string& name : state_.classes) {
            std::string low = name;
            for (char& c : low) c = ascii_lower(c);
            lowered.emplace_back(std::move(low), &name);
        }
        std::sort(lowered.begin(), lowered.end(), [](const auto& a, const auto& b) { return a.first != b.first ? a.first < b.first : *a.second < *b.second; });
        for (std::size_t i = 1; i < lowered.size(); ++i)
            if (lowered[i].first == lowered[i - 1].first)
                state_.note(join_path(path, *lowered[i].second), errc::data_format,
                            "differs from the class \"" + escape(*lowered[i - 1].second) + "\" in upper and lower case only");
    }

    std::string some_classes() const {
        std::string text;
        for (std::size_t i = 0; i < state_.classes.size() && i < 10; ++i) text += (i ? ", " : "") + escape(state_.classes[i]);
        return state_.classes.size() > 10 ? text + ", ..." : text;
    }
    GRAFT_COLD status no_classes(const std::string& path, int unlabelled) const {
        return fail(errc::data_no_classes, path,
                    (unlabelled ? "the folder holds " + std::to_string(unlabelled) + " pictures but no class folders"
                                : std::string("there are neither class folders, nor IDX or CIFAR files, in this folder")) +
                        "; put pictures into <class>/ or train/<class>/, or name the CSV file itself");
    }

    dataset_state& state_;
    const dataset_options& options_;
    std::vector<class_folder> folders_;
    picture_walk walk_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
