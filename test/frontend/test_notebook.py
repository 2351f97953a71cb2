"""What a notebook shows of kernels, reports and schedules."""

from html.parser import HTMLParser

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import notebook
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.kernel import Resources
from cutedialect.remarks import Remark, Remarks


class Checked(HTMLParser):
    """Every tag is closed, in order; collects the summaries."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.summaries = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["summary"]:
            self.summaries.append(data.split(" (")[0])


def summaries(html):
    parser = Checked()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser.summaries


@cute.kernel
def twice(X, Y, *, tile=(16, 16)):
    at = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, at).load()
    cute.copy(cute.where(x < 0, x, x * 2), cute.local_tile(Y, tile, at))


SPEC = cute.TensorSpec((None, None), cute.f32)


def test_a_kernel_shows_its_stages_resources_and_ptx():
    kernel = cute.compile(twice, SPEC, SPEC, arch="sm_80")
    shown = kernel._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html"}
    titles = summaries(shown["text/html"])
    assert titles[-1 - len(kernel.stages) :] == [*kernel.stages, "PTX"]
    assert "&lt;f32" in shown["text/html"]
    assert f"{kernel.resources.registers} a thread" in shown["text/html"]
    assert shown["text/plain"].startswith(repr(kernel))
    assert "registers" in shown["text/plain"]


def test_a_kernel_shows_its_remarks():
    @cute.kernel(spills="warn")
    def printing(X):
        cute.printf("%f", 1.0)
        cute.copy(cute.zeros((16, 16)), cute.local_tile(X, (16, 16), (0, 0)))

    kernel = cute.compile(printing, SPEC, arch="sm_90a")
    shown = kernel._repr_mimebundle_()
    assert ("remarks" in summaries(shown["text/html"])) == bool(kernel.remarks)


def test_a_kernel_without_an_assembler(monkeypatch):
    kernel = cute.compile(twice, SPEC, SPEC, arch="sm_80", tile=(32, 16))

    def missing(*given, **options):
        raise ptxas.PtxasNotFoundError("expected ptxas, got none", code="CD-NO-PTXAS")

    monkeypatch.setattr("cutedialect.backend.runtime.kernel.assembled", missing)
    monkeypatch.setattr("cutedialect.backend.runtime.kernel.losses", lambda program: ())
    shown = kernel._repr_mimebundle_()
    assert "expected ptxas, got none" in shown["text/plain"]
    assert summaries(shown["text/html"])[-1] == "PTX"


def test_a_long_text_is_cut():
    text = "\n".join(f"line {n} <b>" for n in range(5000))
    html = notebook.folded("stage", text, "kernel.stages['x']")
    assert summaries(html) == ["stage"]
    assert "3500 more lines in kernel.stages[" in html
    assert "line 1499 " in html
    assert "line 1500 " not in html
    assert "<b>" not in html


def test_a_schedule_shows_the_fields_that_are_set():
    shown = cute.Schedule(tile=(128, 128, 32), roles="uniform")._repr_mimebundle_()
    assert shown["text/plain"] == "#cute.schedule<tile = (128,128,32), roles = uniform>"
    assert shown["text/html"].count("<tr>") == 2
    summaries(shown["text/html"])
    assert "heuristic" in cute.Schedule()._repr_mimebundle_()["text/html"]


def test_a_report_shows_its_counts():
    kernel = cute.compile(twice, SPEC, SPEC, arch="sm_80", backend="emulator")
    x = np.ones((16, 16), np.float32)
    kernel.launch(x, x.copy())
    [report] = kernel.reports
    report.output = "a < b"
    shown = report._repr_mimebundle_()
    assert shown["text/plain"] == str(report)
    assert summaries(shown["text/html"]) == ["warp instructions", "printed"]
    assert "a &lt; b" in shown["text/html"]
    opcode, count = report.instructions.most_common(1)[0]
    assert f"<code>{opcode}</code></td><td>{count:,}" in shown["text/html"]


@pytest.mark.parametrize("value", [cute.Layout((64, 65)), cute.Layout((1 << 20, 4))])
def test_a_picture_that_would_be_too_large_is_text(value):
    assert value._repr_svg_() is None


def test_remarks_are_a_table_with_their_lines():
    remarks = Remarks((Remark("cute-tile", "expected <b>", "k.py:3:4"), Remark("launch", "no")))
    assert remarks == (remarks[0], remarks[1])
    html = remarks._repr_html_()
    assert '<td style="text-align:left">k.py:3:4</td>' in html
    assert "expected &lt;b&gt;" in html
    assert html.count("<tr>") == 3
    assert str(remarks) == "k.py:3:4: remark: [cute-tile] expected <b>\nremark: [launch] no"
    assert (str(Remarks()), Remarks()._repr_html_()) == ("no remarks", "<p>no remarks</p>")
    spec = cute.TensorSpec((None, None), cute.f16)
    assert isinstance(cute.compile(cute.gemm, spec, spec, arch="sm_80").remarks, Remarks)


def test_resources_are_a_table():
    shown = Resources(168, 0, 163904, 3, {"load": 5})._repr_mimebundle_()
    assert shown["text/plain"].startswith("Resources(registers=168")
    assert "<code>168 of 255 a thread</code>" in shown["text/html"]
    assert "<code>163,904 bytes</code>" in shown["text/html"]


def test_timelines_are_pictures_in_a_notebook_and_tables_in_a_terminal():
    @cute.kernel
    def doubled(X, Y):
        at = cute.tile_index(Y, (8, 32))
        cute.copy(2 * cute.local_tile(X, (8, 32), at).load(), cute.local_tile(Y, (8, 32), at))

    x, y = np.ones((16, 32), np.float32), np.zeros((16, 32), np.float32)
    with cute.timeline() as launches:
        doubled(x, y, backend="emulator")
        assert launches == []
    assert (y == 2).all()
    (launch,) = launches
    assert launch._repr_svg_().startswith("<svg ")
    assert str(launch).startswith(f"{launch.end} cycles")
