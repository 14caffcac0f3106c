"""Streams on which ``half_life="auto"`` is reported: none had a say in its constants, nor did the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from river.datasets import synth

Stream = tuple[np.ndarray, np.ndarray | None]
Maker = Callable[[int, int], Stream]


def linear(n: int, seed: int, slopes: Callable[[np.random.Generator, np.ndarray], np.ndarray], noise: str) -> Stream:
    """Rows of five columns with slopes (n, 5) that change; ``noise`` is normal, heavy or label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    eta = (X * slopes(rng, np.arange(n) / n)).sum(axis=1)
    if noise == "label":
        return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    return X, eta + (rng.standard_t(3, size=n) if noise == "heavy" else rng.normal(size=n))


def jumps(at: Sequence[float], size: float, noise: str = "normal") -> Maker:
    def slopes(rng: np.random.Generator, time: np.ndarray) -> np.ndarray:
        steps = np.concatenate([rng.normal(size=(1, 5)), size * rng.normal(size=(len(at), 5))])
        return np.asarray(np.cumsum(steps, axis=0)[np.searchsorted(np.array(at), time, side="right")])

    return lambda n, seed: linear(n, seed, slopes, noise)


def gradual(start: float, stop: float) -> Maker:
    def slopes(rng: np.random.Generator, time: np.ndarray) -> np.ndarray:
        share = np.clip((time - start) / (stop - start), 0, 1)[:, None]
        return np.asarray(rng.normal(size=5) + share * rng.normal(size=5))

    return lambda n, seed: linear(n, seed, slopes, "normal")


def season(periods: float, size: float) -> Maker:
    def slopes(rng: np.random.Generator, time: np.ndarray) -> np.ndarray:
        return np.asarray(rng.normal(size=5) + size * np.cos(2 * np.pi * periods * time[:, None] + np.arange(5)))

    return lambda n, seed: linear(n, seed, slopes, "normal")


def walk(speed: float, noise: str = "normal") -> Maker:
    def slopes(rng: np.random.Generator, time: np.ndarray) -> np.ndarray:
        return np.asarray(rng.normal(size=5) + speed * np.cumsum(rng.normal(size=(len(time), 5)), axis=0))

    return lambda n, seed: linear(n, seed, slopes, noise)


def there_and_back(start: float, stop: float) -> Maker:
    def slopes(rng: np.random.Generator, time: np.ndarray) -> np.ndarray:
        return np.asarray(rng.normal(size=(2, 5))[((time >= start) & (time < stop)).astype(int)])

    return lambda n, seed: linear(n, seed, slopes, "normal")


