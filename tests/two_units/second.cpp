// The other translation unit: the same headers, in the same inline way.
#include <graft/graft.hpp>

const void* pool_of_second() { return &graft::detail::thread_pool::instance(); }

graft::result<graft::model> load_in_second(const char* path) { return graft::load(std::string(path)); }
