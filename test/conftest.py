"""What holds in every test: no PTX that its target has not is ever printed. With `--validate`,
every kernel that a test launches on host arrays is interpreted at each stage before
synchronization, on the arguments of its first launch: no pass may change the result, and what ran
the kernel has to agree. Tests that ask for the fixture `every_stage` always do so. With `--proved`,
a test that compiles a kernel of which `cute-check-protocol` finds something, or does not decide
all, ends in an error, and the summary lists what is said of which kernels; tests that are marked
`unproved` break kernels on purpose.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from random import Random

import pytest

PROVED = "proved"
# Of a fault, so many tests are named.
TESTS_OF_A_FAULT = 4


@pytest.fixture(autouse=True, scope="session")
def verified_ptx():
    """Each line that a test prints is checked, as under `CUTEDIALECT_VERIFY=ptx`."""
    with pytest.MonkeyPatch.context() as patch:
        if not os.environ.get("CUTEDIALECT_VERIFY"):
            patch.setenv("CUTEDIALECT_VERIFY", "ptx")
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of the cases of a test that is marked `some(n)`, n are left to `make test`: always the same
    ones, drawn by its name, so that each value of each parameter has its chance.
    """
    cases = {}
    for item in items:
        if item.get_closest_marker("some") and not item.get_closest_marker("long"):
            cases.setdefault((item.path, item.originalname), []).append(item)
    for tests in cases.values():
        (count,) = tests[0].get_closest_marker("some").args
        kept = Random(tests[0].originalname).sample(range(len(tests)), min(count, len(tests)))
        for at, item in enumerate(tests):
            if at not in kept:
                item.add_marker("long")


def pytest_collection(session):
    """Thousands of tests come to stay: most of the time of their collection goes into rounds of the
    garbage collector else.
    """
    gc.disable()


def pytest_collection_finish(session):
    """Rounds of the garbage collector leave out the tests that stay to the end, and are rarer: a
    seventh of the time goes into them else.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def pytest_addoption(parser):
    parser.addoption(
        "--validate", action="store_true", help="interpret each kernel after each pass, and compare"
    )
    parser.addoption(
        "--proved",
        action="store_true",
        help="ask of each kernel that its synchronization is proved",
    )


@pytest.fixture(autouse=True)
def validated(request):
    if request.config.getoption("--validate"):
        request.getfixturevalue("every_stage")


@pytest.fixture(autouse=True)
def proved(request):
    if not request.config.getoption("--proved") or request.node.get_closest_marker("unproved"):
        yield
        return
    says = request.getfixturevalue("verdicts")
    yield
    request.node.user_properties.append(("verdicts", dict(Counter(says))))
    if faults := dict.fromkeys(verdict for verdict in says if verdict != PROVED):
        pytest.fail("\n".join(faults), pytrace=False)


class Verdicts:
    """What the check says of the kernels of all tests: how often, and in which tests."""

    def __init__(self):
        self.counts = Counter()
        self.tests = {}

    def pytest_runtest_logreport(self, report):
        for name, says in report.user_properties if report.when == "teardown" else ():
            if name == "verdicts":
                self.counts.update(says)
                for verdict in says:
                    self.tests.setdefault(verdict, []).append(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section("what synchronizes kernels")
        terminalreporter.line(f"{self.counts.pop(PROVED, 0)} kernels are proved")
        for verdict, count in sorted(self.counts.items()):
            tests = self.tests[verdict]
            terminalreporter.line(f"{count} kernels of {len(tests)} tests: {verdict}")
            for test in tests[:TESTS_OF_A_FAULT]:
                terminalreporter.line(f"    {test}")


def pytest_configure(config):
    # Workers of pytest-xdist send their reports.
    if config.getoption("--proved") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Verdicts())


@pytest.fixture
def spills_of():
    """Gives the bytes that a kernel spills; a test that asks for them is skipped without ptxas."""
    import cutedialect as cute

    def spills(kernel):
        try:
            return kernel.resources.spills
        except cute.CompileError as error:
            if "ptxas" in str(error) and "found" in str(error):
                pytest.skip("no ptxas")
            raise

    return spills


@pytest.fixture
def assembles():
    """Whether a kernel's PTX assembles for a target without a message and without a spill; a test
    that asks for it is skipped without ptxas.
    """
    from cutedialect.backend.runtime import ptxas

    def assemble(ptx, arch):
        if not ptxas.candidates():
            pytest.skip("needs ptxas")
        assembly = ptxas.assemble(ptx, arch, strict=True)
        assert assembly.spill_stores == assembly.spill_loads == 0
        assert assembly.messages == ()
        return True

    return assemble


@pytest.fixture
def verdicts(monkeypatch):
    """What the check says of each kernel that a test compiles, a string for each thing."""
    from cutedialect.passes.protocol import check_protocol
    from cutedialect.passes.protocol.findings import place_of

    says, check = [], check_protocol.verdict_of

    def verdict_of(kernel):
        try:
            verdict = check(kernel)
        except check_protocol.Undecided as undecided:
            says.append(f"undecided: {undecided}{place_of(undecided.op)}")
            raise
        faults = [f"found: {finding.text()}" for finding in verdict.findings]
        faults += [
            f"undecided: {op.name}{place_of(op)} with {case} is not run to its end"
            for op, case in verdict.unended
        ]
        faults += [f"not entered: {op.name}{place_of(op)}" for op in verdict.missed]
        says.extend(faults or [PROVED])
        return verdict

    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    monkeypatch.setattr(check_protocol, "verdict_of", verdict_of)
    return says


@pytest.fixture
def every_stage(monkeypatch):
    """Compare what the stages of each launched kernel compute; gives the names of the passes that
    were checked, in order.
    """
    from benchmarks.stages import validating
    from cutedialect.backend.runtime.kernel import Kernel

    checked = []
    monkeypatch.setattr(Kernel, "launch", validating(Kernel.launch, checked))
    return checked
