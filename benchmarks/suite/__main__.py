"""Run the suite: ``python -m benchmarks.suite [--tiny | --full] [--only WORD ...] [--out FOLDER] [--page]``.

Measures tables of speed, single lines and growth in some five minutes, and writes benchmarks/results.json, the pages in
docs and docs/growth-*.svg. ``--full`` takes more rows and repetitions, and then the studies, which go to
benchmarks/studies.json one by one: hours. With ``--out`` everything goes to that folder instead.
``--only`` measures the files whose path holds a word, such as ``lines/regression``, ``problems/clustering`` or
``studies/peers``, prints what it finds, and writes nothing, unless ``--keep`` asks for studies in full to be written;
``--seeds``, ``--first-seed`` and ``--sets`` then choose the streams of studies. ``--page`` measures nothing and writes
the pages anew from the two files.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.suite import page, plots, run
from benchmarks.suite.form import FORMS

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    arguments = _arguments()
    form = replace(
        FORMS[arguments.form],
        seeds=arguments.seeds,
        first_seed=arguments.first_seed,
        sets=tuple(arguments.sets),
    )
    kept = Kept(arguments.out)
    with threadpool_limits(1):
        if arguments.only:
            found = run.only(form, arguments.only)
        elif arguments.page:
            found = iter(())
        else:
            kept.results = run.everything(form)
            kept.write()
            kept.draw()
            found = run.studies(form)
        for file, studies in found:
            kept.replace(file, studies)
            if not arguments.only or arguments.keep:
                kept.write()
    if arguments.page:
        kept.write()
        kept.draw()


class Kept:
    """What was measured, in its files: those of the repository, or of another folder."""

    def __init__(self, out: Path | None) -> None:
        self.data, self.docs = (ROOT / "benchmarks", ROOT / "docs") if out is None else (out, out)
        self.data.mkdir(parents=True, exist_ok=True)
        self.results = self._read("results.json", {})
        self.studies: list[dict[str, Any]] = self._read("studies.json", [])

    def _read(self, name: str, default: Any) -> Any:
        path = self.data / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else default

    def replace(self, file: str, found: list[dict[str, Any]]) -> None:
        """Put the studies of a file where its old ones were."""
        places = [at for at, study in enumerate(self.studies) if study["file"] == file]
        others = [study for study in self.studies if study["file"] != file]
        at = places[0] if places else len(others)
        self.studies = [*others[:at], *found, *others[at:]]

    def write(self) -> None:
        for name, state in (("results.json", self.results), ("studies.json", self.studies)):
            text = json.dumps(state, indent=1, ensure_ascii=False)
            (self.data / name).write_text(text + "\n", encoding="utf-8")
        for name in dict.fromkeys(page.PLACES.values()):
            path = self.docs / name
            old = path.read_text(encoding="utf-8") if path.exists() else _empty(name)
            path.write_text(page.inserted(old, self.results, self.studies), encoding="utf-8")

    def draw(self) -> None:
        plots.draw(self.results["growth"], self.docs)


def _empty(name: str) -> str:
    places = [place for place, file in page.PLACES.items() if file == name]
    return "\n".join(page.begin(place) + page.end(place) for place in places)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--tiny", dest="form", action="store_const", const="tiny", default="quick")
    forms.add_argument("--full", dest="form", action="store_const", const="full")
    parser.add_argument("--only", nargs="+", metavar="WORD")
    parser.add_argument("--seeds", type=int, help="how many streams a study is measured on")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--sets", nargs="+", default=[], metavar="NAME", help="data sets of a study")
    parser.add_argument("--keep", action="store_true", help="write the studies of --only too")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", action="store_true")
    arguments = parser.parse_args()
    if arguments.form == "tiny" and arguments.out is None and not arguments.only:
        parser.error("--tiny measures nothing worth keeping: name a folder with --out")
    if (arguments.seeds or arguments.first_seed or arguments.sets) and not arguments.only:
        parser.error("--seeds, --first-seed and --sets choose streams for --only")
    is_whole = arguments.form == "full" and arguments.only and not (arguments.seeds or arguments.sets)
    if arguments.keep and not (is_whole and arguments.first_seed == 0):
        parser.error("--keep is for --full --only, with all sets and seeds")
    return arguments


if __name__ == "__main__":
    main()
