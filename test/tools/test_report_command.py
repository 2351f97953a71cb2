"""`python -m cutedialect report`: one page on what a kernel does and what it costs."""

from __future__ import annotations

import re
import textwrap
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.__main__ import main
from cutedialect.model.devices import H100
from cutedialect.tools import roofline, sass
from cutedialect.tools.report_facts import facts_of, operations

PROGRAM = textwrap.dedent("""
    import numpy as np
    import cutedialect as cute

    @cute.kernel
    def product(A, B, C, *, tile=(64, 64, 32)):
        bm, bn, bk = tile
        m, n = cute.tile_index(C, (bm, bn))
        gA = cute.local_tile(A, (bm, bk), (m, None))
        gB = cute.local_tile(B, (bk, bn), (None, n))
        acc = cute.zeros((bm, bn), cute.f32)
        for k in cute.range(gA.tiles):
            cute.gemm(gA[k], gB[k], acc)
        cute.copy(acc.to(C.dtype), cute.local_tile(C, (bm, bn), (m, n)))

    a = np.ones((64, 96), np.float16)
    c = np.zeros((64, 64), np.float16)
    product(a, a.T.copy()[:, :64], c, arch="ARCH", schedule="SCHEDULE")
""")
HOPPER = ("sm_90a", "roles = specialized, warps = (4,1), stages = 2")
AMPERE = ("sm_80", "warps = (2,2), stages = 2")


