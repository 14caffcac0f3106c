"""The coreset of one machine, computed on a cluster: partitions become shards, shards merge.

``fit`` and ``partial_fit`` take Dask arrays, Dask DataFrames and lists of delayed chunks, ``fit_files`` files;
``predict`` is lazy. Whatever the partitions, the number of workers and the failures on the way, coresets that are a
function of the set of rows are those of one machine.
"""
