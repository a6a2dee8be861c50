// Labelled pictures, whatever they lie in: an image folder, IDX pairs, CIFAR files, a CSV manifest. Recognised by content.
#pragma once

#include "image.hpp"
#include "sample.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE

namespace detail {
struct dataset_state;
struct dataset_views;
}  // namespace detail

/// Labelled pictures. Immutable once opened, safe to read from many threads, cheap to copy (copies share all of it).
class dataset {
public:
    dataset() noexcept = default;
    /// How many samples there are.
    std::int64_t size() const noexcept { return order_ ? static_cast<std::int64_t>(order_->size()) : 0; }
    /// Names of the classes, in the order of the labels; of the training part, for every part of one dataset.
    const std::vector<std::string>& classes() const& noexcept;
    std::vector<std::string> classes() &&;  // of a temporary a copy
    /// The class of sample `i`, an index into `classes()`; -1 where there is no such sample.
    int label(std::int64_t i) const noexcept;
    /// Its path, or a file and an index in it: "mnist/train-images-idx3-ubyte[17]"; "" where there is no such sample.
    std::string name(std::int64_t i) const;
    /// Its contents, undecoded. Errors: data.open (gone, unreadable, no regular file; no such sample), image.budget.
    result<sample_bytes> fetch(std::int64_t i) const;
    /// Its picture: RGB, 8 bits, gray expanded. Errors: those of `fetch` and of graft::decode.
    result<image> read(std::int64_t i) const;
    /// The picture of contents that were fetched; `name` stands in error messages. Errors: those of graft::decode.
    static result<image> decode(const sample_bytes& contents, const std::string& name, const limits& caps = {});
    /// A number that other contents hardly share: of a file's size and its first, middle and last 4 KiB, of all of raw pixels. Errors: data.open.
    result<std::uint64_t> tag(std::int64_t i) const;
    /// Some of the samples, in the order given; indices are into this one, and those of no sample are left out.
    dataset subset(const std::vector<std::int64_t>& indices) const;
    /// How many samples each class has, in the order of `classes()`.
    std::vector<std::int64_t> class_counts() const;
    /// What was passed over when it was opened, in every part of the dataset.
    const std::vector<dataset_problem>& problems() const& noexcept;
    std::vector<dataset_problem> problems() &&;
    /// The limits it was opened with.
    const limits& caps() const noexcept;

private:
    friend struct detail::dataset_views;
    bool has(std::int64_t i) const noexcept { return i >= 0 && i < size(); }
    std::shared_ptr<const detail::dataset_state> state_;
    std::shared_ptr<const std::vector<std::int64_t>> order_;
};

/// What is learnt from, and what it is scored by.
struct dataset_splits {
    dataset training, validation;
    bool validation_given = false;  ///< whether the dataset brought its validation part, rather than a stratified draw
    /// Pictures of a drawn split that are copies of others, exact ones or near ones: they lie where those do.
    std::int64_t copies = 0;
};

/// Opens exactly the folder or file named, all parts of it or the one that `options.split` names. Errors: usage (no such split
/// name), data.open, data.format, data.count_mismatch, data.label_range, data.empty_class, data.no_classes,
/// data.class_mismatch, memory.budget.
result<dataset> open_dataset(const std::string& path, const dataset_options& options = {});
/// Opens a dataset to learn from: `train/` and `val/`, IDX `train-*` and `t10k-*`, CIFAR `data_batch_*` and `test_batch`, the
/// split column of a CSV file; where there is no validation part, a stratified draw by seed that keeps copies together (see
/// `dataset_options::together`). Of a validation part that was given, pictures whose contents the training part has as well are a problem
/// data.leak. A part named "test" of a folder or a CSV file is left alone. Errors: as open_dataset; data.no_classes also where there
/// are fewer than two classes.
result<dataset_splits> open_splits(const std::string& path, const dataset_options& options = {});
/// The draw of `open_splits` from a dataset that is open. Errors: usage (a fraction outside of [0, 1)); data.no_classes (fewer than two classes).
result<dataset_splits> draw_splits(const dataset& all, const dataset_options& options = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/read_file.hpp"
#include "../core/xxhash.hpp"
#include "cifar.hpp"
#include "../core/file_kind.hpp"
#include "csv_manifest.hpp"
#include "dataset_state.hpp"
#include "decode.hpp"
#include "idx.hpp"
#include "image_folder.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

struct dataset_views {
    static dataset of(std::shared_ptr<const dataset_state> state, std::vector<std::int64_t> order) {
        dataset made;
        made.state_ = std::move(state);
        made.order_ = std::make_shared<const std::vector<std::int64_t>>(std::move(order));
        return made;
    }
    static dataset whole(std::shared_ptr<const dataset_state> state) {
        std::vector<std::int64_t> all(static_cast<std::size_t>(state->size()));
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
        return of(std::move(state), std::move(all));
    }
    static dataset part(const std::shared_ptr<const dataset_state>& state, data_part wanted) {
        std::vector<std::int64_t> order;
        for (std::int64_t i = 0; i < state->size(); ++i)
            if (state->parts[static_cast<std::size_t>(i)] == wanted) order.push_back(i);
        return of(state, std::move(order));
    }
    static const dataset_state& state_of(const dataset& data) { return *data.state_; }
};

inline const dataset_state& no_dataset() {
    static const dataset_state none;
    return none;
}

// Rows of gray become RGB, planes become pixels.
inline void interleave(const sample_bytes& raw, image& out) {
    const std::int64_t pixels = raw.height * raw.width;
    const std::int64_t channel = raw.channels == 1 ? 0 : raw.planar ? pixels : 1, pixel = raw.planar || raw.channels == 1 ? 1 : raw.channels;
    std::uint8_t* to = out.data();
    for (std::int64_t i = 0; i < pixels; ++i, to += 3)
        for (int c = 0; c < 3; ++c) to[c] = raw.data[i * pixel + c * channel];
}

// Whether contents begin as an IDX file does.
inline bool looks_like_idx(const std::string& head) noexcept {
    return head.size() >= 8 && head[0] == 0 && head[1] == 0 && head[2] == 8 && (head[3] == 1 || head[3] == 3) && head[4] == 0;
}

// What a file is that is known to be no dataset; "" for any other, and for text, which CSV is as well.
GRAFT_COLD inline std::string not_a_dataset(const std::string& head) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(head.data());
    const file_kind kind = kind_of_file(bytes, head.size());
    if (is_text(bytes, head.size())) return "";
    return wrong_kind(kind, "a dataset",
                      "a folder with a folder of pictures for each class, IDX or CIFAR files, or a CSV file with the header line path,label");
}

