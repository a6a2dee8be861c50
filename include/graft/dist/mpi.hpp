// The members of a run as processes of MPI. Needs <mpi.h>, and a program that is linked with MPI: no other header of graft includes this one.
#pragma once

#include "mpi_communicator.hpp"

#include <cstdlib>
#include <memory>

GRAFT_BEGIN_NAMESPACE

/// How processes work together.
struct mpi_options {
    double timeout_seconds = 60;  ///< how long a call waits for a process that gives no sign; a call that gets on may take longer
};

/// The processes that `mpirun` started, as members. Each process calls it equally often, in the same order, on one thread at a time: each call
/// gives a communicator of its own, which another thread may use at the same time where MPI grants MPI_THREAD_MULTIPLE or _SERIALIZED. The first
/// call initialises MPI where nobody did; then the last communicator finalises it when it goes, once all processes have come to that, but not
/// after an error: MPI would wait for ever. Ends with dist.timeout where processes do not come, dist.peer_lost with MPI's text.
/// The arrays of a call that failed may still be read by others until the process ends. What members start goes on beside their other calls
/// (communicator::overlaps) where MPI grants one of those two to all processes.
result<std::shared_ptr<communicator>> join_mpi(const mpi_options& options = {});

/// Ends all processes of the run at once, with this code (of this process alone where MPI is not up): what a program does after an error.
[[noreturn]] inline void abort_mpi(int code) noexcept {
    int begun = 0, over = 0;
    if (MPI_Initialized(&begun) == MPI_SUCCESS && begun && MPI_Finalized(&over) == MPI_SUCCESS && !over) MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
}

/// Whether all processes have said that they are done, so that nothing but MPI's own end is left: of MPICH 4.0.2 over UCX MPI_Finalize now and then
/// does not come back on a busy machine, though it has nothing more to do. After some seconds a program may end by std::_Exit then.
inline bool mpi_is_ending() noexcept { return detail::mpi_process::here().ending; }

namespace detail {

// The end of a communicator. Others may still wait for what it says, or be about to say so themselves, so it stays until the last one has gone.
inline void mpi_release(mpi_communicator* one) noexcept {
    mpi_process& process = mpi_process::here();
    const std::lock_guard<std::mutex> guard(process.joining);
    one->say_goodbye();
    process.gone.push_back(one);
    if (--process.owners > 0) return;
    for (mpi_communicator* each : process.gone)
        if (process.failed || !each->part()) process.failed = true;
    // MPI may still read and write the memory of what failed.
    if (process.failed) return;
    for (mpi_communicator* each : process.gone) delete each;
    process.gone.clear();
    if (!process.ours) return;
    process.ending = true;
    MPI_Finalize();
}

inline status mpi_begin(mpi_process& process) {
    int begun = 0, over = 0, level = 0;
    MPI_Initialized(&begun), MPI_Finalized(&over);
    if (over) return fail(errc::usage, "join_mpi", "MPI has been finalised in this process, and cannot be begun again");
    if (!begun) {
        if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level); code != MPI_SUCCESS)
            return fail(errc::dist_peer_lost, "join_mpi", "MPI cannot be initialised");
        process.ours = true;
    }
    MPI_Query_thread(&level);
    process.one_at_a_time = level < MPI_THREAD_MULTIPLE;
    process.any_thread = level >= MPI_THREAD_SERIALIZED;
    return {};
}

// Starts what all processes take part in, as a request of MPI's, and returns when it is there.
template <class Begin>
inline status mpi_together(mpi_process& process, double seconds, const Begin& begin) {
    const auto check = [](int code) { return code == MPI_SUCCESS ? status() : fail(errc::dist_peer_lost, "join_mpi", mpi_text(code)); };
    MPI_Request request = MPI_REQUEST_NULL;
    {
        const auto turn = process.turn();
        GRAFT_TRY(check(begin(request)));
    }
    mpi_patience waiting;
    for (;;) {
        int done = 0;
        {
            const auto turn = process.turn();
            GRAFT_TRY(check(MPI_Test(&request, &done, MPI_STATUS_IGNORE)));
            if (done) return {};
        }
        const double waited = waiting.seconds();
        if (waited > seconds) return fail(errc::dist_timeout, "join_mpi", "not all processes came within " + std::to_string(int(seconds)) + " s");
        mpi_patience::pass(waited);
    }
}

// A communicator of MPI of our own: messages of others do not mix with ours.
inline status mpi_copy_world(mpi_process& process, double seconds, MPI_Comm& copy) {
    GRAFT_TRY(mpi_together(process, seconds, [&](MPI_Request& request) { return MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request); }));
    const auto turn = process.turn();
    const int code = MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    return code == MPI_SUCCESS ? status() : fail(errc::dist_peer_lost, "join_mpi", mpi_text(code));
}

// The way of the calls, and another for what goes on beside them, where every process may use MPI by more than one thread; else the null communicator.
inline status mpi_two_ways(mpi_process& process, double seconds, MPI_Comm& calls, MPI_Comm& beside) {
    GRAFT_TRY(mpi_copy_world(process, seconds, calls));
    // MPI may write to it behind an error, too.
    int* const any_thread = new int[2]{process.any_thread ? 1 : 0, 0};
    GRAFT_TRY(
        mpi_together(process, seconds, [&](MPI_Request& request) { return MPI_Iallreduce(any_thread, any_thread + 1, 1, MPI_INT, MPI_MIN, calls, &request); }));
    const bool all = any_thread[1] != 0;
    delete[] any_thread;
    return all ? mpi_copy_world(process, seconds, beside) : status();
}

}  // namespace detail

inline result<std::shared_ptr<communicator>> join_mpi(const mpi_options& options) GRAFT_MEMORY_TRY {
    using made = result<std::shared_ptr<communicator>>;
    if (!(options.timeout_seconds > 0)) return made(fail(errc::usage, "join_mpi", "timeout_seconds must be positive"));
    detail::mpi_process& process = detail::mpi_process::here();
    const std::lock_guard<std::mutex> guard(process.joining);
    GRAFT_TRY(detail::mpi_begin(process));
    MPI_Comm comm = MPI_COMM_NULL, beside = MPI_COMM_NULL;
    if (status s = detail::mpi_two_ways(process, options.timeout_seconds, comm, beside); !s.ok()) {
        process.failed = true;
        return s;
    }
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &size);
    auto one = std::make_unique<detail::mpi_communicator>(comm, rank, size, options.timeout_seconds);
    if (beside != MPI_COMM_NULL) one->exchange_beside(beside);
    process.gone.reserve(process.gone.size() + std::size_t(process.owners) + 1);
    ++process.owners;
    return made(std::shared_ptr<communicator>(one.release(), [](communicator* c) { detail::mpi_release(static_cast<detail::mpi_communicator*>(c)); }));
}
GRAFT_MEMORY_CATCH("join_mpi")

GRAFT_END_NAMESPACE
