"""The ptxas driver on real ptxas, and its parser on the lines that ptxas is known to print."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.errors import CompileError, PtxasNotFoundError
from cutedialect.backend.runtime.program import assembled
from cutedialect.backend.runtime.ptx_text import canonical, entries, origin, target

needs_ptxas = pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")

DROPPED_SETMAXNREG = """\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .b64 p)
.reqntid 384,1,1
{
  .reg .b64 %rd<2>;
  setmaxnreg.dec.sync.aligned.u32 40; // ir: pipeline.role
  ld.param.b64 %rd0, [p];
  st.global.b64 [%rd0], %rd0;
  ret;
}
"""


@needs_ptxas
def test_assembles_and_counts(scale_ptx: str) -> None:
    assembly = ptxas.assemble(scale_ptx, "sm_80", strict=True)
    assert assembly.cubin.startswith(b"\x7fELF")
    assert list(assembly.kernels) == ["scale"]
    assert 4 <= assembly.registers <= 32
    assert (assembly.spill_stores, assembly.spill_loads, assembly.stack) == (0, 0, 0)
    assert assembly.messages == ()


@needs_ptxas
def test_older_target_assembles_for_a_newer_device(scale_ptx: str) -> None:
    assert ptxas.assemble(scale_ptx, "sm_90").cubin != ptxas.assemble(scale_ptx, "sm_80").cubin


@needs_ptxas
def test_each_kernel_has_its_own_figures(scale_ptx: str) -> None:
    second = """
