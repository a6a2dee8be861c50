// One of two translation units that include all of graft inline: they have to link, and to share what is one per process.
#include <graft/train.hpp>

#include <cstdio>

const void* pool_of_second();
graft::result<graft::model> load_in_second(const char* path);
const graft::backend* training_of_second();

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    auto here = graft::load(std::string(argv[1])), there = load_in_second(argv[1]);
    if (!here.ok() || !there.ok()) return std::printf("%s\n", (here.ok() ? there : here).error().what()), 1;
    auto input = graft::tensor::zeros(graft::dtype::float32, {2, 3, 64, 64});
    if (!input.ok()) return 1;
    graft::session a(here.value()), b(there.value());
    auto x = a.run(input.value()), y = b.run(input.value());
    if (!x.ok() || !y.ok()) return std::printf("%s\n", (x.ok() ? y : x).error().what()), 1;
    if (x->bytes() != y->bytes() || std::memcmp(x->raw(), y->raw(), x->bytes()) != 0) return std::printf("the two units disagree\n"), 1;
    if (pool_of_second() != &graft::detail::thread_pool::instance()) return std::printf("each unit has a pool of its own\n"), 1;
    if (training_of_second() != &graft::backends::cpu_training::instance()) return std::printf("each unit has a back end of its own\n"), 1;
    std::printf("two units, one program: %s\n", graft::text(x->shape()).c_str());
    return 0;
}
