// The engine of the page: opens a model and names pictures. It runs in a worker, one call at a time.
#include "boundary.hpp"

#include <cstring>

namespace page {

std::string& answer() {
    static std::string kept;
    return kept;
}

opened_model& current() {
    static opened_model model;
    return model;
}

graft::result<graft::image> picture_of_canvas(const std::uint8_t* rgba, std::int64_t width, std::int64_t height) {
    GRAFT_TRY(graft::detail::check_image_size(width, height, "picture", {}));
    graft::image made;
    GRAFT_TRY_ASSIGN(made, graft::image::make(height, width, 3));
    std::uint8_t* to = made.data();
    for (std::int64_t i = 0; i < width * height; ++i, rgba += 4, to += 3)
        for (int c = 0; c < 3; ++c) to[c] = rgba[c];
    return made;
}

namespace {

const char* source_name(graft::preprocess_source source) {
    switch (source) {
    case graft::preprocess_source::given: return "given";
    case graft::preprocess_source::metadata: return "model";
    case graft::preprocess_source::raw_bytes: return "8-bit input";
    case graft::preprocess_source::assumed: break;
    }
    return "assumed";
}

graft::status open(const char* bytes, std::size_t size, const std::string& preprocess, graft::json_writer& w) {
    opened_model& opened = current();
    opened.named = graft::fail(graft::errc::usage, "page", "no model was opened");
    opened.explainer.reset();
    opened.bytes.assign(bytes, size);
    opened.how.preprocess = preprocess;
    opened.how.load.open_batch = true;
    graft::model loaded;
    GRAFT_TRY_ASSIGN(loaded, graft::load(opened.bytes.data(), size, opened.how.load));
    opened.named = graft::classifier::make(loaded, opened.how);
    if (!opened.named.ok()) return graft::status(opened.named.error());
    graft::classifier& named = opened.named.value();
    std::int64_t classes = 0, parameters = 0;
    GRAFT_TRY_ASSIGN(classes, named.classes());
    for (const graft::value& v : loaded.graph().values)
        if (v.constant && v.type != graft::dtype::int64 && v.type != graft::dtype::boolean) parameters += v.constant.elements();
    w.key("classes").integer(classes).key("parameters").integer(parameters).key("labels").begin_array();
    for (const std::string& label : named.labels()) w.string(label);
    w.end_array();
    w.key("preprocess").string(named.preprocessing().text).key("source").string(source_name(named.preprocessing().source));
    const auto isa = graft::cpu::active_isa();
    w.key("isa").string(isa.ok() ? graft::cpu::name(*isa) : "none").key("version").string(graft::version());
    return {};
}

graft::status classify(const graft::result<graft::image>& picture, int top, double decode_ms, graft::json_writer& w) {
    if (!picture.ok()) return graft::status(picture.error());
    if (!current().named.ok()) return graft::status(current().named.error());
    graft::classifier& named = current().named.value();
    const double began = graft::detail::seconds_now();
    std::vector<graft::prediction> found;
    GRAFT_TRY_ASSIGN(found, named.classify(*picture, top));
    w.key("decode_ms").number(decode_ms).key("ms").number((graft::detail::seconds_now() - began) * 1e3).key("top").begin_array();
    for (const graft::prediction& p : found)
        w.begin_object().key("index").integer(p.index).key("label").string(p.label).key("probability").number(p.probability).end_object();
    w.end_array();
    return {};
}

}  // namespace
}  // namespace page

/// Opens a model from the bytes of an ONNX file, in place of the one before: `classes, parameters, labels[], preprocess, source, isa, version`.
PAGE_EXPORT(page_open) const char* page_open(const char* bytes, std::size_t size, const char* preprocess, std::size_t preprocess_size) {
    return page::answered([&](graft::json_writer& w) { return page::open(bytes, size, page::text_at(preprocess, preprocess_size), w); });
}

/// Names what is in the picture of a file's bytes: `decode_ms, ms, top[] (index, label, probability)`.
PAGE_EXPORT(page_classify_file) const char* page_classify_file(const std::uint8_t* bytes, std::size_t size, const char* name, std::size_t name_size, int top) {
    return page::answered([&](graft::json_writer& w) {
        const double began = graft::detail::seconds_now();
        const auto picture = graft::decode(bytes, size, page::text_at(name, name_size));
        return page::classify(picture, top, (graft::detail::seconds_now() - began) * 1e3, w);
    });
}

/// The same of what a canvas has.
PAGE_EXPORT(page_classify_pixels) const char* page_classify_pixels(const std::uint8_t* rgba, int width, int height, int top) {
    return page::answered([&](graft::json_writer& w) { return page::classify(page::picture_of_canvas(rgba, width, height), top, 0, w); });
}

/// How long the last answer is, in bytes.
PAGE_EXPORT(page_answer_size) std::size_t page_answer_size() { return page::answer().size(); }
