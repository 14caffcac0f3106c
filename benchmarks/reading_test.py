"""Draw sentences at random from pages, docstrings and messages, to be read as a new reader would.

``python -m benchmarks.reading_test [--seed 0] [--sentences 60]`` prints them with their places. A sentence that must be
read twice by somebody who knows scikit-learn is rewritten, and so are others like it.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FEWEST_WORDS = 5
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef)
SPOKEN = {"warn", "echo", "secho", "require", "option", "argument"}
"""Names of functions whose strings users read, besides those of errors."""


def sentences_of(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph that have a few words.

    >>> list(sentences_of("Fit the model to all rows. Yes. It is a 1.5 times `better.` one than that."))
    ['Fit the model to all rows.', 'It is a 1.5 times `better.` one than that.']
    """
    for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z`*\"])", " ".join(text.split())):
        if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= FEWEST_WORDS:
            yield sentence


def of_page(path: Path) -> Iterator[str]:
    """Yield the sentences of a page without code, tables, formulas and measured parts."""
    text = re.sub(
        r"<!-- results:.*?<!-- end of results -->|<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    text = re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?=[-*|] |\d+\. |#)", text):
        if not paragraph.lstrip().startswith(("|", "#", "    ", "$$", "![")):
            yield from sentences_of(re.sub(r"^([-*]|\d+\.) ", "", paragraph.strip()))


def of_docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the sentences of all docstrings of a module, without examples and headings."""
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, DEFINITIONS) else None
        for paragraph in re.split(
            r"\n\s*\n|\n(?=\S+ : )|(?<= : )",
            re.sub(r"^.*\n-{3,}$|^\s*(>>>|\.\.\.|=).*$", "", text or "", flags=re.MULTILINE),
        ):
            yield from sentences_of(re.sub(r"^\S.* : .*\n", "", paragraph))


def of_messages(tree: ast.Module) -> Iterator[str]:
    """Yield the sentences of errors, warnings and help."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_spoken(node.func):
            for part in [*node.args, *(keyword.value for keyword in node.keywords)]:
                yield from sentences_of(_text(part))


def _is_spoken(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in SPOKEN or name.endswith(("Error", "Warning", "Corrupted", "Locked"))


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return ""


def every_sentence() -> dict[str, list[str]]:
    """Return all sentences by their kind, each with its place."""
    found: dict[str, list[str]] = {"pages": [], "docstrings": [], "messages": []}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        found["pages"] += [f"{path.name}: {sentence}" for sentence in of_page(path)]
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree, place = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT / "src" / "batch2online")
        found["docstrings"] += [f"{place}: {sentence}" for sentence in of_docstrings(tree)]
        found["messages"] += [f"{place}: {sentence}" for sentence in of_messages(tree)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sentences", type=int, default=60)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    for kind, sentences in every_sentence().items():
        print(f"\n{kind}, {len(sentences):,} sentences")
        for place in sorted(random.choice(len(sentences), arguments.sentences // 3, replace=False)):
            print(f"- {sentences[place]}")


if __name__ == "__main__":
    main()
