"""`python -m cutedialect schedules`: the list, the default's mark, answers to bad input."""

import json

import pytest

import cutedialect as cute
from cutedialect.__main__ import main


def listed(capsys, *arguments):
    assert main(["schedules", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_whole_list_can_be_read(capsys):
    found = listed(capsys)
    assert {entry["bits"] for entry in found["schedules"]} == {8, 16, 32}
    assert 0 < len(found["schedules"]) <= 180
    assert found["default"] is None
    assert not any(entry["chosen"] for entry in found["schedules"])
    assert main(["schedules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{len(found['schedules'])} schedules for sm_90a"
    assert len(lines) == 1 + len(found["schedules"])
    parsed = [cute.Schedule.parse(line.split("bits")[1]) for line in lines[1:]]
    assert parsed == [cute.Schedule.parse(entry["schedule"]) for entry in found["schedules"]]


@pytest.mark.parametrize(
    ("arguments", "bits"),
    [(("--bits", "8"), 8), (("--dtype", "bf16"), 16), (("--dtype", "float32"), 32)],
)
def test_one_width(capsys, arguments, bits):
    found = listed(capsys, *arguments)
    assert {entry["bits"] for entry in found["schedules"]} == {bits}


@pytest.mark.parametrize(
    ("problem", "dtype", "more"),
    [
        ("4096x4096x4096", "bf16", ()),
        ("16x14336x4096", "f16", ()),
        ("2048x2048x2048", "e4m3", ("--batch", "16")),
        ("100x200x300", "i8", ()),
    ],
)
def test_the_default_is_what_a_call_compiles(capsys, problem, dtype, more):
    found = listed(capsys, "--problem", problem, "--dtype", dtype, *more)
    m, n, k = map(int, problem.split("x"))
    batch = (16,) if more else ()
    a = cute.TensorSpec((*batch, m, k), dtype)
    b = cute.TensorSpec((*batch, k, n), dtype, (*(None for _ in batch), 1, None))
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", backend="emulator")
    assert found["default"] == kernel.schedule
    chosen = [entry for entry in found["schedules"] if entry["chosen"]]
    assert len(chosen) == 1
    default = cute.Schedule.parse(kernel.schedule)
    assert default.merged(cute.Schedule.parse(chosen[0]["schedule"])) == default
    assert all(entry["cycles"] > 0 for entry in found["schedules"])


@pytest.mark.parametrize("majors", ["TT", "NN", "NT"])
def test_majors_of_bytes_leave_out_what_cannot_be_transposed(capsys, majors):
    arguments = ("--problem", "4096x4096x4096", "--majors", majors)
    found = listed(capsys, *arguments, "--dtype", "e4m3")
    a, b = (
        cute.TensorSpec((4096, 4096), "e4m3", (None, 1) if major == "T" else (1, None))
        for major in majors
    )
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", backend="emulator")
    assert found["default"] == kernel.schedule
    assert sum(entry["chosen"] for entry in found["schedules"]) == 1
    left_out = [entry["schedule"] for entry in found["schedules"] if entry["cycles"] is None]
    assert (
        "tile = (64,8,128), cluster = (1,1), roles = specialized, swap_ab = no" in left_out
    ) == (majors[1] == "T")
    assert main(["schedules", *arguments, "--dtype", "f32"]) == 0
    assert capsys.readouterr().out.startswith("sm_90a has no list for this: ")


def test_the_mark_is_printed_once(capsys):
    assert main(["schedules", "--problem", "4096x4096x4096"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("*") for line in lines) == 1
    assert lines[-1].startswith("default: tile = ")


def test_a_target_without_a_list(capsys):
    assert main(["schedules", "--arch", "sm_80", "--problem", "512x512x512"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("sm_80 has no list")
    assert lines[1].startswith("default: ")
    assert "stages = " in lines[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--problem", "4096"], "--problem: expected MxNxK such as 4096x4096x4096, got '4096'"),
        (["--problem", "0x1x1"], "--problem: expected MxNxK"),
        (["--problem", "1x1x1", "--batch", "0"], "--batch: expected 1 or more, got 0"),
        (["--dtype", "f64"], "--dtype: expected a type of 8, 16, 32 bits, got f64 of 64"),
        (["--dtype", "bf16", "--bits", "8"], "--dtype: expected a type of 8 bits, got bf16 of 16"),
        (["--dtype", "bf17"], "did you mean bf16?"),
        (["--arch", "sm_99", "--problem", "1x1x1"], "arch: "),
        (["--arch", "sm_99"], "arch: "),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, said):
    assert main(["schedules", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_80"])
def test_schedules_of_an_attention_have_needs(capsys, arch):
    found = listed(capsys, "--attention", "4x16x1024x1024x128", "--causal", "--arch", arch)
    entries = found["schedules"]
    assert 10 <= len(entries) <= 100
    assert all("bytes of shared memory" in entry["needs"] for entry in entries)
    for entry in (found["default"], *(entry["schedule"] for entry in entries)):
        assert cute.Schedule.parse(entry).text() == entry
    spec = cute.TensorSpec((4, 16, 1024, 128), "bf16")
    kernel = cute.compile(cute.attention, *[spec] * 3, causal=True, arch=arch, backend="emulator")
    chosen = cute.Schedule.parse(kernel.schedule)
    assert chosen.merged(cute.Schedule.parse(found["default"])) == chosen
    assert main(["schedules", "--attention", "4x16x1024x1024x128", "--arch", arch]) == 0
    assert "others that cute.autotune times" in capsys.readouterr().out


@pytest.mark.parametrize("sizes", ["4x16x1024x128", "4x16x0x16x64", "all"])
def test_sizes_of_an_attention_are_five(sizes, capsys):
    assert main(["schedules", "--attention", sizes]) != 0
    assert "--attention: expected batch, heads, rows, keys" in capsys.readouterr().err
