// Errors are values: a code from one list, the location, and a sentence a user can act on.
#pragma once

#include "../config.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

// Code, text, and what it means for a user. docs/errors.md is made from this list.
#define GRAFT_ERROR_CODES(X) \
    X(usage, "usage", "the call or the command line is wrong") \
    X(usage_preprocess, "usage.preprocess", "an item of a preprocessing specification is wrong") \
    X(file_open, "file.open", "a file cannot be opened or read") \
    X(file_write, "file.write", "a file cannot be written") \
    X(model_truncated, "model.truncated", "a model file ends too early") \
    X(model_malformed, "model.malformed", "a model file is not well formed") \
    X(model_too_deep, "model.too_deep", "a model nests deeper than the limit") \
    X(model_too_large, "model.too_large", "a model is larger than the limit") \
    X(model_recursion, "model.recursion", "functions of a model call themselves") \
    X(model_version, "model.version", "an IR or opset version is out of range") \
    X(graph_cycle, "graph.cycle", "nodes depend on each other in a circle") \
    X(graph_dangling, "graph.dangling", "a node reads a value that nothing makes") \
    X(graph_duplicate, "graph.duplicate", "a value is made twice or a name is given twice") \
    X(graph_no_output, "graph.no_output", "an output of the graph is never made") \
    X(graph_fixed_batch, "graph.fixed_batch", "a network was exported for one size of batch, and cannot be opened for others") \
    X(op_unsupported, "op.unsupported", "an operator, or this form of it, is not supported") \
    X(op_attribute, "op.attribute", "an attribute is missing, of the wrong type or out of range") \
    X(op_shape, "op.shape", "shapes do not fit an operator") \
    X(op_type, "op.type", "an element type does not fit an operator") \
    X(op_index, "op.index", "an index is out of range") \
    X(op_value, "op.value", "a value that an operator was given is out of range") \
    X(op_limit, "op.limit", "an operator would run longer than the limit") \
    X(tensor_shape, "tensor.shape", "a shape is not legal") \
    X(tensor_overflow, "tensor.overflow", "the size of a tensor overflows") \
    X(tensor_bytes, "tensor.bytes", "a tensor has not the bytes that its shape and type need") \
    X(tensor_dtype, "tensor.dtype", "an element type is unknown or not allowed here") \
    X(external_path, "external.path", "the path of external data is not allowed") \
    X(external_range, "external.range", "the range of external data is not inside its file") \
    X(memory_budget, "memory.budget", "more memory would be needed than the limit allows") \
    X(memory_oom, "memory.oom", "the system has not enough memory") \
    X(input_name, "input.name", "an input or output of that name does not exist, or is missing") \
    X(input_shape, "input.shape", "an input has not the shape that the model asks for") \
    X(input_dtype, "input.dtype", "an input has not the element type that the model asks for") \
    X(image_open, "image.open", "an image file cannot be read") \
    X(image_no_decoder, "image.no_decoder", "this build has no image decoder") \
    X(image_unsupported, "image.unsupported", "the image is of a kind that is not supported") \
    X(image_malformed, "image.malformed", "the image is damaged") \
    X(image_truncated, "image.truncated", "the image ends too early") \
    X(image_dimensions, "image.dimensions", "the sides of an image are zero or over the limit") \
    X(image_budget, "image.budget", "decoding the image would take more than the limit allows") \
    X(preprocess_crop, "preprocess.crop", "the image is smaller than the crop") \
    X(classify_output, "classify.output", "an output of a model is not one number a class, so that it names nothing") \
    X(labels_count, "labels.count", "the number of labels does not fit the model") \
    X(json_malformed, "json.malformed", "a JSON text is not well formed") \
    X(safetensors_malformed, "safetensors.malformed", "a safetensors file is not well formed") \
    X(npy_malformed, "npy.malformed", "an .npy file is not well formed") \
    X(npy_dtype, "npy.dtype", "the element type has no .npy form") \
    X(cpu_isa, "cpu.isa", "GRAFT_ISA names an instruction set that is unknown or absent here") \
    X(data_open, "data.open", "a dataset, or a file that it names, cannot be opened or read") \
    X(data_format, "data.format", "a dataset is not well formed") \
    X(data_count_mismatch, "data.count_mismatch", "the parts of a dataset differ in how many samples they hold") \
    X(data_label_range, "data.label_range", "a label is outside of the classes") \
    X(data_empty_class, "data.empty_class", "a class has no pictures") \
    X(data_no_classes, "data.no_classes", "a dataset has fewer than two classes") \
    X(data_class_mismatch, "data.class_mismatch", "the classes of two splits, or of a dataset and a model, differ") \
    X(data_too_many_bad, "data.too_many_bad", "more samples are unreadable than the policy allows") \
    X(data_leak, "data.leak", "a part of a dataset holds a sample that another part has as well") \
    X(data_label_conflict, "data.label_conflict", "a picture lies in two classes of a dataset") \
    X(train_no_gradient, "train.no_gradient", "an operator between the loss and a weight that learns has no gradient") \
    X(train_diverged, "train.diverged", "the loss or a gradient is no longer finite") \
    X(train_head, "train.head", "no classifier was found at the end of a model, or it does not fit") \
    X(train_freeze, "train.freeze", "what is to be frozen leaves nothing to learn, or names nothing") \
    X(train_out_in_use, "train.out_in_use", "the folder for a run holds one already") \
    X(explain_features, "explain.features", "a network has no features that lie by the places of the picture") \
    X(checkpoint_write, "checkpoint.write", "a checkpoint cannot be written; the one before is untouched") \
    X(checkpoint_malformed, "checkpoint.malformed", "a checkpoint is damaged, and so is the one before it") \
    X(resume_mismatch, "resume.mismatch", "a checkpoint was made with other settings") \
    X(device_unavailable, "device.unavailable", "the device asked for cannot be used") \
    X(device_lost, "device.lost", "a device failed while it was in use") \
    X(device_compile, "device.compile", "a kernel could not be compiled for a device") \
    X(placement_refused, "placement.refused", "no back end takes a node") \
    X(dist_peer_lost, "dist.peer_lost", "another member of a run on several devices or machines has ended") \
    X(dist_timeout, "dist.timeout", "another member of a run on several devices or machines does not answer") \
    X(dist_mismatch, "dist.mismatch", "the members of a run on several devices or machines were not told the same") \
    X(dist_address_in_use, "dist.address_in_use", "the port at which the processes of a run are to meet is taken") \
    X(dist_no_mpi, "dist.no_mpi", "this build has no MPI, and was started as one of several processes") \
    X(quantize_accuracy, "quantize.accuracy", "a quantised network answers worse than is allowed") \
    X(quantize_nothing, "quantize.nothing", "a network has no operator to quantise, or is quantised already") \
    X(quantize_range, "quantize.range", "values of a network that is to be quantised are not finite, or were not seen") \
    X(internal, "internal", "a defect of graft itself: please report it")