def taken(stream: Iterable[Any], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Numeric columns and targets of n rows of River."""
    rows = list(islice(iter(stream), n))
    X = np.array([[float(value) for value in x.values() if not isinstance(value, str)] for x, _ in rows])
    return X, np.array([y for _, y in rows])


def standardised(X: np.ndarray) -> np.ndarray:
    return np.asarray((X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1))


def classes(make: Callable[[int, int], Iterable[Any]]) -> Maker:
    def made(n: int, seed: int) -> Stream:
        X, y = taken(make(n, seed), n)
        return standardised(X), y.astype(int)

    return made


def numbers(make: Callable[[int, int], Iterable[Any]]) -> Maker:
    def made(n: int, seed: int) -> Stream:
        X, y = taken(make(n, seed), n)
        return standardised(X), (y - y.mean()) / y.std()

    return made


def points(make: Callable[[int, int], Iterable[Any]]) -> Maker:
    return lambda n, seed: (standardised(taken(make(n, seed), n)[0]), None)


def one_after_another(generator: Any, name: str, variants: Sequence[int], **settings: Any) -> Maker:
    """The variants of a generator of River, each for as many rows."""

    def made(n: int, seed: int) -> Stream:
        parts = [
            taken(generator(**{name: variant}, seed=seed * 100 + place, **settings), n // len(variants))
            for place, variant in enumerate(variants)
        ]
        X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
        return standardised(X), y.astype(int)

    return made


def reversed_half(make: Maker) -> Maker:
    def made(n: int, seed: int) -> Stream:
        X, y = make(n, seed)
        assert y is not None
        return X, np.where(np.arange(n) < n // 2, y, -y)

    return made


def moving_clusters(at: Sequence[float], size: float) -> Maker:
    def made(n: int, seed: int) -> Stream:
        rng = np.random.default_rng(seed)
        steps = np.concatenate([4 * rng.normal(size=(1, 5, 4)), size * rng.normal(size=(len(at), 5, 4))])
        segment = np.searchsorted(np.array(at), np.arange(n) / n, side="right")
        centers = np.cumsum(steps, axis=0)[segment, rng.integers(5, size=n)]
        return centers + rng.normal(size=(n, 4)), None

    return made


def appearing_cluster(n: int, seed: int) -> Stream:
    """Of six clusters the first gives way to the last in mid-stream."""
    rng = np.random.default_rng(seed)
    centers, which = 4 * rng.normal(size=(6, 4)), rng.integers(5, size=n) + (np.arange(n) >= n // 2)
    return centers[which] + rng.normal(size=(n, 4)), None


def turning_subspace(at: Sequence[float]) -> Maker:
    def made(n: int, seed: int) -> Stream:
        rng = np.random.default_rng(seed)
        bases = rng.normal(size=(len(at) + 1, 2, 8))[np.searchsorted(np.array(at), np.arange(n) / n, side="right")]
        return np.einsum("nr,nrd->nd", rng.normal(size=(n, 2)), bases) + 0.5 * rng.normal(size=(n, 8)), None

    return made


def sine(n: int, seed: int) -> Any:
    one, other = synth.Sine(0, seed=seed), synth.Sine(2, seed=seed + 1)
    return synth.ConceptDriftStream(one, other, seed=seed, position=n // 2, width=4_000)


def led(n: int, seed: int) -> Any:
    one, other = synth.LED(seed=seed), synth.LEDDrift(seed=seed, n_drift_features=5)
    return synth.ConceptDriftStream(one, other, seed=seed, position=n // 2, width=100)


def balls(seed: int, speed: float) -> Any:
    settings: dict[str, Any] = {"seed_model": seed, "seed_sample": seed, "n_features": 5, "n_centroids": 5}
    return (
        synth.RandomRBFDrift(**settings, change_speed=speed, n_drift_centroids=5)
        if speed
        else synth.RandomRBF(**settings)
    )


REPORTED: dict[str, tuple[str, Maker, int]] = {
    "jump at 25 %": ("regression", jumps([0.25], 1.5), 50_000),
    "two small jumps": ("regression", jumps([0.35, 0.6], 0.3), 50_000),
    "jump at row 2,000": ("regression", jumps([0.04], 1.0), 50_000),
    "six jumps, heavy tails": ("regression", jumps([0.1, 0.3, 0.35, 0.6, 0.8, 0.85], 0.8, "heavy"), 50_000),
    "gradual, 50 to 60 %": ("regression", gradual(0.5, 0.6), 50_000),
    "season of 25,000 rows": ("regression", season(2.0, 0.7), 50_000),
    "random walk": ("regression", walk(0.02), 50_000),
    "there and back": ("regression", there_and_back(0.3, 0.54), 50_000),
    "FriedmanDrift, gra": (
        "regression",
        numbers(lambda n, seed: synth.FriedmanDrift("gra", position=(n // 3, 2 * n // 3), seed=seed)),
        50_000,
    ),
    "Mv, then reversed": ("regression", reversed_half(numbers(lambda n, seed: synth.Mv(seed=seed))), 50_000),
    "SEA 3-1-0-2, noise": ("classes", one_after_another(synth.SEA, "variant", (3, 1, 0, 2), noise=0.1), 40_000),
    "SEA 2-3": ("classes", one_after_another(synth.SEA, "variant", (2, 3)), 40_000),
    "Agrawal 2-5-8-0": ("classes", one_after_another(synth.Agrawal, "classification_function", (2, 5, 8, 0)), 40_000),
    "Hyperplane": (
        "classes",
        classes(
            lambda n, seed: synth.Hyperplane(seed=seed, n_features=8, n_drift_features=4, mag_change=0.01, sigma=0.1)
        ),
        40_000,
    ),
    "ConceptDriftStream, Sine": ("classes", classes(sine), 40_000),
    "ConceptDriftStream, LED": ("classes", classes(led), 30_000),
    "logistic, four jumps": ("classes", jumps([0.15, 0.4, 0.5, 0.9], 0.7, "label"), 40_000),
    "logistic, random walk": ("classes", walk(0.01, "label"), 40_000),
    "clusters jump twice": ("clusters", moving_clusters([0.2, 0.7], 2.0), 40_000),
    "cluster appears": ("clusters", appearing_cluster, 40_000),
    "RandomRBFDrift": ("clusters", points(lambda n, seed: balls(seed, 3e-4)), 40_000),
    "subspace turns": ("low rank", turning_subspace([0.5]), 40_000),
    "calm, Gaussian": ("regression", jumps([], 0.0), 50_000),
    "calm, heavy tails": ("regression", jumps([], 0.0, "heavy"), 50_000),
    "calm, Mv": ("regression", numbers(lambda n, seed: synth.Mv(seed=seed)), 50_000),
    "calm, Agrawal 4": ("classes", one_after_another(synth.Agrawal, "classification_function", (4,)), 40_000),
    "calm, Hyperplane": (
        "classes",
        classes(lambda n, seed: synth.Hyperplane(seed=seed, n_features=8, n_drift_features=0, mag_change=0.0)),
        40_000,
    ),
    "calm, RandomRBF": ("clusters", points(lambda n, seed: balls(seed, 0.0)), 40_000),
}
"""Kind, maker and rows of each stream."""
