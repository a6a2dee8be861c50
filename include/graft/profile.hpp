// graft with profiles: everything of graft.hpp, where the time of recorded runs went, and how near that is to what the machine can do.
#pragma once

#include "macros_begin.inl"

#include "graft.hpp"
#include "core/profile.hpp"
#include "cpu/peak.hpp"

GRAFT_BEGIN_NAMESPACE

/// How fast a row of a profile was, and by the roofline model what holds it: it can be no faster than min(peak, FLOP a byte x bandwidth).
struct roofline {
    double flop_per_second = 0, bytes_per_second = 0;  ///< that were reached
    double peak_share = 0, bandwidth_share = 0;        ///< of what was measured of the machine; above 1 where an algorithm takes fewer FLOP than are
                                                       ///< counted (Winograd's), or where values lie in caches
    bool memory_binds = true;                          ///< bandwidth is the lower limit of the two
    double limit_share = 0;                            ///< of the lower limit: the share that belongs to it
};

/// Holds a row against a machine. All is 0 where the row took no time or the machine was not measured.
inline roofline roofline_of(const profile_row& row, const cpu::machine_peak& machine) noexcept {
    roofline r;
    const double flop = 2.0 * static_cast<double>(row.multiply_adds), bytes = static_cast<double>(row.bytes);
    if (!(row.seconds > 0) || !(machine.flop_per_second > 0) || !(machine.read_per_second > 0)) return r;
    r.flop_per_second = flop / row.seconds;
    r.bytes_per_second = bytes / row.seconds;
    r.peak_share = r.flop_per_second / machine.flop_per_second;
    r.bandwidth_share = r.bytes_per_second / machine.read_per_second;
    r.memory_binds = flop * machine.read_per_second < bytes * machine.flop_per_second;
    r.limit_share = r.memory_binds ? r.bandwidth_share : r.peak_share;
    return r;
}

GRAFT_END_NAMESPACE

#include "macros_end.inl"
