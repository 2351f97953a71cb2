"""Probes are small problems that the emulator solves, and their judges notice what is wrong."""

import numpy as np
import pytest

from benchmarks.attention_probes import AttentionProbe
from benchmarks.gemm_probes import GemmProbe
from benchmarks.probe import are_equal
from benchmarks.probes import probes
from benchmarks.random_probes import random_probes

PROBES = {
    "gemm": GemmProbe("gemm", (40, 24, 48)),
    "exact": GemmProbe("exact", (40, 24, 48), values="integers"),
    "attention": AttentionProbe("attention", sizes=((20, 30),), depths=(32, 32), causal=True),
    "packed": AttentionProbe(
        "packed", "f16", (4, 2), ((3, 9), (0, 4), (20, 11)), (16, 32), "packed", holes=True,
        window=(4, 2), softcap=3.0,
    ),
    "padded": AttentionProbe(
        "padded", "f16", (2, 1), ((1, 40), (1, 0)), (32, 16), "padded", order="odd", scale=0.5
    ),
}  # fmt: skip


def identity(array):
    return array


@pytest.fixture(scope="module", params=PROBES)
def solved(request):
    """(probe, its arrays, outputs of the emulator)."""
    probe = PROBES[request.param]
    given = probe.make(identity)
    return probe, given, probe.run(given, "emulator")


def test_names_are_unique_and_kinds_are_there():
    names = [probe.name for probe in probes()]
    assert len(set(names)) == len(names)
    assert len(names) > 400
    text = "\n".join(names)
    for part in (
        "turns",
        "dynamic",
        "window",
        "decode",
        "pages of 16",
        "e4m3",
        "softcap",
        "packed",
    ):
        assert any("attention" in name and part in name for name in text.splitlines())


def test_random_ones_are_the_same_each_time_and_differ():
    some = random_probes(200)
    assert some == random_probes(200)
    assert probes(7)[-7:] == some[:7]
    assert len({probe.name for probe in probes(200)}) == len(probes()) + 200
    assert {probe.form for probe in some} == {"equal", "packed", "padded"}
    assert any(probe.window and probe.softcap and probe.heads[0] > probe.heads[1] for probe in some)
    assert len({(probe.depths, probe.sizes) for probe in some}) > 100


@pytest.mark.some(1)
@pytest.mark.parametrize("number", [1, 4])
def test_random_ones_are_solved(number):
    probe = random_probes(5)[number]
    given = probe.make(identity)
    assert probe.wrong(given, probe.run(given, "emulator")) is None


@pytest.mark.some(3)
def test_what_is_right_is_not_wrong(solved):
    probe, given, outputs = solved
    assert probe.wrong(given, outputs) is None
    assert probe.apart(outputs, outputs) is None
    assert are_equal(outputs, outputs)


def test_what_is_off_is_wrong(solved):
    probe, given, outputs = solved
    off = [outputs[0] + np.asarray(0.25, outputs[0].dtype), *outputs[1:]]
    assert "expected" in str(probe.wrong(given, off))
    assert "expected the emulator's result" in str(probe.apart(outputs, off))
    assert not are_equal(outputs, off)


def test_equal_seeds_make_equal_values(solved):
    probe, _, outputs = solved
    again = probe.run(probe.make(identity), "emulator")
    assert are_equal(outputs, again)


def test_wrong_logarithms_and_holes_are_noticed():
    probe = PROBES["padded"]
    given = probe.make(identity)
    out, lse = probe.run(given, "emulator")
    assert np.isneginf(lse[1]).all()
    assert "lse -inf" in str(probe.wrong(given, [out, np.where(np.isneginf(lse), 0, lse)]))
    assert "lse within" in str(probe.wrong(given, [out, lse + np.float32(1e-3)]))
    leaked = out.copy()
    leaked[0, 0, 0, 0] = np.nan
    assert "expected NaN where a row sees it" in str(probe.wrong(given, [leaked, lse]))
    assert "where the emulator has it" in str(probe.apart([leaked, lse], [out, lse]))


@pytest.mark.parametrize("page", [4, 16])
def test_pages_hold_the_keys(page):
    probe = AttentionProbe("p", sizes=((1, 20), (1, 7)), form="padded", page=page, depths=(8, 8))
    paged, plain = probe.make(identity), PROBES["padded"].make(identity)
    assert "block_table" not in plain.options
    table, count = paged.options["block_table"], -(-20 // page)
    assert table.shape == (2, count)
    assert len(set(table.ravel())) == 2 * count
    whole = AttentionProbe("w", sizes=((1, 20), (1, 7)), form="padded", depths=(8, 8))
    keys = whole.make(identity).k
    joined = np.concatenate([paged.k[number] for number in table[0]], axis=1)[:, :20]
    assert np.array_equal(joined, keys[0])
