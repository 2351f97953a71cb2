"""Golden parts of tests are what their RUN lines print, to the last line."""

from pathlib import Path

from cutedialect.tools.bless import main


def test_golden_parts_are_up_to_date(capsys):
    assert main(["--check", str(Path(__file__).parents[1])]) == 0, capsys.readouterr()
