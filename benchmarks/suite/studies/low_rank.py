"""Loss and changes of online low-rank approximation against the exact decomposition at every chunk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.decomposition import PCA

from batch2online import OnlineLowRank
from batch2online.baselines.peers import PeerSettings, named
from benchmarks.suite.contest import feed
from benchmarks.suite.form import Form
from benchmarks.suite.settings import COLUMNS, TEXT, against_refits
from benchmarks.suite.study import Study, loaded

FIRST = {"mnist": 4_000}
"""Row from which on the loss counts, where it is not the second chunk."""


def measure(form: Form) -> Iterator[Study]:
    records = []
    for name, (X, _) in loaded(
        form.sets_of("letter", "china_patches", *form.choose(tiny=(), quick=(), full=("mnist",)), tiny="digits")
    ):
        for rank in (rank for rank in form.choose(tiny=(5,), quick=(5, 10), full=(5, 10, 20)) if rank < X.shape[1]):
            settings = {
                "default": OnlineLowRank(rank),
                'solve="coreset"': OnlineLowRank(rank, solve="coreset"),
            }
            refit = named("exact refit at every chunk").make("lowrank", PeerSettings(rank))
            first = FIRST.get(name, form.chunk)
            found = against_refits(settings, refit, X, None, loss="lowrank", form=form, first=first)
            own = [{"data": name, "rank": rank, **record} for record in found]
            own[0]["centred"] = centred(X, rank, form)
            records += own
    text = (
        f"{TEXT.format(seeds=len(form.seeds_of(5)), first=form.first_seed)} *Refit* is the exact decomposition of all "
        "rows so far, at every chunk. *Centred*: explained variance with `center=True` over that of `PCA` of all rows."
    )
    note = "On MNIST the loss counts from row 4,000 on." if form.name == "full" else ""
    columns = ["data", "rank", "setting", *COLUMNS, "centred"]
    yield Study("Loss and changes, low rank", text, columns, records, note, {"centred": ".5f"})


def centred(X: np.ndarray, rank: int, form: Form) -> float:
    """Explained variance of the centred variant relative to PCA of all rows."""
    rows = X[np.random.default_rng(0).permutation(len(X))]
    ours = feed(OnlineLowRank(rank, center=True, random_state=0), rows, None, form.chunk)
    theirs = PCA(rank, svd_solver="covariance_eigh").fit(X)
    return float(ours.explained_variance_.sum() / theirs.explained_variance_.sum())
