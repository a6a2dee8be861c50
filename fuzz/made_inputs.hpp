// Inputs for models that were loaded from any file: made from the declared types and shapes, small, and the same for the same model.
#pragma once

#include <graft/graft.hpp>

#include <cstdint>
#include <vector>

namespace fuzz {

/// Values that a model might be given, and a few that it might not expect.
inline void fill(graft::tensor& t, std::uint64_t seed) {
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double v = static_cast<double>(seed >> 40) / (1 << 22) - 2;  // [-2, 2)
        if (!graft::is_float(t.type())) v = static_cast<double>((seed >> 40) % 5) - (graft::is_unsigned(t.type()) || t.type() == graft::dtype::boolean ? 0 : 1);
        if (t.type() == graft::dtype::boolean) v = v > 1;
        graft::store_from_double(t.type(), t.raw(), i, 1, &v);
    }
}

/// One tensor an input; empty ones for inputs with a default. False where an input is larger than `most` elements or of a type that cannot be made.
inline bool make_inputs(const std::vector<graft::value_info>& infos, std::uint64_t seed, std::int64_t open, std::int64_t most,
                        std::vector<graft::tensor>& out) {
    for (const graft::value_info& info : infos) {
        out.emplace_back();
        if (info.has_default) continue;
        graft::shape extents = info.extents;
        std::int64_t elements = 1;
        for (int d = 0; d < extents.rank(); ++d) {
            if (extents[d] < 0) extents[d] = open;
            elements = extents[d] && elements > most / extents[d] ? most + 1 : elements * extents[d];
            if (elements > most) return false;
        }
        auto made = graft::tensor::make(info.type, extents);
        if (!made.ok()) return false;
        out.back() = std::move(made).value();
        fill(out.back(), seed + out.size());
    }
    return true;
}

}  // namespace fuzz