GRAFT_BEGIN_NAMESPACE

/// The kind of an error; `text(errc)` is its stable name, such as "op.shape".
enum class errc {
#define GRAFT_X(id, name, meaning) id,
    GRAFT_ERROR_CODES(GRAFT_X)
#undef GRAFT_X
};

/// The stable name of a code, for programs and logs. Static storage.
const char* text(errc code) noexcept;

class error;
namespace detail {
// The error that needs no memory to be made: where none is left for a better one.
const error& no_memory() noexcept;
struct error_release {
    void operator()(const error* e) const noexcept;
};
}  // namespace detail

/// What went wrong: a code, the location (file, node or argument), and a sentence with shapes and the fix. Copies share their text, so that
/// copying and throwing it allocates nothing.
class error : public std::exception {
public:
    error(errc code, std::string where, std::string detail);
    error(const error&) noexcept = default;
    error& operator=(const error&) noexcept = default;
    errc code() const noexcept { return said_->code; }
    const std::string& where() const noexcept { return said_->where; }
    const std::string& detail() const noexcept { return said_->detail; }
    /// "<code>: <where>: <detail>", owned by the error; control characters of file-given names are escaped.
    const char* what() const noexcept override { return said_->what ? said_->what : said_->whole.c_str(); }

private:
    struct text {
        errc code;
        std::string where, detail, whole;
        const char* what;  // in place of `whole`; null where that is there
    };
    friend const error& detail::no_memory() noexcept;
    explicit error(std::shared_ptr<const text> said) noexcept : said_(std::move(said)) {}
    std::shared_ptr<const text> said_;
};

