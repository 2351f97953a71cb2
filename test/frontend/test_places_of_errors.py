"""Where errors say that they are: a refused program of the library at the call that asked for it,
an error of the user's code in `compile` at its line, misspelled variables at the first call.
"""

import inspect

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import environment
from cutedialect.__main__ import main

A = np.ones((64, 64), np.float16)
Q = A.reshape(1, 1, 64, 64)


def here():
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return f"{__file__}:{frame.f_back.f_lineno}"


@pytest.mark.parametrize(
    ("call", "file"),
    [
        (lambda s: cute.gemm(A, A, schedule=s, arch="sm_80", backend="emulator"), "gemm"),
        (lambda s: cute.attention(Q, Q, Q, schedule=s, arch="sm_80"), "attention"),
        (lambda s: cute.compile(cute.gemm, A, A, schedule=s, arch="sm_80"), "gemm"),
    ],
)
def test_a_schedule_that_the_librarys_program_does_not_take(call, file):
    with pytest.raises(cute.CompileError) as caught:
        call("warps = (3,3)")
    assert caught.value.location == f"{__file__}:{call.__code__.co_firstlineno}"
    assert f"in the library's program, cutedialect/frontend/library/{file}.py:" in str(caught.value)


def test_a_users_program_keeps_its_line():
    @cute.kernel
    def wrong(X, Y):
        at = cute.tile_index(Y, (8, 8))
        cute.copy(cute.load(cute.local_tile(X, (8, 8), at)), cute.local_tile(Y, (8, 16), at))

    line = here().rpartition(":")
    with pytest.raises(cute.CompileError) as caught:
        cute.compile(wrong, A, A, arch="sm_80")
    assert caught.value.location == f"{line[0]}:{int(line[2]) - 2}"


PROGRAMS = """
import cutedialect as cute

@cute.kernel
def unknown(X, Y):
    nothing

def deep(X):
    raise KeyError("of a user")

@cute.kernel
def inside(X, Y):
    deep(X)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unknown", "6: NameError: name 'nothing' is not defined"),
        ("inside", "9: KeyError: 'of a user'"),
    ],
)
def test_an_error_in_a_kernel_that_is_compiled(tmp_path, capsys, name, said):
    file = tmp_path / "programs.py"
    file.write_text(PROGRAMS)
    assert main(["compile", f"{file}:{name}", "?x?:f32", "?x?:f32"]) == 1
    assert capsys.readouterr().err == f"error: {file}:{said}\n"


def test_the_librarys_program_has_no_place_on_a_command_line(capsys):
    given = ["?x?:f16", "?x?:f16", "--schedule", "warps = (3,3)"]
    assert main(["compile", "cute.gemm", *given]) == 1
    assert capsys.readouterr().err.startswith("error: error[CD-PASS]: expected a tile ")


def test_a_misspelled_variable_is_told_at_the_call(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NOCACHE", "1")
    asked = []
    check = environment.check
    monkeypatch.setattr(environment, "check", lambda: asked.append(1) or check())

    @cute.kernel
    def same(X, Y):
        at = cute.tile_index(Y, (8, 8))
        cute.copy(cute.load(cute.local_tile(X, (8, 8), at)), cute.local_tile(Y, (8, 8), at))

    with pytest.warns(UserWarning, match="did you mean CUTEDIALECT_NO_CACHE") as caught:
        cute.compile(same, A, A, arch="sm_80")
    assert caught[0].filename == __file__
    assert len(asked) == 1
