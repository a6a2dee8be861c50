// Declares the options of finetune and train.
#pragma once

#include "program.hpp"

namespace CLI {
class App;
class Validator;
}

namespace program {

/// Adds them to a verb; `options.from_scratch` says which of the two it is.
void declare_training(CLI::App& verb, training_options& options);

/// For --batch: a number from 1 on, or auto, which becomes batch_auto.
CLI::Validator batch_or_auto();

/// One of some words, with a guess which was meant.
CLI::Validator one_of(const std::vector<std::string>& words);

/// For --arch: one of graft::architecture_names().
CLI::Validator architecture();

} // namespace program
