"""Examples of hypothesis are the same in each run, so that no test fails by chance.

``pytest --hypothesis-profile=explore`` draws others.
"""

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("fixed")


def _leave_out_reports(patch):
    from batch2online.app.cli.run import outputs

    patch.setattr(outputs, "html", lambda *_: "")


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
