// The text of a header that holds a network.
#pragma once

#include "embedded_network.hpp"

#include <cstddef>
#include <functional>
#include <string>

namespace program {

/// Whether C++ takes this for a namespace, which may be one in others: "shop::flowers".
bool is_namespace(const std::string& name);
/// A namespace by the name of a file: "flowers" of "out/flowers.hpp", "model_3d" of "3d.hpp", "class_" of "class.hpp".
std::string namespace_of(const std::string& path);

/// Bytes as literals of C++, a line each, which mean the same to every compiler: printable ASCII, all else in octal.
std::string literals(const char* bytes, std::size_t size);

/// How a header is made and called.
struct header_names {
    std::string file, model, name_space, output;  ///< file and model: without their folders; output: of --output
};
/// The header, handed out in pieces.
graft::status header_text(const embedded_network& network, const header_names& names, const std::function<graft::status(const std::string&)>& write);

}  // namespace program
