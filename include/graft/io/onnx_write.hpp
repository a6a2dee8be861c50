#pragma once
#include "../graph/graph.hpp"
GRAFT_BEGIN_NAMESPACE
inline status write_onnx_file(const graph&, const std::string& path) { return fail(errc::file_write, path, "not yet"); }
GRAFT_END_NAMESPACE
