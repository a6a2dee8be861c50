// --profile of run and bench: a trace of some runs, and where their time went, held against what the machine can do.
#pragma once

#include "program.hpp"
#include "verb.hpp"

#include <graft/profile.hpp>

#include <functional>
#include <memory>
#include <string>

namespace program {

struct profile_options {
    std::string file;  ///< of the trace; empty: nothing is recorded
    int nodes = 0;     ///< rows of the table by node
};

/// Declares --profile and --profile-nodes.
void declare_profile(option_list& list, profile_options& to);

/// Records runs of a session, or steps of a training, beside what it measures of the machine.
class profiling {
public:
    /// Makes what will record, and has it `trace` the models or steps of whose options that is; nothing where no file was asked for. A file that
    /// cannot be written is told here, before anything is loaded. Errors: file.write.
    static graft::result<std::unique_ptr<profiling>> begin(const profile_options& options, std::shared_ptr<graft::trace_recorder>& trace);
    /// Runs a session that has its inputs and has run, `runs` times or until `seconds` are over, and writes the file. Errors: those of the run, file.write.
    graft::status record(const common_options& common, graft::session& session, int runs, double seconds);
    /// The same of steps of a training that has made some, as many as `steps`.
    graft::status record_steps(const common_options& common, const std::function<graft::status()>& step, int steps);
    /// `profile{}`.
    void add_to(json& object) const;
    /// The tables, on standard output.
    void print(const common_options& common) const;

private:
    explicit profiling(const profile_options& options) : options_(options), recorder_(std::make_shared<graft::trace_recorder>()) {}
    graft::status record_each(const common_options& common, const std::function<graft::status()>& run, int runs, double seconds);
    graft::status put() const;
    void print_nodes(const terminal& screen) const;

    profile_options options_;
    std::shared_ptr<graft::trace_recorder> recorder_;
    graft::cpu::machine_peak machine_;
    graft::run_profile seen_;
};

}  // namespace program
