"""The documentation builds without network, and its links hold."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def build(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SITE", tmp_path / "site")
    return module


def test_every_page_is_built_and_no_link_is_broken(build, capsys):
    build.main()
    built = {path.name for path in build.SITE.glob("*.html")}
    assert built == {"index.html"} | {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    adding = (build.SITE / "adding-a-problem.html").read_text(encoding="utf-8")
    assert "class Medians" in adding
    assert "{{" not in adding
    for page in build.SITE.glob("*.html"):
        assert "<script" not in page.read_text(encoding="utf-8")


def test_a_broken_link_is_an_error(build, monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n[nowhere](nowhere.md)\n")
    monkeypatch.setattr(build, "pages", lambda: {"page": page})
    with pytest.raises(SystemExit, match=r"page\.html: nowhere\.html"):
        build.main()
