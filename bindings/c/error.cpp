// graft_error, and what the library says of itself.
#include "handles.hpp"

#include <cstring>

namespace bindings {
namespace {

// For where there is no memory for an error.
graft_error& no_memory() noexcept {
    static graft_error none{graft::detail::no_memory()};
    return none;
}

bool is_usage(const graft::error& e) noexcept { return std::strncmp(graft::text(e.code()), "usage", 5) == 0; }

}  // namespace

graft_return_code report(const graft::status& ended, graft_error** error) noexcept {
    if (error) *error = nullptr;
    if (ended.ok()) return GRAFT_OK;
    if (error) {
        *error = new (std::nothrow) graft_error{ended.error()};
        if (!*error) *error = &no_memory();
    }
    return is_usage(ended.error()) ? GRAFT_USAGE : GRAFT_FAILED;
}

}  // namespace bindings

extern "C" {

int graft_abi_version(void) { return GRAFT_ABI_VERSION; }
const char* graft_version(void) { return graft::version(); }

const char* graft_error_code(const graft_error* error) { return error ? graft::text(error->said.code()) : ""; }
const char* graft_error_where(const graft_error* error) { return error ? error->said.where().c_str() : ""; }
const char* graft_error_detail(const graft_error* error) { return error ? error->said.detail().c_str() : ""; }
const char* graft_error_message(const graft_error* error) { return error ? error->said.what() : ""; }
void graft_error_free(graft_error* error) {
    if (error != &bindings::no_memory()) delete error;
}

const char* graft_dtype_name(graft_dtype dtype) { return graft::name(bindings::type_of(dtype)); }
size_t graft_dtype_size(graft_dtype dtype) { return graft::size_of(bindings::type_of(dtype)); }
}
