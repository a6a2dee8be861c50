// Teaching: the pictures that the page has collected become a dataset in memory, and the library's own fine-tuning runs on them.
#include "boundary.hpp"

#include <graft/io/onnx_write.hpp>
#include <graft/train/batch_parts.hpp>
#include <graft/train/prepare_classifier.hpp>

#include <cstdlib>
#include <memory>

namespace page {
namespace {

struct collection {
    std::vector<std::string> classes;
    std::vector<graft::labelled_picture> pictures;
};
collection& collected() {
    static collection all;
    return all;
}

// Keeps the memory that the script has written into.
std::shared_ptr<const void> owned(const std::uint8_t* bytes) {
    return std::shared_ptr<const void>(bytes, [](const void* p) { std::free(const_cast<void*>(p)); });
}

graft::status add_pixels(int label, std::string name, const std::uint8_t* rgba, int width, int height) {
    graft::image picture;
    GRAFT_TRY_ASSIGN(picture, picture_of_canvas(rgba, width, height));
    graft::labelled_picture made;
    made.label = label;
    made.name = std::move(name);
    const auto kept = std::make_shared<const graft::image>(picture);
    made.contents.data = kept->data();
    made.contents.size = static_cast<std::size_t>(kept->bytes());
    made.contents.height = height, made.contents.width = width, made.contents.channels = 3;
    made.contents.owner = kept;
    collected().pictures.push_back(std::move(made));
    return {};
}

// Tells the page how a run goes, and gives it every network that is the best so far.
class teller final : public graft::training_observer {
public:
    explicit teller(const graft::dataset_splits& data) : data_(data) {}

    void on_start(const graft::step_memory& memory, std::int64_t learning) override {
        tell([&](graft::json_writer& w) { w.key("what").string("start").key("bytes").integer(memory.total()).key("learning").integer(learning); });
    }
    graft::training_verdict on_step(const graft::trainer_progress& p) override {
        // The page draws no more than it can show.
        const double now = graft::detail::seconds_now();
        if (now - told_ < 0.1 && p.step < p.steps) return graft::training_verdict::go_on;
        told_ = now;
        tell([&](graft::json_writer& w) {
            w.key("what").string("step").key("epoch").integer(p.epoch).key("epochs").integer(p.epochs).key("step").integer(p.step);
            w.key("steps").integer(p.steps).key("loss").number(p.loss).key("top1").number(p.top1).key("seconds_left").number(p.seconds_left);
            w.key("images_per_s").number(p.images_per_s).key("head_alone").boolean(p.head_alone);
        });
        return graft::training_verdict::go_on;
    }
    void on_validation(std::int64_t done, std::int64_t of) override {
        tell([&](graft::json_writer& w) { w.key("what").string("pictures").key("done").integer(done).key("of").integer(of); });
    }
    graft::training_verdict on_epoch(const graft::epoch_record& r) override {
        tell([&](graft::json_writer& w) {
            w.key("what").string("epoch").key("epoch").integer(r.epoch).key("training_loss").number(r.training_loss);
            w.key("training_top1").number(r.training_top1).key("loss").number(r.loss).key("top1").number(r.top1);
            w.key("seconds").number(r.seconds).key("best").boolean(r.best).key("head_alone").boolean(r.head_alone);
        });
        return graft::training_verdict::go_on;
    }
    graft::status on_better(const graft::graph& network) override {
        graft::graph written = network;
        graft::tensor picture;
        GRAFT_TRY_ASSIGN(picture, golden_picture(written));
        graft::golden_sample sample;
        GRAFT_TRY_ASSIGN(sample, graft::add_golden(written, picture, 1));
        std::vector<std::uint8_t> bytes;
        GRAFT_TRY(graft::write_onnx(written, bytes));
        graft::model again;
        GRAFT_TRY_ASSIGN(again, graft::load(bytes.data(), bytes.size()));
        GRAFT_TRY(graft::check_golden(again, sample, 1));
        page_offer(bytes.data(), bytes.size());
        return {};
    }
    void on_note(const std::string& text) override { say("note", text); }
    void on_warning(const std::string& text) override { say("warning", text); }

private:
    // The first picture that is scored by and can be read, as the network sees it: the same one that `graft finetune` takes.
    graft::result<graft::tensor> golden_picture(const graft::graph& network) const {
        graft::input_format format;
        GRAFT_TRY_ASSIGN(format, graft::picture_input(network));
        const std::string* said = network.find_metadata("graft.preprocess");
        graft::preprocess_choice how;
        GRAFT_TRY_ASSIGN(how, graft::choose_preprocess("", said ? *said : std::string(), format));
        for (std::int64_t i = 0; i < data_.validation.size(); ++i) {
            auto picture = data_.validation.read(i);
            if (!picture.ok()) continue;
            graft::tensor input;
            GRAFT_TRY_ASSIGN(input, graft::preprocess(*picture, how.spec, format));
            const std::int64_t fixed = format.extents.rank() > 0 ? format.extents[0] : 0;
            if (fixed > 1) GRAFT_TRY(graft::detail::filled_up(graft::view(input), fixed, true, input));
            return input;
        }
        return graft::fail(graft::errc::data_too_many_bad, "validation", "no picture of it can be read");
    }
    template <class Write>
    static void tell(const Write& write) {
        graft::json_writer w;
        w.begin_object();
        write(w);
        w.end_object();
        page_tell(w.text().data(), w.text().size());
    }
    static void say(const char* what, const std::string& text) {
        tell([&](graft::json_writer& w) { w.key("what").string(what).key("text").string(text); });
    }

