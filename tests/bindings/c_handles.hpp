// Handles of graft.h that free themselves, for tests.
#pragma once

#include <graft.h>

#include <doctest/doctest.h>

#include <memory>
#include <string>

template <auto Free>
struct freed_by {
    template <class T>
    void operator()(T* handle) const {
        Free(handle);
    }
};
using model_handle = std::unique_ptr<graft_model, freed_by<graft_model_free>>;
using session_handle = std::unique_ptr<graft_session, freed_by<graft_session_free>>;
using tensor_handle = std::unique_ptr<graft_tensor, freed_by<graft_tensor_free>>;
using options_handle = std::unique_ptr<graft_options, freed_by<graft_options_free>>;
using picture_handle = std::unique_ptr<graft_picture, freed_by<graft_picture_free>>;
using classifier_handle = std::unique_ptr<graft_classifier, freed_by<graft_classifier_free>>;
using predictions_handle = std::unique_ptr<graft_predictions, freed_by<graft_predictions_free>>;

/// The error of the last call that was given `out()`.
class failure {
public:
    failure() = default;
    failure(const failure&) = delete;
    failure& operator=(const failure&) = delete;
    ~failure() { graft_error_free(error_); }
    graft_error** out() {
        graft_error_free(error_);
        error_ = nullptr;
        return &error_;
    }
    std::string code() const { return graft_error_code(error_); }
    std::string where() const { return graft_error_where(error_); }
    std::string detail() const { return graft_error_detail(error_); }
    std::string message() const { return graft_error_message(error_); }

private:
    graft_error* error_ = nullptr;
};

inline std::string demo_file(const char* name) { return std::string(GRAFT_SOURCE_DIR "/apps/graft/demo/") + name; }

/// Options with one name and value.
inline options_handle options_of(const char* name, const char* value) {
    options_handle options(graft_options_new());
    REQUIRE(graft_options_set(options.get(), name, value, nullptr) == GRAFT_OK);
    return options;
}
inline options_handle on_cpu() { return options_of("device", "cpu"); }
