"""`cute-check-protocol`: a right stage is proved, and each edit that breaks it is refused with its
code, at the op at fault.
"""

import re
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.parser import Parser

import cutedialect as cute
from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import KernelOp
from cutedialect.passes.protocol.cases import check
from cutedialect.passes.protocol.check_protocol import CheckProtocolPass, verdict_of
from cutedialect.passes.protocol.machine import Machine
from cutedialect.passes.protocol.nodes import Loop
from cutedialect.passes.protocol.skeleton import Undecided, skeleton_of
from cutedialect.passes.protocol.sketch import bodies_of
from cutedialect.passes.synchronize.expand_rings import ExpandRingsPass
from cutedialect.passes.synchronize.expand_roles import ExpandRolesPass
from cutedialect.remarks import collecting

RING = (Path(__file__).parent / "ring.mlir").read_text()
RESULTS = (Path(__file__).parent / "results_in_a_row.mlir").read_text()
STAGES = (Path(__file__).parent / "stage_of_another_trip.mlir").read_text()
COMMITS = (Path(__file__).parent / "commit_of_multiplies.mlir").read_text()
RELEASE = (
    "pipeline.consumer_release %ring at %from if %later {back = 1 : i32} "
    ": !pipeline.ring<2>, !pipeline.state<2>"
)


def parsed(text):
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    return Parser(context, text).parse_module()


def kernel_of(text):
    return next(op for op in parsed(text).ops if isinstance(op, KernelOp))


def test_the_ring_is_proved_in_trips_around_its_stages():
    verdict = verdict_of(kernel_of(RING))
    assert verdict.findings == ()
    assert verdict.cases >= 6


