// The other translation unit: the same headers, in the same inline way, behind the declarations of all names.
#include <graft/fwd.hpp>
#include <graft/train.hpp>

const void* pool_of_second() { return &graft::detail::thread_pool::instance(); }

graft::result<graft::model> load_in_second(const char* path) { return graft::load(std::string(path)); }

const graft::backend* training_of_second() { return &graft::backends::cpu_training::instance(); }
