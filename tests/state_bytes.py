"""States as bytes, to compare and to copy: the parts that a file holds, one after the other."""

from __future__ import annotations

from batch2online.storage.tree import parts_of, state_of


def serialise(state):
    """Return the bytes of a state. Equal states give equal bytes."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts_of(state))


def deserialise(content):
    """Return the state that was serialised."""
    parts = []
    while content:
        length = 8 + int.from_bytes(content[:8], "little")
        parts.append(content[8:length])
        content = content[length:]
    return state_of(parts)
