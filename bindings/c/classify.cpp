// graft_picture and graft_classifier: pictures to names.
#include "options.hpp"

namespace bindings {
namespace {

std::vector<option_row> classifier_rows(graft::classifier_options& to, int& threads) {
    return {option("labels", to.labels), option("preprocess", to.preprocess), option("output", to.output), option("threads", threads, 0, most_threads)};
}

graft::status make(const graft::model& model, const graft::classifier_options& with, std::unique_ptr<graft_classifier>& handle) {
    auto made = graft::classifier::make(model, with);
    if (!made.ok()) return made.take_status();
    handle = std::make_unique<graft_classifier>(std::move(made).value(), with.session.threads);
    return {};
}

graft::status take_picture(graft::result<graft::image> image, std::unique_ptr<graft_picture>& handle) {
    if (!image.ok()) return image.take_status();
    handle = std::make_unique<graft_picture>();
    handle->image = std::move(image).value();
    return {};
}

graft::result<graft::image> borrowed(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, int channels) {
    GRAFT_TRY(wanted(pixels, "pixels"));
    if (channels != 1 && channels != 3)
        return graft::fail(graft::errc::usage, "channels", "a picture has 3 channels (RGB) or 1 (gray), not " + std::to_string(channels));
    GRAFT_TRY(graft::detail::check_image_size(width, height, "pixels", graft::limits()));
    graft::image image;
    image.height = height, image.width = width, image.channels = channels;
    image.pixels = graft::buffer::borrow(pixels, static_cast<std::size_t>(height * width * channels));
    return image;
}

graft::status classify(graft_classifier* by, const std::vector<graft::image>& pictures, int top, std::unique_ptr<graft_predictions>& handle) {
    if (top < 1) return graft::fail(graft::errc::usage, "top", "it takes 1 or more, not " + std::to_string(top));
    handle = std::make_unique<graft_predictions>();
    GRAFT_TRY_ASSIGN(handle->pictures, by->classifier.classify(pictures, top));
    return {};
}

const graft::prediction* answer(const graft_predictions* of, std::size_t picture, std::size_t place) noexcept {
    const std::vector<graft::prediction>* row = of ? at(of->pictures, picture) : nullptr;
    return row ? at(*row, place) : nullptr;
}

}  // namespace
}  // namespace bindings