/// Success, or one error on the heap: a single pointer, cheap to pass up.
class [[nodiscard]] status {
public:
    status() noexcept = default;
    status(const class error& e) : error_(new class error(e)) {}
    bool ok() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return ok(); }
    /// The error; only to be asked for when there is one.
    const class error& error() const& noexcept { return *error_; }
    class error error() && {
        return *error_;
    }
    /// memory.oom that takes no memory itself, for where there is none.
    static status no_memory() noexcept {
        status s;
        s.error_.reset(&detail::no_memory());
        return s;
    }

private:
    std::unique_ptr<const class error, detail::error_release> error_;
};

/// Builds a failed status. Cold, so that checks cost their caller a compare and a jump.
[[nodiscard]] status fail(errc code, std::string where, std::string detail);

/// Ends the program, or whatever GRAFT_FATAL says, when an error is forced open without exceptions.
[[noreturn]] void fatal(const char* what);
namespace detail {
// Throws the error, or calls `fatal` without exceptions.
[[noreturn]] void raise(const error& e);
}  // namespace detail

/// A value or an error. Becomes its value (throwing `graft::error` if there is none), or is asked for its error.
template <class T>
class [[nodiscard]] result {
public:
    result(T value) : value_(std::move(value)) {}
    result(status failed) : status_(std::move(failed)) {}
    result(const class error& e) : status_(e) {}
    bool ok() const noexcept { return status_.ok(); }
    explicit operator bool() const noexcept { return ok(); }
    const class error& error() const& noexcept { return status_.error(); }
    class error error() && {
        return std::move(status_).error();
    }
    /// The failure itself, to be handed on.
    status take_status() { return std::move(status_); }
    T& value() & { return force(), *value_; }
    const T& value() const& { return force(), *value_; }
    /// Of a temporary the value itself, so that `for (auto& p : c.classify(f).value())` keeps it.
    T value() && { return force(), std::move(*value_); }
    operator T() && { return force(), std::move(*value_); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T operator*() && { return std::move(*this).value(); }

private:
    void force() const {
        if (!status_.ok()) detail::raise(status_.error());
    }
    std::optional<T> value_;
    status status_;
};

/// Throws (or ends the program, without exceptions) if `s` holds an error.
inline void must(status s) {
    if (!s.ok()) detail::raise(s.error());
}

/// `text` with control characters and backslashes escaped, cut after 200 bytes: names come from files.
std::string escape(const std::string& text);

namespace detail {
// What the system says of an error of its own. std::strerror's text lies where another thread may write the next.
std::string system_message(int number = errno);

// memory.oom for a std::bad_alloc that was caught: throws none itself. The name of a function or a path says where it was.
status out_of_memory(const char* where) noexcept;
inline status out_of_memory(const std::string& where) noexcept { return out_of_memory(where.c_str()); }
}  // namespace detail

// Stand around the body of a function that returns a status or a result: want of memory in it is memory.oom. Every public function that does so
// and allocates has them, so that nothing escapes.
#ifdef GRAFT_NO_EXCEPTIONS
#define GRAFT_MEMORY_TRY
#define GRAFT_MEMORY_CATCH(where)
#else
#define GRAFT_MEMORY_TRY try
#define GRAFT_MEMORY_CATCH(where) \
    catch (const std::bad_alloc&) { \
        return detail::out_of_memory(where); \
    }
#endif

namespace detail {
// f(), or memory.oom where something in it could not be allocated. `Answer` is what f gives, a status or a result.
template <class Answer, class F>
inline Answer or_out_of_memory([[maybe_unused]] const char* where, const F& f) GRAFT_MEMORY_TRY {
    return f();
}
GRAFT_MEMORY_CATCH(where)
}  // namespace detail

// Hands a failure on to the caller.
#define GRAFT_TRY(...) \
    do { \
        if (auto graft_status = (__VA_ARGS__); !graft_status.ok()) return graft_status; \
    } while (false)

// Assigns the value of a result, or hands its failure on.
#define GRAFT_TRY_ASSIGN(target, ...) \
    do { \
        auto graft_result = (__VA_ARGS__); \
        if (!graft_result.ok()) return graft_result.take_status(); \
        target = std::move(graft_result).value(); \
    } while (false)

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstring>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE const char* text(errc code) noexcept {
    switch (code) {
#define GRAFT_X(id, name, meaning) \
    case errc::id: return name;
        GRAFT_ERROR_CODES(GRAFT_X)
#undef GRAFT_X
    }
    return "internal";
}

GRAFT_INLINE std::string escape(const std::string& raw) {
    std::string out;
    for (unsigned char c : raw.substr(0, 200)) {
        if (c < 32 || c == 127 || c == '\\') {
            char hex[8];
            std::snprintf(hex, sizeof hex, "\\x%02x", c);
            out += hex;
        } else
            out += static_cast<char>(c);
    }
    if (raw.size() > 200) out += "...";
    return out;
}

namespace detail {
// strerror_r has two forms: GNU's answers with the text, POSIX's writes it into `own`.
inline const char* answered_text(const char* text, const char*) noexcept { return text; }
inline const char* answered_text(int, const char* own) noexcept { return own; }
}  // namespace detail

GRAFT_INLINE GRAFT_COLD std::string detail::system_message(int number) {
#ifdef _WIN32
    return std::strerror(number);  // here each thread has its own
#else
    char own[256] = "";
    return answered_text(::strerror_r(number, own, sizeof own), own);
#endif
}

GRAFT_INLINE GRAFT_COLD error::error(errc code, std::string where, std::string detail) {
    const auto said = std::make_shared<text>(text{code, std::move(where), std::move(detail), {}, nullptr});
    said->whole = std::string(graft::text(code)) + ": " + escape(said->where) + ": " + said->detail;
    for (char& c : said->whole)
        if (static_cast<unsigned char>(c) < 32) c = ' ';
    said_ = said;
}

GRAFT_INLINE GRAFT_COLD const error& detail::no_memory() noexcept {
    // Texts that a string holds in itself, in memory that is never given back: a thread may still ask when static objects go.
    alignas(error::text) static unsigned char text_memory[sizeof(error::text)];
    alignas(error) static unsigned char error_memory[sizeof(error)];
    static const error* const only = [] {
        const auto* said =
            ::new (static_cast<void*>(text_memory)) error::text{errc::memory_oom, "graft", "no memory left", {}, "memory.oom: graft: no memory left"};
        return ::new (static_cast<void*>(error_memory)) error(std::shared_ptr<const error::text>(std::shared_ptr<void>(), said));
    }();
    return *only;
}

GRAFT_INLINE GRAFT_COLD void detail::error_release::operator()(const error* e) const noexcept {
    if (e != &no_memory()) delete e;
}

GRAFT_INLINE GRAFT_COLD status detail::out_of_memory(const char* where) noexcept {
#ifndef GRAFT_NO_EXCEPTIONS
    try {
        return fail(errc::memory_oom, where, "the system has not enough memory for this");
    } catch (const std::bad_alloc&) {
    }
#else
    (void)where;
#endif
    return status::no_memory();
}

GRAFT_INLINE GRAFT_COLD status fail(errc code, std::string where, std::string detail) { return status(error(code, std::move(where), std::move(detail))); }

GRAFT_INLINE void fatal(const char* what) {
#ifdef GRAFT_FATAL
    GRAFT_FATAL(what);
#else
    std::fprintf(stderr, "graft: error: %s\n", what);
#endif
    std::abort();
}

GRAFT_INLINE GRAFT_COLD void detail::raise(const error& e) {
#ifdef GRAFT_NO_EXCEPTIONS
    fatal(e.what());
#else
    throw e;
#endif
}

GRAFT_END_NAMESPACE
#endif
