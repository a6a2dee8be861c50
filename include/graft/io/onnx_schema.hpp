// Field numbers of onnx.proto, and the numbers of its enumerations, as far as graft reads or writes them.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace onnx_schema {

/// The IR versions that can be loaded.
constexpr std::int64_t oldest_ir = 3, newest_ir = 14;

struct model {
    enum : std::uint32_t {
        ir_version = 1,
        producer_name = 2,
        producer_version = 3,
        domain = 4,
        model_version = 5,
        doc_string = 6,
        graph = 7,
        opset_import = 8,
        metadata_props = 14,
        functions = 25
    };
};
struct operator_set {
    enum : std::uint32_t { domain = 1, version = 2 };
};
struct entry {
    enum : std::uint32_t { key = 1, value = 2 };
};
struct graph {
    enum : std::uint32_t { node = 1, name = 2, initializer = 5, doc_string = 10, input = 11, output = 12, value_info = 13, sparse_initializer = 15 };
};
struct node {
    enum : std::uint32_t { input = 1, output = 2, name = 3, op_type = 4, attribute = 5, domain = 7, overload = 8 };
};
struct attribute {
    enum : std::uint32_t {
        name = 1,
        f = 2,
        i = 3,
        s = 4,
        t = 5,
        g = 6,
        floats = 7,
        ints = 8,
        strings = 9,
        tensors = 10,
        graphs = 11,
        tp = 14,
        type_protos = 15,
        type = 20,
        ref_attr_name = 21,
        sparse_tensor = 22,
        sparse_tensors = 23
    };
    // Values of `type`.
    enum : std::int64_t { is_float = 1, is_int, is_string, is_tensor, is_graph, is_floats, is_ints, is_strings };
};
struct tensor {
    enum : std::uint32_t {
        dims = 1,
        data_type = 2,
        segment = 3,
        float_data = 4,
        int32_data = 5,
        string_data = 6,
        int64_data = 7,
        name = 8,
        raw_data = 9,
        double_data = 10,
        uint64_data = 11,
        external_data = 13,
        data_location = 14
    };
};
struct value_info {
    enum : std::uint32_t { name = 1, type = 2 };
};
struct type {
    enum : std::uint32_t { tensor = 1, sequence = 4, map = 5, opaque = 7, sparse_tensor = 8, optional = 9 };
};
struct tensor_type {
    enum : std::uint32_t { elem_type = 1, shape = 2 };
};
struct tensor_shape {
    enum : std::uint32_t { dim = 1 };
};
struct dimension {
    enum : std::uint32_t { value = 1, param = 2 };
};
struct function {
    enum : std::uint32_t { name = 1, input = 4, output = 5, attribute = 6, node = 7, opset_import = 9, domain = 10, attribute_proto = 11, overload = 13 };
};

}  // namespace onnx_schema
GRAFT_END_NAMESPACE
