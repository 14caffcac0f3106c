"""The same coreset and the same model on a cluster: spans of ids become shards, shards merge.

``fit`` and ``partial_fit`` take Dask arrays, Dask DataFrames and lists of delayed chunks, ``fit_files`` files;
``predict`` is lazy. Whatever the partitions, the number of workers and the failures on the way, the result has the same
bits.
"""
