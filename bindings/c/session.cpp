// graft_session and graft_tensor: runs on the caller's memory.
#include "options.hpp"

#include <cstdint>

namespace bindings {
namespace {

// What the kernels read an element by. Types of a byte and less need none.
bool is_aligned(const void* data, graft::dtype type) noexcept { return reinterpret_cast<std::uintptr_t>(data) % graft::size_of(type) == 0; }

// The caller's memory as a tensor, when it is as large as its shape and type say.
graft::result<graft::tensor> borrowed(graft_dtype dtype, const std::int64_t* shape, int rank, const void* data, std::size_t bytes, const char* name) {
    const graft::dtype type = type_of(dtype);
    if (!graft::size_of(type)) return graft::fail(graft::errc::tensor_dtype, name, "no tensor has elements of the type " + std::to_string(dtype));
    if (rank < 0 || rank > graft::shape::max_rank)
        return graft::fail(graft::errc::tensor_shape, name,
                           "it has " + std::to_string(rank) + " axes; there may be 0 to " + std::to_string(graft::shape::max_rank));
    if (rank > 0) GRAFT_TRY(wanted(shape, "shape"));
    for (int i = 0; i < rank; ++i)
        if (shape[i] < 0) return graft::fail(graft::errc::tensor_shape, name, "extent " + std::to_string(i) + " is " + std::to_string(shape[i]));
    const graft::shape extents = graft::shape::from(shape, shape + rank);
    const std::int64_t needed = graft::bytes_of(type, extents);
    if (needed < 0) return graft::fail(graft::errc::tensor_overflow, name, "the size of " + graft::text(extents) + " overflows");
    if (static_cast<std::uint64_t>(needed) != bytes)
        return graft::fail(graft::errc::tensor_bytes, name,
                           std::string(graft::name(type)) + " " + graft::text(extents) + " takes " + std::to_string(needed) + " bytes, and " +
                               std::to_string(bytes) + " are given");
    if (bytes) GRAFT_TRY(wanted(data, name));
    if (!is_aligned(data, type))
        return graft::fail(graft::errc::usage, name,
                           std::string("its memory is not aligned to the ") + std::to_string(graft::size_of(type)) + " bytes of a " + graft::name(type));
    return graft::tensor(type, extents, graft::buffer::borrow(data, bytes));
}

}  // namespace
}  // namespace bindings

extern "C" {

graft_session* graft_session_new(const graft_model* model, const graft_options* options, graft_error** error) {
    return bindings::made<graft_session>(error, [&](std::unique_ptr<graft_session>& handle) -> graft::status {
        GRAFT_TRY(bindings::wanted(model, "model"));
        int threads = model->threads;
        GRAFT_TRY(bindings::take(options, {bindings::option("threads", threads, 0, bindings::most_threads)}));
        handle = std::make_unique<graft_session>(model->model, threads);
        return {};
    });
}
void graft_session_free(graft_session* session) { delete session; }

graft_return_code graft_session_set_input(graft_session* session, size_t index, graft_dtype dtype, const int64_t* shape, int rank, const void* data,
                                          size_t bytes, graft_error** error) {
    return bindings::done(error, [&]() -> graft::status {
        GRAFT_TRY(bindings::wanted(session, "session"));
        const std::string name = "input " + std::to_string(index);
        graft::tensor value;
        GRAFT_TRY_ASSIGN(value, bindings::borrowed(dtype, shape, rank, data, bytes, name.c_str()));
        return session->session.set_input(index, value);
    });
}
graft_return_code graft_session_run(graft_session* session, graft_error** error) {
    return bindings::done(error, [&]() -> graft::status {
        GRAFT_TRY(bindings::wanted(session, "session"));
        // Let go of, so that their memory serves again.
        for (graft_tensor& t : session->outputs) t.value = graft::tensor();
        session->ran = false;
        const graft::status ended = session->session.run();
        // The caller's memory may go now.
        for (std::size_t i = 0; i < session->inputs; ++i) GRAFT_TRY(session->session.set_input(i, graft::tensor()));
        if (!ended.ok()) return ended.error();
        for (std::size_t i = 0; i < session->outputs.size(); ++i) session->outputs[i].value = session->session.output(i);
        session->ran = true;
        return {};
    });
}
const graft_tensor* graft_session_output(const graft_session* session, size_t index) {
    return session && session->ran ? bindings::at(session->outputs, index) : nullptr;
}

graft_dtype graft_tensor_dtype(const graft_tensor* tensor) { return tensor ? static_cast<graft_dtype>(tensor->value.type()) : GRAFT_UNDEFINED; }
int graft_tensor_rank(const graft_tensor* tensor) { return tensor ? tensor->value.shape().rank() : 0; }
const int64_t* graft_tensor_shape(const graft_tensor* tensor) { return tensor ? tensor->value.shape().begin() : nullptr; }
void* graft_tensor_data(const graft_tensor* tensor) { return tensor ? tensor->value.raw() : nullptr; }
size_t graft_tensor_bytes(const graft_tensor* tensor) { return tensor ? tensor->value.bytes() : 0; }
graft_tensor* graft_tensor_share(const graft_tensor* tensor, graft_error** error) {
    return bindings::made<graft_tensor>(error, [&](std::unique_ptr<graft_tensor>& handle) -> graft::status {
        GRAFT_TRY(bindings::wanted(tensor, "tensor"));
        handle = std::make_unique<graft_tensor>(*tensor);
        return {};
    });
}
void graft_tensor_free(graft_tensor* tensor) { delete tensor; }
}
