"""From the blocks of a file to blocks of nothing but records: comments, skipped lines, blanks between values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from batch2online.app.inputs.batch import DataError
from batch2online.app.inputs.blocks import LineBlock
from batch2online.app.inputs.layout import WHITESPACE, Layout

_DELIMITERS = ",\t;|"


def first_block(blocks: Iterator[LineBlock], name: str, least_lines: int) -> LineBlock:
    """Return the first block with anything in it; of a live input so many that there are enough lines."""
    found = next((block for block in blocks if not block.is_blank), None)
    if found is None:
        raise DataError(f"{name} is empty.")
    while len(list(islice(found.lines(), least_lines))) < least_lines:
        following = next(blocks, None)
        if following is None:
            break
        found = found.joined(following)
    return found


def cleaned(layout: Layout, block: LineBlock) -> LineBlock:
    """Return the block with blank lines in place of comments and of lines to be passed over."""
    content = block.content
    if layout.comment is not None:
        content = re.sub(rb"(?m)^[ \t]*" + re.escape(layout.comment.encode()) + rb"[^\r\n]*", b"", content)
    skipped = layout.skip_lines + 1 - block.first_line
    if skipped > 0:
        lines = content.splitlines(keepends=True)
        content = b"".join([*(b"\n" for _ in lines[:skipped]), *lines[skipped:]])
    return replace(block, content=content)


def delimiter_of(text: str, block: LineBlock, given: str | None) -> str:
    """Return what stands between values: what was given, or what the first line has most of."""
    if given is not None:
        return given
    found = max(_DELIMITERS, key=text.count)
    if text.count(found):
        return found
    first, *others = [len(line.split()) for _, line in islice(block.lines(), 10)]
    is_table = len(set(others)) == 1 and others[0] in (first, first + 1)  # R gives names of rows no name of their own
    return WHITESPACE if is_table and others[0] > 1 else ","


def spaced(block: LineBlock) -> LineBlock:
    """Return the block with a single blank between values, where any number of them may stand there."""
    content = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", block.content)
    return replace(block, content=re.sub(rb"[ \t]+", b" ", content))


def without_first_record(block: LineBlock) -> LineBlock:
    """Return what follows the first record, which holds the names."""
    at, record = next(block.records())
    skipped = at - block.first_line + record.count(b"\n") + 1
    lines = block.content.splitlines(keepends=True)[skipped:]
    return LineBlock(b"".join(lines), at + record.count(b"\n") + 1, block.quoted)
