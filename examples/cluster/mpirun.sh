#!/usr/bin/env bash
# Fine-tunes with several processes, on this machine or on those of a host file. MPICH and OpenMPI:
#   mpirun.sh DATA MODEL OUT                  RANKS (2) processes here, which share the cores
#   HOSTFILE=FILE mpirun.sh DATA MODEL OUT    a process on each host of FILE, one name a line
# More options of `graft finetune` may follow OUT. THREADS sets the threads of each process, GRAFT names the program.
# The same line again goes on where the run was stopped, also with another number of processes.
set -euo pipefail
if [ $# -lt 3 ]; then sed -n '2,6s/^# //p' "$0" >&2; exit 2; fi
program=${GRAFT:-graft} hostfile=${HOSTFILE:-}
data=$1 model=$2 out=$3

# One process a host may have all its cores; processes on one host divide them.
if [ -n "$hostfile" ]; then
    ranks=$(grep -cvE '^[[:space:]]*(#|$)' "$hostfile")
    threads=${THREADS:-}
else
    ranks=${RANKS:-2}
    threads=${THREADS:-$(($(nproc) > ranks ? $(nproc) / ranks : 1))}
fi
if [ -n "$threads" ]; then export GRAFT_NUM_THREADS=$threads; fi

launch=(mpirun -n "$ranks")
if mpirun --version | grep -q -e "Open MPI" -e OpenRTE; then
    # OpenMPI would bind a process to one core, and hands no variables to other hosts unless told to.
    launch+=(--bind-to none ${hostfile:+--hostfile "$hostfile" --map-by node})
    for name in GRAFT_NUM_THREADS GRAFT_ISA; do
        if [ -n "${!name:-}" ]; then launch+=(-x "$name"); fi
    done
else
    launch+=(${hostfile:+-f "$hostfile" -ppn 1})
fi
exec "${launch[@]}" "$program" finetune "$data" --from "$model" --out "$out" --resume "${@:4}"
