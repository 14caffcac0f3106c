"""The mutants: one table a file in ``catalogue/``, one entry a mutant.

An entry names the ``file`` below ``src/batch2online``, the ``old`` text, which stands there exactly once, the ``new``
text, ``why`` that is wrong, and the ``tests`` that must notice, as pytest names them below ``tests``. An entry with
``equivalent`` says why no test can notice; one with ``fast = false`` takes too long for CI.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
SOURCE = TESTS.parent / "src"
PACKAGE = SOURCE / "batch2online"


@dataclass(frozen=True)
class Mutant:
    """One wrong change."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]
    equivalent: str = ""
    fast: bool = True

    def fault(self, *, parsed: bool = True) -> str:
        """Say what keeps the mutant from being applied; nothing if it can be."""
        path = PACKAGE / self.file
        if not path.is_file():
            return "no such file"
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            return f"the old text is there {text.count(self.old)} times"
        return _difference(text, text.replace(self.old, self.new)) if parsed else ""

    def apply(self, package: Path) -> None:
        """Write the changed file into a copy of the package."""
        path = package / self.file
        text = path.read_text(encoding="utf-8")
        path.unlink()
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def _difference(text: str, changed: str) -> str:
    try:
        same = _tree(text) == ast.dump(ast.parse(changed))
    except SyntaxError as error:
        return f"not Python: {error.msg}"
    return "it changes nothing" if same else ""


@cache
def _tree(text: str) -> str:
    """Return the syntax tree of a whole file, of which several mutants change a place each."""
    return ast.dump(ast.parse(text))


def mutants(area: str = "*") -> list[Mutant]:
    """Return all mutants, or those of one area, numbered by their place in it."""
    found = []
    for path in sorted((Path(__file__).parent / "catalogue").glob(f"{area}.toml")):
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
        found += [_mutant(f"{path.stem}-{number}", entry) for number, entry in enumerate(entries, 1)]
    return found


def _mutant(name: str, entry: dict[str, object]) -> Mutant:
    fields = entry | {"tests": tuple(entry.get("tests", ()))}  # type: ignore[arg-type]
    return Mutant(name=name, **fields)  # type: ignore[arg-type]