extern "C" {

graft_picture* graft_picture_read(const char* path, graft_error** error) {
    return bindings::made<graft_picture>(error, [&](std::unique_ptr<graft_picture>& handle) -> graft::status {
        GRAFT_TRY(bindings::wanted(path, "path"));
        return bindings::take_picture(graft::decode_file(path), handle);
    });
}
graft_picture* graft_picture_decode(const void* bytes, size_t size, graft_error** error) {
    return bindings::made<graft_picture>(error, [&](std::unique_ptr<graft_picture>& handle) -> graft::status {
        GRAFT_TRY(bindings::wanted(bytes, "bytes"));
        return bindings::take_picture(graft::decode(bytes, size, "picture in memory"), handle);
    });
}
graft_picture* graft_picture_borrow(const uint8_t* pixels, int64_t height, int64_t width, int channels, graft_error** error) {
    return bindings::made<graft_picture>(
        error, [&](std::unique_ptr<graft_picture>& handle) { return bindings::take_picture(bindings::borrowed(pixels, height, width, channels), handle); });
}
int64_t graft_picture_height(const graft_picture* picture) { return picture ? picture->image.height : 0; }
int64_t graft_picture_width(const graft_picture* picture) { return picture ? picture->image.width : 0; }
int graft_picture_channels(const graft_picture* picture) { return picture ? picture->image.channels : 0; }
const uint8_t* graft_picture_pixels(const graft_picture* picture) { return picture ? picture->image.data() : nullptr; }
void graft_picture_free(graft_picture* picture) { delete picture; }

graft_classifier* graft_classifier_new(const graft_model* model, const graft_options* options, graft_error** error) {
    return bindings::made<graft_classifier>(error, [&](std::unique_ptr<graft_classifier>& handle) -> graft::status {
        GRAFT_TRY(bindings::wanted(model, "model"));
        graft::classifier_options with;
        with.session.threads = model->threads;
        GRAFT_TRY(bindings::take(options, bindings::classifier_rows(with, with.session.threads)));
        return bindings::make(model->model, with, handle);
    });
}
graft_classifier* graft_classifier_load(const char* path, const graft_options* options, graft_error** error) {
    return bindings::made<graft_classifier>(error, [&](std::unique_ptr<graft_classifier>& handle) -> graft::status {
        GRAFT_TRY(bindings::wanted(path, "path"));
        graft::classifier_options with;
        bindings::load_choice choice;
        choice.load.open_batch = true;
        std::vector<bindings::option_row> rows = bindings::load_rows(choice);
        for (bindings::option_row& row : bindings::classifier_rows(with, with.session.threads))
            if (row.name != "threads") rows.push_back(std::move(row));
        GRAFT_TRY(bindings::take(options, rows));
        choice.load.threads = with.session.threads = choice.threads;
        with.load.limits = choice.load.limits;
        graft::model model;
        GRAFT_TRY_ASSIGN(model, bindings::engine::load(path, choice.load));
        return bindings::make(model, with, handle);
    });
}
void graft_classifier_free(graft_classifier* classifier) { delete classifier; }
size_t graft_classifier_label_count(const graft_classifier* classifier) { return classifier ? classifier->classifier.labels().size() : 0; }
const char* graft_classifier_label(const graft_classifier* classifier, size_t index) {
    const std::string* label = classifier ? bindings::at(classifier->classifier.labels(), index) : nullptr;
    return label ? label->c_str() : nullptr;
}
const char* graft_classifier_preprocess(const graft_classifier* classifier) { return classifier ? classifier->preprocess.c_str() : ""; }

graft_predictions* graft_classifier_classify(graft_classifier* classifier, const graft_picture* const* pictures, size_t count, int top, graft_error** error) {
    return bindings::made<graft_predictions>(error, [&](std::unique_ptr<graft_predictions>& handle) -> graft::status {
        GRAFT_TRY(bindings::wanted(classifier, "classifier"));
        if (count) GRAFT_TRY(bindings::wanted(pictures, "pictures"));
        std::vector<graft::image> images;
        for (std::size_t i = 0; i < count; ++i) {
            GRAFT_TRY(bindings::wanted(pictures[i], "picture"));
            images.push_back(pictures[i]->image);
        }
        return bindings::classify(classifier, images, top, handle);
    });
}
graft_predictions* graft_classifier_classify_file(graft_classifier* classifier, const char* path, int top, graft_error** error) {
    return bindings::made<graft_predictions>(error, [&](std::unique_ptr<graft_predictions>& handle) -> graft::status {
        GRAFT_TRY(bindings::wanted(classifier, "classifier"));
        GRAFT_TRY(bindings::wanted(path, "path"));
        graft::image image;
        GRAFT_TRY_ASSIGN(image, graft::decode_file(path));
        return bindings::classify(classifier, {image}, top, handle);
    });
}

size_t graft_predictions_count(const graft_predictions* predictions) { return predictions ? predictions->pictures.size() : 0; }
size_t graft_predictions_size(const graft_predictions* predictions, size_t picture) {
    const auto* row = predictions ? bindings::at(predictions->pictures, picture) : nullptr;
    return row ? row->size() : 0;
}
int graft_predictions_index(const graft_predictions* predictions, size_t picture, size_t place) {
    const graft::prediction* p = bindings::answer(predictions, picture, place);
    return p ? p->index : -1;
}
const char* graft_predictions_label(const graft_predictions* predictions, size_t picture, size_t place) {
    const graft::prediction* p = bindings::answer(predictions, picture, place);
    return p ? p->label.c_str() : nullptr;
}
double graft_predictions_probability(const graft_predictions* predictions, size_t picture, size_t place) {
    const graft::prediction* p = bindings::answer(predictions, picture, place);
    return p ? p->probability : 0;
}
void graft_predictions_free(graft_predictions* predictions) { delete predictions; }
}
