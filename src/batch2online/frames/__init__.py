"""Rows of any kind: tables with text, categories, dates and gaps, and lists of texts, as rows of plain numbers.

A cell is one number, so that queues, coresets, histories and files hold tables as they hold arrays. Numbers stand for
themselves, dates for their days or microseconds since 1970, a text for a hash of it, a gap for :data:`cells.GAP`. What
a number stands for is then known from the :class:`~batch2online.frames.table.TableKind`, which says what the columns
hold, and from the :class:`~batch2online.frames.texts.Texts`. The number depends on the cell alone: not on the
order in which rows come, nor on the chunk, so shards and chunks agree on it.
"""
