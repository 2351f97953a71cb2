"""Lengths of one kind share kernels, each of which its schedule names."""

import pytest

from benchmarks import kernel_classes, launch
from benchmarks.kernel_classes import classes


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", [3, 40961])
def test_lengths_ask_for_few_kernels(seed):
    kinds = list(classes(seed, 60))
    assert {each.name.split()[0] for each in kinds} >= {
        "full",
        "window",
        "decode",
        "packed",
        "rows",
    }
    for each in kinds:
        assert 2 <= each.kernels <= each.most, each
        # Beside its schedule a kernel is one for rows whose sums multiplies add up, or registers.
        assert each.schedules <= each.kernels <= 2 * each.schedules, each


def test_rows_show_what_a_seed_draws(monkeypatch):
    monkeypatch.setattr(kernel_classes, "PROBLEMS", 12)
    asked = [launch.lengths(seed) for seed in (1, 1, 2)]
    shown = [[launch.line(row) for row in rows] for rows in asked]
    assert shown[0] == shown[1] != shown[2]
    assert all(line.startswith("kernels, ") and "schedules" in line for line in shown[0])


def test_lengths_of_a_class_ask_for_its_kernel_again(monkeypatch):
    # The same lengths once more, behind each other, ask for nothing new.
    kinds = [kind for kind in kernel_classes._kinds() if "128" in kind.name]
    twice = [
        kernel_classes._Kind(kind.name, _each_twice(kind.draw), kind.most) for kind in kinds[:3]
    ]
    once = {each.name: each.kernels for each in classes(5, 20)}
    monkeypatch.setattr(kernel_classes, "_kinds", lambda: iter(twice))
    assert {each.name: each.kernels for each in classes(5, 40)} == {
        kind.name: once[kind.name] for kind in twice
    }


def _each_twice(draw):
    states = []

    def again(rng):
        if states:
            rng.setstate(states.pop())
        else:
            states.append(rng.getstate())
        draw(rng)

    return again
