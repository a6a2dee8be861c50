// Every public name, declared and not defined: costs nothing to include.
#pragma once

#include "config.hpp"

#include <cstddef>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE

// Errors and limits.
enum class errc : unsigned char;
class error;
class status;
template <class T>
class result;
struct limits;

// Tensors.
enum class dtype : std::uint8_t;
struct float16;
struct bfloat16;
class shape;
class buffer;
class tensor;

// Random numbers and threads.
class random_stream;
class executor;
class pool_executor;

// Graphs and operators.
struct attribute;
struct capture;
struct graph;
struct node;
struct opset;
struct value;
struct op_row;
struct op_table;
struct tensor_view;
struct backend;
struct placement;
using value_id = std::int32_t;
class builder;
struct dimension;
struct conv2d_options;
struct linear_options;
struct batch_norm_options;
struct pool_options;

// Models and sessions.
class model;
class session;
struct load_options;
struct session_options;
struct value_info;
struct named_tensor;
template <class... Backends>
struct runtime;
namespace backends {
struct cpu;
}
namespace cpu {
enum class isa : std::uint8_t;
}

// Files.
class json_reader;
class json_writer;
struct json;
class mapped_file;
class atomic_file;
struct safetensors;
struct safetensors_entry;

// Pictures.
enum class filter : std::uint8_t;
struct image;
struct preprocess_spec;
struct input_format;

// Classification.
class classifier;
struct classifier_options;
struct prediction;
struct preprocess_choice;
enum class preprocess_source : std::uint8_t;

GRAFT_END_NAMESPACE
