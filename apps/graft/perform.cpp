// What main does with a verb once its options are read.
#include "verb.hpp"

namespace program {

graft::result<int> perform(const action& what, common_options common) {
    if (!common.packed_file.empty())
        GRAFT_TRY_ASSIGN(common.packed, graft::open_packed_weights(common.packed_file, common.quiet ? nullptr : graft::warn_on_stderr));
    return what(common);
}

}  // namespace program
