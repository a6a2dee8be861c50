/// graft for C and for every language that can call C: loads ONNX models, runs them, names what is in pictures, and fine-tunes.
///
/// - Functions that can fail return a `graft_return_code`, or a handle that is NULL where they failed, and take a `graft_error**` last. It may be NULL. Else
///   what it points at is set to NULL, or to an error where the function fails: free that by `graft_error_free`.
/// - What a function named `..._new`, `..._load`, `..._read`, `..._decode`, `..._borrow`, `..._share` or `..._classify` returns is the caller's, who frees it
///   by the function that its type has for that; to free NULL does nothing. All other pointers belong to the handle that they were asked of, and are
///   good for as long as that is, where nothing else is said.
/// - NULL for a handle, a path or memory that has to be there is the error "usage", and crashes nothing. Functions that tell something of a handle and
///   cannot fail tell 0, "" or NULL of NULL, and of what there is not.
/// - A model and a picture may be used by any number of threads at once; a session, a classifier, options and predictions by one at a time.
/// - Strings are UTF-8 and end with a zero byte. Sizes are in bytes, extents in elements, outermost first.
/// - The ABI of a `GRAFT_ABI_VERSION` grows and changes in no other way: functions, options and fields at the end of structures are added.
#ifndef GRAFT_H
#define GRAFT_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(GRAFT_C_BUILDS)
#define GRAFT_API __declspec(dllexport)
#else
#define GRAFT_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define GRAFT_API __attribute__((visibility("default")))
#else
#define GRAFT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// NOLINTBEGIN(readability-identifier-naming, modernize-use-using): C has no other names and no other declarations

/// The ABI that a program is compiled for.
#define GRAFT_ABI_VERSION 1

/// The ABI of the library that is loaded: GRAFT_ABI_VERSION of its header.
GRAFT_API int graft_abi_version(void);
/// The version of the library, such as "0.1.0". Static storage.
GRAFT_API const char* graft_version(void);

/// How a function ended; the numbers are the exit codes of the program `graft`.
typedef int graft_return_code;
enum {
    GRAFT_OK = 0,
    GRAFT_FAILED = 1,  ///< the error says why
    GRAFT_USAGE = 2    ///< the call is wrong: the code of the error is "usage" or begins with "usage."
};

// ---- Errors

/// What went wrong. May be read by any thread.
typedef struct graft_error graft_error;

/// The kind of the error by its stable name, such as "op.shape": docs/errors.md lists all.
GRAFT_API const char* graft_error_code(const graft_error* error);
/// Where it went wrong: a file, a node, an input or an argument.
GRAFT_API const char* graft_error_where(const graft_error* error);
/// A sentence, with the shapes and what to do.
GRAFT_API const char* graft_error_detail(const graft_error* error);
/// "<code>: <where>: <detail>", control characters of names from files escaped.
GRAFT_API const char* graft_error_message(const graft_error* error);
GRAFT_API void graft_error_free(graft_error* error);

// ---- Options

/// Names with values, as text. Which there are is said at the functions that take options; NULL stands for none.
typedef struct graft_options graft_options;

/// No option set; NULL where there is no memory.
GRAFT_API graft_options* graft_options_new(void);
/// Sets an option; the last value holds. Numbers as C and JSON write them; flags are "true", "1", "false" or "0". Whether there is such an option and it
/// takes that value is told by the function that is given the options. Errors: usage, memory.oom.
GRAFT_API graft_return_code graft_options_set(graft_options* options, const char* name, const char* value, graft_error** error);
GRAFT_API void graft_options_free(graft_options* options);

// ---- Element types

/// The type of elements, by the numbers of onnx.TensorProto.DataType. Types below one byte take one byte an element, sign-extended.
typedef int graft_dtype;
enum {
    GRAFT_UNDEFINED = 0,
    GRAFT_FLOAT32 = 1,
    GRAFT_UINT8 = 2,
    GRAFT_INT8 = 3,
    GRAFT_UINT16 = 4,
    GRAFT_INT16 = 5,
    GRAFT_INT32 = 6,
    GRAFT_INT64 = 7,
    GRAFT_BOOL = 9,  ///< a byte, 0 or 1
    GRAFT_FLOAT16 = 10,
    GRAFT_FLOAT64 = 11,
    GRAFT_UINT32 = 12,
    GRAFT_UINT64 = 13,
    GRAFT_BFLOAT16 = 16,
    GRAFT_FLOAT8E4M3FN = 17,
    GRAFT_FLOAT8E4M3FNUZ = 18,
    GRAFT_FLOAT8E5M2 = 19,
    GRAFT_FLOAT8E5M2FNUZ = 20,
    GRAFT_UINT4 = 21,
    GRAFT_INT4 = 22,
    GRAFT_FLOAT4E2M1 = 23,
    GRAFT_FLOAT8E8M0 = 24,
    GRAFT_UINT2 = 25,
    GRAFT_INT2 = 26
};

