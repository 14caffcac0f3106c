"""The mutants: small wrong changes of functions, each with the test that must detect it.

A table ``[["Class.method"]]`` of ``catalogue/*.toml`` names a function, wherever its file is; ``[["module.function"]]``
where several functions have the name. ``old``, an expression or a statement, occurs once in it; ``new`` takes its
place; ``why`` says what is then wrong; ``test`` is named as pytest names it in the folder ``tests``. Code is compared
by syntax tree: formatting, comments and line numbers do not matter.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


class StaleError(Exception):
    """The function, the code or the test of a mutant is gone."""


@dataclass(frozen=True)
class Mutant:
    """A wrong change of a function."""

    area: str
    function: str
    why: str
    old: str
    new: str
    test: str

    def __str__(self) -> str:
        return f"{self.area}  {self.function}: {self.why}"

    def changed(self, root: Path) -> tuple[Path, str]:
        """Return the path of the function below ``root``, and the text of that file with the change."""
        file, *_, test = self.test.partition("[")[0].split("::")
        if not (root / "tests" / file).is_file() or f"def {test}(" not in (root / "tests" / file).read_text("utf-8"):
            raise StaleError("the test is gone")
        found = [(path, node) for name, path, node in _functions(root) if f".{name}".endswith(f".{self.function}")]
        if len(found) != 1:
            raise StaleError(f"{len(found)} functions have this name")
        path, function = found[0]
        old, wanted = _parsed(self.old), ast.dump(_parsed(self.old))
        places = [node for node in ast.walk(function) if type(node) is type(old) and ast.dump(node) == wanted]
        if len(places) != 1:
            raise StaleError(f"the code occurs {len(places)} times in the function")
        if ast.dump(_parsed(self.new)) == wanted:
            raise StaleError("it changes nothing")
        return path, _replaced((root / path).read_bytes(), places[0], self.new)


def mutants(root: Path, names: list[str]) -> list[Mutant]:
    """Return the mutants of these areas (files of the catalogue) and functions; all of them if none is named."""
    found = []
    for path in sorted(root.glob("tests/mutants/catalogue/*.toml")):
        for function, entries in tomllib.loads(path.read_text("utf-8")).items():
            found += [Mutant(path.stem, function, **entry) for entry in entries]
    return [each for each in found if not names or each.area in names or each.function in names]


@cache
def _functions(root: Path) -> list[tuple[str, Path, ast.AST]]:
    """Return each function and class of the source: its name from the module on, its path and its node."""
    found: list[tuple[str, Path, ast.AST]] = []

    def collect(node: ast.AST, name: str, path: Path) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                found.append((f"{name}.{child.name}", path, child))
                collect(child, f"{name}.{child.name}", path)

    for path in sorted((root / "src").rglob("*.py")):
        collect(ast.parse(path.read_bytes()), path.stem, path.relative_to(root))
    return found


def _parsed(code: str) -> ast.AST:
    """Return the node of an expression or of a statement."""
    (statement,) = ast.parse(code).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def _replaced(text: bytes, node: ast.AST, new: str) -> str:
    """Put new code in the place of a node; an expression in parentheses, so that operators around it bind as before."""
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    stop = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    code = f"({new})" if isinstance(node, ast.expr) else new
    return (text[:start] + code.encode() + text[stop:]).decode()
