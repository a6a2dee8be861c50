// Speed of all_reduce among processes, beside MPI's own of the same arrays: medians of interleaved rounds.
//   mpicxx -std=c++17 -O2 -Iinclude bench/collectives.cpp -o /tmp/collectives -pthread && mpirun -n 2 /tmp/collectives [rounds]
#include <graft/dist/mpi.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double quantile(std::vector<double> values, double q) {
    std::sort(values.begin(), values.end());
    return values[std::size_t(q * double(values.size() - 1))];
}

// What the slowest member needed, for `calls` in a row.
template <class F>
double slowest(int calls, const F& call) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = seconds();
    for (int i = 0; i < calls; ++i) call();
    double own = (seconds() - start) / calls, all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

}  // namespace

int main(int count, char** arguments) {
    const int rounds = count > 1 ? std::atoi(arguments[1]) : 21;
    auto joined = graft::join_mpi();
    if (!joined.ok()) return std::fprintf(stderr, "%s\n", joined.error().what()), 1;
    graft::communicator& members = *joined.value();
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(library, &length);
    if (members.rank() == 0) {
        std::printf("%.40s\n%d processes, %d rounds, medians (and quartiles), microseconds a call\n\n", library, members.size(), rounds);
        std::printf(
            "| bytes | arrays | all_reduce | MPI_Allreduce | ratio | graft's quartiles | MPI's |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    }
    struct size {
        std::int64_t bytes;
        int arrays, calls;
    };
    for (const size s : {size{1000, 1, 500}, size{10000, 1, 500}, size{100000, 1, 100}, size{1000000, 1, 20}, size{1000000, 60, 20}, size{10000000, 1, 3},
                         size{100000000, 1, 1}, size{100000000, 160, 1}}) {
        const std::int64_t n = s.bytes / 4;
        std::vector<float> in(std::size_t(n), 0.5f + float(members.rank())), out(in.size()), theirs(in.size());
        std::vector<const float*> from;
        std::vector<float*> to;
        std::vector<std::int64_t> counts;
        for (int i = 0; i < s.arrays; ++i) {
            const std::int64_t first = n * i / s.arrays;
            from.push_back(in.data() + first), to.push_back(out.data() + first), counts.push_back(n * (i + 1) / s.arrays - first);
        }
        const graft::reduction arrays{from.data(), to.data(), counts.data(), s.arrays};
        const auto ours = [&] {
            if (graft::status done = members.all_reduce(arrays); !done.ok()) std::fprintf(stderr, "%s\n", done.error().what()), graft::abort_mpi(1);
        };
        const auto mpi = [&] { MPI_Allreduce(in.data(), theirs.data(), int(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
        std::vector<double> own, other, ratio;
        for (int round = -2; round < rounds; ++round) {
            const bool first = round & 1;
            const double a = first ? slowest(s.calls, ours) : 0, b = slowest(s.calls, mpi), c = first ? a : slowest(s.calls, ours);
            if (round >= 0) own.push_back(c * 1e6), other.push_back(b * 1e6), ratio.push_back(c / b);
        }
        if (members.rank() == 0)
            std::printf("| %lld | %d | %.1f | %.1f | %.2f | %.1f - %.1f | %.1f - %.1f |\n", static_cast<long long>(s.bytes), s.arrays, quantile(own, 0.5),
                        quantile(other, 0.5), quantile(own, 0.5) / quantile(other, 0.5), quantile(own, 0.25), quantile(own, 0.75), quantile(other, 0.25),
                        quantile(other, 0.75)),
                std::fflush(stdout);
    }
}
