"""The explorer's page in a headless Chromium: one flow through its panels, by the browser's own
debugging pipe. Without a Chromium it says so; `test_explore_command.py` has what the server gives.
"""

from __future__ import annotations

import importlib.util
import json
import threading
from pathlib import Path

import pytest

from cutedialect.tools.explore_runs import Runs
from cutedialect.tools.explore_server import ExploreServer

PROGRAM = (Path(__file__).parent / "explored_kernel.py").read_text()


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tools = load(Path(__file__).parents[2] / ".ci" / "browser.py")
Browser, CHROMIUM = tools.Browser, tools.CHROMIUM
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: the page is not tried"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explored")
    file = folder / "kernel.py"
    file.write_text(PROGRAM)
    runs = Runs(file, 60)
    with ExploreServer(0, file.name, PROGRAM, runs.run) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        made = Browser(folder / "profile")
        made.call("Page.enable")
        made.call("Page.navigate", url=server.address)
        made.wait("document.readyState === 'complete' && !!document.getElementById('state')")
        made.wait("document.getElementById('state').textContent === 'product for sm_80'")
        yield made, runs
        made.close()
        server.shutdown()
        thread.join()
    runs.close()


def typed(page: Browser, text: str) -> None:
    """Change the program as if it were typed."""
    page.value(
        f"source.value = {json.dumps(text)}; source.dispatchEvent(new Event('input')); "
        "at('state').textContent = 'typed'"
    )


def test_one_flow_for_each_panel(browser):
    page, _ = browser
    # Stages: a list of them, with what changed.
    stages = page.value("[...at('stage').options].map(one => one.textContent)")
    assert stages[0] == "trace"
    assert stages[-1] == "convert-to-ptx"
    page.value("at('stage').value = 'cute-tile'; at('stage').onchange()")
    assert page.value("document.querySelectorAll('#lines .plus').length") > 0
    assert page.value("document.querySelectorAll('#lines .minus').length") > 0
    page.value("at('only').click()")
    assert page.value("[...at('lines').children].every(one => one.className)")
    # PTX: a line lights the line of Python that it comes from.
    page.value("at('tab-ptx').click()")
    assert page.value("at('stages').hidden && !at('ptx').hidden")
    lit = page.value(
        "const one = [...at('code').children].find(line => line.textContent.includes('mma.sync'));"
        "one.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));"
        "document.querySelector('#numbers .mark').textContent"
    )
    assert PROGRAM.split("\n")[int(lit) - 1].strip() == "cute.gemm(a[k], b[k], acc)"
    # Layouts, the run and the timeline are pictures and texts.
    for panel, inside in (
        ("layouts", "#pictures svg"), ("timeline", "#picture svg"), ("remarks", "#said li"),
    ):  # fmt: skip
        page.value(f"at('tab-{panel}').click()")
        assert page.value(f"document.querySelectorAll({json.dumps(inside)}).length") > 0
        assert page.value(f"!at({json.dumps(panel)}).hidden && at('ptx').hidden")
    assert page.value("at('tab-run').click(); at('arguments').textContent").startswith("32x32")
    assert "warp instructions" in page.value("at('report').textContent")
    assert page.value("at('printed').textContent") == "sum 32768\n"


def test_another_target_and_a_change(browser):
    page, _ = browser
    page.value("at('target').value = 'sm_90a'; at('target').onchange()")
    page.wait("at('state').textContent === 'product for sm_90a'")
    typed(page, PROGRAM.replace('print("sum"', 'print("total"'))
    page.wait("at('printed').textContent.startsWith('total')")


def test_an_error_with_its_caret(browser):
    page, _ = browser
    typed(page, PROGRAM.replace("acc.to(C.dtype)", "acc.to(7)"))
    page.wait("at('state').textContent === 'error'")
    said = page.value("at('error').textContent")
    lines = enumerate(PROGRAM.split("\n"), 1)
    line = next(number for number, text in lines if "acc.to(C.dtype)" in text)
    assert said.startswith(f"line {line}: kernel.py:{line}")
    assert said.rstrip("\n").endswith("^")
    assert page.value("document.querySelector('#numbers .has').textContent") == str(line)
    # The stages are those of the last run that had some.
    assert page.value("document.querySelectorAll('#lines div').length") > 0
    typed(page, PROGRAM)
    page.wait("at('state').textContent.startsWith('product')")
    assert page.value("at('error').textContent") == ""


def test_a_stage_is_edited_as_ir(browser):
    page, _ = browser
    page.value("at('only').checked = false; at('stage').value = 'trace'; at('as-ir').click()")
    page.wait("at('state').textContent.startsWith('module for')")
    assert page.value("at('kind').textContent") == "ir"
    page.value("at('again').click()")
    page.wait("at('state').textContent.startsWith('product')")


def test_a_program_that_does_not_end(browser):
    page, runs = browser
    runs.seconds = 1
    typed(page, "while True: pass")
    page.wait("at('state').textContent === 'stopped'")
    assert "had not ended after 1 s, and was stopped" in page.value("at('error').textContent")