/// numpy's name of the type ("float32"), or ONNX's in lower case where numpy has none ("bfloat16"). Static storage.
GRAFT_API const char* graft_dtype_name(graft_dtype dtype);
/// Bytes that an element takes; 0 for a type that no tensor has.
GRAFT_API size_t graft_dtype_size(graft_dtype dtype);

// ---- Models

/// A loaded network: immutable.
typedef struct graft_model graft_model;
/// An input or an output of a model.
typedef struct graft_value graft_value;

/// Loads an ONNX file. Options:
///   device            "auto" (an NVIDIA GPU that can be used, else the CPU), "cpu", "cuda", "cuda:1"
///   precision         "auto", "float32", "tf32", "float16", "bfloat16", as the device has them
///   threads           of loading and, where a session is not told otherwise, of runs; 0: as many as the process may use
///   exact             no algorithms that reorder sums
///   deterministic     only algorithms that give the same bits every time, on a GPU
///   strict_placement  a node that the device does not take is an error, instead of the CPU's
///   open_batch        a network that was exported for a fixed batch takes any, where that can be proved to mean the same
///   memory_bytes      what the model keeps and one session takes, together, at most
/// Errors: file.open, model.*, graph.*, tensor.*, external.*, op.*, device.*, memory.*, usage.
GRAFT_API graft_model* graft_model_load(const char* path, const graft_options* options, graft_error** error);
/// The same of an ONNX file in memory, which is only read during the call; external data is refused.
GRAFT_API graft_model* graft_model_load_bytes(const void* bytes, size_t size, const graft_options* options, graft_error** error);
/// Sessions and classifiers of the model may go on.
GRAFT_API void graft_model_free(graft_model* model);

/// Inputs in the file's order; those with a default come too.
GRAFT_API size_t graft_model_input_count(const graft_model* model);
GRAFT_API size_t graft_model_output_count(const graft_model* model);
/// Input `index`; NULL where there is none.
GRAFT_API const graft_value* graft_model_input(const graft_model* model, size_t index);
GRAFT_API const graft_value* graft_model_output(const graft_model* model, size_t index);
/// How many metadata properties the file has; their keys and values.
GRAFT_API size_t graft_model_metadata_count(const graft_model* model);
GRAFT_API const char* graft_model_metadata_key(const graft_model* model, size_t index);
GRAFT_API const char* graft_model_metadata_value(const graft_model* model, size_t index);
/// The device that it runs on: "cpu", "cuda:0".
GRAFT_API const char* graft_model_device(const graft_model* model);

GRAFT_API const char* graft_value_name(const graft_value* value);
/// GRAFT_UNDEFINED where the file does not say.
GRAFT_API graft_dtype graft_value_dtype(const graft_value* value);
/// The number of its axes, 0 for a scalar; -1 where the file does not say.
GRAFT_API int graft_value_rank(const graft_value* value);
/// The extent of an axis, outermost 0; -1 where it is open.
GRAFT_API int64_t graft_value_extent(const graft_value* value, int axis);
/// The name of an open axis, such as "N"; "" where it has none.
GRAFT_API const char* graft_value_dimension(const graft_value* value, int axis);
/// Of an input: 1 where the model has a value for it that serves where none is given.
GRAFT_API int graft_value_has_default(const graft_value* value);

// ---- Running

/// One caller's way into a model: its scratch memory and its outputs. Bring one a thread.
typedef struct graft_session graft_session;
/// An array: row-major and contiguous.
typedef struct graft_tensor graft_tensor;

/// Options: threads (as the model was loaded with, where it is not given). Errors: usage, memory.oom.
GRAFT_API graft_session* graft_session_new(const graft_model* model, const graft_options* options, graft_error** error);
GRAFT_API void graft_session_free(graft_session* session);

/// Gives the next run input `index`: `bytes` of memory at `data`, row-major, aligned as its elements want it. It is not copied: it has to stay as it is until
/// the run has returned, which forgets it. `shape` has `rank` extents, and may be NULL with rank 0. Errors: input.name (no such input), input.dtype and
/// input.shape (not what the model asks for), tensor.bytes (not what the shape and the type need), usage.
GRAFT_API graft_return_code graft_session_set_input(graft_session* session, size_t index, graft_dtype dtype, const int64_t* shape, int rank, const void* data,
                                                    size_t bytes, graft_error** error);
