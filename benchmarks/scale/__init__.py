"""A billion rows on one machine: rates, memory and errors, and what they say of a larger cluster.

``python -m benchmarks.scale run --task regression --rows 1e7`` fits rows that are drawn in partitions, on the fly. Runs
of many rows may be done in pieces, each of which goes on with the model of the last one (``--model``).
"""