def script(folder: Path, name: str, arch: str, schedule: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(PROGRAM.replace("ARCH", arch).replace("SCHEDULE", schedule))
    return path


class Balanced(HTMLParser):
    """Elements that are opened and closed in order, and what they load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag != "meta" and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_of_two_kernels_side_by_side(tmp_path, capsys):
    scripts = [script(tmp_path, "hopper", *HOPPER), script(tmp_path, "ampere", *AMPERE)]
    out = tmp_path / "report.html"
    assert main(["report", *map(str, scripts), "-o", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    text = out.read_text()
    page = Balanced(text)
    assert (page.open, page.loads) == ([], [])
    assert text.count("<section>") == 2
    assert "product for sm_90a, product for sm_80" in text
    for head in ("Program", "Schedule", "Resources", "Roles over time", "The loop that runs most"):
        assert text.count(f"<h3>{head}</h3>") == 2, head
    # The model knows H100; for the other target the page says that it does not.
    assert text.count("<h3>Bound</h3>") == 1
    assert text.count("<h3>Roles by the model</h3>") == 1
    bars = re.findall(r">([^<>]+)</text><rect [^>]*/><text [^>]*>(\d+)%</text>", text)
    assert any(name.startswith("main, ") for name, _ in bars)
    assert any(name.startswith("waits for ") for name, _ in bars)
    assert all(1 <= int(share) <= 100 for _, share in bars)
    assert "expected a target of" in text
    assert "cute.gemm(gA[k], gB[k], acc)" in text
    assert "wgmma.mma_async" in text
    assert "IR after cute-synchronize" in text


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    path = script(folder, "ampere", *AMPERE)
    scope: dict = {"__name__": "__main__"}
    exec(compile(path.read_text().rpartition("\n\n")[0], str(path), "exec"), scope)
    a = np.ones((64, 96), np.float16)
    c = np.zeros((64, 64), np.float16)
    b = a.T.copy()
    arch, schedule = AMPERE
    kernel = cute.compile(
        scope["product"], a, b, c, arch=arch, schedule=schedule, backend="emulator"
    )
    kernel.launch(a, b, c)
    return facts_of(kernel, None, str(path))


def test_lines_have_what_they_cost(facts):
    (lines,) = [part for file, part in facts.program.items() if file.endswith("ampere.py")]
    text = Path(facts.source).read_text().split("\n")
    (store,) = [at for at in lines if "cute.copy(acc" in text[at - 1]]
    (multiply,) = [at for at in lines if "cute.gemm(" in text[at - 1]]
    # 64 x 64 halves are stored, each once; rows of 128 bytes are four sectors.
    assert lines[store].bytes == 64 * 64 * 2
    assert lines[store].sectors >= 64 * 4
    assert lines[multiply].instructions > lines[store].instructions / 4
    total = sum(line.instructions for part in facts.program.values() for line in part.values())
    # What stands in front of the first line of the program comes from none.
    assert 0.9 < total / facts.kernel.reports[0].total_instructions <= 1


def test_operations_are_those_of_the_multiplies(facts):
    assert operations(facts.kernel, facts.kernel.reports) == 2 * 64 * 64 * 96


def test_choices_and_resources_are_beside_what_they_mean(facts):
    stages, raster = facts.choices["stages"], facts.choices["raster"]
    assert (stages.value, stages.decided) == ("2", "as the call has it")
    assert "hides the latency" in stages.said
    assert raster.decided == "by cute-tile"
    taken = {each.name: (each.taken, each.limit) for each in facts.resources}
    assert taken["threads of a CTA"] == (128, 1024)
    assert taken["shared memory of a CTA"][1] == 166912


def test_the_loop_that_runs_most_multiplies(facts):
    assert any("mma.sync" in line.text for line in facts.hot)
    (count,) = {line.count for line in facts.hot if line.text.startswith("mma.sync")}
    assert count == 4 * 3  # warps and steps along K
    if sass.find() is not None:
        assert any("HMMA" in each.text for each in facts.machine)


def test_what_is_no_page_or_no_launch_is_refused(tmp_path, capsys):
    path = script(tmp_path, "ampere", *AMPERE)
    assert main(["report", str(path), "-o", "report.txt"]) == 1
    assert "expected the name of an .html file" in capsys.readouterr().err
    (tmp_path / "none.py").write_text("x = 1\n")
    assert main(["report", str(tmp_path / "none.py"), "-o", str(tmp_path / "r.html")]) == 1
    assert "expected a launch of 0" in capsys.readouterr().err


LISTING = """\
	//## File "k.py", line 3
        /*0000*/  MOV R1, c[0x0][0x28] ;
.L_x_0:
	//## File "k.py", line 4
        /*0010*/  HMMA.16816.F32 R4, R132, R136, R4 ;
.L_x_1:
        /*0020*/  HMMA.16816.F32 R8, R132, R136, R8 ;
        /*0030*/  @P0 BRA `(.L_x_1) ;
	//## File "k.py", line 5
        /*0040*/  @P1 BRA `(.L_x_0) ;
.L_x_2:
        /*0050*/  BRA `(.L_x_2) ;
"""


def test_loops_of_machine_code():
    code = sass.parsed(LISTING)
    assert [each.location for each in code][:3] == ["k.py:3", "k.py:4", "k.py:4"]
    assert sass.loops(code) == [range(1, 5), range(2, 4)]
    assert sass.hot_loop(code, ["k.py:4"]) == range(1, 5)
    assert sass.hot_loop(code, ["k.py:9"]) == range(0)


def test_a_roofline_bends_where_memory_and_tensor_cores_meet():
    top = roofline.peak(H100)
    assert top == pytest.approx(949e12, rel=1e-2)
    assert roofline.peak(H100, 8) == 2 * top
    ridge = top / H100.memory_bytes
    points = [roofline.Point("a", ridge, top), roofline.Point("b", ridge / 10, top / 10, "peer")]
    picture = roofline.svg(H100, points, "two & one")
    assert "two &amp; one" in picture
    path = re.search(r'<path d="M([\d.]+) ([\d.]+) L([\d.]+) ([\d.]+) L', picture)
    circles = re.findall(
        r'<circle cx="([\d.]+)" cy="([\d.]+)" r="5" fill="#0072b2" fill-op', picture
    )
    assert circles == [(path[3], path[4])]
    assert "peer, b: " in picture
