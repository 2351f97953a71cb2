"""Kernels of tables, pages and examples are proved: none is refused, nothing is undecided of one,
and some case enters each body that some input does.
"""

import importlib.util
import runpy
import sys
from pathlib import Path

import pytest

from benchmarks.cases import CASES, EXTRAS
from benchmarks.streaming_case import Streaming
from benchmarks.streaming_others import OTHERS
from benchmarks.streaming_workloads import WORKLOADS

ROOT = Path(__file__).parents[3]
# All but one that launches what was compiled, and has no tile program any more.
EXAMPLES = sorted({*ROOT.glob("examples/*.py")} - {ROOT / "examples" / "from_json.py"})
PAGES = sorted((*ROOT.glob("docs/cookbook/*.md"), *ROOT.glob("docs/tutorial/*.md")))
PAGES += [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("index", "cookbook"))]
TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
TABLES = [(arch, case) for arch in TARGETS for case in (*CASES, *EXTRAS)]
STREAMS = [
    (arch, Streaming("streaming", "bf16", workload=workload))
    for arch in TARGETS
    for workload in (*WORKLOADS, *OTHERS)
]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


documents = load(ROOT / ".ci" / "documents.py")


@pytest.mark.some(2)
@pytest.mark.parametrize(("arch", "case"), TABLES)
def test_a_kernel_of_a_table_is_proved(arch, case, verdicts):
    if arch == "sm_80" and case.dtype == "e4m3":
        pytest.skip("no multiplies of 8-bit floats")
    case.compiled(None, arch)
    assert set(verdicts) <= {"proved"}


@pytest.mark.long
@pytest.mark.parametrize(("arch", "case"), STREAMS, ids=lambda part: getattr(part, "name", part))
def test_a_kernel_that_streams_is_proved(arch, case, verdicts):
    pytest.importorskip("torch")
    case.compiled(None, arch)
    assert set(verdicts) <= {"proved"}


@pytest.mark.some(1)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_kernels_of_a_page_are_proved(page, verdicts, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code = tmp_path / f"{page.stem}.py"
    code.write_text(documents.program(page.read_text()))
    load(code)
    assert set(verdicts) <= {"proved"}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_kernels_of_an_example_are_proved(example, verdicts, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.syspath_prepend(str(example.parent))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(example), run_name="__main__")
    assert not ended.value.code
    assert set(verdicts) <= {"proved"}
