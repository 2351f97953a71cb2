"""`benchmarks.reach` counts the files and lines of the compiler that a compilation runs."""

import re

from benchmarks.reach import main


def test_one_product(capsys):
    assert main(["--target", "sm_80"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    found = re.search(
        r"enter (\d+) files; .* (\d+) files of (\d+) lines, (\d+) .* runs (\d+)", last
    )
    assert found is not None, last
    entered, files, lines, code, ran = map(int, found.groups())
    assert 0 < entered < 2 * files
    assert 1000 < ran < code < lines
