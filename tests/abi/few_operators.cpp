// The unit of an app that wants the operators of one network only.
#define GRAFT_OPS "Conv,BatchNormalization,Relu,Add,GlobalAveragePool,Flatten,Gemm"
#include <graft/graft.hpp>

const char* operators_here(const char* model) {
    if (graft::ops::find_op("", "Erf", 17)->run) return "GRAFT_OPS was not obeyed";
    if (!graft::ops::find_op("", "Conv", 17)->run) return "GRAFT_OPS left out what it names";
    return graft::load(std::string(model)).ok() ? nullptr : "the unit with few operators cannot load";
}
