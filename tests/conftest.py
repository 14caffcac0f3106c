"""What runs: a covering part of the dear tests, or all of them with ``--full``.

Of a test marked ``covering`` enough combinations run that each value of each parameter is among them; ``times=3`` wants
each value three times, and ``axes=`` says what the parameters of a list that is itself a product consist of. Of one
marked ``few(2)`` two combinations run, others for each test. Tests and parameters marked ``full`` are campaigns and
large samples. What is named with its parameters on the command line, ``test_x[3-huber]``, runs in any case.

Examples of hypothesis are the same in each run, so that no test fails by chance; ``--hypothesis-profile=explore``
draws others.
"""

from collections import Counter, defaultdict
from zlib import crc32

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("fixed")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run every combination of parameters, and all campaigns")


@pytest.fixture(scope="session")
def full(request):
    """Whether ``--full`` was given."""
    return request.config.getoption("--full")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full") or any("[" in name for name in config.args):
        return
    functions = defaultdict(list)
    for item in items:
        if item.get_closest_marker("full") is None:
            functions[item.nodeid.partition("[")[0]].append(item)
    kept = {each for same in functions.values() for each in _kept(same)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _kept(items):
    """Keep what runs of one test."""
    if few := items[0].get_closest_marker("few"):
        step = -(-len(items) // few.args[0])
        return items[crc32(items[0].originalname.encode()) % min(step, len(items)) :: step]
    if mark := items[0].get_closest_marker("covering"):
        return _covering(items, **mark.kwargs)
    return items


def _covering(items, times=1, axes=None):
    """Keep few items such that each value on each axis is among them so many times, if it is there as often."""
    values = {item: set(enumerate(axes(**item.callspec.params) if axes else _names(item))) for item in items}
    missing = Counter(value for own in values.values() for value in own)
    missing = Counter({value: min(n, times) for value, n in missing.items()})
    kept, used, left = [], Counter(), list(items)
    while missing.total():
        gains = [
            (sum(missing[value] > 0 for value in values[item]), -sum(used[value] for value in values[item]))
            for item in left
        ]
        best = left.pop(gains.index(max(gains)))
        kept.append(best)
        used.update(values[best])
        missing -= Counter(values[best])
    return kept


def _names(item):
    """One name for each ``parametrize``."""
    return item.callspec._idlist


def _leave_out_reports(patch):
    from batch2online.app.cli.run import outputs

    patch.setattr(outputs, "run_report", lambda *_: "")


@pytest.fixture
def no_report(monkeypatch):
    """Leave the report of a run empty: its figures take a second, and nobody looks at them."""
    _leave_out_reports(monkeypatch)


@pytest.fixture(scope="module")
def no_reports():
    """The same for all tests and fixtures of a module."""
    with pytest.MonkeyPatch.context() as patch:
        _leave_out_reports(patch)
        yield
