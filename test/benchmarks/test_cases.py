"""The table of cases is the one that the gates are written for."""

import pytest

from benchmarks.cases import CASES, EXTRAS, named, select
from benchmarks.gemm_case import Gemm


def test_names_are_unique():
    everything = (*CASES, *EXTRAS)
    assert len({case.name for case in everything}) == len(everything)
    assert all(named(case.name) is case for case in everything)


@pytest.mark.parametrize(
    ("section", "rows", "gates"),
    [
        ("main", 22, {0.97}),
        ("integers", 2, {1.0, 1.1}),
        ("majors", 6, {0.97}),
        ("skinny", 8, {1.0}),
        ("fp8", 3, {0.97}),
        ("other", 4, {1.0}),
    ],
)
def test_sections(section, rows, gates):
    inside = select(f"^{section} ")
    assert len(inside) == rows
    assert {case.gate for case in inside} == gates
    assert all(case.goal > case.gate for case in inside)


def test_names_say_what_a_case_is():
    assert Gemm("main", "bf16", (8192, 8192, 8192)).name == "8192^3 bf16 TN"
    assert Gemm("main", "bf16", (1, 2, 3), "NT").name == "1x2x3 bf16 NT"
    assert Gemm("main", "bf16", (2, 2, 2), batch=16).name == "16 x 2^3 bf16 TN"
    assert Gemm("main", "f16", (2, 2, 2), values="integers").name == "2^3 f16 TN integers"
    assert Gemm("extra", "e4m3", (2, 2, 2), sums="blocks").name == "2^3 e4m3 TN blocks"
    assert Gemm("extra", "f16", (2, 2, 2), align=4).name == "2^3 f16 TN align 4"
    assert Gemm("main", "f16", group=((1, 2, 3), (4, 5, 6))).name == "2 uneven problems f16 TN"


def test_work_and_traffic():
    case = Gemm("main", "s8", (10, 20, 30), batch=2)
    assert case.flops == 2 * 2 * 10 * 20 * 30
    assert case.bytes == 2 * (10 * 30 + 30 * 20 + 4 * 10 * 20)
    group = Gemm("main", "bf16", group=((1, 2, 3), (4, 5, 6)))
    assert group.flops == 2 * (6 + 120)
    assert all(case.starved == (case.section in ("skinny", "decode")) for case in CASES)


def test_select():
    assert [case.name for case in select(r"8192\^3 e4m3")] == ["8192^3 e4m3 TN"]
    assert len(select()) == len(CASES)
    quick = select(quick=True)
    assert {case.section for case in quick} == {case.section for case in CASES}
    assert len(quick) < len(CASES)


def test_rows_without_gates_are_chosen_by_their_section_alone():
    assert {case.section for case in EXTRAS} == {"extra"}
    assert {case.gate for case in EXTRAS} == {0}
    assert select("extra", kind="gemm") == EXTRAS
    assert [case.name for case in select("extra .* s8 N")] == ["8192^3 s8 NT", "8192^3 s8 NN"]
    for expression in (None, "", "gemm", "e4m3", r"4096\^3 bf16 T", "8 uneven"):
        assert not set(EXTRAS) & set(select(expression, kind="gemm"))
    with pytest.raises(ValueError, match="expected to match a case"):
        select("extra", kind="attention")


def test_what_matches_nothing_is_an_error_with_the_names():
    with pytest.raises(ValueError, match=r"got 'f17'(.|\n)*8192\^3 bf16 TN"):
        select("f17")
    with pytest.raises(ValueError, match="expected a regular expression"):
        select("(")
