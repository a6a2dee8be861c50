// What every consumer project builds: names pictures and checks that each gets the class that its file is named after.
//   classify MODEL PICTURE...     a picture is called <class>-<anything>
#include <graft/graft.hpp>

#include <cstdio>
#include <string>

int main(int count, char** arguments) {
    if (count < 3) return std::fprintf(stderr, "usage: %s MODEL PICTURE...\n", arguments[0]), 2;
    auto loaded = graft::classifier::load(arguments[1]);
    if (!loaded.ok()) return std::fprintf(stderr, "%s\n", loaded.error().what()), 1;
    graft::classifier& named = loaded.value();
    auto isa = graft::cpu::active_isa();
    if (!isa.ok()) return std::fprintf(stderr, "%s\n", isa.error().what()), 1;

    int right = 0;
    for (int i = 2; i < count; ++i) {
        const std::string path = arguments[i], file = path.substr(path.find_last_of("/\\") + 1);
        auto top = named.classify(path, 1);
        if (!top.ok()) return std::fprintf(stderr, "%s\n", top.error().what()), 1;
        const graft::prediction& best = top.value()[0];
        if (best.label == file.substr(0, file.find('-')))
            ++right;
        else
            std::fprintf(stderr, "%s was named %s (%.3f)\n", file.c_str(), best.label.c_str(), best.probability);
    }
    std::printf("graft %s, %s: %d of %d pictures named right\n", graft::version(), graft::cpu::name(isa.value()), right, count - 2);
    return right == count - 2 ? 0 : 1;
}
