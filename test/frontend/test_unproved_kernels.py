"""What becomes of a kernel whose synchronization the check refuses: a default gives way to the next
candidate, a schedule that was given is an error with its code, and `protocol="warn"` makes a remark
of it. The findings are made up: the compiler has no kernel that is refused.
"""

from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError
from cutedialect.explanations import page
from cutedialect.passes.protocol import check_protocol
from cutedialect.passes.protocol.check_protocol import Verdict
from cutedialect.passes.protocol.findings import UNORDERED, Finding

WHERE: dict[str, Any] = {"arch": "sm_90a", "backend": "emulator"}


def product():
    """A program of its own: kernels are remembered by their program."""

    @cute.kernel
    def program(A, B, C):
        i, j = cute.tile_index(C, (64, 64))
        a, b = cute.local_tile(A, (64, 64), (i, None)), cute.local_tile(B, (64, 64), (None, j))
        acc = cute.zeros((64, 64))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc, cute.local_tile(C, (64, 64), (i, j)))

    return program


def compiled(program=None, **options):
    half, single = (cute.TensorSpec((None, None), kind) for kind in ("f16", "f32"))
    return cute.compile(program or product(), half, half, single, **WHERE, **options)


@pytest.fixture
def refuse(monkeypatch):
    """Refuse the kernels that a condition on the schedule's text holds for; what was asked."""
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")

    def refusing(condition):
        asked = []

        def verdict(kernel):
            text = "" if kernel.schedule is None else kernel.schedule.data.text()
            asked.append(text)
            if not condition(text):
                return Verdict((), 1)
            op = next(op for op in kernel.body.walk() if op.name == "cute.gemm")
            return Verdict((Finding(UNORDERED, op, "made up for a test"),), 1)

        monkeypatch.setattr(check_protocol, "verdict_of", verdict)
        return asked

    return refusing


def test_a_program_takes_the_next_schedule_and_says_why(refuse):
    refuse(lambda text: "epilogue = direct" not in text)
    kernel = compiled()
    assert "epilogue = direct" in kernel.schedule
    (remark,) = [each for each in kernel.remarks if UNORDERED in each.message]
    assert remark.message.startswith("epilogue = direct taken by default, else: error[CD-R1]: made")
    assert remark.location is not None
    assert __file__ in remark.location


def test_a_call_of_the_library_takes_the_next_candidate(refuse):
    asked = refuse(lambda text: len(asked) == 1)
    a = np.ones((192, 320), np.float16)
    kernel = cute.compile(cute.gemm, a, a.T.copy(), activation="silu", **WHERE)
    assert len(asked) == 2
    assert any("error[CD-R1]: made up" in each.message for each in kernel.remarks)


def test_three_candidates_at_most_are_compiled(refuse):
    asked = refuse(lambda text: True)
    with pytest.raises(CompileError) as error:
        compiled()
    assert error.value.code == UNORDERED
    assert error.value.location is not None
    assert len(asked) == 3


def test_a_schedule_that_is_given_is_an_error_with_its_code(refuse):
    refuse(lambda text: "stages = 3" in text)
    with pytest.raises(CompileError) as error:
        compiled(schedule="roles = specialized, stages = 3")
    assert str(error.value).split("\n")[0].endswith("error[CD-R1]: made up for a test")
    assert "without stages: schedule='roles = specialized'" in str(error.value)
    assert "orders" in page(error.value.code).title


@pytest.mark.parametrize("where", ["program", "call"])
def test_a_refusal_may_be_a_remark(refuse, where):
    refuse(lambda text: True)
    program, options = product(), {"protocol": "warn"}
    if where == "program":
        program, options = cute.kernel(protocol="warn")(program.function), {}
    kernel = compiled(program, schedule="roles = specialized", **options)
    assert "CD-R1: made up for a test" in [each.message for each in kernel.remarks]
    # What is only warned of is not what a call that refuses takes.
    with pytest.raises(CompileError):
        compiled(program, schedule="roles = specialized", protocol="refuse")


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="protocol to be one of refuse, warn, got 'allow'"):
        cute.kernel(protocol="allow")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="protocol to be one of refuse, warn, got 'no'"):
        compiled(protocol="no")
