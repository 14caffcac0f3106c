"""Bad rows are refused with their place named and leave no trace; good rows may come in any form."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import state_bytes as storage
from batch2online import OnlineRegression, checks, coresets
from batch2online.checks import refuses, state
from batch2online.refresh import Adaptive, EveryStep, Geometric, OnChange

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
Y = X @ [1.0, -2.0, 3.0] + rng.normal(size=40)
NAMES = ["a", "b", "c"]
FIRST_MODEL = 12


def fresh(**settings):
    return OnlineRegression(random_state=0, keep_history=True, **settings)


def seen():
    return fresh().partial_fit(X, Y)


def seen_names():
    return fresh().partial_fit(pd.DataFrame(X, columns=NAMES), Y)


def with_cell(value):
    """Ten rows with this value at row 4, column 1."""
    return checks.with_value(X[:10], value, (4, 1))


LEARN = {
    "partial_fit": lambda model, rows, targets: model.partial_fit(rows, targets),
    "fit": lambda model, rows, targets: model.fit(rows, targets),
}
learn = pytest.mark.parametrize("learn", LEARN.values(), ids=LEARN)
start = pytest.mark.parametrize("start", [fresh, seen])


def ridge_leverage(**settings):
    return coresets.RidgeLeverage(1, **settings)


def clustering(**settings):
    return coresets.Clustering(2, **settings)


constructions = pytest.mark.parametrize(
    "kind", [coresets.Leverage, ridge_leverage, clustering, coresets.Uniform, coresets.Everything]
)
not_finite = pytest.mark.parametrize(
    ("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity"), (1e152, "large")]
)


# -- cells that are no finite numbers -------------------------------------------------------------------


@learn
@start
@not_finite
def test_targets_that_are_not_finite_are_refused_by_row(start, learn, value, kind):
    targets = np.where(np.arange(10) == 7, value, 1.0)
    refuses(start(), lambda model: learn(model, X[:10], targets), f"y .*{kind}.* row 7")


@start
@not_finite
def test_sparse_rows_that_are_not_finite_are_refused_by_row_and_column(start, value, kind):
    dense = with_cell(value)
    dense[:, 2] = 0.0
    rows = sp.csr_array(dense)
    refuses(start(), lambda model: model.partial_fit(rows, Y[:10]), f"X .*{kind}.* row 4, column 1")
    refuses(seen(), lambda model: model.predict(rows), f"X .*{kind}.* row 4, column 1")


@pytest.mark.parametrize("method", ["learn_one", "predict_one"])
@not_finite
def test_single_rows_that_are_not_finite_are_refused_by_column(method, value, kind):
    arguments = (1.0,) if method == "learn_one" else ()
    refuses(seen(), lambda model: getattr(model, method)([1.0, value, 2.0], *arguments), f"{kind}.* column 1")
    cells = {"c": 2.0, "b": value, "a": 1.0}
    if kind != "NaN":  # of rows with names, a missing value is one
        refuses(seen_names(), lambda model: getattr(model, method)(cells, *arguments), "column 'b', contains")


@start
@not_finite
def test_single_targets_that_are_not_finite_are_refused(start, value, kind):
    refuses(start(), lambda model: model.learn_one(X[0], value), f"y .*{kind}")


def test_the_largest_magnitudes_that_are_supported_are_learned():
    model = fresh().fit(X * 1e150 / np.abs(X).max(), Y)
    assert np.isfinite(model.coef_).all()


# -- cells that are no real numbers ---------------------------------------------------------------------


@learn
@start
@pytest.mark.parametrize("value", ["x", "", {"a": 1}])
def test_cells_that_are_no_numbers_are_refused_by_row_and_column(start, learn, value):
    place = "[Rr]ow 4, column 1"
    refuses(start(), lambda model: learn(model, with_cell(value), Y[:10]), place, (ValueError, TypeError))


@pytest.mark.parametrize("value", ["x", {"a": 1}])
def test_cells_of_frames_that_are_no_numbers_are_refused_by_row_and_name(value):
    frame = pd.DataFrame(with_cell(value), columns=NAMES)
    for act in (lambda model: model.partial_fit(frame, Y[:10]), lambda model: model.predict(frame)):
        refuses(seen_names(), act, "[Rr]ow 4, column 'b'", (ValueError, TypeError))


@pytest.mark.parametrize("value", ["x", {"a": 1}, None])
def test_single_cells_that_are_no_numbers_are_refused_by_column(value):
    refuses(seen(), lambda model: model.learn_one([1.0, value, 2.0], 1.0), "column 1", (ValueError, TypeError))


@learn
@start
@pytest.mark.parametrize("value", ["x", {"a": 1}])
def test_targets_that_are_no_numbers_are_refused_by_row(start, learn, value):
    targets = with_cell(value)[:, 1]
    refuses(start(), lambda model: learn(model, X[:10], targets), "[Rr]ow 4", (ValueError, TypeError))


@start
@pytest.mark.parametrize(
    "act",
    [
        lambda model: model.partial_fit(X + 1j, Y),
        lambda model: model.partial_fit(X, Y + 1j),
        lambda model: model.partial_fit(X, Y, sample_weight=np.ones(len(X)) + 1j),
        lambda model: model.learn_one(X[0] + 1j, 1.0),
        lambda model: model.learn_one(X[0], 1j),
        lambda model: model.learn_one(X[0], np.complex128(1j)),
    ],
    ids=["X", "y", "sample_weight", "x", "one y", "one numpy y"],
)
def test_complex_numbers_are_refused(start, act):
    refuses(start(), act, "[Cc]omplex|real number", (ValueError, TypeError))


# -- shapes ---------------------------------------------------------------------------------------------


@learn
@start
@pytest.mark.parametrize(
    ("rows", "targets", "message"),
    [
        (np.empty((0, 3)), np.empty(0), "0 sample"),
        (X[:, :0], Y, "0 feature"),
        (X[0], Y[:1], "2D array"),
        (X[None], Y[:1], "2|dim 3"),
        (np.float64(1.0), Y[:1], "2D array"),
        (X[:10], Y[:9], "10 .* 9|9 .* 10|inconsistent"),
        (X[:10], np.ones((10, 1, 1)), "two dimensions"),
        (X[:10], 1.0, "dimensions"),
        (X[:10], None, "y.* None"),
    ],
    ids=["no rows", "no columns", "1-D", "3-D", "0-D", "lengths", "3-D y", "0-D y", "no y"],
)
def test_shapes_that_make_no_sense_are_refused(start, learn, rows, targets, message):
    refuses(start(), lambda model: learn(model, rows, targets), message)


@pytest.mark.parametrize(("first", "later"), [(None, 1), (None, 2), (1, None), (2, 1), (2, 3), (2, None)])
@pytest.mark.parametrize("kind", [np.asarray, list], ids=["array", "list"])
def test_targets_of_another_shape_are_refused(first, later, kind):
    def shaped(columns):
        return Y if columns is None else np.tile(Y[:, None], columns)

    model = fresh().partial_fit(X, shaped(first))
    refuses(model, lambda model: model.partial_fit(X, kind(shaped(later))), "y must have shape")
    refuses(model, lambda model: model.learn_one(X[0], shaped(later)[0]), "y must have shape")


@pytest.mark.parametrize(
    ("cells", "message"),
    [({"a": 1, "b": 2}, "missing .'c'"), ({"a": 1, "b": 2, "c": 3, "d": 4}, "'d'"), ({"a": 1, "b": 2, "z": 3}, "'z'")],
)
def test_mappings_of_other_names_are_refused(cells, message):
    refuses(seen_names(), lambda model: model.learn_one(cells, 1.0), message)
    refuses(seen_names(), lambda model: model.predict_one(cells), message)


def test_mappings_are_refused_where_columns_have_no_names():
    refuses(seen(), lambda model: model.learn_one(dict(zip(NAMES, X[0], strict=True)), 1.0), "no names")


@constructions
@pytest.mark.parametrize(
    ("rows", "targets", "message"),
    [
        (X[0], Y[:1], "2D"),
        (X[:, :2], Y, "2 columns, but 3"),
        (X, Y[:9], "inconsistent"),
        (X, np.ones((40, 2)), "targets|y "),
        (X, None, "targets|y "),
        (X + 1j, Y, "Complex"),
    ],
    ids=["1-D", "width", "lengths", "more targets", "no targets", "complex"],
)
def test_constructions_refuse_rows_unlike_those_before(kind, rows, targets, message):
    refuses(kind(random_state=0).add(X, Y), lambda c: c.add(rows, targets), message)


@constructions
def test_constructions_take_no_rows_as_no_rows(kind):
    once = kind(random_state=0).add(X, Y)
    assert storage.serialise(kind(random_state=0).add(X[:0], Y[:0]).add(X, Y)) == storage.serialise(once)


# -- weights --------------------------------------------------------------------------------------------


@learn
@start
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.where(np.arange(40) == 3, -1.0, 1.0), "-1.0 at row 3"),
        (np.where(np.arange(40) == 3, np.nan, 1.0), "nan at row 3"),
        (np.where(np.arange(40) == 3, np.inf, 1.0), "inf at row 3"),
        (np.ones(39), r"\(40,\).*\(39,\)"),
        (np.ones((40, 1)), r"\(40,\).*\(40, 1\)"),
        (-1.0, "negative"),
        (["x"] * 40, "sample_weight"),
        (np.where(np.arange(40) == 3, 1e304, 1.0), "row 3"),
    ],
    ids=["negative", "NaN", "infinite", "short", "2-D", "negative scalar", "strings", "huge"],
)
def test_bad_weights_are_refused(start, learn, weights, message):
    def act(model):
        method = model.partial_fit if learn is LEARN["partial_fit"] else model.fit
        method(X, Y, sample_weight=weights)

    refuses(start(), act, message)


@pytest.mark.parametrize("at", [3, 9000])
def test_a_bad_weight_in_any_piece_of_sparse_rows_leaves_no_trace(at):
    rows = sp.csr_array(np.tile(X, (250, 1)))
    weights = np.where(np.arange(10_000) == at, -1.0, 1.0)
    refuses(seen(), lambda model: model.partial_fit(rows, np.tile(Y, 250), weights), f"row {at}")


# -- ids, parameters, order of calls --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([40], "40"),
        ([-1], "-1"),
        ([3, 2**62], "never seen"),
        ([2**64 - 1], "never seen|integers"),
        ([1.0], "integers"),
        (["1"], "integers"),
        ([True], "integers"),
        ([[1, 2]], "2 dimensions"),
        ([7], "forgotten already"),
    ],
)
def test_ids_that_cannot_be_forgotten_are_refused(ids, message):
    refuses(seen().forget([7]), lambda model: model.forget(ids), message)
    refuses(coresets.Leverage(keep_history=True).add(X).forget([7]), lambda c: c.forget(ids), message)


def test_forgetting_without_a_history_is_refused():
    refuses(OnlineRegression(random_state=0).fit(X, Y), lambda model: model.forget([0]), "keep_history=True")
    refuses(coresets.Uniform().add(X), lambda c: c.forget([0]), "keep_history=True")


@pytest.mark.parametrize(
    "parameter",
    [
        {"epsilon": 0},
        {"epsilon": 1},
        {"epsilon": -0.1},
        {"epsilon": np.nan},
        {"epsilon": "x"},
        {"epsilon": None},
        {"coreset_size": 0},
        {"coreset_size": -5},
        {"coreset_size": "x"},
        {"coreset_size": True},
        {"coreset_size": np.nan},
        {"solve": "x"},
        {"refresh": "lazy"},
        {"refresh": Geometric},
        {"first_id": -1},
        {"first_id": 2**63},
        {"first_id": 1.5},
        {"first_id": "0"},
        {"random_state": -1},
        {"random_state": 2**64},
        {"random_state": "x"},
        {"random_state": 1.5},
    ],
    ids=str,
)
def test_parameters_out_of_range_are_refused_by_name(parameter):
    (name,) = parameter
    for act in (lambda model: model.fit(X, Y), lambda model: model.partial_fit(X, Y)):
        refuses(fresh().set_params(**parameter), act, name, (ValueError, TypeError))


@pytest.mark.parametrize(
    ("policy", "arguments"),
    [
        *[(kind, {"growth": growth}) for kind in (Geometric, Adaptive) for growth in (1.0, 0.5, np.inf, np.nan)],
        *[(Adaptive, {"kappa": kappa}) for kappa in (0.0, -1.0, np.inf, np.nan)],
        *[(kind, {"start": at}) for kind in (EveryStep, OnChange, Geometric, Adaptive) for at in (0, -1, 1.5, True)],
    ],
)
def test_policies_out_of_range_are_refused_by_name(policy, arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        policy(**arguments)


# -- rows in other forms --------------------------------------------------------------------------------


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


def misaligned(values):
    buffer = np.empty(values.nbytes + 1, dtype=np.uint8)
    view = buffer[1:].view(np.float64).reshape(values.shape)
    view[:] = values
    return view


def mapped(values, folder):
    array = np.memmap(folder / "values", dtype=np.float64, mode="w+", shape=values.shape)
    array[:] = values
    return array


FORMS = {
    "read-only": lambda values, _: read_only(values),
    "reversed columns": lambda values, _: values[..., ::-1],
    "every other row": lambda values, _: np.repeat(values, 2, axis=0)[::2],
    "Fortran order": lambda values, _: np.asfortranarray(values),
    "float32": lambda values, _: values.astype(np.float32),
    "longdouble": lambda values, _: values.astype(np.longdouble),
    "integers": lambda values, _: (10 * values).astype(np.int32),
    "unsigned": lambda values, _: np.abs(10 * values).astype(np.uint8),
    "booleans": lambda values, _: values > 0,
    "big-endian": lambda values, _: values.astype(">f8"),
    "misaligned": lambda values, _: misaligned(values),
    "memmap": mapped,
    "list": lambda values, _: values.tolist(),
    "objects": lambda values, _: values.astype(object),
    "subclass": lambda values, _: values.view(type("Array", (np.ndarray,), {})),
}
form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@form
def test_rows_in_any_form_are_their_doubles(form, tmp_path):
    rows = form(X, tmp_path)
    doubles = np.array(rows, dtype=np.float64, order="C")
    copy = doubles.copy()
    model, plain = (fresh().partial_fit(given, Y).partial_fit(given, Y) for given in (rows, doubles))
    assert state(model) == state(plain)
    assert np.array_equal(model.predict(rows), plain.predict(doubles))
    assert np.array_equal(np.asarray(rows, dtype=np.float64), copy)


@form
def test_targets_in_any_form_are_their_doubles(form, tmp_path):
    targets = form(Y, tmp_path)
    doubles = np.array(targets, dtype=np.float64)
    model, plain = (fresh().partial_fit(X, given).partial_fit(X, given) for given in (targets, doubles))
    assert state(model) == state(plain)


@form
def test_single_rows_in_any_form_are_their_doubles(form, tmp_path):
    rows = form(X[:2], tmp_path)
    model, plain = (
        fresh().learn_one(given[0], Y[0]).learn_one(given[1], Y[1])
        for given in (rows, np.array(rows, dtype=np.float64))
    )
    assert state(model) == state(plain)


@constructions
@form
def test_constructions_take_rows_in_any_form(kind, form, tmp_path):
    rows = form(X, tmp_path)
    constructions = (
        kind(random_state=0).add(given, Y) for given in (rows, np.array(rows, dtype=np.float64, order="C"))
    )
    assert len({storage.serialise(construction) for construction in constructions}) == 1


@pytest.mark.parametrize("n", [FIRST_MODEL - 1, 40, 10_000])
def test_rows_are_neither_changed_nor_kept_by_reference(n):
    rows, targets, weights = np.resize(X, (n, 3)), np.resize(Y, n), np.ones(n)
    arrays = (rows, targets, weights)
    copies = [array.copy() for array in arrays]
    model, construction = seen().partial_fit(*arrays), coresets.Leverage(keep_history=True).add(*arrays)
    assert all(map(np.array_equal, arrays, copies))
    before = state(model), state(construction)
    for array in arrays:
        array[:] = 7.0
    assert (state(model), state(construction)) == before


@pytest.mark.parametrize("names", [(0, 1), (("a", "x"), ("a", "z"))])
def test_names_of_columns_that_are_no_strings_are_refused(names):
    with pytest.raises(TypeError, match="names of columns"):
        OnlineRegression().learn_one(dict(zip(names, [1.0, 2.0], strict=True)), 3.0)


def test_the_largest_growth_waits_forever():
    assert fresh(refresh=Geometric(1e308)).partial_fit(X, Y).n_changes_ == 0


@pytest.mark.parametrize("size", [None, 10])
def test_rows_without_columns_have_no_leverage(size):
    construction = coresets.Leverage(coreset_size=size)
    with pytest.raises(ValueError, match="at least one column"):
        construction.add(np.empty((5, 0)))
    assert len(construction.add(np.ones((5, 1))).coreset())
