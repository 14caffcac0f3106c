"""Special words of a report, each explained where the mouse rests on it."""

from __future__ import annotations

import re

MEANINGS = {
    "hindsight": "the best single model for all rows, found once they are all known",
    "coreset": "the weighted rows that stand for all rows seen",
    "regret": "loss online, less that of the best model in hindsight",
    "churn": "share of all rows whose cluster label a change has altered",
    "change": "a row count at which the model was replaced",
    "changes": "row counts at which the model was replaced",
    "R2": "share of the variance of the target that the predictions explain: 1 is perfect, 0 as good as the mean",
    "RMSE": "root of the mean squared error, in the units of the target",
    "MAE": "mean absolute error, in the units of the target",
    "silhouette": "how much nearer rows are to their own cluster than to the next: from -1 to 1",
    "variance kept": "share of the squared length of all rows that the components hold",
    "mean distance": "mean distance of a row to the nearest center, in the units of the columns",
    "spread": "standard deviation",
    "spreads": "standard deviations",
    "weight": "how many rows a row of the coreset stands for",
    "weights": "how many rows each row of the coreset stands for",
    "evidence": "how strongly the rows speak against random order, as a power of ten",
    "principal axis": "a direction in which the rows spread most",
    "principal axes": "the directions in which the rows spread most",
    "95 % interval": "in 19 of 20 tables like this one it holds the true value, if errors are independent",
    "warm-up": "the rows before the first model, scored by the mean of those before them",
    "log loss": "mean of minus the logarithm of the probability that the true class was given",
    "logit": "logarithm of the odds of a class, up to a constant that all classes share",
    "ROC curve": "rows of a class that are found against others taken for it, for every threshold",
    "accuracy": "share of rows whose class was predicted",
}
_WORDS = re.compile("|".join(rf"\b{re.escape(word)}(?!\w)" for word in sorted(MEANINGS, key=len, reverse=True)))


def explained(text: str) -> str:
    """Return HTML text with the first mention of each special word explained.

    >>> explained("a coreset, and another coreset")
    'a <abbr title="the weighted rows that stand for all rows seen">coreset</abbr>, and another coreset'
    """
    seen: set[str] = set()

    def mark(found: re.Match[str]) -> str:
        word = found[0]
        if word in seen:
            return word
        seen.add(word)
        return f'<abbr title="{MEANINGS[word]}">{word}</abbr>'

    return _WORDS.sub(mark, text)
