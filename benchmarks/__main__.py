"""Every benchmark, one after the other, each in a process of its own: `python -m benchmarks`."""

import subprocess
import sys

NAMES = (
    "start_up",
    "pcfg",
    "hmm",
    "causal_lm",
    "pretraining",
    "last_block",
    "denormals",
    "freed_memory",
    "update_rules",
    "precision",
    "measurements",
    "flatness",
    "sensitivity",
    "trace_race",
    "spectrum",
    "learning_coefficient",
    "enlarge",
    "corpora",
)


def main() -> int:
    """Run all; the exit code is that of the first that failed."""
    for name in NAMES:
        print(f"\n# {name}\n", flush=True)
        code = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
