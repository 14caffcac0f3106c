"""``make mutants`` reports what no test detects, and entries of the catalogue that are out of date."""

from __future__ import annotations

from mutants.__main__ import main

CODE = "def doubled(x):\n    return 2 * x  # twice\n\n\ndef halved(x):\n    return x / 2\n"
TEST = "from numbers_of import doubled\n\n\ndef test_doubled():\n    assert doubled(3) == 6\n"
ENTRY = '[[{}]]\nwhy = "{}"\nold = "{}"\nnew = "{}"\ntest = "test_numbers.py::test_doubled"\n'


def test_survivors_and_stale_entries_are_named(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the tests below need none
    (tmp_path / "tests/mutants/catalogue").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/numbers_of.py").write_text(CODE)
    (tmp_path / "tests/test_numbers.py").write_text(TEST)
    detected = ENTRY.format("doubled", "a wrong factor", "2*x", "3 * x")
    survivor = ENTRY.format("halved", "without a test", "x / 2", "x / 3")
    stale = ENTRY.format("quartered", "code that is gone", "x / 4", "x / 5")
    (tmp_path / "tests/mutants/catalogue/numbers.toml").write_text(detected + survivor + stale)

    options = ["--root", str(tmp_path), "--processes", "1"]
    assert main(options) == 1
    printed = capfd.readouterr().out
    assert "detected  numbers  doubled: a wrong factor\n" in printed
    assert "SURVIVED  numbers  halved: without a test\n    x / 2\n" in printed
    assert "STALE (0 functions have this name)  numbers  quartered: code that is gone\n" in printed
    assert printed.splitlines()[-1].startswith("1 of 3 detected (1 SURVIVED, 1 detected, 1 stale)")
    assert main([*options, "--stale", "doubled"]) == 0
