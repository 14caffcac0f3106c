"""A fuzz of the service: no request of 2,000 breaks it."""

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from torture.service_fuzz import service_fuzz


@pytest.mark.slow
def test_no_request_breaks_the_service():
    outcomes = service_fuzz(2_000)
    assert outcomes["200"] > 100
    assert outcomes["201"] > 2
