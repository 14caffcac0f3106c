"""A fuzz of the service: no request of 2,000 breaks it, and those that are known to do so are still noticed."""

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from torture.service_fuzz import KNOWN, Known, fuzz, service_fuzz

pytestmark = pytest.mark.slow


def test_no_request_breaks_the_service():
    outcomes = service_fuzz(2_000)
    assert outcomes["200"] > 100
    assert outcomes["201"] > 2


def _marked(known):
    mark = pytest.mark.xfail(
        strict=True, raises=AssertionError, reason=f"{known.number}: {known.cause} by {known.route}"
    )
    return pytest.param(known, marks=mark, id=f"{known.number} {known.name}")


@pytest.mark.parametrize("known", [_marked(known) for known in KNOWN if known.cause])
def test_known_requests_break_the_service(known: Known):
    """One that passes is mended: remove its entry, so that the fuzz sends such requests again."""
    report = fuzz(60, only=known)
    unexpected = [key for key in report.findings if not known.explains(*key)]
    if unexpected or not report.outcomes:
        pytest.fail(f"other failures than {known.cause}: {unexpected}")
    assert not report.findings
