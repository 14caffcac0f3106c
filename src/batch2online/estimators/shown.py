"""What an estimator shows of itself: a headline, a report, a picture, a card in a notebook."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from batch2online import headline as words
from batch2online.record import Averages, Handful

_CARD = (
    '<div style="border:1px solid #8886;border-radius:8px;padding:.6em 1em;max-width:60em;margin:.3em 0">'
    "<b>{name}</b><br>{lines}</div>"
)


class Shown:
    """The part of an estimator that people look at."""

    _best = "model known"
    """What the loss is compared with."""

    has_model_: bool
    n_seen_: int
    __sklearn_is_fitted__: Callable[[], bool]
    _check_fitted: Callable[[], Any]

    def _quality(self, rows: Averages) -> words.Metrics:
        """Return measures of quality in the user's units, of what rows have cost before they were learned."""
        return words.mean_loss(rows)

    def _further_quality(self) -> words.Metrics:
        """Return measures of the current model that are no averages over the rows as they came."""
        return {}

    def _handful(self) -> Handful | None:
        """Return the few rows that hold most of the loss, if there are such."""
        found: Handful | None = self._check_fitted().handful()
        return found

    def _averages(self) -> tuple[Averages | None, Averages | None]:
        """Return what all rows have cost before they were learned, and the last ones; None where nothing is known."""
        engine = self._check_fitted()
        return engine.averages(), engine.recent_averages()

    @property
    def metrics_(self) -> words.Metrics:
        """Measures of quality by name: plain averages over all rows, each judged before it was learned.

        No row is decayed here, with ``half_life`` or ``window`` neither; those of the last rows are
        ``recent_metrics_``. Empty where no row was judged.
        """
        rows = self._averages()[0]
        return {} if rows is None else self._quality(rows)

    @property
    def recent_metrics_(self) -> words.Metrics:
        """The same over the last rows, with ``half_life`` or ``window``; empty where all rows count alike.

        These are the last 1,000 rows, or those of one half-life or window if that is shorter, but 100 at least.
        """
        rows = self._averages()[1]
        return {} if rows is None else self._quality(rows)

    def headline(self, target: str | None = None, *, scale: float = 1.0, unit: str = "") -> words.Headline:
        """Return quality, distance to the best possible fit, changes and order in one line.

        Parameters
        ----------
        target : str, optional
            Name of the target, to begin the line with.
        scale : float, optional
            What distances between rows are multiplied by, where columns were divided by it.
        unit : str, optional
            Unit of distances between rows.
        """
        self._check_fitted()
        return words.headline(self, target, scale, unit)

    def report(self, path: str | os.PathLike[str], *, target: str | None = None) -> Path:
        """Write a report in one HTML file, which needs nothing else; needs matplotlib.

        Parameters
        ----------
        path : path
            Where the file goes.
        target : str, optional
            Name of the target.

        Returns
        -------
        Path
        """
        self._check_fitted()
        page = import_module("batch2online.app.report.page").of_model(self, target)
        Path(path).write_text(page, encoding="utf-8")
        return Path(path)

    def plot(self, axes: Any = None) -> Any:
        """Draw the model on matplotlib axes, which are returned: coefficients, centers or variance kept."""
        self._check_fitted()
        return import_module("batch2online.app.report.plots").plot(self, axes)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]
        return f"{self._told()}\n{text}" if self.__sklearn_is_fitted__() else text

    def _told(self) -> str:
        return f"{self.n_seen_:,} rows: {self.headline()}"

    def _repr_html_(self) -> str:
        name = type(self).__name__
        if not self.__sklearn_is_fitted__():
            return _CARD.format(name=name, lines="no rows yet")
        told = self.headline()
        lines = [f"{self.n_seen_:,} rows", told.measures, told.handful, told.distance, told.changes, told.order]
        return _CARD.format(name=name, lines="<br>".join(html.escape(line) for line in lines if line))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}
