"""Tables with strings, dates and missing values as rows of numbers, and back: the one route of every door.

A container is read into typed columns (:mod:`.columns`). For estimators of numbers a :class:`.codec.Codec` makes
features of them, learned from the first 10,000 rows of a stream.
"""