    const graft::dataset_splits& data_;
    double told_ = 0;
};

double number_or(const graft::json& from, const char* key, double otherwise) {
    const graft::json* given = from.find(key);
    return given && given->type == graft::json::kind::number ? given->real : otherwise;
}

graft::result<graft::finetune_options> options_of(const std::string& text) {
    graft::json given;
    GRAFT_TRY_ASSIGN(given, graft::parse_json(text, "options"));
    graft::finetune_options o;
    o.threads = 1;
    o.workers = 1;
    o.epochs = static_cast<std::int64_t>(number_or(given, "epochs", static_cast<double>(o.epochs)));
    o.learning_rate = number_or(given, "learning_rate", o.learning_rate);
    o.seed = static_cast<std::uint64_t>(number_or(given, "seed", 0));
    const graft::json *freeze = given.find("freeze"), *spec = given.find("preprocess");
    if (freeze) o.freeze = freeze->string;
    if (spec && !spec->string.empty()) o.preprocessing = spec->string;
    return o;
}

graft::status teach(const std::string& options, graft::json_writer& w) {
    graft::finetune_options how;
    GRAFT_TRY_ASSIGN(how, options_of(options));
    if (!current().named.ok()) return graft::status(current().named.error());
    graft::dataset_options drawing;
    drawing.seed = how.seed;
    drawing.threads = 1;
    graft::dataset all;
    GRAFT_TRY_ASSIGN(all, graft::dataset_of(std::move(collected().pictures), collected().classes, drawing));
    collected() = {};
    graft::dataset_splits data;
    GRAFT_TRY_ASSIGN(data, graft::draw_splits(all, drawing));
    graft::model from;
    GRAFT_TRY_ASSIGN(from, graft::load(current().bytes.data(), current().bytes.size()));
    teller observer(data);
    graft::training_result made;
    GRAFT_TRY_ASSIGN(made, graft::finetune(data, from, how, observer));
    w.key("top1").number(made.best_top1).key("loss").number(made.best_loss).key("best_epoch").integer(made.best_epoch);
    w.key("epochs").integer(made.epochs).key("seconds").number(made.seconds).key("copies").integer(data.copies).key("training").integer(data.training.size());
    w.key("held_out").begin_array();
    for (const graft::scored_picture& p : made.validation.pictures)
        w.begin_object()
            .key("name")
            .string(data.validation.name(p.index))
            .key("label")
            .integer(p.label)
            .key("predicted")
            .integer(p.predicted)
            .key("probability")
            .number(static_cast<double>(p.probability))
            .end_object();
    w.end_array();
    return {};
}

}  // namespace
}  // namespace page

/// Begins a collection of pictures with one class a call.
PAGE_EXPORT(page_clear) void page_clear() { page::collected() = {}; }
PAGE_EXPORT(page_add_class) const char* page_add_class(const char* name, std::size_t size) {
    return page::answered([&](graft::json_writer&) -> graft::status {
        page::collected().classes.push_back(page::text_at(name, size));
        return {};
    });
}
/// Adds a picture by its file's bytes, which become the collection's.
PAGE_EXPORT(page_add_file) const char* page_add_file(int label, const char* name, std::size_t name_size, const std::uint8_t* bytes, std::size_t size) {
    return page::answered([&](graft::json_writer&) -> graft::status {
        graft::labelled_picture made;
        made.contents.owner = page::owned(bytes);
        made.contents.data = bytes;
        made.contents.size = size;
        made.label = label;
        made.name = page::text_at(name, name_size);
        page::collected().pictures.push_back(std::move(made));
        return {};
    });
}
/// Adds a picture by what a canvas has, which is only read.
PAGE_EXPORT(page_add_pixels) const char* page_add_pixels(int label, const char* name, std::size_t name_size, const std::uint8_t* rgba, int width, int height) {
    return page::answered([&](graft::json_writer&) { return page::add_pixels(label, page::text_at(name, name_size), rgba, width, height); });
}
/// Fine-tunes the model that is open on the collection, which is gone then: `top1, loss, best_epoch, epochs, seconds, copies, training, held_out[] (name,
/// label, predicted, probability)`. `options`: {epochs, learning_rate, seed, freeze, preprocess}, each as `graft finetune` has it, none of them needed.
PAGE_EXPORT(page_teach) const char* page_teach(const char* options, std::size_t size) {
    return page::answered([&](graft::json_writer& w) { return page::teach(page::text_at(options, size), w); });
}
