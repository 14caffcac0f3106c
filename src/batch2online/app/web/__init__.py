"""What the report and the live page share: one copy of uPlot, and the content security policy of inline elements."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from functools import cache
from importlib.resources import files


@cache
def asset(name: str) -> str:
    """Return the text of a file of this folder."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8").strip()


@cache
def packed(name: str) -> str:
    """Return a file of this folder, deflated and in base64; a browser unpacks it with ``DecompressionStream``."""
    deflate = zlib.compressobj(9, wbits=-15)
    return base64.b64encode(deflate.compress(asset(name).encode()) + deflate.flush()).decode()


def policy(html: str, *scripts: str, connect: str = "'none'") -> str:
    """Return the content security policy that allows the inline styles and scripts of a page, and nothing else.

    Parameters
    ----------
    html : str
        The page, or a part that has all of its ``<style>`` and ``<script>`` elements.
    *scripts : str
        Further scripts that the page adds.
    connect : str
        Sources of ``connect-src``.

    >>> policy("<style>p {}</style>").split("; ")[2]
    "script-src 'none'"
    """
    hashes = {
        tag: " ".join(map(_hash, [*re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL), *more])) or "'none'"
        for tag, more in (("script", scripts), ("style", ()))
    }
    return (
        f"default-src 'none'; connect-src {connect}; script-src {hashes['script']}; style-src {hashes['style']}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(element: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(element.encode()).digest()).decode()}'"
