"""Printed lines against their target: in tests and under CUTEDIALECT_VERIFY, located at the op."""

import pytest
from xdsl.utils.exceptions import VerifyException

from cutedialect.backend.ptx import ptx_text
from cutedialect.dialects.ptx import KernelOp

ILLEGAL = """
ptx.kernel @k() attributes {target = "sm_75", threads = 32 : i32} {
  ptx.bar.sync 0
  ptx.cp.async.commit_group
  ptx.bar.sync 0
}
"""
MESSAGE = r"expected an instruction that sm_75 has for ptx.cp.async.commit_group, got 'cp.async"


def test_tests_check_what_they_print(parse):
    with pytest.raises(VerifyException, match=MESSAGE) as caught:
        ptx_text(parse(ILLEGAL))
    assert caught.value.args[1].name == "ptx.cp.async.commit_group"


@pytest.mark.parametrize("word", ["each", "ptx"])
def test_the_environment_asks_for_the_check(monkeypatch, parse, word):
    monkeypatch.setenv("CUTEDIALECT_VERIFY", word)
    with pytest.raises(VerifyException, match=MESSAGE):
        ptx_text(parse(ILLEGAL))


def test_nothing_is_checked_where_no_one_asks(monkeypatch, parse):
    monkeypatch.delenv("CUTEDIALECT_VERIFY")
    assert "cp.async.commit_group" in ptx_text(parse(ILLEGAL))
    with pytest.raises(VerifyException, match=MESSAGE):
        ptx_text(parse(ILLEGAL), verify=True)


def test_lines_belong_to_the_op_that_printed_them(parse):
    source = ILLEGAL.replace("ptx.bar.sync 0\n}", '"ptx.cp.async.commit_group"() : () -> ()\n}')
    first, second = (
        op for op in next(iter(parse(source).ops)).body.block.ops if op.name.startswith("ptx.cp")
    )
    with pytest.raises(VerifyException) as caught:
        ptx_text(first.parent.parent_op().parent_op())
    assert caught.value.args[1] is first
    first.detach()
    with pytest.raises(VerifyException) as caught:
        ptx_text(second.parent.parent_op().parent_op())
    assert caught.value.args[1] is second
    assert isinstance(second.parent.parent_op(), KernelOp)
