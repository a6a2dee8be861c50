// A file of weights in the form that kernels want them: the next process maps it instead of making them again.
#pragma once

#include "session.hpp"

#include <cstdint>
#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// Packed weights of a network in a file, which processes that run it share: they are mapped, not read. The first process writes it when its first plan
/// is made, as a whole or not at all. Weights are known by what they contain, forms by instruction set, algorithm and version of graft, so a file never
/// gives wrong ones: what it lacks is made, and written beside what the network still has. Checksums are against accidents, not attackers: open
/// files of those that you would load a model from. Not for several networks at a time, which would take turns in writing it; for all sessions of one.
///
///     graft::load_options options;
///     options.packed = graft::open_packed_weights("resnet50.packed").value();
///     auto model = graft::load("resnet50.onnx", options);
///
/// Opens the file, which need not exist. `warn` (or null) is told where it cannot be written or is damaged: it is done without then. Errors:
/// file.open (what has the name cannot be read, or is something else, which is not written over).
result<std::shared_ptr<const packed_store>> open_packed_weights(const std::string& path, void (*warn)(const char* text) = warn_on_stderr);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../lower/packed_file.hpp"

#include <utility>
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<std::shared_ptr<const packed_store>> open_packed_weights(const std::string& path, void (*warn)(const char*)) GRAFT_MEMORY_TRY {
    const auto file = std::make_shared<detail::packed_file>(path, warn);
    GRAFT_TRY(file->open());
    auto store = std::make_shared<packed_store>();
    // Lambdas all of them, as the type of a function that std::function holds is a symbol outside of graft's names.
    store->number_of = [](const void* bytes, std::size_t size, executor& pool) { return detail::packed_file::number_of(bytes, size, pool); };
    store->find = [file](std::uint64_t constant, std::uint64_t form, std::size_t bytes, executor& pool) { return file->find(constant, form, bytes, pool); };
    store->add = [file](std::uint64_t constant, std::uint64_t form, const buffer& packed) { file->add(constant, form, packed); };
    store->keep = [file](executor& pool) { file->keep(pool); };
    return std::shared_ptr<const packed_store>(std::move(store));
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#endif