// A file: IDX by its name or its first bytes, CSV by its header line, else CIFAR, which has neither.
inline status open_dataset_file(const std::string& path, const dataset_options& options, dataset_state& state) {
    state.folder = folder_part(path);
    const std::string name = file_part(path);
    idx_name parsed;
    if (idx_name::parse(name, parsed)) return idx_reader(state, options).read_file_pair(name);
    std::string head;
    GRAFT_TRY_ASSIGN(head, raw_file::peek(path, 4096));
    if (csv_manifest_reader::recognised(head)) return csv_manifest_reader(state).read(path);
    const bool named_binary = name.find(".bin") != std::string::npos;
    if (!named_binary && looks_like_idx(head)) return idx_reader(state, options).read_file_pair(name);
    const std::string other = not_a_dataset(head);
    if (named_binary || head.find('\0') != std::string::npos) {
        GRAFT_TRY(cifar_reader(state).read_file(name));
        return state.size() == 0 && !other.empty() ? fail(errc::data_format, path, other) : status();
    }
    return fail(errc::data_format, path,
                !other.empty() ? other
                               : "this is no dataset: not an IDX file, nor CIFAR's records, nor CSV with the header line path,label or path,label,split");
}

inline status open_dataset_folder(const std::string& path, const dataset_options& options, dataset_state& state) {
    state.folder = path;
    std::vector<folder_entry> entries;
    GRAFT_TRY_ASSIGN(entries, list_folder(path, errc::data_open));
    if (idx_reader::found_in(entries)) return idx_reader(state, options).read_folder(entries);
    if (cifar_reader::found_in(entries)) return cifar_reader(state).read_folder(entries);
    return image_folder_reader(state, options).read(entries);
}

// Fills the state with every part. What is wrong with some samples only is left in `problems`.
inline status load_dataset(const std::string& path, const dataset_options& options, dataset_state& state) {
    constexpr std::size_t most_classes = std::size_t(1) << 20;
    state.caps = options.limits;
    folder_entry entry;
    GRAFT_TRY_ASSIGN(entry, look_at(path, errc::data_open));
    if (entry.kind == entry_kind::other) return fail(errc::data_open, path, std::string(entry.what) + "; a dataset is a folder or a regular file");
    GRAFT_TRY(entry.kind == entry_kind::folder ? open_dataset_folder(path, options, state) : open_dataset_file(path, options, state));
    if (state.classes.size() > most_classes)
        return fail(errc::data_format, path, std::to_string(state.classes.size()) + " classes; the most allowed are " + std::to_string(most_classes));
    return {};
}

// The first problem that keeps one from learning from the dataset.
inline status first_refusal(const std::string& path, const dataset_state& state) {
    for (const dataset_problem& p : state.problems)
        if (p.refused) return fail(p.code, p.path, p.detail);
    if (state.size() == 0) return fail(errc::data_no_classes, path, "the dataset holds no pictures");
    return {};
}

}  // namespace detail

GRAFT_INLINE const std::vector<std::string>& dataset::classes() const& noexcept { return state_ ? state_->classes : detail::no_dataset().classes; }
GRAFT_INLINE std::vector<std::string> dataset::classes() && { return classes(); }
GRAFT_INLINE const std::vector<dataset_problem>& dataset::problems() const& noexcept { return state_ ? state_->problems : detail::no_dataset().problems; }
GRAFT_INLINE std::vector<dataset_problem> dataset::problems() && { return problems(); }
GRAFT_INLINE const limits& dataset::caps() const noexcept { return state_ ? state_->caps : detail::no_dataset().caps; }

