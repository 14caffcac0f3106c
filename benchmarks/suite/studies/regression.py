"""Loss and changes of online regression against least squares at every chunk."""

from __future__ import annotations

from collections.abc import Iterator

from batch2online import OnlineRegression, refresh
from batch2online.baselines.peers import named
from benchmarks.suite.form import Form
from benchmarks.suite.settings import COLUMNS, TEXT, against_refits
from benchmarks.suite.study import Study, loaded

SETTINGS = {
    "default": OnlineRegression(),
    'solve="coreset"': OnlineRegression(solve="coreset"),
    "Geometric(1.1)": OnlineRegression(refresh=refresh.Geometric(1.1)),
    "Geometric(2)": OnlineRegression(refresh=refresh.Geometric(2.0)),
}


def measure(form: Form) -> Iterator[Study]:
    refit, records = named("exact refit at every chunk").make("regression"), []
    for name, (X, y) in loaded(form.sets_of("cps1988", "diamonds", "flights", tiny="diabetes"), targets=True):
        found = against_refits(SETTINGS, refit, X, y, loss="squared", form=form, first=form.chunk)
        records += [{"data": name, **record} for record in found]
    common = TEXT.format(seeds=len(form.seeds_of(5)), first=form.first_seed)
    text = f"{common} *Refit* is least squares on all rows so far, at every chunk."
    yield Study("Loss and changes, regression", text, ["data", "setting", *COLUMNS], records)
