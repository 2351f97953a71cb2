"""The command that validates every stage of every kernel of the benchmarks and examples."""

import json

import pytest
from xdsl.dialects import arith

from benchmarks import stages
from cutedialect.passes.tile.fuse import FusePass


def test_rows_list_the_stages_that_agree(tmp_path, capsys):
    found = tmp_path / "rows.json"
    only = r"gemm main 1024\^3 bf16|chain decayed|softmax 2048x"
    assert stages.main(["--only", only, "--json", str(found)]) == 0
    rows = json.loads(found.read_text())
    assert len(rows) == 3
    for row in rows:
        assert row["stages"][:3] == ["cute-structure-exits", "cute-fuse", "cute-tile"]
        assert "cute-schedule-loops" in row["stages"]
    out = capsys.readouterr().out
    assert all(f"{row['name']:52} {len(row['stages'])} stages agree" in out for row in rows)


def test_a_pass_that_changes_a_result_is_named(monkeypatch, capsys):
    apply = FusePass.apply

    def wrong(self, ctx, module):
        apply(self, ctx, module)
        sums = [op for op in module.walk() if isinstance(op, arith.MulfOp)]
        for op in sums:
            op.operands[1] = op.operands[0]

    monkeypatch.setattr(FusePass, "apply", wrong)
    assert stages.main(["--only", "chain decayed"]) == 1
    assert "cute-fuse changed the result" in capsys.readouterr().out


def test_no_row_is_no_success():
    assert stages.main(["--only", "no such row"]) == 1


@pytest.mark.long
def test_all_stages_of_all_rows_agree():
    assert stages.main([]) == 0
