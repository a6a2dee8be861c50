// A program of translation units that include graft with different settings: each must get its own graft.
#include <graft/graft.hpp>

#include <cstdio>
#include <cstring>

const char* operators_here(const char* model);   // few_operators.cpp
const char* exceptions_here(const char* model);  // no_exceptions.cpp

int main(int count, char** arguments) {
    if (count < 2) return 2;
    // The plain unit has every operator and throws.
    if (!graft::ops::find_op("", "Erf", 17)->run) return std::printf("the plain unit lost operators\n"), 1;
    bool thrown = false;
    try {
        graft::model missing = graft::load(std::string("no such file"));
    } catch (const graft::error& e) {
        thrown = e.code() == graft::errc::file_open;
    }
    if (!thrown) return std::printf("the plain unit does not throw\n"), 1;
    if (!graft::load(std::string(arguments[1])).ok()) return std::printf("the plain unit cannot load\n"), 1;
    for (const char* fault : {operators_here(arguments[1]), exceptions_here(arguments[1])})
        if (fault) return std::printf("%s\n", fault), 1;
    std::printf("units with different settings, one program\n");
}
