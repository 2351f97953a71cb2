"""`benchmarks.compare_trees` finds which kernels of another tree differ, and what that costs."""

import gc
import json
import os
import shutil
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import compare_trees
from benchmarks.supervisor import NoDeviceError
from benchmarks.trees import assembly, rows, turns
from benchmarks.trees.launches import Launches, Operands
from benchmarks.trees.pairs import DIFFERENT, GONE, NEITHER, NEW, Pair, Trees, _pair
from benchmarks.trees.tree import ROOT, Tree, exported
from benchmarks.trees.worker import Worker, bare
from cutedialect.backend.runtime import ptxas
from cutedialect.tools import sass

SIZE = '".address_size 64"'


@pytest.fixture
def base(tmp_path):
    """This tree once more, with one example less and with another one's program changed."""
    folder = tmp_path / "base"
    shutil.copytree(ROOT / "cutedialect", folder / "cutedialect")
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    (folder / "examples").mkdir()
    (folder / "examples" / "elementwise.py").symlink_to(ROOT / "examples" / "elementwise.py")
    text = (ROOT / "examples" / "softmax.py").read_text()
    (folder / "examples" / "softmax.py").write_text(text.replace("(value - new)", "(value - m)"))
    return folder


def compared(base, tmp_path, *more):
    file = tmp_path / "rows.json"
    given = ["--base-path", str(base), "--targets", "sm_80", "--jobs", "1", "--json", str(file)]
    code = compare_trees.main([*given, *more])
    return code, json.loads(file.read_text())


def test_what_differs_for_its_program_is_compiled_of_the_same_one(base, tmp_path, capsys):
    only = ("--kernels", "examples", "--only", r"(elementwise|softmax|transpose)\.py")
    code, pairs = compared(base, tmp_path, *only)
    said = capsys.readouterr().out
    count = sum("elementwise" in row["name"] for row in pairs)
    assert count > 0
    assert f"{count} equal, {len(pairs) - count} equal where both compile the program" in said
    assert code == 0
    names = [row["name"] for row in pairs]
    assert "examples/softmax.py softmax 3" in names
    assert "examples/transpose.py transpose 1" in names


def test_a_compiler_that_prints_otherwise(base, tmp_path, capsys):
    printer = base / "cutedialect" / "backend" / "ptx" / "printer.py"
    text = printer.read_text()
    assert SIZE in text
    printer.write_text(text.replace(SIZE, f'{SIZE}, ".global .u32 of_the_base;"'))
    more = ["--assemble"] if ptxas.candidates() and sass.find() else []
    only = ("--kernels", "tables", "--only", r"^1024\^3 bf16 TN$", "--compile", "1")
    code, (pair,) = compared(base, tmp_path, *only, *more)
    said = capsys.readouterr().out
    assert code == 0
    assert pair["state"] == DIFFERENT
    assert all(ms > 0 for ms in pair["figures"]["before check"])
    assert "1 compilations for sm_80 without the check" in said
    if more:
        assert "of 1 that differ 1 are the same machine code" in said


def test_a_tree_has_its_own_package(base, tmp_path):
    """Whatever is installed, and wherever this process runs."""
    process = Tree(base, ROOT, tmp_path).process()
    with process:
        assert process.machine["package"] == str(base)
    (base / "cutedialect" / "__init__.py").unlink()
    with pytest.raises(NoDeviceError, match=r"expected 'cutedialect' of .*base, got"):
        process._start()
    process._stop()


def test_states_of_a_name():
    def pair(new=None, old=None, mixed=None):
        tables = ({"k": {"ptx": file} if file else {"failure": "no"}} for file in (new, old, mixed))
        return _pair("tables", "sm_80", "k", *tables)

    assert pair().state == NEITHER
    assert pair("a").state == NEW
    assert pair("a").why == "no"
    assert pair(old="a").state == GONE
    both = pair("a", "b", "c")
    assert (both.state, both.is_own, both.old) == (DIFFERENT, True, Path("b"))
    both = pair("a", None, "c")
    assert (both.state, both.is_own, both.old) == (DIFFERENT, False, Path("c"))


def test_comments_and_lines_of_the_source_are_no_difference():
    one = '// CHECK\n.visible .entry k()\n{\n\t.loc 1 20 3\n\tret; // done\n}\n\t.file 1 "a.py"'
    assert bare(one) == bare(".visible .entry k()\n{\n\tret;\n}\n") == bare(bare(one))
    assert bare(one) != bare(one.replace("entry k", "entry j"))


def test_a_revision_that_git_lacks():
    with pytest.raises(ValueError, match=r"expected a revision that git knows .*, or --base-path"):
        exported("no-such-revision", ROOT)
    assert compare_trees.main(["--base", "no-such-revision"]) == 2


@pytest.mark.parametrize(
    ("figures", "is_missed"),
    [
        ({"us": [10, 10], "ratio": 1.0, "deviation": 0.0}, False),
        ({"us": [9, 10], "ratio": 0.9, "deviation": 0.0}, True),
        ({"us": [10, 10], "ratio": 1.0, "deviation": 0.5}, True),
        ({"predicted": [1e-6, 1e-6], "spills": [0, 0]}, False),
        ({"predicted": [1e-6, 1.1e-6], "spills": [0, 0]}, True),
        ({"spills": [0, 8]}, True),
        # What a device says counts more than what a model does.
        ({"us": [10, 10], "ratio": 1.0, "deviation": 0.0, "predicted": [1, 2]}, False),
    ],
)
def test_what_is_missed(figures, is_missed):
    pair = Pair("tables", "sm_90a", "k", DIFFERENT, figures=figures)
    assert rows.missed(pair) == is_missed
    assert rows.row(pair).startswith("MISSED ") == is_missed
    assert "\n".join(rows.summary([pair])).count("k on sm_90a") == len(
        {"us", "predicted"} & {*figures}
    )


