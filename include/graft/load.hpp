// graft::load for programs that name no back ends: onto the CPU.
#pragma once

#include "cpu/backend.hpp"
#include "exec/session.hpp"

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<model> load(const std::string& path, const load_options& options) { return runtime<backends::cpu>::load(path, options); }
GRAFT_INLINE result<model> load(const void* bytes, std::size_t size, const load_options& options) { return runtime<backends::cpu>::load(bytes, size, options); }
GRAFT_INLINE result<model> load(graph g, const load_options& options) { return runtime<backends::cpu>::load(std::move(g), options); }

GRAFT_END_NAMESPACE
#endif
