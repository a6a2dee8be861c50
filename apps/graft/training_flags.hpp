// Declares the options of finetune and train.
#pragma once

#include "program.hpp"

namespace CLI {
class App;
}

namespace program {

/// Adds them to a verb; `options.from_scratch` says which of the two it is.
void declare_training(CLI::App& verb, training_options& options);

} // namespace program
