"""`python -m cutedialect`: doctor, cache and compile, as a user calls them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cutedialect.__main__ import main
from cutedialect.backend.runtime import cache, ptxas
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.tools import doctor

KERNEL = """\
import cutedialect as cute

@cute.kernel
def double(X, Y, *, tile=(1, 64)):
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    cute.copy(x + x, cute.local_tile(Y, tile, (i, j)))

not_a_kernel = 3
"""


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "expected a command, got nothing" in capsys.readouterr().err
    assert main(["docter"]) == 2
    assert "got 'docter'" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "doctor" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["cache", "shrink"])
    assert caught.value.code == 2


def test_cache_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cache.write("cubin", cache.key("a"), b"abc")
    assert main(["cache", "path"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/cache\n"
    assert main(["cache", "ls", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["kind"], entry["key"]) == ("cubin", cache.key("a"))
    assert main(["cache", "ls"]) == 0
    assert "1 entries" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "removed 1 entries\n"
    assert list(cache.entries()) == []


def test_doctor_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines][:3] == ["cutedialect", "python", "xdsl"]
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["emulator"]["status"] == "ok"
    assert "self-check" in found["emulator"]["detail"]
    if ptxas.candidates():
        assert found["ptxas"]["status"] == "ok"


def change_self_check(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Let another instruction stand in the kernel that the doctor runs."""
    program = doctor._self_check().program
    assert old in program.ptx
    changed = Kernel(replace(program, ptx=program.ptx.replace(old, new)), backend="emulator")
    monkeypatch.setattr(doctor, "_self_check", lambda: changed)


