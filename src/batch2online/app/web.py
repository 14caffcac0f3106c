"""The content security policy of a page whose scripts and styles are inline, as those of report and live page are."""

from __future__ import annotations

import base64
import hashlib
import re


def policy(html: str, connect: str = "'none'") -> str:
    """Return the content security policy that allows the inline styles and scripts of a page, and nothing else.

    Parameters
    ----------
    html : str
        The page, or a part that has all of its ``<style>`` and ``<script>`` elements.
    connect : str
        Sources of ``connect-src``.

    >>> policy("<style>p {}</style>").split("; ")[2]
    "script-src 'none'"
    """
    hashes = {
        tag: " ".join(map(_hash, re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL))) or "'none'"
        for tag in ("script", "style")
    }
    return (
        f"default-src 'none'; connect-src {connect}; script-src {hashes['script']}; style-src {hashes['style']}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(element: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(element.encode()).digest()).decode()}'"
