// graft with training: everything of graft.hpp, and what turns a folder of pictures and a model into a better model.
#pragma once

#include "graft.hpp"
#include "data/check.hpp"
#include "ops/gradients.hpp"
#include "passes/differentiate.hpp"
#include "train/architectures.hpp"
#include "train/grad_cam.hpp"
#include "train/heat_map.hpp"
#include "train/report.hpp"
#include "train/search.hpp"
#include "train/trainer.hpp"
