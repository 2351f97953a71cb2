"""What `python -m benchmarks.launch` writes: each figure when it is taken, and the missed gates."""

import json
import sys

import pytest

from benchmarks import launch
from benchmarks.launch import Row


def test_each_figure_is_written_before_the_next_is_taken(monkeypatch, tmp_path, capsys):
    file = tmp_path / "figures.json"

    def measure(only, seed):
        assert (only, seed) == ("calls", 0)
        yield Row("first", 1.0, "us", 2.0)
        assert capsys.readouterr().out.startswith("first")
        assert [row["name"] for row in json.loads(file.read_text())] == ["first"]
        yield Row("second", 3.0, "us", 2.0, "of a device")
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["launch", "--only", "calls", "--json", str(file)])
    with pytest.raises(KeyboardInterrupt):
        launch.main()
    assert "MISSED of a device" in capsys.readouterr().out
    assert [row["value"] for row in json.loads(file.read_text())] == [1, 3]


@pytest.mark.parametrize(("value", "status"), [(1.0, 0), (3.0, 1), (None, 0)])
def test_a_missed_gate_is_the_exit_status(monkeypatch, value, status):
    monkeypatch.setattr(launch, "measure", lambda only, seed: iter([Row("one", value, "us", 2.0)]))
    monkeypatch.setattr(sys, "argv", ["launch", "--check"])
    assert launch.main() == status
