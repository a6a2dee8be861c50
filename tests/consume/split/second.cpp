// Another file of the same program.
#include <graft/graft.hpp>

graft::result<graft::model> load_elsewhere(const char* path) { return graft::load(path); }
