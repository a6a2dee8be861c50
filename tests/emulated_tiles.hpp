// Vectors in place of a machine's tiles, for the life of a value: builds with tests have them (GRAFT_EMULATED_AMX).
#pragma once

#include <cstdlib>

struct emulated_tiles {
    explicit emulated_tiles(bool on = true) {
        if (on) setenv("GRAFT_EMULATED_AMX", "1", 1);
    }
    ~emulated_tiles() { unsetenv("GRAFT_EMULATED_AMX"); }
    emulated_tiles(const emulated_tiles&) = delete;
    emulated_tiles& operator=(const emulated_tiles&) = delete;
};