/// Runs. A set of input shapes that has been run before allocates nothing, as long as no output of the run before is shared. Where it fails there are
/// no outputs. Errors: input.name (an input is missing), memory.*, op.*, device.*.
GRAFT_API graft_return_code graft_session_run(graft_session* session, graft_error** error);
/// Output `index` of the last run, in place: good until the next one, or until the session is freed; `graft_tensor_share` keeps it. NULL before a run, and
/// where there is no such output.
GRAFT_API const graft_tensor* graft_session_output(const graft_session* session, size_t index);

GRAFT_API graft_dtype graft_tensor_dtype(const graft_tensor* tensor);
GRAFT_API int graft_tensor_rank(const graft_tensor* tensor);
/// As many extents as the rank is.
GRAFT_API const int64_t* graft_tensor_shape(const graft_tensor* tensor);
/// The elements. Those of an output are the caller's to change.
GRAFT_API void* graft_tensor_data(const graft_tensor* tensor);
GRAFT_API size_t graft_tensor_bytes(const graft_tensor* tensor);
/// Another handle of the same memory, without a copy, which stays as it is for as long as the handle is there: past the next run, the session and the model.
/// Errors: usage, memory.oom.
GRAFT_API graft_tensor* graft_tensor_share(const graft_tensor* tensor, graft_error** error);
/// Only of a handle that `graft_tensor_share` gave.
GRAFT_API void graft_tensor_free(graft_tensor* tensor);

// ---- Pictures

/// A picture in memory: 8 bits, rows from the top, channels interleaved.
typedef struct graft_picture graft_picture;

/// Reads a JPEG, PNG, BMP, PNM or (where the library was built with libwebp) WebP file as RGB; its EXIF orientation is applied. Errors: image.*.
GRAFT_API graft_picture* graft_picture_read(const char* path, graft_error** error);
/// The same of a file in memory, which is only read during the call.
GRAFT_API graft_picture* graft_picture_decode(const void* bytes, size_t size, graft_error** error);
/// A picture over the caller's pixels, height x width x channels bytes, which are not copied and have to stay as they are until it is freed. `channels`:
/// 3 is RGB, 1 is gray. Errors: usage, image.dimensions, image.budget.
GRAFT_API graft_picture* graft_picture_borrow(const uint8_t* pixels, int64_t height, int64_t width, int channels, graft_error** error);
GRAFT_API int64_t graft_picture_height(const graft_picture* picture);
GRAFT_API int64_t graft_picture_width(const graft_picture* picture);
GRAFT_API int graft_picture_channels(const graft_picture* picture);
GRAFT_API const uint8_t* graft_picture_pixels(const graft_picture* picture);
GRAFT_API void graft_picture_free(graft_picture* picture);

// ---- Classification

/// A model, its labels and its preprocessing.
typedef struct graft_classifier graft_classifier;
/// What a classifier answered: for each picture its likeliest classes, likeliest first.
typedef struct graft_predictions graft_predictions;

/// A classifier of a loaded model. Options:
///   labels      a text file with one name a line; where it is not given, the model's own, else none
///   preprocess  how pictures become tensors, such as "imagenet,crop=224" (docs/preprocessing.md); where it is not given, the model's own, else a guess
///   output      the output that names classes; where it is not given, the first
///   threads     as the model was loaded with, where it is not given
/// Errors: usage, usage.preprocess, input.name, input.shape, classify.output, labels.count, file.open, memory.oom.
GRAFT_API graft_classifier* graft_classifier_new(const graft_model* model, const graft_options* options, graft_error** error);
/// Loads a model, its batch opened, and makes a classifier of it: options and errors of both.
GRAFT_API graft_classifier* graft_classifier_load(const char* path, const graft_options* options, graft_error** error);
GRAFT_API void graft_classifier_free(graft_classifier* classifier);
/// The names of the classes; none where nothing names them.
GRAFT_API size_t graft_classifier_label_count(const graft_classifier* classifier);
GRAFT_API const char* graft_classifier_label(const graft_classifier* classifier, size_t index);
/// How pictures become tensors, as the option `preprocess` takes it.
GRAFT_API const char* graft_classifier_preprocess(const graft_classifier* classifier);

/// The `top` likeliest classes of each of `count` pictures, at once as far as the model takes so many. Errors: usage, classify.output, labels.count,
/// preprocess.crop, and those of a run.
GRAFT_API graft_predictions* graft_classifier_classify(graft_classifier* classifier, const graft_picture* const* pictures, size_t count, int top,
                                                       graft_error** error);
/// The same of one picture file. Errors: also image.*.
GRAFT_API graft_predictions* graft_classifier_classify_file(graft_classifier* classifier, const char* path, int top, graft_error** error);

