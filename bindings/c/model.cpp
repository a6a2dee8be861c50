// graft_model: loading, and what a model says of itself.
#include "options.hpp"

namespace bindings {
namespace {

// Loads with `read`, which is given the options of the library.
template <class Read>
graft_model* load(const graft_options* options, graft_error** error, const Read& read) noexcept {
    return made<graft_model>(error, [&](std::unique_ptr<graft_model>& handle) -> graft::status {
        load_choice choice;
        GRAFT_TRY(take(options, load_rows(choice)));
        choice.load.threads = choice.threads;
        handle = std::make_unique<graft_model>();
        handle->threads = choice.threads;
        GRAFT_TRY_ASSIGN(handle->model, read(choice.load));
        for (const graft::value_info& v : handle->model.inputs()) handle->inputs.push_back({v});
        for (const graft::value_info& v : handle->model.outputs()) handle->outputs.push_back({v});
        return {};
    });
}

const std::pair<std::string, std::string>* property(const graft_model* model, std::size_t index) noexcept {
    return model ? at(model->model.graph().metadata, index) : nullptr;
}

}  // namespace
}  // namespace bindings

extern "C" {

graft_model* graft_model_load(const char* path, const graft_options* options, graft_error** error) {
    return bindings::load(options, error, [&](const graft::load_options& how) -> graft::result<graft::model> {
        GRAFT_TRY(bindings::wanted(path, "path"));
        return bindings::engine::load(path, how);
    });
}
graft_model* graft_model_load_bytes(const void* bytes, size_t size, const graft_options* options, graft_error** error) {
    return bindings::load(options, error, [&](const graft::load_options& how) -> graft::result<graft::model> {
        GRAFT_TRY(bindings::wanted(bytes, "bytes"));
        return bindings::engine::load(bytes, size, how);
    });
}
void graft_model_free(graft_model* model) { delete model; }

size_t graft_model_input_count(const graft_model* model) { return model ? model->inputs.size() : 0; }
size_t graft_model_output_count(const graft_model* model) { return model ? model->outputs.size() : 0; }
const graft_value* graft_model_input(const graft_model* model, size_t index) { return model ? bindings::at(model->inputs, index) : nullptr; }
const graft_value* graft_model_output(const graft_model* model, size_t index) { return model ? bindings::at(model->outputs, index) : nullptr; }
size_t graft_model_metadata_count(const graft_model* model) { return model ? model->model.graph().metadata.size() : 0; }
const char* graft_model_metadata_key(const graft_model* model, size_t index) {
    const auto* found = bindings::property(model, index);
    return found ? found->first.c_str() : nullptr;
}
const char* graft_model_metadata_value(const graft_model* model, size_t index) {
    const auto* found = bindings::property(model, index);
    return found ? found->second.c_str() : nullptr;
}
const char* graft_model_device(const graft_model* model) { return model ? model->model.device() : ""; }

const char* graft_value_name(const graft_value* value) { return value ? value->info.name.c_str() : ""; }
graft_dtype graft_value_dtype(const graft_value* value) { return value ? static_cast<graft_dtype>(value->info.type) : GRAFT_UNDEFINED; }
int graft_value_rank(const graft_value* value) { return value && value->info.has_shape ? value->info.extents.rank() : -1; }
int64_t graft_value_extent(const graft_value* value, int axis) {
    return axis >= 0 && axis < graft_value_rank(value) ? value->info.extents[axis] : graft::shape::unknown;
}
const char* graft_value_dimension(const graft_value* value, int axis) {
    const std::string* name = value && axis >= 0 ? bindings::at(value->info.dimensions, static_cast<std::size_t>(axis)) : nullptr;
    return name ? name->c_str() : "";
}
int graft_value_has_default(const graft_value* value) { return value && value->info.has_default; }
}
