"""SLURM's commands as shell scripts that run jobs on this machine, with a queue for requeued ones."""

import os
import stat
from pathlib import Path

SCRIPTS = {
    # A job is its script in the background, repeated as long as it asks to be requeued.
    "sbatch": """
        id=$(( $(cat $S/last 2>/dev/null || echo 100) + 1 )); echo $id > $S/last
        cp "$1" $S/$id.sh; echo RUNNING > $S/$id.state
        (
          while true; do
            rm -f $S/$id.again
            SLURM_JOB_ID=$id SLURM_NTASKS=1 SLURM_PROCID=0 setsid bash $S/$id.sh & echo $! > $S/$id.pid
            wait $!; code=$?
            [ -e $S/$id.again ] && [ ! -e $S/$id.cancelled ] || break
          done
          [ $code = 0 ] && echo COMPLETED > $S/$id.state || echo FAILED > $S/$id.state
          [ -e $S/$id.cancelled ] && echo CANCELLED > $S/$id.state
        ) > /dev/null 2>&1 &
        echo "Submitted batch job $id"
    """,
    "srun": """
        while true; do case $1 in --unbuffered) shift;; --output) out=$2; shift 2;; --error) err=$2; shift 2;;
        *) break;; esac; done
        id=$SLURM_JOB_ID; out=${out//%j/$id}; err=${err//%j/$id}
        exec "$@" >> "${out//%t/0}" 2>> "${err//%t/0}"
    """,
    "sacct": """
        echo 'JobID|State|NodeList'
        for f in $S/*.state; do id=${f##*/}; echo "${id%.state}|$(<$f)|here"; done
    """,
    "scancel": """
        if [ "$2" = --signal ]; then kill -${3#SIG} -- -$(cat $S/$1.pid); exit; fi
        touch $S/$1.cancelled; kill -KILL -- -$(cat $S/$1.pid)
    """,
    "scontrol": "touch $S/$2.again",
}


QUEUE = {
    # A job never runs; its state is what $S/first says, until a test says otherwise.
    "sbatch": """
        id=$(( $(cat $S/last 2>/dev/null || echo 100) + 1 )); echo $id > $S/last
        cp "$1" $S/$id.sh; cp $S/first $S/$id.state; echo "Submitted batch job $id"
    """,
    "scancel": """
        echo $1 >> $S/cancelled; echo CANCELLED by 1000 > $S/$1.state
    """,
}


def queue_only(state: Path, first: str) -> None:
    """Let jobs wait for ever, in SLURM's state `first`."""
    (state / "first").write_text(first)
    for name, script in QUEUE.items():
        (state.parent / "commands" / name).write_text(f"#!/bin/bash\nS={state}\n{script}")


def allow(state: Path, number: int) -> None:
    """Let no more jobs be submitted while so many run, as SLURM's limits of a user's jobs do."""
    command = state.parent / "commands" / "sbatch"
    shebang, rest = command.read_text().split("\n", 1)
    limit = f"""
        if [ $(cat {state}/*.state 2>/dev/null | grep -c RUNNING) -ge {number} ]; then
            echo refused >> {state}/refused
            echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2
            echo "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy" >&2
            exit 1
        fi
    """
    command.write_text(f"{shebang}\n{limit}\n{rest}")


def install(folder: Path, monkeypatch) -> Path:
    """Put the commands on the path; their state is in the returned folder."""
    state, commands = folder / "state", folder / "commands"
    state.mkdir(parents=True)
    commands.mkdir()
    for name, script in SCRIPTS.items():
        (commands / name).write_text(f"#!/bin/bash\nS={state}\n{script}")
        (commands / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    return state
