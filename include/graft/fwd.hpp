// Every public name, declared and not defined: costs nothing to include.
#pragma once

#include "macros_begin.inl"

#include "config.hpp"

#include <cstddef>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE

// Errors and limits.
enum class errc;
class error;
class status;
template <class T>
class result;
struct limits;

// Tensors.
enum class dtype;
struct float16;
struct bfloat16;
class shape;
class buffer;
class tensor;

// Random numbers and threads.
class random_stream;
class executor;
class pool_executor;
class dedicated_executor;

// Graphs and operators.
struct attribute;
struct dequantized;
struct capture;
struct graph;
struct node;
struct opset;
struct value;
struct batch_carrier;
struct op_row;
template <class Row>
struct row_table;
using op_table = row_table<op_row>;
struct tensor_view;
struct backend;
class device;
class device_state;
struct device_options;
struct placement;
struct stage_limits;
struct pipeline_options;
struct stage_use;
using value_id = std::int32_t;
class builder;
struct dimension;
struct conv2d_options;
struct linear_options;
struct batch_norm_options;
struct pool_options;

// Models and sessions.
class model;
class session;
class session_pool;
struct load_options;
struct session_options;
struct session_pool_options;
struct pool_answer;
struct value_info;
struct named_tensor;
template <class... Backends>
struct runtime;
namespace backends {
struct cpu;
}
namespace cpu {
enum class isa;
struct machine_peak;
class peak_meter;
}  // namespace cpu

// Files.
class json_reader;
class json_writer;
struct json;
class mapped_file;
class atomic_file;
struct safetensors;
struct safetensors_entry;

// Pictures.
enum class filter;
struct image;
struct preprocess_spec;
struct input_format;

// Datasets.
class dataset;
struct dataset_options;
struct dataset_problem;
struct picture_files;
struct dataset_report;
struct dataset_splits;
struct labelled_picture;
struct sample_bytes;
struct split_indices;
enum class entry_kind;
struct folder_entry;
struct dataset_progress;

// Batches of them.
class loader;
struct loader_options;
struct sample_options;
struct batch;
struct bad_sample;
struct augmentation;
struct auto_augment;
enum class augment_op;
struct mix_plan;
class image_cache;

// Gradients, and operators for training.
struct shards;
struct member_shards;
class communicator;
struct reduction;
struct started_sum;
struct trace_task;
struct trace_span;
struct unmeasured_task;
class trace_recorder;
struct profile_row;
struct run_profile;
struct roofline;
struct replica_options;
class emitter;
struct gradient_context;
struct gradient_row;
using gradient_table = row_table<gradient_row>;
struct training_mode_options;
struct running_statistic;
namespace backends {
struct cpu_training;
}

// Networks that learn.
enum class initializer;
struct architecture_options;
struct parameter;
struct trunk_cut;
struct grafted;
struct prepared_trunk;
enum class loss_kind;
struct loss_options;
enum class optimizer_kind;
struct optimizer_options;
enum class schedule_kind;
struct schedule;
struct schedule_position;
struct plateau_state;
struct early_stopping;
class rate_finder;

// Training.
class training_step;
class step_engine;
class step_factory;
struct step_options;
struct step_input;
struct step_memory;
struct training_state;
struct cut_network;
struct cached_features;
class teacher_model;
struct named_rate;
struct trainer_options;
struct training_defaults;
struct training_setting;
struct trainer_progress;
struct training_network;
struct training_result;
struct epoch_record;
struct member_record;
struct stage_record;
struct scaling_row;
struct straggler;
struct replica_work;
struct stage_work;
class training_observer;
enum class training_verdict;

// What came of it.
class classification_metrics;
class exact_sum;
struct sample_score;
struct class_score;
struct calibration_bin;
struct evaluation_options;
struct evaluation_result;
struct scored_picture;
struct golden_sample;
struct checkpoint;
struct loaded_checkpoint;
class metrics_log;
class event_writer;
struct training_report;
struct report_picture;
struct epoch_figures;
class grad_cam;
struct feature_map;

// Classification.
class classifier;
struct classifier_options;
struct prediction;
class explainer;
struct explanation;
struct preprocess_choice;
enum class preprocess_source;

GRAFT_END_NAMESPACE

#include "macros_end.inl"
