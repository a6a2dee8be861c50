// Every generated kernel through the real NVRTC, for the architectures that graft supports: no GPU is needed to compile.
#include "fused.hpp"
#include "table_problems.hpp"

TEST_CASE("NVRTC compiles the kernels of the op table's problems without a warning") {
    std::vector<std::string> refusals;
    generated::expect_compiled(generated::table_examples(refusals));
}

TEST_CASE("NVRTC compiles chains that were fused at random without a warning") { generated::expect_compiled(generated::fused_examples(60, 11)); }
