"""The interpreter is there because it is fast: a modest part of what the benchmark asks."""

from benchmarks import interpreter


def test_a_small_multiply_is_several_times_faster(tmp_path, capsys):
    assert interpreter.main(["--size", "256", "--json", str(tmp_path / "rows.json")]) == 0
    assert capsys.readouterr().out.count(" x\n") == 6
    rows = interpreter.measured("sm_80", 256)
    assert rows[0]["ratio"] > 4
