"""The paper's algorithms against a second transcription of their printed lines, a draw at a time.

Draws come from generators of the same seed, in the same order: first the rows, then the perturbations. The mended form
differs from the printed one in the lines that are marked.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from batch2online import reference, theory
from batch2online.reference import alternate

EPSILON = 0.3
both_forms = pytest.mark.parametrize("errata", [True, False], ids=["mended", "printed"])


def rng(seed=0):
    return np.random.default_rng(seed)


def rows(n=30, d=3, seed=1):
    return rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


def drawn(generator, p):
    """One draw with these probabilities: the place of a uniform in their sums."""
    u, total = generator.random(), 0.0
    for place, each in enumerate(p):
        total += each
        if u < total:
            return place
    return len(p) - 1


def by_draws(index_weights):
    """Positions, each once and in order, with the sum of their weights."""
    sums = {}
    for index, weight in index_weights:
        sums[index] = sums.get(index, 0.0) + weight
    return sorted(sums), [sums[index] for index in sorted(sums)]


# -- Algorithm 2 ---------------------------------------------------------------------------------------


@both_forms
def test_algorithm_2_line_by_line(errata):
    X, sigma, m = rows(), rng(2).exponential(size=30), 12
    generator, pairs = rng(5), []
    p = [s / sum(sigma) for s in sigma]  # line 1
    for _ in range(m):  # line 3
        x = drawn(generator, p)  # line 4
        p_tilde = p[x] + (EPSILON / 2) * p[x] * generator.random()  # line 5
        pairs.append((x, 1 / p_tilde))  # lines 6 to 10
        if not errata:
            break  # line 11 is inside the loop
    indices, weights = by_draws(pairs)
    if errata:  # 1/m, and the mean of 1/p~ is ln(1 + epsilon/2) / (p epsilon/2)
        weights = np.array(weights) / m / (math.log(1 + EPSILON / 2) / (EPSILON / 2))
    ours = reference.coreset(rng(5), X, sigma, m, EPSILON, errata=errata)
    assert ours.indices.tolist() == indices
    np.testing.assert_allclose(ours.weights, weights, rtol=1e-12)


# -- Algorithms 4 and 5 --------------------------------------------------------------------------------


def ridge_leverage(A, k):
    """a_i^T (A^T A + |A - A_k|_F^2 / k I)^-1 a_i, with A_k written out."""
    U, sigma, V = np.linalg.svd(A, full_matrices=False)
    best = sum(sigma[j] * np.outer(U[:, j], V[j]) for j in range(k))
    ridge = np.square(A - best).sum() / k
    matrix = sum(np.outer(a, a) for a in A) + ridge * np.eye(A.shape[1])
    return [float(a @ np.linalg.solve(matrix, a)) for a in A]


def factors(generator, inverse, errata):
    """Line 7: w in [1, 1 + epsilon] / sqrt(m p); mended, w^2 is perturbed, with mean one."""
    for each in inverse:
        stretch = 1 + EPSILON * generator.random()
        yield math.sqrt(each * stretch / (1 + EPSILON / 2)) if errata else stretch * math.sqrt(each)


@pytest.mark.parametrize("k", [1, 2])
def test_ridge_leverage_scores_divide_the_rest_by_k(k):
    np.testing.assert_allclose(reference.ridge_leverage_scores(rows(), k), ridge_leverage(rows(), k), rtol=1e-9)


@both_forms
@pytest.mark.parametrize("k", [1, 2])
def test_algorithm_4_line_by_line(k, errata):
    A, m = rows(), 8
    t = len(A) + 1  # A_{t-1} holds t - 1 rows
    tau = ridge_leverage(A, k)
    p = [each / sum(tau) for each in tau]
    generator = rng(6)
    chosen = [drawn(generator, p) for _ in range(m)]  # line 6
    inverse = [1 / ((m if errata else t) * p[i]) for i in chosen]
    C = [w * A[i] for i, w in zip(chosen, factors(generator, inverse, errata), strict=True)]  # lines 7 and 8
    np.testing.assert_allclose(reference.low_rank_sketch(rng(6), A, k, m, EPSILON, errata=errata), C, rtol=1e-9)


@both_forms
def test_algorithm_4_solves_on_the_sketch_of_the_rows_before(errata):
    A, m, k = rows(40), 15, 2
    run = reference.online_low_rank(rng(7), A, k, EPSILON, m=m, steps=[30], errata=errata)
    C = reference.low_rank_sketch(rng(7), A[:29], k, m, EPSILON, errata=errata)
    values, vectors = np.linalg.eigh(C.T @ C)
    leading = vectors[:, np.argsort(values)[::-1][:k]]
    Z = run.models[0]
    np.testing.assert_allclose(Z @ Z.T, leading @ leading.T, atol=1e-9)
    residual = np.linalg.norm(A[29] - Z @ Z.T @ A[29])
    assert run.losses[0] == pytest.approx(residual**2 if errata else residual)


@both_forms
def test_algorithm_5_line_by_line(errata):
    A, b, m = rows(), rng(3).normal(size=30), 8
    scored = np.column_stack([A, b]) if errata else A  # an embedding of A alone says nothing of b
    tau = [float(a @ np.linalg.solve(scored.T @ scored, a)) for a in scored]
    p = [each / sum(tau) for each in tau]
    generator = rng(8)
    chosen = [drawn(generator, p) for _ in range(m)]
    w = list(factors(generator, [1 / (m * p[i]) for i in chosen], errata))
    S = np.zeros((m, 30))
    for j, i in enumerate(chosen):
        S[j, i] = w[j]
    SA, Sb = reference.regression_sketch(rng(8), A, b, m, EPSILON, errata=errata)
    np.testing.assert_allclose(SA, S @ A, rtol=1e-9)
    np.testing.assert_allclose(Sb, S @ b, rtol=1e-9)
    run = reference.online_regression(rng(8), np.vstack([A, [1, 2, 3]]), np.append(b, 4.0), EPSILON, m=m, steps=[31])
    if errata:
        np.testing.assert_allclose(run.models[0], np.linalg.solve(A.T @ S.T @ S @ A, A.T @ S.T @ S @ b), rtol=1e-8)


# -- Algorithms 7 and 3 --------------------------------------------------------------------------------


def distance(x, y):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)))


def seeds_of(generator, X, k, z):
    """D^z-sampling: each seed in proportion to the z-th power of the distance from those before."""
    seeds = [drawn(generator, [1 / len(X)] * len(X))]
    while len(seeds) < k:
        powers = [min(distance(x, X[s]) for s in seeds) ** z for x in X]
        seeds.append(drawn(generator, [each / sum(powers) for each in powers]))
    return seeds


@pytest.mark.parametrize("z", [1.0, 2.0, 3.0])
def test_seeds_are_drawn_by_the_power_z(z):
    X = rows(25)
    assert reference.dz_sampling(rng(9), X, 4, z).tolist() == seeds_of(rng(9), X, 4, z)


@pytest.mark.parametrize("z", [1.0, 2.0, 3.0])
def test_a_row_of_weight_three_is_drawn_as_three_rows(z):
    """In law: copies of a row follow each other, so the same quantile falls on the same row."""
    X, counts = rows(25), 1 + np.arange(25) % 3
    copied = np.repeat(np.arange(25), counts)
    expected = copied[reference.dz_sampling(rng(9), X[copied], 4, z)]
    assert reference.dz_sampling(rng(9), X, 4, z, counts.astype(float)).tolist() == expected.tolist()


def two_stage_coreset(generator, X, k, epsilon, z, sizes, constant, errata):
    """Algorithm 7, line by line."""
    epsilon = epsilon / constant  # 1
    seeds = seeds_of(generator, X, k, z)  # 2
    closest = [min(range(k), key=lambda c: distance(x, X[seeds[c]])) for x in X]  # 3
    loss = [distance(x, X[seeds[c]]) ** z for x, c in zip(X, closest, strict=True)]
    size = [closest.count(c) for c in closest]
    sigma_1 = [
        2 ** (2 * z + 2) * epsilon**2 * (own / sum(loss) + 1 / n) for own, n in zip(loss, size, strict=True)
    ]  # 4
    total = sum(sigma_1)
    d_1 = [drawn(generator, [s / total for s in sigma_1]) for _ in range(sizes[0])]  # 5
    middle = 1 + epsilon / 2 if errata else 1.0  # mended: perturbations have mean one
    perturbed = lambda weight: weight * (1 + epsilon * generator.random()) / middle  # noqa: E731
    u = [perturbed(total / (len(d_1) * sigma_1[x])) for x in d_1]  # 6 and 7
    cost = [own * loss[x] for own, x in zip(u, d_1, strict=True)]
    sigma_2 = [own / sum(cost) for own in cost]  # 9
    d_2 = [drawn(generator, sigma_2) for _ in range(sizes[1])]  # 10: places in D^1
    w = [perturbed((u[j] if errata else 1.0) * sum(sigma_2) / (len(d_2) * sigma_2[j])) for j in d_2]  # 11 and 12
    in_cluster = lambda c: [i for i, j in enumerate(d_2) if closest[d_1[j]] == c]  # noqa: E731
    of_seeds = []
    for c in range(k):
        mass = (1 + 10 * epsilon) * sum(own for own, x in zip(u, d_1, strict=True) if closest[x] == c)
        given = sum(w[i] for i in in_cluster(c))
        if errata and given > mass:  # mended: no weight is negative
            for i in in_cluster(c):
                w[i] *= mass / given
            given = mass
        of_seeds.append(mass - given)  # 13
    return by_draws([*((d_1[j], own) for j, own in zip(d_2, w, strict=True)), *zip(seeds, of_seeds, strict=True)])


@both_forms
@pytest.mark.parametrize("z", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("constant", [1.0, 20.0])
def test_algorithm_7_line_by_line(constant, z, errata):
    X, options = rows(40), {"z": z, "sizes": (25, 10), "constant": constant, "errata": errata}
    indices, weights = reference.clustering_coreset(rng(10), X, 3, EPSILON, **options)
    expected = two_stage_coreset(rng(10), X, 3, EPSILON, **options)
    known = {place: weight for place, weight in zip(*expected, strict=True) if abs(weight) > 1e-9}
    found = {place: weight for place, weight in zip(indices.tolist(), weights, strict=True) if abs(weight) > 1e-9}
    assert found == pytest.approx(known, rel=1e-9, abs=1e-9)


@both_forms
def test_algorithm_3_gives_a_third_of_epsilon_to_the_coreset_of_the_rows_before(errata):
    """Line 1; then lines 3 and 4 at step t are run on rows 1 to t - 1."""
    X, seen = rows(50), []

    def solver(generator, points, weights, k, z):
        seen.append((points, weights, k, z))
        return points[:k]

    options = {"z": 1.0, "sizes": (30, 12), "constant": 5.0, "errata": errata}
    run = reference.online_clustering(rng(11), X, 3, EPSILON, solver=solver, steps=[45], **options)
    indices, weights = reference.clustering_coreset(rng(11), X[:44], 3, EPSILON / 3, **options)
    ((points, given, k, z),) = seen
    assert (k, z) == (3, 1.0)
    np.testing.assert_array_equal(points, X[indices])
    np.testing.assert_array_equal(given, weights)
    assert run.losses[0] == pytest.approx(min(distance(X[44], c) for c in run.models[0]))


def test_sizes_of_algorithm_3_are_those_of_a_third_of_epsilon_over_the_constant(monkeypatch):
    asked = []
    monkeypatch.setattr(theory, "clustering_sizes", lambda *arguments: asked.append(arguments) or (30, 12))
    reference.online_clustering(rng(), rows(50), 3, EPSILON, z=1.0, constant=5.0, steps=[45])
    assert asked == [(3, 1.0, pytest.approx(EPSILON / 3 / 5), 50)]


@pytest.mark.parametrize("z", [1.0, 1.5, 2.0, 3.0])
def test_the_offline_algorithm_finds_the_center_of_each_power(z):
    """One cluster on a line: the minimiser of sum w |x - c|^z by a fine grid. A mean would do for z = 2 alone."""
    points, weights = np.array([[0.0], [1.0], [2.0], [11.0]]), np.array([1.0, 2.0, 1.0, 1.5])
    grid = np.linspace(-1, 12, 13_001)
    costs = weights @ np.abs(points - grid) ** z
    center = alternate(rng(12), points, weights, 1, z)[0, 0]
    assert weights @ np.abs(points[:, 0] - center) ** z <= costs.min() * 1.01
    assert abs(grid[costs.argmin()] - np.average(points[:, 0], weights=weights)) > 0.1 or z == 2
