// What stands behind the handles of graft.h, and how failures become a graft_error.
#pragma once

#include "graft.h"

#include <graft/classify.hpp>
#include <graft/gpu.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

struct graft_error {
    graft::error said;
};
struct graft_options {
    std::vector<std::pair<std::string, std::string>> given;
};
struct graft_value {
    graft::value_info info;
};
struct graft_model {
    graft::model model;
    std::vector<graft_value> inputs, outputs;
    int threads = 0;  // of its sessions
};
struct graft_tensor {
    graft::tensor value;
};
struct graft_session {
    graft_session(const graft::model& m, int threads) : session(m, {threads, nullptr}), inputs(m.inputs().size()), outputs(m.outputs().size()) {}
    graft::session session;
    std::size_t inputs;
    std::vector<graft_tensor> outputs;  // without memory where there was no run
    bool ran = false;
};
struct graft_picture {
    graft::image image;
};
struct graft_classifier {
    graft_classifier(graft::classifier made, int with) : classifier(std::move(made)), preprocess(graft::text(classifier.preprocessing().spec)), threads(with) {}
    graft::classifier classifier;
    std::string preprocess;
    int threads;  // of its runs
};
struct graft_predictions {
    std::vector<std::vector<graft::prediction>> pictures;
};

namespace bindings {

/// The back ends of the library: a GPU where one can be used, else the CPU.
using engine = graft::runtime<graft::backends::cuda, graft::backends::cpu>;

/// Hands a failure to the caller, who may not want it, and says how the function ended.
graft_return_code report(const graft::status& ended, graft_error** error) noexcept;

/// body(), or what it threw as a status: nothing leaves a function of C.
template <class Body>
graft::status caught(const Body& body) noexcept {
#ifdef GRAFT_NO_EXCEPTIONS
    return body();
#else
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return graft::status::no_memory();
    } catch (const graft::error& e) {
        return graft::detail::or_out_of_memory<graft::status>("graft", [&] { return graft::status(e); });
    } catch (const std::exception& e) {
        return graft::detail::or_out_of_memory<graft::status>("graft", [&] { return graft::fail(graft::errc::internal, "graft", e.what()); });
    } catch (...) {
        return graft::detail::or_out_of_memory<graft::status>("graft", [&] { return graft::fail(graft::errc::internal, "graft", "an unknown exception"); });
    }
#endif
}

/// Runs what a function of C does.
template <class Body>
graft_return_code done(graft_error** error, const Body& body) noexcept {
    return report(caught(body), error);
}

/// The same of a function that makes a handle: `body` is given where it goes.
template <class Handle, class Body>
Handle* made(graft_error** error, const Body& body) noexcept {
    std::unique_ptr<Handle> handle;
    return report(caught([&] { return body(handle); }), error) == GRAFT_OK ? handle.release() : nullptr;
}

/// Refuses NULL for what has to be there, in words.
inline graft::status wanted(const void* given, const char* what) {
    return given ? graft::status() : graft::fail(graft::errc::usage, what, "it has to be given, and is NULL");
}

/// The library's element type of a number, undefined for one that is none.
inline graft::dtype type_of(graft_dtype number) noexcept {
    return number >= GRAFT_UNDEFINED && number <= GRAFT_INT2 ? static_cast<graft::dtype>(number) : graft::dtype::undefined;
}

/// Refuses a structure for results whose size its caller has not set.
template <class T>
graft::status check_size(const T& result, const char* type) {
    return result.size >= sizeof result.size ? graft::status()
                                             : graft::fail(graft::errc::usage, "result", std::string("its size has to be set, to sizeof(") + type + ")");
}
/// Fills as much of it as its caller knows.
template <class T>
void hand_out(T all, T& result) noexcept {
    all.size = result.size;
    std::memcpy(&result, &all, std::min(result.size, sizeof all));
}

/// Element `index` of a list that a handle holds; null where there is none.
template <class T>
const T* at(const std::vector<T>& list, std::size_t index) noexcept {
    return index < list.size() ? &list[index] : nullptr;
}

}  // namespace bindings
