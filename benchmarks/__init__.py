"""Speed beside the peers: `python -m benchmarks`, or one file with `python -m benchmarks.NAME`."""