def test_doctor_names_what_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    change_self_check(monkeypatch, "fma.rn.f32", "fma.rn.f33")
    monkeypatch.setenv("CUTEDIALECT_PTXAS", str(tmp_path / "absent"))
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "gpu")
    assert main(["doctor", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ptxas"]["status"] == "failed"
    assert "CUTEDIALECT_PTXAS: expected an executable file" in found["ptxas"]["detail"]
    assert found["environment"]["status"] == "failed"
    assert "'gpu'" in found["environment"]["detail"]
    assert found["emulator"]["status"] == "failed"


def test_doctor_sees_a_wrong_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change_self_check(monkeypatch, "%f1, %f0, %f19;", "%f1, %f0, %f1;")
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["emulator"]["detail"] == "self-check: wrong result"


def test_a_closed_pipe_is_no_error() -> None:
    for index in range(1200):
        cache.write("tool", cache.key(str(index)), b"")
    done = subprocess.run(
        f"'{sys.executable}' -m cutedialect cache ls | head -1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tool ")


def test_compile_writes_every_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "doubling.py").write_text(KERNEL)
    out = tmp_path / "out"
    assert (
        main(["compile", f"{tmp_path}/doubling.py:double", "?x?:f32", "?x?:f32", "-o", str(out)])
        == 0
    )
    names = sorted(path.name for path in out.iterdir())
    stages = [name for name in names if name.endswith(".mlir")]
    assert "double.ptx" in names
    assert stages[0] == "00-trace.mlir"
    assert stages[-1].endswith("convert-to-ptx.mlir")
    assert ".entry double" in (out / "double.ptx").read_text()
    if ptxas.candidates():
        assert (out / "double.cubin").read_bytes().startswith(b"\x7fELF")
    assert str(out / "double.ptx") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["doubling.py"], "expected FILE.py:NAME, cute.gemm, cute.grouped_gemm, cute.routed_gemm, "
         "cute.attention, cute.attention_backward, cute.quantize, cute.conv2d, cute.conv2d_dgrad "
         "or cute.conv2d_wgrad, got 'doubling.py'"),
        (["absent.py:double"], "expected a Python file, got 'absent.py'"),
        (["doubling.py:triple"], "expected a kernel 'triple'"),
        (["doubling.py:not_a_kernel"], "got int"),
        (["doubling.py:double", "what"], "expected an argument such as ?x?:f16"),
        (["doubling.py:double", "?x?:f32"], "expected 2 arguments"),
        (["doubling.py:double", "?x?:f31", "?x?:f32"], "f31"),
        (["doubling.py:double", "?x?:f32", "?x?:f32", "--schedule", "stagez = 3"], "stagez"),
    ],
)  # fmt: skip
def test_compile_explains_itself(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doubling.py").write_text(KERNEL)
    assert main(["compile", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:", "got SyntaxError from "),
        ("import nothing_of_that_name", "got ModuleNotFoundError from "),
        ("raise RuntimeError('two\\nlines')", ": two\n"),
        ("import sys; sys.exit(3)", "got SystemExit from "),
        (KERNEL + "doubled = 1", "did you mean 'double'?"),
    ],
)
def test_a_file_that_does_not_run_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "program.py"
    file.write_text(text)
    name = f"{file}:{'duble' if 'double' in text else 'f'}"
    assert main(["compile", name]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith("error: expected ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "cute.gemm: missing a required argument: 'b'; its arguments are a, b, c, "),
        (["8x8:f16", "8x8:f16"], "cute.gemm: too many positional arguments"),
        (["8x8:f16", "--set", "bais=8:f16"], "got an unexpected keyword argument 'bais'"),
    ],
)
def test_arguments_that_gemm_does_not_take(
    capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert main(["compile", "cute.gemm", "8x8:f16", *more]) == 1
    assert said in capsys.readouterr().err


def test_an_interrupt_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cutedialect.tools.compile_command.kernel_named", stopped)
    assert main(["compile", "cute.gemm", "8x8:f16", "8x8:f16"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_cache_prune(capsys: pytest.CaptureFixture[str]) -> None:
    for index in range(4):
        cache.write("cubin", cache.key(str(index)), b"x" * 1000)
    size = next(cache.entries()).size
    assert main(["cache", "prune", "--size", str(3 * size)]) == 0
    assert capsys.readouterr().out == f"removed 1 entries, {size:,} bytes\n"
    assert main(["cache", "prune", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": 0, "bytes": 0}
    assert main(["cache", "prune", "--size", "much"]) == 1
    assert "--size: expected a size such as 500M or 2G, got 'much'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["cache", "ls", "--size", "1G"])
    assert main(["cache", "clear"]) == 0
    assert "removed 3 entries\n" in capsys.readouterr().out


ADD_ONE = """
import cutedialect as cute

@cute.kernel
def add_one(X, Y):
    at = (0, 0)
    cute.copy(cute.load(cute.local_tile(X, (16, 16), at)) + 1, cute.local_tile(Y, (16, 16), at))
"""


def test_compiled_files_name_no_folder_of_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "deep" / "kernels.py"
    source.parent.mkdir()
    source.write_text(ADD_ONE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    # Bytecode that Python keeps of the file that it imports is none of what is compiled.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "05-notes.mlir").write_text("of the user")
    given = ["?x?:f32", "?x?:f32"]
    assert main(["compile", f"{source}:add_one", *given]) == 0
    assert main(["compile", "cute.gemm", "?x?:f16", "?x?:f16", "-o", "out"]) == 0
    capsys.readouterr()
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != source]
    assert len(written) > 12
    home = str(Path(main.__code__.co_filename).parents[1]).encode()
    for path in written:
        content = path.read_bytes()
        assert str(tmp_path).encode() not in content, path
        assert home not in content, path
    assert '"deep/kernels.py"' in (tmp_path / "add_one.ptx").read_text()
    assert (tmp_path / "05-notes.mlir").read_text() == "of the user"


def test_compile_leaves_a_users_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels.py").write_text(ADD_ONE)
    (tmp_path / "add_one.json").write_text("of the user")
    monkeypatch.chdir(tmp_path)
    command = ["compile", "kernels.py:add_one", "?x?:f32", "?x?:f32"]
    assert main(command) == 1
    assert "expected to write add_one.json anew" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["add_one.json", "kernels.py"]
    (tmp_path / "add_one.json").unlink()
    assert main(command) == 0
    assert main([*command, "--arch", "sm_90a"]) == 1
    assert main([*command, "--arch", "sm_90a", "--force"]) == 0


def compiled_to(folder: Path, *arguments: str) -> int:
    return main(["compile", *arguments, "-o", str(folder)])


def test_kernels_of_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another kernel of a name is refused, and has a name of its own; of another name it may have
    any.
    """
    (tmp_path / "doubling.py").write_text(KERNEL + ADD_ONE)
    out, file = tmp_path / "out", f"{tmp_path}/doubling.py"
    f32, f16 = ([f"{file}:double", *[f"?x?:{dtype}"] * 2] for dtype in ("f32", "f16"))
    assert compiled_to(out, *f32) == 0
    text = (out / "double.ptx").read_bytes()
    for other in (f16, [*f32, "--arch", "sm_90a"], [*f32, "--set", "tile=(2,64)"]):
        assert compiled_to(out, *other) == 1
        assert "got that of another kernel (doubling.py:double " in capsys.readouterr().err
        assert (out / "double.ptx").read_bytes() == text
    assert compiled_to(out, *f16, "--name", "double_f16") == 0
    assert compiled_to(out, f"{file}:add_one", "?x?:f32", "?x?:f32") == 0
    assert compiled_to(out, *f32) == 0
    stages = [path.name for path in out.glob("*-00-trace.mlir")]
    assert sorted(stages) == ["add_one-00-trace.mlir", "double_f16-00-trace.mlir"]
    assert (out / "double.ptx").read_bytes() == text
    for name in ("double", "double_f16", "add_one"):
        assert f".entry {name}(" in (out / f"{name}.ptx").read_text()
        description = json.loads((out / f"{name}.json").read_text())
        assert description["name"] == name
        assert [launch["kernel"] for launch in description["launches"]] == [name]
    assert compiled_to(out, *f16, "--force") == 0
    assert "<f16" in (out / "00-trace.mlir").read_text()
    assert compiled_to(out, *f16, "--name", "of f16") == 1
    assert "expected a name of ASCII letters, digits and _" in capsys.readouterr().err


TWICE = """
@cute.host
def twice(X, Y):
    half = cute.workspace((16, 16), cute.f32)
    cute.launch(add_one, X, half)
    cute.launch(add_one, half, Y)
"""


def test_kernels_of_a_named_program(tmp_path: Path) -> None:
    """Each has the name in front of its own, in the text and where it is launched."""
    (tmp_path / "adding.py").write_text(ADD_ONE + TWICE)
    given = [f"{tmp_path}/adding.py:twice", "16x16:f32", "16x16:f32", "--name", "both"]
    assert compiled_to(tmp_path, *given) == 0
    entries = re.findall(r"\.entry (\w+)\(", (tmp_path / "both.ptx").read_text())
    assert entries == ["both_add_one", "both_add_one_2"]
    description = json.loads((tmp_path / "both.json").read_text())
    assert [launch["kernel"] for launch in description["launches"]] == entries
