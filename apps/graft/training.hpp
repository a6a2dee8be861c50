// What the verbs finetune and train share: their options, the network that is to learn, and what is shown and written of a run.
#pragma once

#include "fixes.hpp"
#include "profile.hpp"
#include "progress.hpp"
#include "verb.hpp"
#include "world.hpp"

#include <graft/core/directory.hpp>
#include <graft/train.hpp>

#include <string>
#include <vector>

namespace program {

/// Of finetune and train. What is not given is as the library has it; numbers that are negative and texts that are empty are decided later.
struct training_options {
    bool from_scratch = false;  ///< train
    std::string data, from, arch, out;
    graft::finetune_options with;  ///< what the options go into, and where their defaults come from
    int batch = static_cast<int>(with.batch);
    double trunk_lr = -1, warmup = -1, mixup = -1, cutmix = -1, validation = graft::dataset_options().validation_fraction;
    std::string optimizer = graft::name(with.step.optimizer.kind), loss = graft::name(with.step.loss.kind), schedule, class_weights;
    std::vector<std::string> rates;  ///< REGEX=FACTOR
    std::string batch_norm = with.step.batch_norm ? "train" : "frozen", augment, preprocess, max_ram, cache;
    bool strict = false, allow_empty = false, find_lr = false;
    std::int64_t fixes = 10000;  ///< pictures that are looked at again for fixes.csv; 0: none
    spread_options spread;
};

/// Declares the options of finetune, or of train where they say `from_scratch`.
void declare_training(option_list& list, training_options& options);

/// A network that is to learn, and how pictures come to it.
struct training_setup {
    graft::training_network network;
    graft::preprocess_spec preprocess;           ///< complete
    bool assumed = false;                        ///< whether nothing said how pictures are prepared
    std::vector<graft::preprocess_trial> tried;  ///< specifications that were tried on the network, best first
    std::vector<std::string> notes;              ///< what was done to the network, in sentences
    std::string source;                          ///< the model's file, or the architecture
    std::string data;                            ///< the dataset, as it was given
};

/// What was seen of a run from outside, for its report.
struct run_figures {
    std::vector<std::string> warnings;
    std::vector<std::pair<double, double>> learning_rates;  ///< (epochs done, rate) of every step
    std::vector<std::pair<std::int64_t, gpu_figures>> gpu;  ///< epoch_record::epoch, and means over their training
    double features_seconds = 0, scored_seconds = 0;        ///< computing features that are kept; scoring
};

/// The options as the trainer takes them; what a flag leaves open is decided by what is trained. Errors: usage and
/// usage.preprocess, naming the option and what it takes.
graft::result<graft::trainer_options> trainer_options_of(const common_options& common, const training_options& options);

/// The grafted network of `finetune`, or the new one of `train`, for the classes of a dataset. Errors: those of loading,
/// train.head, train.freeze, usage.
graft::result<training_setup> set_up_training(const training_options& options, const graft::dataset_splits& data, const graft::trainer_options& with);

/// The shape of a batch of pictures as the network of a setup sees it. Errors: input.name, data.*.
graft::result<graft::shape> batch_shape_of(const training_setup& setup, const graft::dataset_splits& data, std::int64_t batch);

/// Sweeps the learning rate over a copy of the network and prints which one to take. Errors: those of the loader and of steps.
graft::result<int> find_learning_rate(const common_options& common, const training_setup& setup, const graft::dataset_splits& data,
                                      const graft::trainer_options& with);

/// What a run found that may be wrong with its dataset.
struct training_fixes {
    std::string file;  ///< fixes.csv; empty: the pictures are no files of their own, and nothing was written
    fix_list fixes;
    std::vector<graft::scored_picture> learnt;  ///< what was said of pictures that were learnt from, by their indices in the training part
    bool by_neighbours = false;                 ///< by their neighbours; else by the network itself
    double seconds = 0;
};

/// Writes fixes.csv into the folder of a run: labels that are doubted, of the validation part by the best network, and by neighbours where the network has a
/// trunk; as far as `options.fixes` goes of pictures that it learnt from, by their neighbours, or without a trunk by the network too; in a dataset of no more
/// pictures than that also what cannot be read and what is there twice. Errors: file.write, those of running the network.
graft::result<training_fixes> find_fixes(const common_options& common, const training_options& options, const training_setup& setup,
                                         const graft::dataset_splits& data, const graft::trainer_options& with, const graft::training_result& found);

/// What a network takes for pictures: the format of its first input that is no weight.
graft::input_format input_of(const graft::graph& g);

/// Writes report.html into the folder of a run. Errors: file.write and those of running the network.
graft::status write_training_report(const training_setup& setup, const graft::dataset_splits& data, const graft::trainer_options& with,
                                    const graft::training_result& found, const run_figures& seen, const training_fixes& fixes, const std::string& device);

/// The settings of a run as a report shows them.
graft::report_rows settings_of(const training_setup& setup, const graft::trainer_options& with);

/// Writes run.json, what a run was told and what came of it, and predictions.csv, how each validation picture was answered. Errors: file.write.
graft::status write_run_record(const training_setup& setup, const graft::dataset_splits& data, const graft::trainer_options& with,
                               const graft::training_result& found, const std::string& device);

/// Of bench.
struct bench_options {
    std::string model;
    int batch = 0, rounds = 20;  ///< batch 0: as the model has it
    std::string train, arch;     ///< train: "full", "head", or "" for a run
    int shards = 8;              ///< of training
    spread_options spread;       ///< of training
    profile_options profile;     ///< of runs
};
/// Training steps instead of runs, for `bench --train`.
graft::result<int> bench_training(const common_options& common, const bench_options& options);

/// What a step of `batch` samples takes where all of the network learns by AdamW and a running average is kept. Errors: what the network
/// lacks to be trained as it is.
graft::result<graft::step_memory> training_memory(const common_options& common, graft::graph g, const std::string& source, std::int64_t batch);

/// The place of the node that makes a value, -1 where none does.
int maker_of(const graft::graph& g, graft::value_id id);

}  // namespace program
