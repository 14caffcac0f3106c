"""The numbers of report pages, recomputed from the rows of their file."""

from __future__ import annotations

import json

import pytest

from batch2online import load
from printed import net, report
from printed.commands import Table, run
from printed.page import Page
from printed.replays import CASES


def wrong(name, seed, folder, capsys):
    """Return the complaints about the page of a run, and about the result beside it."""
    table, out = Table(name, seed, folder, standardise=seed % 2 == 1), folder / "out"
    assert run("run", table.path, *table.words, "--out", out) == 0
    capsys.readouterr()
    assert run("show", out / "model.b2o", "--json", "--changes", 99, *(["--trust"] if table.case.wraps else [])) == 0
    shown, result = json.loads(capsys.readouterr().out), json.loads((out / "result.json").read_text())
    document = table.document(result)
    known = ("rows", "loss", "optimum", "ratio", "regret", "changes", "curve")
    found = net.complaints(*({name: each[name] for name in known} for each in (result, document)))
    expected = report.Report(table, out, result, shown["changes"])
    found += report.complaints(Page((out / "report.html").read_text(encoding="utf-8")), expected)
    if not table.standardise and not table.case.wraps:
        page = load(out / "model.b2o").report(out / "model.html", target=table.case.target)
        found += report.complaints(Page(page.read_text(encoding="utf-8")), expected, of_run=False)
    return found


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=[] if (name, seed) == ("regression", 5) else [pytest.mark.slow])
        for i, name in enumerate(CASES)
        for seed in ((5, 6, 9) if name in ("regression", "clusters") else (5, 6)[i % 2 : i % 2 + 1])
    ],
)
def test_every_number_of_the_page_is_recomputed(name, seed, tmp_path, capsys):
    assert not wrong(name, seed, tmp_path, capsys)
