"""The explorer's page in a headless Chromium: one flow through its panels, by the browser's own
debugging pipe. Without a Chromium it says so; `test_explore_command.py` has what the server gives.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from cutedialect.tools.explore_runs import Runs
from cutedialect.tools.explore_server import ExploreServer

PROGRAM = (Path(__file__).parent / "explored_kernel.py").read_text()
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: the page is not tried"),
]
MOST_SECONDS = 120


class Browser:
    """A page of a headless Chromium, which reads commands at descriptor 3 and answers at 4."""

    def __init__(self, folder) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = (
            f'exec "{CHROMIUM}" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage '
            f'--user-data-dir="{folder}" --remote-debugging-pipe 3<&{theirs_in} 4>&{theirs_out}'
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command], pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest, self._number, self._session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]

    def call(self, method: str, **given):
        self._number += 1
        asked = {"id": self._number, "method": method, "params": given}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                got = os.read(self._in, 1 << 16)
                assert got, "the browser ended"
                self._rest += got
            message, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(message)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def value(self, expression: str):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        end = time.monotonic() + MOST_SECONDS
        while not self.value(expression):
            assert time.monotonic() < end, (expression, self.value("document.body.innerText"))
            time.sleep(0.05)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)


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
