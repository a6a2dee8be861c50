// System calls of this program that fail when a test wants them to. What the C library calls by itself goes its own way.
#pragma once

namespace shim {

/// What happens to a call that is chosen.
enum class fault {
    io,           ///< EIO, by every call
    no_space,     ///< ENOSPC, by those that write, make or sync
    no_files,     ///< EMFILE, by those that open
    interrupted,  ///< EINTR, by those that a signal may interrupt
    pieces,       ///< no failure: half of what was asked for, by those that read and write
};

/// From now on the n-th call of this kind fails, and with `for_good` all behind it.
void arm(fault kind, long n, bool for_good) noexcept;
/// Whether files can be mapped at all, armed or not: where they cannot, they are read.
void map_files(bool can) noexcept;
/// From now on openat2 fails so, armed or not, as on systems that do not know it or forbid it; 0: it works again.
void refuse_openat2(int error) noexcept;
/// No call fails any more.
void disarm() noexcept;
/// How many calls of the kind there were since `arm`, and the name of the last that failed.
long calls() noexcept;
const char* last() noexcept;

}  // namespace shim
