// graft: everything for inference. Models from ONNX files or built in code, sessions, pictures, classification.
#pragma once

#include "macros_begin.inl"

#include "classify.hpp"
#include "config.hpp"
#include "core/error.hpp"
#include "core/executor.hpp"
#include "core/limits.hpp"
#include "cpu/isa.hpp"
#include "data/decode.hpp"
#include "data/image.hpp"
#include "data/png_encode.hpp"
#include "data/preprocess.hpp"
#include "data/resize.hpp"
#include "data/to_image.hpp"
#include "cpu/backend.hpp"
#include "exec/packed_weights.hpp"
#include "exec/session.hpp"
#include "exec/session_pool.hpp"
#include "graph/batch_carrier.hpp"
#include "graph/builder.hpp"
#include "graph/dump.hpp"
#include "graph/graph.hpp"
#include "io/npy.hpp"
#include "io/onnx_read.hpp"
#include "io/onnx_write.hpp"
#include "io/safetensors.hpp"
#include "load.hpp"
#include "ops/ops.hpp"
#include "tensor/convert.hpp"
#include "tensor/print.hpp"
#include "tensor/tensor.hpp"

GRAFT_BEGIN_NAMESPACE

/// The version of these headers, "major.minor.patch". Static storage.
constexpr const char* version() noexcept {
#define GRAFT_TEXT_OF(x) #x
#define GRAFT_TEXT(x) GRAFT_TEXT_OF(x)
    return GRAFT_TEXT(GRAFT_VERSION_MAJOR) "." GRAFT_TEXT(GRAFT_VERSION_MINOR) "." GRAFT_TEXT(GRAFT_VERSION_PATCH);
#undef GRAFT_TEXT
#undef GRAFT_TEXT_OF
}

GRAFT_END_NAMESPACE

#include "macros_end.inl"
