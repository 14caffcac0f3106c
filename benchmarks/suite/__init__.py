"""The benchmark suite: ``python -m benchmarks.suite``. A problem, a peer or a line to be met is one file each."""
