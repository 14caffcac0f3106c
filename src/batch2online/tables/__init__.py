"""Tables with strings, dates and missing values as rows of numbers: in Python, on the command line, in the service.

A container is read into typed columns (:mod:`.columns`). For estimators of numbers a :class:`.codec.Codec` makes
features of them, learned from the first 10,000 rows of a stream. For wrapped estimators, :mod:`.row_encoding` encodes
rows as numbers and decodes them into the container that they came in.
"""
