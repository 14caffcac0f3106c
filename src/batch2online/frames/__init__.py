"""Tables with strings, categories, dates and missing values, and lists of strings, as rows of numbers.

Each value is one number, so that buffers, coresets, histories and files hold tables as they hold arrays. Numbers stand
for themselves, dates for their days or microseconds since 1970, a string for a hash of it, a missing value for
:data:`columns.MISSING`. The :class:`~batch2online.frames.schema.FrameSchema` gives the types of the columns, the
:class:`~batch2online.frames.strings.StringTable` the string of each hash. A number depends on the value alone,
not on the order of rows or on the chunk, so shards and chunks agree on it.
"""