GRAFT_INLINE int dataset::label(std::int64_t i) const noexcept {
    return has(i) ? state_->labels[static_cast<std::size_t>((*order_)[static_cast<std::size_t>(i)])] : -1;
}

GRAFT_INLINE std::string dataset::name(std::int64_t i) const {
    if (!has(i)) return "";
    const std::int64_t at = (*order_)[static_cast<std::size_t>(i)];
    if (state_->blocks.empty()) return state_->file_name(at);
    const detail::raw_block& block = state_->block_of(at);
    return block.name + "[" + std::to_string(at - block.first) + "]";
}

GRAFT_INLINE result<sample_bytes> dataset::fetch(std::int64_t i) const GRAFT_MEMORY_TRY {
    if (!has(i)) return fail(errc::data_open, "sample " + std::to_string(i), "the dataset has " + std::to_string(size()) + " samples");
    const std::int64_t at = (*order_)[static_cast<std::size_t>(i)];
    if (!state_->held.empty()) return state_->held[static_cast<std::size_t>(at)];
    sample_bytes out;
    if (state_->in_files()) {
        std::string bytes;
        GRAFT_TRY_ASSIGN(bytes, read_file(state_->file_name(at), state_->caps.image_bytes, errc::data_open, errc::image_budget));
        auto kept = std::make_shared<const std::string>(std::move(bytes));
        out.data = reinterpret_cast<const std::uint8_t*>(kept->data());
        out.size = kept->size();
        out.owner = std::move(kept);
        return out;
    }
    const detail::raw_block& block = state_->block_of(at);
    out.data = block.pixels + static_cast<std::size_t>(at - block.first) * block.stride;
    out.size = block.bytes;
    out.owner = block.owner;
    out.height = block.height;
    out.width = block.width;
    out.channels = block.channels;
    out.planar = block.planar;
    return out;
}
GRAFT_MEMORY_CATCH("dataset::fetch")

GRAFT_INLINE result<std::uint64_t> dataset::tag(std::int64_t i) const GRAFT_MEMORY_TRY {
    if (has(i) && state_->in_files()) return file_tag(state_->file_name((*order_)[static_cast<std::size_t>(i)]), errc::data_open);
    sample_bytes contents;
    GRAFT_TRY_ASSIGN(contents, fetch(i));
    return xxh64(contents.data, contents.size, contents.size);
}
GRAFT_MEMORY_CATCH("dataset::tag")

GRAFT_INLINE result<image> dataset::decode(const sample_bytes& contents, const std::string& name, const limits& caps) GRAFT_MEMORY_TRY {
    if (!contents.height) return graft::decode(contents.data, contents.size, name, caps);
    image picture;
    GRAFT_TRY_ASSIGN(picture, image::make(contents.height, contents.width, 3));
    detail::interleave(contents, picture);
    return picture;
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE result<image> dataset::read(std::int64_t i) const GRAFT_MEMORY_TRY {
    sample_bytes contents;
    GRAFT_TRY_ASSIGN(contents, fetch(i));
    return decode(contents, name(i), caps());
}
GRAFT_MEMORY_CATCH("dataset::read")

GRAFT_INLINE dataset dataset::subset(const std::vector<std::int64_t>& indices) const {
    std::vector<std::int64_t> order;
    order.reserve(indices.size());
    for (std::int64_t i : indices)
        if (has(i)) order.push_back((*order_)[static_cast<std::size_t>(i)]);
    return detail::dataset_views::of(state_, std::move(order));
}

GRAFT_INLINE std::vector<std::int64_t> dataset::class_counts() const {
    std::vector<std::int64_t> counts(classes().size());
    for (std::int64_t i = 0; i < size(); ++i) ++counts[static_cast<std::size_t>(label(i))];
    return counts;
}

GRAFT_INLINE result<dataset> open_dataset(const std::string& path, const dataset_options& options) GRAFT_MEMORY_TRY {
    const std::string& split = options.split;
    const bool known = split.empty() || split == "train" || split == "validation" || split == "val" || split == "test";
    if (!known) return fail(errc::usage, "split", "\"" + escape(split) + "\"; say train, validation, test, or nothing for all of them");
    auto state = std::make_shared<detail::dataset_state>();
    GRAFT_TRY(detail::load_dataset(path, options, *state));
    GRAFT_TRY(detail::first_refusal(path, *state));
    if (split.empty()) return detail::dataset_views::whole(std::move(state));
    const detail::data_part part = split == "train" ? detail::data_part::training : split == "test" ? detail::data_part::test : detail::data_part::validation;
    if (state->count(part) == 0) return fail(errc::data_format, path, "the dataset has no pictures in a part named " + split);
    return detail::dataset_views::part(state, part);
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#include "open_splits.hpp"
#endif