.visible .entry shared(.param .b64 p)
{
  .reg .b64 %rd<2>;
  .shared .align 16 .b8 tile[640];
  ld.param.b64 %rd0, [p];
  bar.sync 0;
  st.shared.b64 [tile], %rd0;
  bar.sync 0;
  st.global.b64 [%rd0], %rd0;
  ret;
}
"""
    assembly = ptxas.assemble(scale_ptx + second, "sm_80")
    assert set(assembly.kernels) == {"scale", "shared"}
    assert assembly.kernels["shared"].smem == 640
    assert assembly.kernels["shared"].barriers == 1
    assert assembly.kernels["scale"].smem == 0
    assert assembly.smem == 640


@needs_ptxas
@pytest.mark.parametrize(
    ("good", "bad", "said", "location", "ir"),
    [
        ("ld.global.f32 %f1", "ld.global.foo.f32 %f1", "foo", "kernels.py:4:9", "cute.copy"),
        ("mul.f32 %f1, %f1, %f0", "mul.f32 %f1, %f1, %f9", "'mul'", "kernels.py:4:9", "cute.copy"),
        ("mov.u32 %r1,", "mov.u32 %rd1,", "rguments", "kernels.py:3:5", "cute.tile_index"),
    ],
)
def test_errors_name_the_python_line(
    scale_ptx: str, good: str, bad: str, said: str, location: str, ir: str
) -> None:
    broken = scale_ptx.replace(good, bad)
    line = next(i for i, text in enumerate(broken.splitlines(), 1) if bad in text)
    with pytest.raises(CompileError) as caught:
        ptxas.assemble(broken, "sm_80")
    error = caught.value
    assert (error.code, error.ptx_line, error.location, error.ir) == (
        "CD-PTXAS",
        line,
        location,
        ir,
    )
    assert said in error.message
    assert str(error).startswith(f"{location}: error[CD-PTXAS]: ptxas: ")
    assert bad in str(error)


@needs_ptxas
def test_every_error_of_the_file_is_told(scale_ptx: str) -> None:
    broken = scale_ptx.replace("mul.f32 %f1", "mul.f33 %f1").replace("bra DONE", "bra GONE")
    with pytest.raises(CompileError) as caught:
        ptxas.assemble(broken, "sm_80")
    assert len(caught.value.notes) >= 2


@needs_ptxas
@pytest.mark.parametrize(("ptx", "arch"), [("", "sm_80"), (DROPPED_SETMAXNREG, "sm_80")])
def test_errors_without_a_place(ptx: str, arch: str) -> None:
    with pytest.raises(CompileError) as caught:
        ptxas.assemble(ptx, arch)
    assert caught.value.code == "CD-PTXAS"
    assert caught.value.location is None


@needs_ptxas
def test_unknown_arch_is_an_error(scale_ptx: str) -> None:
    with pytest.raises(CompileError, match="sm_999"):
        ptxas.assemble(scale_ptx, "sm_999")


@needs_ptxas
def test_a_dropped_setmaxnreg_is_an_error_only_when_strict() -> None:
    assembly = ptxas.assemble(DROPPED_SETMAXNREG, "sm_90a")
    assert [message.code for message in assembly.messages] == ["C7508"]
    with pytest.raises(CompileError) as caught:
        ptxas.assemble(DROPPED_SETMAXNREG, "sm_90a", strict=True)
    assert caught.value.code == "C7508"
    kept = DROPPED_SETMAXNREG.replace("384,1,1", "384,1,1\n.minnctapersm 1")
    assert ptxas.assemble(kept, "sm_90a", strict=True).registers == 168


@needs_ptxas
def test_spills_are_an_error_when_strict() -> None:
    values = range(64)
    ptx = "\n".join(
        [
            ".version 7.0\n.target sm_80\n.address_size 64",
            ".visible .entry k(.param .b64 p)\n.maxnreg 24\n{",
            "  .reg .b64 %rd<2>;\n  .reg .f32 %f<65>;\n  ld.param.b64 %rd0, [p];",
            *(f"  ld.volatile.global.f32 %f{i}, [%rd0+{4 * i}];" for i in values),
            *(f"  st.volatile.global.f32 [%rd0+{4 * i}], %f{63 - i};" for i in values),
            "  ret;\n}\n",
        ]
    )
    assembly = ptxas.assemble(ptx, "sm_80")
    assert assembly.spill_stores > 0
    assert assembly.spill_loads > 0
    with pytest.raises(CompileError) as caught:
        ptxas.check_strict(assembly, ptx)
    assert caught.value.code == "CD-SPILL"


@needs_ptxas
def test_the_same_machine_code_comes_from_the_cache(
    scale_ptx: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = assembled(scale_ptx, "sm_80")
    monkeypatch.setattr(ptxas, "assemble", lambda *_, **__: pytest.fail("assembled twice"))
    moved = scale_ptx.replace('"kernels.py"', '"elsewhere.py"').replace(".loc 1 3 5", ".loc 1 9 9")
    assert assembled(moved.replace("// ir: cute.copy", ""), "sm_80") == first


@needs_ptxas
def test_strict_also_holds_for_a_cached_cubin() -> None:
    assembled(DROPPED_SETMAXNREG, "sm_90a", strict=False)
    with pytest.raises(CompileError, match="setmaxnreg"):
        assembled(DROPPED_SETMAXNREG, "sm_90a")


def test_the_chosen_ptxas_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen = tmp_path / "my-ptxas"
    chosen.write_text("#!/bin/sh\necho 'release 12.9, V12.9.86'\n")
    monkeypatch.setenv("CUTEDIALECT_PTXAS", str(chosen))
    with pytest.raises(PtxasNotFoundError, match="expected an executable file"):
        ptxas.find()
    chosen.chmod(0o755)
    assert ptxas.find("sm_80") == chosen
    assert ptxas.version() == "12.9.86"


def test_the_search_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folders = {
        "wheel": tmp_path / "nvidia" / "cu13",
        "wheel12": tmp_path / "nvidia" / "cuda_nvcc",
        "home": tmp_path / "home",
        "path": tmp_path / "path",
    }
    for name, folder in folders.items():
        file = folder / "bin" / "ptxas"
        file.parent.mkdir(parents=True)
        release = "12.9.86" if name == "wheel12" else "13.0.88"
        file.write_text(f"#!/bin/sh\necho 'V{release}'\n")
        file.chmod(0o755)
    monkeypatch.setattr(ptxas, "_nvidia_roots", lambda: (tmp_path / "nvidia",))
    monkeypatch.setenv("CUDA_HOME", str(folders["home"]))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(folders["path"] / "bin"), prepend=":")
    found = [path.parent.parent.name for path in ptxas.candidates()]
    assert found == ["cu13", "cuda_nvcc", "home", "path"]
    assert ptxas.find("sm_80").parent.parent.name == "cu13"
    assert ptxas.find("sm_70").parent.parent.name == "cuda_nvcc"
    (folders["wheel12"] / "bin" / "ptxas").unlink()
    with pytest.raises(PtxasNotFoundError, match=r"CUDA 12 for sm_70, got 13\.0\.88"):
        ptxas.find("sm_70")


def test_no_ptxas_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptxas, "candidates", lambda: ())
    with pytest.raises(PtxasNotFoundError, match="pip install"):
        ptxas.find()


def test_parses_the_lines_of_older_releases() -> None:
    kernels, messages = ptxas.parse_messages(
        "ptxas info    : 0 bytes gmem, 24 bytes cmem[4]\n"
        "ptxas info    : Compiling entry function 'gemm' for 'sm_90a'\n"
        "ptxas info    : Function properties for gemm\n"
        "    96 bytes stack frame, 96 bytes spill stores, 100 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 9 barriers, 384 bytes cumulative stack size, "
        "1024 bytes smem, 400 bytes cmem[0]\n"
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to wgmma pipeline crossing function boundary in function 'gemm'\n"
        "ptxas warning : Value of threads per SM for entry gemm is out of range. "
        ".minnctapersm will be ignored\n"
        "ptxas g.ptx, line 12; warning : something else\n"
    )
    assert kernels == {"gemm": ptxas.KernelUsage(168, 96, 100, 96, 1024, 9)}
    assert [(m.severity, m.code, m.line, m.kernel) for m in messages] == [
        ("info", "C7510", None, "gemm"),
        ("warning", "", None, None),
        ("warning", "", 12, None),
    ]
    assert all(message.is_loss for message in messages)


def test_entries_read_sizes_and_shape() -> None:
    found = entries(
        "// .entry comment(.param .b8 x)\n"
        ".visible .entry a(.param .b64 p, .param .align 64 .b8 tm[128],\n"
        "  .param .u64 .ptr .global .align 16 q, .param .f16 h)\n"
        ".reqntid 128, 1, 1 .reqnctapercluster 2 { ret; }\n"
        ".entry b { ret; }\n"
    )
    assert [(e.name, e.sizes, e.threads, e.cluster) for e in found] == [
        ("a", (8, 128, 8, 2), (128, 1, 1), (2, 1, 1)),
        ("b", (), None, None),
    ]


def test_canonical_text_keeps_strings(scale_ptx: str) -> None:
    text = '.pragma "a // b"; // ir: x\n  .loc 1 2 3\n.file 1 "/home/k.py"\n/* c\n */ ret;\n'
    assert canonical(text) == '.pragma "a // b";\nret;'
    assert target(scale_ptx) == "sm_80"
    assert canonical(scale_ptx) != canonical(scale_ptx.replace("%f1, %f1, %f0", "%f1, %f0, %f0"))


def test_origin_stops_at_the_function(scale_ptx: str) -> None:
    lines = (scale_ptx + ".visible .entry other()\n{\n  ret;\n}\n").splitlines()
    came_from = origin("\n".join(lines), lines.index(".visible .entry other()") + 3)
    assert came_from.location is None
    assert came_from.ir is None


def bounded(threads: int, ctas: int) -> str:
    return f".visible .entry k()\n.reqntid {threads}, 1, 1\n.minnctapersm {ctas}\n{{ ret; }}\n"


def test_instructions_that_lack_registers_get_those_of_fewer_ctas(monkeypatch) -> None:
    """Like spills: an instruction that takes more registers than a thread has is an error."""
    tried: list[str] = []

    def assemble(text: str, arch: str, **options: object) -> ptxas.Assembly:
        del arch, options
        tried.append(text)
        if ".minnctapersm 1" not in text:
            raise CompileError("ptxas: Insufficient registers (72)", code="C7602")
        return ptxas.Assembly(b"ELF")

    monkeypatch.setattr(ptxas, "assemble", assemble)
    monkeypatch.setattr(ptxas, "version", lambda path: "13.0.0")
    monkeypatch.setattr(ptxas, "find", lambda arch: Path("ptxas"))
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    assert assembled(bounded(416, 2), "sm_100a").cubin == b"ELF"
    assert tried == [bounded(416, 2), bounded(416, 1)]


def test_instructions_that_lack_registers_of_one_cta_are_an_error(monkeypatch) -> None:
    def assemble(text: str, arch: str, **options: object) -> ptxas.Assembly:
        raise CompileError("ptxas: Insufficient registers (72)", code="C7602")

    monkeypatch.setattr(ptxas, "assemble", assemble)
    monkeypatch.setattr(ptxas, "version", lambda path: "13.0.0")
    monkeypatch.setattr(ptxas, "find", lambda arch: Path("ptxas"))
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    with pytest.raises(CompileError) as caught:
        assembled(bounded(416, 2), "sm_100a")
    assert caught.value.code == "C7602"
