"""`python -m benchmarks.predicted`: what the static model says of other schedules."""

import re

from benchmarks import predicted


def test_schedules_are_held_against_the_default(capsys):
    fields = ["--schedule", "scheduler = cancel", "--schedule", "tile = (64,999,64)"]
    assert predicted.main(["1024.3 bf16 TN", *fields]) == 0
    row, total = capsys.readouterr().out.splitlines()
    found = re.fullmatch(
        r"1024\^3 bf16 TN: [\d.]+ us \(tile = .*\); scheduler = cancel: ([\d.]+); "
        r"tile = \(64,999,64\): .*", row,
    )  # fmt: skip
    assert found is not None, row
    ratio = found[1]
    assert 0.5 < float(ratio) < 2
    assert total == f"scheduler = cancel: 1 products, mean {ratio}, {ratio} to {ratio}"


def test_products_that_are_not_predicted_are_named(capsys):
    assert predicted.main(["16 x 2048.3", "--schedule", "scheduler = cancel"]) == 0
    assert "only single products of rows of A are predicted" in capsys.readouterr().out
