"""Outputs that lie on other arrays of a call are refused, by name; C may be overwritten."""

import itertools
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.aliasing import Named, check_aliases

EMULATED: dict[str, Any] = {"arch": "sm_80", "backend": "emulator"}


def overlaps(one, other):
    try:
        check_aliases([Named("in", one), Named("out", other, written=True)])
    except ValueError:
        return True
    return False


def views():
    """Pieces, lines, columns, planes and transposed parts of one buffer."""
    buffer = np.zeros((4, 6, 8), np.float16)
    yield from (buffer[i : i + 2] for i in range(3))
    yield from (buffer[..., i : i + n] for i, n in itertools.product((0, 2, 5), (1, 3)))
    yield from (buffer[:, i : i + n] for i, n in itertools.product((0, 2, 5), (1, 3)))
    yield from (buffer[1:3, i : i + 3, j : j + 4] for i, j in itertools.product((0, 3), (0, 4)))
    yield buffer.transpose(2, 0, 1)[3:5]
    yield buffer.reshape(-1)[20:60].reshape(4, 10)
    yield buffer.reshape(-1)[7:9]
    yield buffer[::-1][:2]
    yield buffer[1:3, ::-1, 2:5]
    yield buffer[..., 7:4:-1]


def test_views_of_one_buffer_are_told_apart():
    """As NumPy finds by looking at every element, for all that have a pitch in common."""
    pairs = list(itertools.product(views(), repeat=2))
    for one, other in pairs:
        assert overlaps(one, other) == np.shares_memory(one, other), (one.shape, other.shape)


def test_nothing_is_on_an_array_without_elements():
    buffer = np.zeros((8, 8), np.float16)
    assert not overlaps(buffer, buffer[:0])
    assert not overlaps(buffer[:, 3:3], buffer)


def operands():
    buffer = np.zeros((96, 64), np.float16)
    return buffer, buffer[:32, :32], np.ones((32, 32), np.float16), buffer[40:72, :32]


def test_an_output_on_an_operand_is_refused_before_it_is_written():
    buffer, a, b, out = operands()
    cute.gemm(a, b, out=out, **EMULATED)
    for name, given, wrong in (
        ("a", (a, b), a),
        ("a", (a, b), buffer[16:48, 16:48]),
        ("b", (b, a), a),
        ("bias", (b, b), buffer[:32, :32]),
    ):
        options = {"bias": buffer[3, :32]} if name == "bias" else {}
        wrong[...] = 7
        with pytest.raises(ValueError, match=f"^out: expected .* array that overlaps {name}\\b"):
            cute.gemm(*given, out=wrong, **options, **EMULATED)
        assert (wrong == 7).all()


def test_c_may_be_overwritten_as_it_is():
    buffer, a, b, out = operands()
    a[...] = np.eye(32)
    for arch in ("sm_80", "sm_90a"):
        out[...] = 2
        cute.gemm(a, b, c=out, beta=3.0, out=out, arch=arch, backend="emulator")
        assert (out == 7).all()
    with pytest.raises(ValueError, match="or that of c as it is, got an array that overlaps c"):
        cute.gemm(a, b, c=buffer[41:73, :32], beta=3.0, out=out, **EMULATED)
    # What is not read may be anything.
    cute.gemm(a, b, c=buffer[41:73, :32], beta=0.0, out=out, **EMULATED)


def test_the_auxiliary_output_is_an_output():
    _, a, b, out = operands()
    with pytest.raises(ValueError, match=r"^aux: expected memory of its own"):
        cute.gemm(a, b, aux=a, **EMULATED)
    with pytest.raises(ValueError, match=r"overlaps (aux|out)\b"):
        cute.gemm(a, b, aux=out, out=out, **EMULATED)


def test_problems_of_a_group_have_outputs_of_their_own():
    _, a, b, out = operands()
    more = [np.ones((32, 32), np.float16) for _ in range(2)]
    cute.grouped_gemm([a, b], [b, b], out=[out, more[0]], **EMULATED)
    with pytest.raises(ValueError, match=r"^out\[1\]: .* overlaps as_\[0\]$"):
        cute.grouped_gemm([a, b], [b, b], out=[more[0], a], **EMULATED)
    with pytest.raises(ValueError, match=r"^out\[\d\]: .* overlaps out\[\d\]$"):
        cute.grouped_gemm([a, b], [b, b], out=[out, out], **EMULATED)
    cute.grouped_gemm([a, b], [b, b], c=[out, more[0]], beta=1.0, out=[out, more[0]], **EMULATED)
    with pytest.raises(ValueError, match=r"^out\[1\]: .* that of c\[1\] as it is"):
        cute.grouped_gemm(
            [a, b], [b, b], c=[out, more[0]], beta=1.0, out=[more[1], out], **EMULATED
        )


def test_elements_of_an_output_have_addresses_of_their_own():
    one = np.lib.stride_tricks.as_strided(np.zeros(32, np.float16), (32, 32), (0, 2))
    with pytest.raises(ValueError, match=r"out: expected every element at an address of its own"):
        cute.gemm(np.ones((32, 32), np.float16), np.ones((32, 32), np.float16), out=one, **EMULATED)