class Answers:
    """A process of a tree that takes so many milliseconds for a launch."""

    def __init__(self, ms, result, failure=""):
        self.ms, self.result, self.failure = ms, result, failure

    def ask(self, request):
        if self.failure:
            return {"failure": self.failure}
        return self.result if request["do"] == "prepare" else {"ms": self.ms}


def test_launches_in_turns(tmp_path):
    files = [tmp_path / f"{number}.npz" for number in range(3)]
    for file, last in zip(files, (4.0, 3.0, np.nan), strict=True):
        np.savez(file, np.array([1.0, np.inf, last], np.float32))
    results = [{"digests": [file.name], "samples": str(file)} for file in files]
    pair = Pair("tables", "sm_90a", "k", DIFFERENT)
    turns._launch(pair, (Answers(0.3, results[0]), Answers(0.2, results[1])), tmp_path)
    assert pair.figures["ratio"] == pytest.approx(1.5)
    assert pair.figures["us"] == pytest.approx([300, 200])
    assert pair.figures["deviation"] == 0.25
    assert turns._deviation(results[0], results[0]) == 0
    assert turns._deviation(results[0], results[2]) == np.inf
    pair = Pair("tables", "sm_90a", "k", DIFFERENT)
    turns._launch(pair, (Answers(0.3, results[0]), Answers(0, {}, "no memory")), tmp_path)
    assert pair.figures == {"not timed": "this tree's: no memory"}


def test_a_cubin_that_the_disassembler_refuses_is_a_figure_of_its_pair(monkeypatch, tmp_path):
    """The pairs behind it are examined all the same."""

    def assembled(name, content):
        file = tmp_path / name
        file.write_bytes(content)
        answer = {"cubin": str(file), "registers": len(content), "spills": 0}
        return SimpleNamespace(ask=lambda request: answer)

    def read(cubin):
        if not cubin:
            raise ValueError("expected a cubin that nvdisasm reads, got: not readable")
        return []

    pairs = [Pair("tables", "sm_80", name, DIFFERENT) for name in ("refused", "read")]
    processes = (
        [assembled("empty", b""), assembled("old", b"old")],
        [assembled("old", b"old"), assembled("new", b"newer")],
    )
    monkeypatch.setattr(assembly, "read", read)
    monkeypatch.setattr(
        assembly, "with_processes", lambda trees, some: zip(some, processes, strict=True)
    )
    trees = Trees(*[Tree(ROOT, ROOT, tmp_path)] * 3)
    assembly.assembled(trees, pairs, str(tmp_path))
    assert "alike" not in pairs[0].figures
    assert "not read: expected a cubin that nvdisasm reads, got: not" in rows.row(pairs[0])
    assert "registers 3 -> 5" in rows.row(pairs[1])
    assert "not read" not in rows.row(pairs[1])


def test_a_file_is_whole_for_who_reads_it_while_another_process_writes_it(tmp_path):
    """Kernels of one machine code, whichever process assembles them, have one file."""
    content = SimpleNamespace(
        cubin=b"machine code", assembly=SimpleNamespace(registers=32, spill_stores=0, spill_loads=0)
    )
    worker = Worker(tmp_path, print)
    worker._found = lambda *names: SimpleNamespace(kernel=content)
    request = {"do": "assemble", "kind": "tables", "target": "sm_80", "name": "k"}
    file = worker.answer({**request, "folder": str(tmp_path)})["cubin"]
    with Path(file).open("rb") as reader:
        at_first = os.fstat(reader.fileno())
        assert worker.answer({**request, "folder": str(tmp_path)})["cubin"] == file
        # What is open has not been emptied for the second one.
        assert os.fstat(reader.fileno()).st_mtime_ns == at_first.st_mtime_ns
        assert reader.read() == b"machine code"
    assert [path.name for path in tmp_path.iterdir()] == [Path(file).name]


@pytest.mark.parametrize("error", [None, RuntimeError("an illegal instruction")])
def test_a_process_whose_device_is_lost_says_so(monkeypatch, tmp_path, error):
    """What asks starts another one, so that the next pair is timed."""

    def synchronize():
        if error is not None:
            raise error

    cuda = SimpleNamespace(is_initialized=lambda: True, synchronize=synchronize)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    answer = Worker(tmp_path, print).answer({"do": "round"})
    assert "AttributeError" in answer["failure"]
    assert answer["lost"] == (error is not None)


def test_operands_live_as_long_as_their_launches(monkeypatch):
    """Captured graphs have their addresses alone."""
    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    timing = SimpleNamespace(make_batches=lambda torch, calls, sets, launches: [launches])
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "benchmarks.timing", timing)
    arrays = [np.zeros(1), np.zeros(1)]
    kept = [weakref.ref(array) for array in arrays]
    sets = [Operands((array,), ()) for array in arrays]
    launches = Launches(lambda operands: None, sets, 1)
    del arrays, sets
    gc.collect()
    assert all(reference() is not None for reference in kept)
    del launches
    gc.collect()
    assert not any(reference() is not None for reference in kept)
