// Specifications: of preprocessing, augmentation and schedules. One that is read is written, and what was written reads back as the same.
#include "target.hpp"

#include <graft/data/augment_spec.hpp>
#include <graft/data/preprocess_choice.hpp>
#include <graft/train/schedule.hpp>

namespace {

template <class T>
void hold(const graft::result<T>& read, graft::result<T> (*parse)(const std::string&)) {
    if (!fuzz::accepted(read)) return;
    const std::string once = graft::text(*read);
    const graft::result<T> again = parse(once);
    if (!again.ok() || graft::text(*again) != once) std::fprintf(stderr, "%s\n", once.c_str());
    fuzz::require(again.ok() && graft::text(*again) == once, "a specification that was written reads back as another one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(fuzz::text_of(data, size));
    const auto preprocess = graft::parse_preprocess(text);
    hold<graft::preprocess_spec>(preprocess, graft::parse_preprocess);
    if (preprocess.ok()) fuzz::accepted(graft::complete(*preprocess));
    hold<graft::augmentation>(graft::parse_augmentation(text), graft::parse_augmentation);
    hold<graft::schedule>(graft::parse_schedule(text), [](const std::string& s) { return graft::parse_schedule(s); });
    hold<graft::plateau_state>(graft::parse_plateau_state(text), [](const std::string& s) { return graft::parse_plateau_state(s); });
    graft::input_format format;
    fuzz::accepted(graft::choose_preprocess("", text, format));
    return 0;
}
