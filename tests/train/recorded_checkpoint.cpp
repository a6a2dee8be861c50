// A checkpoint as graft 0.1 wrote it before settings and state had tables: its names, their order and its values hold for ever.
#include "small_runs.hpp"

#include <graft/core/number_text.hpp>

namespace {

// Seven steps of small_options on put_pictures and small_network.
constexpr const char* recorded_settings[][2] = {
    {"version", "0.1"},
    {"isa", "avx512"},
    {"training data", "24 pictures, 1a944d185a189a7d"},
    {"validation data", "9 pictures, b156aa6ab6f468f5"},
    {"training pictures", "3c40799adeb712cf"},
    {"validation pictures", "9f5553f146f9b562"},
    {"epochs", "3"},
    {"batch", "5"},
    {"shards", "8"},
    {"seed", "9"},
    {"network", "7 nodes, 9769d1221160b342"},
    {"lr", "0x1.47ae147ae147bp-7"},
    {"trunk rate", "0x1.999999999999ap-4"},
    {"rates", ""},
    {"schedule", "cosine,warmup=0.05"},
    {"optimizer", "adamw"},
    {"momentum", "0x1.ccccccccccccdp-1"},
    {"nesterov", "0x0p+0"},
    {"beta1", "0x1.ccccccccccccdp-1"},
    {"beta2", "0x1.ff7ced916872bp-1"},
    {"epsilon", "0x1.5798ee2308c3ap-27"},
    {"weight decay", "0x1.47ae147ae147bp-7"},
    {"clip norm", "0x0p+0"},
    {"ema", "0x0p+0"},
    {"teacher", ""},
    {"loss", "cross_entropy"},
    {"label smoothing", "0x1.99999ap-4"},
    {"focal gamma", "0x1p+1"},
    {"huber delta", "0x1p+0"},
    {"distillation", "0x0p+0"},
    {"temperature", "0x1p+2"},
    {"class weights", ""},
    {"augmentation", "random_resized_crop=0.35:1:0.75:1.3333333333333333,random_horizontal_flip=0.5"},
    {"preprocess", "resize=8x8,crop=8x8,filter=bilinear,order=rgb,mean=123.675:116.28:103.53,std=58.395:57.12:57.375,layout=nchw,dtype=float32"},
    {"unfreeze epoch", "0"},
    {"patience", "0"},
    {"batch norm", "1"},
    {"exact", "0"},
    {"precision", "auto"},
    {"max ram", "0"},
    {"weights that learn", "6 of 6: llllll"},
};
constexpr const char* recorded_state[][2] = {
    {"epoch", "1"},
    {"batch", "2"},
    {"step", "7"},
    {"correct", "4"},
    {"seen", "10"},
    {"loss_sum", "0x1.25c8d4p+3"},
    {"weight_sum", "0x1.4p+3"},
    {"stopped", "0"},
    {"best_epoch", "0"},
    {"best_top1", "0x1.5555555555555p-2"},
    {"best_loss", "0x1.dc76450ad5555p-1"},
    {"bad_training", ""},
    {"bad_validation", ""},
    {"trained_pictures", "34"},
    {"trained_seconds", "0x1.20efa3b38p-5"},
    {"waited_seconds", "0x1.1592e781619dp-5"},
    {"plateau", "{\"rate\":0.01,\"best\":0.9305898261760982,\"bad_epochs\":0,\"cooldown_left\":0}"},
    {"epochs_done", "1"},
    {"history.0.step", "5"},
    {"history.0.best", "1"},
    {"history.0.0", "0x1.46414d4p+0"},
    {"history.0.1", "0x1.2aaaaaaaaaaabp-2"},
    {"history.0.2", "0x1.dc76450ad5555p-1"},
    {"history.0.3", "0x1.5555555555555p-2"},
    {"history.0.4", "0x1p+0"},
    {"history.0.5", "0x1.23ef6ddc47018p-7"},
    {"history.0.6", "0x1.1cc5140a8p-5"},
    {"history.0.7", "0x1.5934816a8040ap+9"},
    {"history.0.8", "0x1.ee961ca447931p-1"},
    {"history.0.9", "0x1.5555555555555p-2"},
    {"history.0.10", "0x1.5555555555555p-2"},
};

class stopper final : public graft::training_observer {
public:
    inline graft::training_verdict on_step(const graft::trainer_progress&) override {
        return --left_ ? graft::training_verdict::go_on : graft::training_verdict::stop;
    }

private:
    int left_ = 7;
};

// Whether what is measured, or differs by instruction set and library of mathematics.
bool is_of_the_machine(const std::string& key, const std::string& value) {
    return key == "version" || key == "isa" || key == "network" || key == "plateau" || key == "correct" || key == "history.0.best" ||
           (value.rfind("0x", 0) == 0 && (key.find("history") == 0 || key.find('_') != std::string::npos));
}

template <std::size_t Count>
void check_texts(const graft::named_texts& now, const char* const (&recorded)[Count][2]) {
    REQUIRE(now.size() == Count);
    for (std::size_t i = 0; i < Count; ++i) {
        const std::string key = recorded[i][0], value = recorded[i][1];
        CAPTURE(key);
        CHECK(now[i].first == key);
        if (is_of_the_machine(key, value)) continue;
        if (value.rfind("0x", 0) == 0)
            CHECK(graft::detail::read_number(now[i].second.c_str()) == graft::detail::read_number(value.c_str()));
        else
            CHECK(now[i].second == value);
    }
}

}  // namespace

TEST_CASE("A checkpoint has the names and values that it had, and one that was recorded is gone on from to the same bytes") {
    const made_folder folder;
    put_pictures(folder);
    const std::string whole = trained(folder, small_options(folder.path + "/whole"), small_network("none")).model;
    graft::trainer_options o = small_options(folder.path + "/stopped");
    stopper observer;
    REQUIRE(graft::train(small_network("none"), graft::open_splits(folder.path + "/data"), o, observer).ok());
    const std::string path = o.out + "/checkpoint.safetensors";
    graft::checkpoint c = graft::load_checkpoint(path).value().contents;
    check_texts(c.settings, recorded_settings);
    check_texts(c.state, recorded_state);

    for (std::size_t i = 0; i < c.settings.size(); ++i)
        if (!is_of_the_machine(c.settings[i].first, "")) c.settings[i].second = recorded_settings[i][1];
    for (std::size_t i = 0; i < c.state.size(); ++i) c.state[i].second = recorded_state[i][1];
    REQUIRE(graft::save_checkpoint(path, c).ok());
    o.resume = true;
    const outcome resumed = trained(folder, o, small_network("none"));
    CHECK(resumed.model == whole);
    REQUIRE(resumed.result.history.size() == 3);
    const graft::epoch_record& first = resumed.result.history[0];
    const double kept[] = {first.training_loss, first.training_top1,     first.loss,    first.top1,
                           first.top5,          first.learning_rate,     first.seconds, first.images_per_s,
                           first.wait_share,    first.balanced_accuracy, first.majority};
    for (std::size_t k = 0; k < sizeof kept / sizeof kept[0]; ++k)
        CHECK(kept[k] == graft::detail::read_number(c.find_state("history.0." + std::to_string(k))->c_str()));
    CHECK(first.epoch == 0);
    CHECK(first.step == 5);
    CHECK(first.best);
}