EDITS = {
    # What is left out or altered: (text, its replacement, the code, the op that is refused).
    "no wait for the stage": (
        "pipeline.consumer_wait %ring at %from : !pipeline.ring<2>, !pipeline.state<2>",
        "",
        ("CD-R1", "cute.gemm"),
    ),
    "no acquire": (
        "pipeline.producer_acquire %ring at %to : !pipeline.ring<2>, !pipeline.state<2>",
        "",
        ("CD-R1", "cute.copy"),
    ),
    "no bytes expected": (
        "pipeline.expect %ring at %to : !pipeline.ring<2>, !pipeline.state<2>",
        "",
        ("CD-R3", "cute.copy"),
    ),
    "a release in front of the multiply's end": (
        "wgmma_wait {pending = 1 : i32}",
        "wgmma_wait {pending = 2 : i32}",
        ("CD-R1", "cute.copy"),
    ),
    "a release of the stage at work": (
        RELEASE,
        RELEASE.replace(" if %later {back = 1 : i32}", ""),
        ("CD-R1", "cute.copy"),
    ),
    "no release": (RELEASE, "", ("CD-R5", "pipeline.producer_acquire")),
    "too many bytes expected": (
        "bytes = 16384",
        "bytes = 16400",
        ("CD-R5", "pipeline.consumer_wait"),
    ),
    "too few bytes expected": ("bytes = 16384", "bytes = 8192", ("CD-R3", "cute.copy")),
    "too many consumers": (
        "consumers = 4",
        "consumers = 5",
        ("CD-R5", "pipeline.producer_acquire"),
    ),
    "too few consumers": ("consumers = 4", "consumers = 3", ("CD-R4", "pipeline.consumer_release")),
    "a state that stays": (
        "pipeline.advance %from : !pipeline.state<2>",
        "",
        ("CD-R5", "pipeline.producer_acquire"),
    ),
    "no fence in front of the multiply": ("cute_nvgpu.wgmma_fence", "", ("CD-R7", "cute.gemm")),
    "the result used in flight": (
        "      cute_nvgpu.wgmma_wait {pending = 0 : i32}\n",
        "",
        ("CD-R7", "cute.map"),
    ),
    "no proxy fence": ("cute_nvgpu.fence_proxy_async", "", ("CD-R2", "cute.copy")),
    "no barrier in front of the store": ("      cute.barrier\n", "", ("CD-R1", "cute.copy")),
    "a barrier of too few warps": (
        "      cute.barrier\n",
        "      cute.barrier {warps = 2 : i32}\n",
        ("CD-R1", "cute.copy"),
    ),
    "a store at work at the end": (
        "cute_nvgpu.tma_store_wait {pending = 0 : i32, read}",
        "",
        ("CD-R8", "cute.copy"),
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_that_breaks_the_ring_is_found(name):
    old, new, (code, op) = EDITS[name]
    assert old in RING
    findings = verdict_of(kernel_of(RING.replace(old, new))).findings
    assert (code, op) in {(found.code, found.op.name) for found in findings}


def test_bytes_are_expected_where_rings_are_expanded():
    module = parsed(RING.replace(EDITS["no bytes expected"][0], ""))
    ExpandRingsPass().apply(Context(), module)
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    assert str(kernel).count("pipeline.expect") == 1
    assert verdict_of(kernel).findings == ()


def test_a_message_names_both_places_and_the_edge():
    text = RING.replace("cute_nvgpu.fence_proxy_async", "")
    found = verdict_of(kernel_of(text)).findings[0]
    assert found.text().startswith(
        "CD-R2: reads by bulk store %sC, which role 'main' wrote through the generic proxy: "
        "expected fence.proxy.async behind that (the other access: cute.copy"
    )
    assert found.other is not None
    assert "stsm" in str(found.other)


@pytest.mark.unproved
def test_a_body_that_no_case_enters_is_told():
    """No extent is more than itself, which the check does not know of this form of it: what is in
    the loop nobody has seen.
    """
    text = STAGES.replace("%s[%zero]", "%s[%i]").replace("%zero to %n", "%n to %same")
    text = text.replace("    %s = ", "    %same = arith.ori %n, %zero : i32\n    %s = ")
    kernel = kernel_of(text)
    assert verdict_of(kernel).findings == ()
    assert [op.name for op in verdict_of(kernel).missed] == ["scf.for"]
    with collecting() as remarks:
        CheckProtocolPass().apply(Context(), parsed(text))
    (told,) = (remark.message for remark in remarks)
    assert told.startswith("proved but for bodies of 1 loops and conditions")


MANY = RING.replace("%zero to %n", "%zero to %many").replace(
    "%one = arith.constant 1 : i32\n",
    "%one = arith.constant 1 : i32\n    %many = arith.constant 1023 : i32\n",
)


def test_a_loop_of_many_trips_is_run_to_its_end_without_those_that_repeat():
    """Trips are left out of the middle in both roles, so that what is left at the end shows."""
    verdict = verdict_of(kernel_of(MANY))
    assert (verdict.findings, verdict.missed, verdict.unended) == ((), (), ())
    (stuck,) = verdict_of(kernel_of(MANY.replace(RELEASE, ""))).findings
    assert (stuck.code, stuck.op.name) == ("CD-R5", "pipeline.producer_acquire")
    end = "cute_nvgpu.tma_store_wait {pending = 0 : i32, read}"
    (left,) = verdict_of(kernel_of(MANY.replace(end, ""))).findings
    assert left.code == "CD-R8"


@pytest.mark.parametrize("trips", [101, 399, 1023])
def test_a_loop_of_many_trips_takes_as_many_steps_as_one_of_some(trips, monkeypatch):
    steps, run = [], Machine.run

    def counted(machine):
        found = run(machine)
        steps.append(sum(team.gone for team in machine.teams))
        return found

    monkeypatch.setattr(Machine, "run", counted)
    text = MANY.replace("constant 1023", f"constant {trips}")
    verdict = verdict_of(kernel_of(text))
    assert (verdict.findings, verdict.missed, verdict.unended) == ((), (), ())
    assert 0 < sum(steps) < 400


def test_loops_that_part_are_run_with_all_trips_where_these_are_some_hundreds():
    """Short of as many trips each they do not agree; with all of them they do."""
    verdict = verdict_of(kernel_of(in_halves(150)))
    assert (verdict.findings, verdict.missed, verdict.unended) == ((), (), ())


def in_halves(trips):
    """One role's trips are half the other's."""
    both = "scf.for %k = %zero to %many step %one : i32 {\n"
    halves = "scf.for %h = %zero to %half step %one : i32 {\n"
    pair = "scf.for %k = %zero to %two step %one : i32 {\n"
    numbers = (
        f"%two = arith.constant 2 : i32\n    %half = arith.constant {trips} : i32\n    %many = "
    )
    text = MANY.replace(both, halves + pair, 1).replace("constant 1023", f"constant {2 * trips}")
    end = "pipeline.advance %to : !pipeline.state<2>\n      }\n"
    return text.replace(end, f"{end}      }}\n").replace("%many = ", numbers)


@pytest.mark.unproved
def test_a_case_that_does_not_repeat_is_undecided():
    """As many trips are left out of both, and they part."""
    text = in_halves(500)
    verdict = verdict_of(kernel_of(text))
    assert verdict.findings == ()
    assert {op.name for op, _ in verdict.unended} == {"scf.for"}
    with collecting() as remarks:
        CheckProtocolPass().apply(Context(), parsed(text))
    assert [remark.message.partition(", which")[0] for remark in remarks] == [
        "undecided: a case (one tile of each extent) is not run to its end"
    ]


def test_a_wait_that_nothing_ends_shows_though_another_case_is_too_long():
    """All teams wait in front of a loop that is not run: what follows cannot end that."""
    loop = "      scf.for %k = %zero to %many step %one : i32 {\n        pipeline.consumer_wait"
    wait = "      pipeline.consumer_wait %ring at %from : !pipeline.ring<2>, !pipeline.state<2>\n"
    text = MANY.replace(loop, wait + loop)
    loop = "      scf.for %k = %zero to %many step %one : i32 {\n        pipeline.producer_acquire"
    drain = "      pipeline.drain %ring at %to : !pipeline.ring<2>, !pipeline.state<2>\n"
    other = loop.replace("scf.for", f"pipeline.advance %to : !pipeline.state<2>\n{drain}scf.for")
    text = text.replace(loop, other)
    assert {found.code for found in verdict_of(kernel_of(text)).findings} == {"CD-R5"}


FRAGMENT = '!cute.fragment<f16, "(64,64)", "((4,8,4),((2,2,8),1,1)):((128,1,16),((64,8,512),0,0))">'
TILE = '!cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">'
ACROSS = FRAGMENT.replace("128,1,16", "2,64,1024").replace("64,8,512", "1,512,8")
COPY = "{atom = !cute_nvgpu.atom.universal_copy<f16, 16 b>}"
REPEATS = f"""      %got = cute.alloc_fragment : {ACROSS}
      scf.for %j = %zero to %many step %one : i32 {{
        cute.copy %c, %sC {COPY} : {FRAGMENT} -> {TILE}
        cute.barrier
        cute.copy %sC, %got {COPY} : {TILE} -> {ACROSS}
        cute.barrier
      }}
"""


def test_a_loop_that_does_the_same_in_each_trip_goes_three():
    """What a trip leaves for the next one, and the next one for that behind it, shows."""
    at = "      cute.copy %c, %sC {atom = !cute_nvgpu.atom.stsm"
    assert RING.count(at) == 1
    text = MANY.replace("%zero to %many", "%zero to %n").replace(at, REPEATS + at)
    skeleton = skeleton_of(kernel_of(text))
    assert [loop.repeats for loop in _loops(skeleton.nodes)] == [False, False, True]
    verdict = verdict_of(kernel_of(text))
    assert (verdict.findings, verdict.unended) == ((), ())
    head, barrier, tail = text.rpartition("        cute.barrier\n")
    found = verdict_of(kernel_of(head + tail)).findings
    assert {one.code for one in found} == {"CD-R1"}
    head, behind = head.rsplit(barrier, 1)
    found = verdict_of(kernel_of(head + behind + barrier + tail)).findings
    assert {one.code for one in found} == {"CD-R1"}


def _loops(nodes):
    for node in nodes:
        if isinstance(node, Loop):
            yield node
        for body in bodies_of(node):
            yield from _loops(body)


@pytest.mark.unproved
def test_an_op_without_a_row_is_undecided_and_leaves_a_remark():
    tile = '!cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">'
    complete = f"      pipeline.complete %sC : {tile}\n"
    text = RING.replace("      cute.barrier\n", f"      cute.barrier\n{complete}")
    with pytest.raises(Undecided, match=r"no row says what pipeline\.complete does"):
        verdict_of(kernel_of(text))
    with collecting() as remarks:
        CheckProtocolPass().apply(Context(), parsed(text))
    assert [remark.message for remark in remarks] == [
        "undecided: no row says what pipeline.complete does"
    ]


def test_a_read_gets_what_its_own_trip_wrote():
    """The barriers order all accesses: which stage is read is the whole of the fault."""
    (found,) = verdict_of(kernel_of(STAGES)).findings
    assert (found.code, found.op.name) == ("CD-R10", "cute.copy")
    assert verdict_of(kernel_of(STAGES.replace("%s[%zero]", "%s[%i]"))).findings == ()


@pytest.mark.parametrize("is_persistent", [False, True])
def test_a_loop_reads_trip_by_trip_what_another_loop_wrote(is_persistent):
    """No loop is around the write and the read, or one that runs both anew."""
    text = STAGES.replace("4,2):(4,1,128)", "4,4):(4,1,128)").replace("2 : i32", "4 : i32")
    apart = "    }\n    cute.barrier\n    scf.for %m = %zero to %two step %one : i32 {\n      %from"
    text = text.replace("      cute.barrier\n      %from", apart).replace("to %n", "to %two")
    if is_persistent:
        text = text.replace(LOOP, "    scf.for %item = %zero to %n step %one : i32 {\n" + LOOP)
        text = text.replace("    }\n  }\n}", "    }\n    }\n  }\n}")
    text = text.replace(", (%zero, %k)", ", (%zero, %m)")
    (found,) = verdict_of(kernel_of(text)).findings
    assert (found.code, found.op.name) == ("CD-R10", "cute.copy")
    assert verdict_of(kernel_of(text.replace("%s[%zero]", "%s[%m]"))).findings == ()


SOURCE = '!cute.memref<f32, gmem, align<16>, "(?):(1)">'
BUFFERS = '!cute.memref<f32, smem, align<16>, "(128,2):(1,128)">'
BUFFER = '!cute.memref<f32, smem, align<16>, "(128):(1)">'
OWN = '!cute.fragment<f32, "(128)", "(128,1):(1,0)">'
ALL = '!cute.fragment<f32, "(128)", "(128,128):(0,1)">'
ITEMS = f"""
builtin.module {{
  cute.kernel @k(%A: {SOURCE}) attributes {{threads = 128 : i32}} {{
    %s = cute.alloc_smem : {BUFFERS}
    %one = arith.constant 1 : i32
    %block = cute.block_idx x
    %grid = cute.grid_dim x
    %extent = cute.dim %A, 0 : {SOURCE}
    %size = arith.constant 128 : i32
    %tiles = arith.ceildivsi %extent, %size : i32
    scf.for %item = %block to %tiles step %grid : i32 {{
      %less = arith.subi %item, %block : i32
      %trip = arith.divsi %less, %grid : i32
      %i = arith.andi %trip, %one : i32
      %t = cute.stage %s[%i] : {BUFFERS} -> {BUFFER}
      %f = cute.alloc_fragment : {OWN}
      cute.copy %f, %t : {OWN} -> {BUFFER}
      cute.barrier
      %g = cute.alloc_fragment : {ALL}
      cute.copy %t, %g : {BUFFER} -> {ALL}
    }} {{work_items}}
  }}
}}
"""


def test_work_items_are_those_of_one_cta_of_some():
    """Which buffer an item has shows where an even number of CTAs takes the items in turn."""
    assert verdict_of(kernel_of(ITEMS)).findings == ()
    (found,) = verdict_of(kernel_of(ITEMS.replace("%trip, %one", "%less, %one"))).findings
    assert (found.code, found.op.name) == ("CD-R1", "cute.copy")


def test_loops_of_too_many_trips_together_are_run_with_one_work_item():
    """No loop has many trips, and two work items have more steps than are run."""
    head, body, tail = ITEMS.partition("      %less =")
    numbers = {"zero": 0, "some": 5, "more": 10}
    lines = [f"    %{name} = arith.constant {number} : i32\n" for name, number in numbers.items()]
    head = head.replace(f"%A: {SOURCE}", f"%A: {SOURCE}, %n: i32").replace(
        "    %one", "".join(lines) + "    %one"
    )
    loops = "".join(
        f"      scf.for %{index} = %zero to %{bound} step %one : i32 {{\n"
        for index, bound in (("a", "some"), ("b", "more"), ("d", "more"), ("c", "n"))
    )
    body, end, tail = (body + tail).replace("andi %trip", "andi %c").partition("    } {work_items}")
    verdict = verdict_of(kernel_of(f"{head}{loops}{body}cute.barrier\n}} }} }} }}\n{end}{tail}"))
    assert (verdict.findings, verdict.missed, verdict.unended) == ((), (), ())


def test_a_commit_of_multiplies_tells_of_nothing_else():
    (found,) = verdict_of(kernel_of(COMMITS)).findings
    assert found.code == "CD-R1"
    start = "        // expected-error"
    assert COMMITS.count(start) == 1
    ordered = COMMITS.replace(start, f"        cute.barrier\n{start}")
    assert verdict_of(kernel_of(ordered)).findings == ()


def test_a_multiply_reads_its_own_stage_in_the_last_trip_too():
    """What threads read ahead for the next trip nobody uses; a multiply's operand is used."""
    line = "        %a = cute.stage %sA[%i]"
    start = RING.index(line, RING.index('role "main"'))
    stage = """        %end = arith.subi %n, %one : i32
        %is_last = arith.cmpi eq, %k, %end : i32
        %j = arith.select %is_last, %zero, %i : i32
        %a = cute.stage %sA[%j]"""
    findings = verdict_of(kernel_of(RING[:start] + stage + RING[start + len(line) :])).findings
    assert {(found.code, found.op.name) for found in findings} == {("CD-R10", "cute.gemm")}


def test_the_last_block_of_a_cluster_may_go_another_way():
    """Of a pair of CTAs only the first one meets at the barrier in front of a bulk store."""
    first = """      %bx = cute.block_idx x
      %two = arith.constant 2 : i32
      %rank = arith.remui %bx, %two : i32
      %is_first = arith.cmpi eq, %rank, %zero : i32
      scf.if %is_first {
        cute.barrier
      }
"""
    text = RING.replace("      cute.barrier\n", first)
    text = text.replace("{threads = 256 : i32", "{cluster = 2 : i32, threads = 256 : i32")
    assert "cluster" in text
    (found,) = verdict_of(kernel_of(text)).findings
    assert (found.code, found.case) == ("CD-R1", "the last block of a cluster")


@pytest.mark.parametrize(("total", "codes"), [("%two", set()), ("%one", {"CD-R1"})])
def test_who_is_alone_meets_nobody_at_a_last_arrival(total, codes):
    """In place of the barrier in front of a bulk store: threads meet where others arrive, too."""
    counters = '!cute.memref<i32, gmem, align<4>, "(?):(1)">'
    arrival = f"      %last = cute.last_arrival %counters[%zero] of {total} : {counters}\n"
    two = "    %two = arith.constant 2 : i32\n    %sA = "
    text = RING.replace("%n: i32", f"%n: i32, %counters: {counters}").replace("    %sA = ", two)
    kernel = kernel_of(text.replace("      cute.barrier\n", arrival))
    ExpandRolesPass().run(kernel)
    assert {found.code for found in verdict_of(kernel).findings} == codes


STRAYS = {
    "a state that stays behind its first stage": (
        "      pipeline.advance %from : !pipeline.state<2>\n      %second",
        "      %second",
        ("CD-R8", "pipeline.producer_commit"),
    ),
    "a stage of no state": ("%s[%j]", "%s[%zero]", ("CD-R10", "cute.copy")),
    "the stage of the result before": ("%s[%j]", "%s[%i]", ("CD-R10", "cute.copy")),
}


@pytest.mark.parametrize("name", STRAYS)
def test_straight_line_code_reads_the_position_that_was_written(name):
    """Each wait is behind a commit, and each write is in front of a read: another one than its."""
    old, new, (code, op) = STRAYS[name]
    assert RESULTS.count(old) == 1
    assert verdict_of(kernel_of(RESULTS)).findings == ()
    findings = verdict_of(kernel_of(RESULTS.replace(old, new))).findings
    assert {(found.code, found.op.name) for found in findings} == {(code, op)}


def test_a_stage_some_trips_back_is_one_of_the_trip():
    """What is written ahead, and what is read ahead of a trip that does not come, is no fault."""
    ahead = STAGES.replace("%i = arith.remui %k, %two : i32", AHEAD).replace("%s[%zero]", "%s[%j]")
    (found,) = verdict_of(kernel_of(ahead)).findings
    assert found.code == "CD-R6"  # nothing is there in the first trip
    lines = STAGES.splitlines()
    stage, write = (
        next(line for line in lines if text in line).replace("%to", "%first")
        for text in ("%to = cute.stage %s[%i]", "cute.copy %tile, %to")
    )
    filled = "\n".join((stage.replace("[%i]", "[%zero]"), write, "    cute.barrier", LOOP))
    assert verdict_of(kernel_of(ahead.replace(LOOP, filled))).findings == ()


def test_an_extent_of_pages_is_varied_page_by_page():
    """Of 64 rows a page each is a trip: 64 tiles of one element would be as many trips."""
    pages = f"""    %columns = cute.dim %Y, 1 : {MATRIX}
    %rows = arith.constant 64 : i32
    %all = arith.muli %columns, %rows : i32
    %trips = arith.ceildivsi %all, %rows : i32
{LOOP}"""
    text = STAGES.replace("%s[%zero]", "%s[%i]").replace(LOOP, pages).replace("to %n", "to %trips")
    skeleton = skeleton_of(kernel_of(text))
    assert skeleton.units == {(0, 1): 64}
    assert check(skeleton)[0] == []
    assert skeleton.units == {(0, 1): 1}


def test_a_loop_over_the_rest_of_a_tile_is_entered():
    """The extent is no whole number of tiles in some case: the loop has a trip, and its fault
    shows.
    """
    rest = f"""    %columns = cute.dim %Y, 1 : {MATRIX}
    %four = arith.constant 4 : i32
    %whole = arith.floordivsi %columns, %four : i32
    %all = arith.ceildivsi %columns, %four : i32
    scf.for %k = %whole"""
    text = STAGES.replace("%s[%zero]", "%s[%other]").replace(LOOP, rest).replace("to %n", "to %all")
    text = text.replace("      %to = ", "      %other = arith.subi %one, %i : i32\n      %to = ")
    (found,) = verdict_of(kernel_of(text)).findings
    assert (found.code, found.case) == ("CD-R6", "inputs that lead into scf.for")


def test_code_of_another_block_is_entered():
    block = """      %bx = cute.block_idx x
      %is_second = arith.cmpi eq, %bx, %two : i32
      scf.if %is_second {
        pipeline.consumer_wait %ring at %from : !pipeline.ring<2>, !pipeline.state<2>
      }
"""
    last = "      cute_nvgpu.tma_store_wait {pending = 0 : i32, read}\n    }"
    assert RING.count(last) == 1
    text = RING.replace(last, f"      %two = arith.constant 2 : i32\n{block}{last}")
    (found,) = verdict_of(kernel_of(text)).findings
    assert (found.code, found.case) == ("CD-R5", "inputs that lead into scf.if")


MATRIX = '!cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)">'
LOOP = "    scf.for %k = %zero"
AHEAD = """%j = arith.remui %k, %two : i32
      %next = arith.addi %k, %one : i32
      %i = arith.remui %next, %two : i32"""


def test_a_commit_for_a_pair_says_whether_it_has_multiplied():
    """Behind a loop without trips a multicast commit has nothing to track, and tells one CTA."""
    specs = [cute.TensorSpec((1024, 1024), "bf16")] * 2
    schedule = "tile = (128,64,64), cluster = (2,1)"
    kernel = cute.compile(cute.gemm, *specs, arch="sm_100a", schedule=schedule)
    text = kernel.stages["cute-expand-roles"]
    assert verdict_of(kernel_of(text)).findings == ()
    edited, count = re.subn(r"(pipeline.producer_commit %\d+ at %\d+) multiplied %\d+", r"\1", text)
    assert count == 1
    found = verdict_of(kernel_of(edited)).findings
    assert ("CD-R5", "pipeline.producer_commit") in {
        (finding.code, finding.op.name) for finding in found
    }


# Two warps write a buffer, rows 4 to 7 by the second one, and both read these through a view.
VIEWED = """
!S = !cute.memref<f32, smem, align<128>, "(16,32):(32,1)">
!V = !cute.memref<f32, smem, align<16>, "(4,32):(32,1)">
!F = !cute.fragment<f32, "(16,32)", "((8,4,2),(4,2)):((64,1,4),(16,8))">
!P = !cute.fragment<f32, "(4,32)", "((8,4,2),4):((16,1,0),4)">
cute.kernel @k(%n: i32) attributes {threads = 64 : i32} {
  %s = cute.alloc_smem : !S
  %x = cute.alloc_fragment : !F
  %y = cute.alloc_fragment : !P
  %zero = arith.constant 0.0 : f32
  cute.fill %x, %zero : !F
  cute.copy %x, %s {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !F -> !S
  %four = arith.constant 128 : i32
  %v = cute.make_view %s() at %AT : !S, i32 -> !V
  BARRIER
  cute.copy %v, %y {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !V -> !P
}
"""


@pytest.mark.parametrize("at", ["four", "n"])
def test_a_buffer_is_read_through_another_layout(at):
    """From an element on that is a number, or one of run time."""
    text = VIEWED.replace("%AT", f"%{at}")
    assert verdict_of(kernel_of(text.replace("BARRIER", "cute.barrier"))).findings == ()
    (found,) = verdict_of(kernel_of(text.replace("BARRIER", ""))).findings
    assert found.code == "CD-R1"


def test_a_warp_may_read_its_own_rows_through_another_layout():
    """Those of the second warp begin behind 128 elements, and nobody else reads them."""
    own = '"(8,32)", "((8,4,2),4):((32,1,4),8)"'
    text = VIEWED.replace('"(4,32)", "((8,4,2),4):((16,1,0),4)"', own).replace("BARRIER", "")
    text = text.replace('"(4,32):(32,1)"', '"(8,32):(32,1)"').replace("%AT", "%none")
    for first, is_right in ((0, True), (128, False)):
        moved = text.replace("%four = arith.constant 128", f"%none = arith.constant {first}")
        assert (verdict_of(kernel_of(moved)).findings == ()) is is_right


def test_an_extent_of_a_view_is_the_number_that_it_was_made_with():
    """Of a slice it is its end less its first element; the loop over either is entered."""
    views = f"""    %end = arith.constant 8 : i32
    %slice = cute.slice %Y, 1, (%zero, %n) : {MATRIX} -> {MATRIX}
    %columns = cute.dim %slice, 1 : {MATRIX}
    scf.for %k = %zero"""
    text = (
        STAGES.replace("%s[%zero]", "%s[%other]")
        .replace(LOOP, views)
        .replace("to %n", "to %columns")
    )
    text = text.replace("      %to = ", "      %other = arith.subi %one, %i : i32\n      %to = ")
    (found,) = verdict_of(kernel_of(text)).findings
    assert found.code == "CD-R6"