/// How many pictures were named.
GRAFT_API size_t graft_predictions_count(const graft_predictions* predictions);
/// How many classes there are of a picture: `top`, or as many as the model has.
GRAFT_API size_t graft_predictions_size(const graft_predictions* predictions, size_t picture);
/// The class at a place, the likeliest at 0: its index among the model's; -1 where there is none.
GRAFT_API int graft_predictions_index(const graft_predictions* predictions, size_t picture, size_t place);
/// Its name, or the index as text where nothing names it.
GRAFT_API const char* graft_predictions_label(const graft_predictions* predictions, size_t picture, size_t place);
GRAFT_API double graft_predictions_probability(const graft_predictions* predictions, size_t picture, size_t place);
GRAFT_API void graft_predictions_free(graft_predictions* predictions);

/// How well a classifier knows labelled pictures. `size` is set by the caller, to sizeof(graft_evaluation): a library fills what its caller knows.
typedef struct graft_evaluation {
    size_t size;
    double top1, top5;                   ///< shares of the pictures whose class was the likeliest, and one of the five likeliest
    double loss;                         ///< mean cross-entropy
    double balanced_accuracy, macro_f1;  ///< means over the classes of recall, and of F1
    int64_t pictures, bad_pictures;      ///< that were scored, and that could not be read
    int64_t classes;
} graft_evaluation;

/// Scores every picture of a dataset once, as `graft evaluate` does. `data` is an image folder, an IDX pair, CIFAR files or a CSV file; its classes are the
/// classifier's by their names. Options: batch, bad_share (of the pictures that may be unreadable), threads. Errors: data.*, classify.output, usage, and
/// those of a run.
GRAFT_API graft_return_code graft_classifier_evaluate(graft_classifier* classifier, const char* data, const graft_options* options, graft_evaluation* result,
                                                      graft_error** error);

// ---- Fine-tuning

/// What a run of training has to tell.
typedef int graft_event;
enum {
    GRAFT_STEP = 0,        ///< an update was made
    GRAFT_VALIDATION = 1,  ///< `step` of `steps` pictures have been scored
    GRAFT_EPOCH = 2,       ///< an epoch has ended and was scored
    GRAFT_NOTE = 3,        ///< `text` says what was done to the network before it learns
    GRAFT_WARNING = 4      ///< `text` says what is not as it should be
};

/// Where a run is. Events may be added: leave those that you do not know alone.
typedef struct graft_progress {
    graft_event event;
    int64_t epoch, epochs;  ///< from 1; 0 before the first
    int64_t step, steps;    ///< of this epoch, or pictures of a validation
    double loss, top1;      ///< of the training so far in this epoch; of an epoch's end, of the validation part. Shares are 0 to 1
    double learning_rate;   ///< of the head
    double images_per_s;    ///< of training
    double seconds_left;    ///< of the run; 0 where that is not known
    const char* text;       ///< good during the call; "" where the event has none
} graft_progress;

/// Is told what happens, on the thread that called `graft_finetune`. Returns 0 to go on; anything else stops the run, which writes its checkpoint and
/// ends in order (notes and warnings are only told). It must not throw or jump out.
typedef int (*graft_progress_function)(const graft_progress* at, void* context);

/// What came of a run. `size` is set by the caller, to sizeof(graft_training_result): a library fills what its caller knows.
typedef struct graft_training_result {
    size_t size;
    double best_top1, best_loss;  ///< of the validation part, of the epoch that was kept
    int64_t best_epoch;           ///< from 1; 0 where none ended
    int64_t epochs;               ///< that have ended, over all resumed parts
    double images_per_s, seconds;
    int64_t bad_pictures;  ///< that could not be read
    int64_t training_pictures, validation_pictures, classes;
    int stopped;  ///< 1 where the progress function stopped it: the option `resume` goes on from there
} graft_training_result;

/// Turns a model and labelled pictures into a model of their classes, as `graft finetune` does. `data` is an image folder, an IDX pair, CIFAR files or a CSV
/// file; `from` an ONNX file; `out` the folder that gets model.onnx, checkpoint.safetensors, metrics.jsonl and TensorBoard events. `progress`, with its
/// `context`, and `result` may be NULL. Options are those of `graft finetune` (docs/finetuning.md; docs/bindings.md says which are the program's
/// alone) without the dashes in front, such as epochs, batch, lr, freeze, augment, class_weights, resume and overwrite; and device, precision, threads, seed,
/// exact. Errors: data.*, train.*, those of loading,
/// checkpoint.*, resume.mismatch, file.write, usage.
GRAFT_API graft_return_code graft_finetune(const char* data, const char* from, const char* out, const graft_options* options, graft_progress_function progress,
                                           void* context, graft_training_result* result, graft_error** error);

// NOLINTEND(readability-identifier-naming, modernize-use-using)

#ifdef __cplusplus
}
#endif

#endif
