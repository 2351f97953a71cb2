"""What fusing costs grows as a program does: no loop that is unrolled is searched for each map."""

import pytest

import cutedialect as cute
from cutedialect.passes.tile import fuse


@cute.kernel
def cholesky(A, L, *, n):
    a = cute.local_tile(A, (n, n), (0, 0)).load()
    row, column = cute.coord(a, 0), cute.coord(a, 1)
    found = cute.zeros((n, n))
    for j in range(n):
        pivot = cute.row_sum(cute.column_sum(cute.where((row == j) & (column == j), a, 0.0)))
        below = cute.row_sum(cute.where(column == j, a, 0.0)) / cute.sqrt(pivot)
        below = cute.where(row >= j, below, 0.0)
        found.assign(cute.where(column == j, below, found))
        a = a - below * cute.column_sum(cute.where(row == column, below, 0.0))
    cute.copy(found, cute.local_tile(L, (n, n), (0, 0)))


def test_what_is_asked_of_ops_grows_with_their_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    asked = 0

    def counted(op):
        nonlocal asked
        asked += 1
        return written(op)

    written = fuse.written
    monkeypatch.setattr(fuse, "written", counted)
    spec = cute.TensorSpec((None, None), "f32")
    counts = []
    for n in (8, 16):
        asked = 0
        cute.compile(cholesky, spec, spec, n=n, arch="sm_80")
        counts.append(asked)
    assert counts[1] <= 2.5 * counts[0], counts
