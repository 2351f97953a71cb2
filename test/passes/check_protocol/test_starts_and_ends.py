"""What comes before the roles and at their ends is judged as all else: each op of it that is left
out or moved is found.
"""

from functools import cache

import pytest
from xdsl.context import Context
from xdsl.parser import Parser

from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import KernelOp
from cutedialect.passes.protocol.check_protocol import verdict_of
from cutedialect.passes.protocol.skeleton import Undecided
from cutedialect.passes.synchronize.expand_roles import ExpandRolesPass

TILE = '!cute.memref<f32, tmem, align<4>, "(128,8):(65536,1)">'
HELD = '!cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">'
B = '!cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">'
A = '!cute.fragment<f16, "(64,64)", "((4,8,4),((2,2,2),4)):((128,1,16),((64,8,512),1024))">'
SUMS = '!cute.fragment<f32, "(64,72)", "((4,8,4),((2,2,9),1,1)):((128,1,16),((64,8,512),0,0))">'
ATOM = "!cute_nvgpu.sm90.mma<64x72x16, elem_type = (f16, f16, f32), a = rmem>"
QUEUE = (
    '%q = pipeline.create {kind = "threads", producers = 4 : i32, consumers = 4 : i32} '
    ": !pipeline.ring<2>"
)
WHOLE = '!cute.fragment<f32, "(64,32)", "(128,16):(1,128)">'
PART = '!cute.fragment<f32, "(64,16)", "(128,8):(1,128)">'
ONE = '!cute.fragment<f32, "(1,1)", "(128,1):(0,0)">'

TENSOR_MEMORY = f"""
  cute.kernel @k() attributes {{threads = 256 : i32}} {{
    %t = cute.alloc_tmem : {TILE}
    {QUEUE}
    pipeline.role "more" attributes {{first = 0 : i32, warps = 4 : i32}} {{
      %to = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
      %f = cute.alloc_fragment : {HELD}
      pipeline.producer_acquire %q at %to : !pipeline.ring<2>, !pipeline.state<2>
      cute.copy %f, %t {{atom = !cute_nvgpu.atom.tmem_store<f32, 16x256b>}} : {HELD} -> {TILE}
      cute_nvgpu.tcgen05_fence "before"
      pipeline.producer_commit %q at %to : !pipeline.ring<2>, !pipeline.state<2>
    }}
    pipeline.role "main" attributes {{first = 4 : i32, warps = 4 : i32}} {{
      %from = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
      %f = cute.alloc_fragment : {HELD}
      pipeline.consumer_wait %q at %from : !pipeline.ring<2>, !pipeline.state<2>
      cute_nvgpu.tcgen05_fence "after"
      cute.copy %t, %f {{atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>}} : {TILE} -> {HELD}
    }}
  }}
"""
ONES = f"""
  cute.kernel @k() attributes {{threads = 256 : i32}} {{
    %b = cute.alloc_smem : {B}
    {QUEUE}
    pipeline.role "store" attributes {{first = 0 : i32, warps = 4 : i32}} {{
      %to = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
      %a = cute.alloc_fragment : {A}
      cute.copy %a, %b : {A} -> {B}
      cute_nvgpu.fence_proxy_async
      pipeline.producer_commit %q at %to : !pipeline.ring<2>, !pipeline.state<2>
    }}
    pipeline.role "main" attributes {{first = 4 : i32, warps = 4 : i32}} {{
      %from = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
      %a = cute.alloc_fragment : {A}
      %acc = cute.alloc_fragment : {SUMS}
      pipeline.consumer_wait %q at %from : !pipeline.ring<2>, !pipeline.state<2>
      cute_nvgpu.wgmma_fence
      cute.gemm %a, %b, %acc {{sums, atom = {ATOM}}} : {A}, {B}, {SUMS}
      cute_nvgpu.wgmma_commit
      cute_nvgpu.wgmma_wait {{pending = 0 : i32}}
    }}
  }}
"""
EXCHANGE = f"""
  cute.kernel @k() attributes {{threads = 128 : i32, cluster = 2 : i32}} {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    pipeline.role "main" attributes {{first = 0 : i32, warps = 4 : i32}} {{
      %acc = cute.alloc_fragment : {WHOLE}
      scf.for %i = %zero to %two step %one : i32 {{
        %part = cute.cluster_scatter %acc of 2 : {WHOLE} -> {PART}
      }}
    }}
  }}
"""
SUM = EXCHANGE.replace(
    f"%part = cute.cluster_scatter %acc of 2 : {WHOLE} -> {PART}",
    f"%first = cute.cluster_sum %acc of 2 : {WHOLE}",
)
REDUCTION = f"""
  cute.kernel @k() attributes {{threads = 128 : i32, cluster = 4 : i32}} {{
    %part = cute.alloc_fragment : {ONE}
    %total = cute.cluster_reduce "add", %part of 4 : {ONE} -> {ONE}
  }}
"""
KERNELS = {
    "tensor memory": TENSOR_MEMORY,
    "ones": ONES,
    "exchange": EXCHANGE,
    "sum": SUM,
    "reduction": REDUCTION,
}


def parsed(text):
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    return Parser(context, text).parse_module()


@cache
def expanded(name):
    module = parsed(f"builtin.module {{ {KERNELS[name]} }}")
    ExpandRolesPass().apply(Context(), module)
    return str(module)


def verdict(text):
    return verdict_of(next(op for op in parsed(text).ops if isinstance(op, KernelOp)))


def findings_of(text):
    return {(found.code, found.op.name) for found in verdict(text).findings}


@pytest.mark.parametrize("name", KERNELS)
def test_what_the_pass_adds_is_enough(name):
    assert findings_of(expanded(name)) == set()


LAST_BARRIER = '    cute.barrier\n      cute_nvgpu.tcgen05_fence "after"\n      cute_nvgpu.tmem'
# What is left out, or what takes its place: the code and the op at fault.
EDITS = [
    ("tensor memory", "    pipeline.start\n", "", ("CD-R1", "cute_nvgpu.tmem_address")),
    ("tensor memory", "    pipeline.start\n", "", ("CD-R5", "pipeline.producer_acquire")),
    ("tensor memory", LAST_BARRIER, LAST_BARRIER[17:], ("CD-R1", "cute_nvgpu.tmem_dealloc")),
    (
        "tensor memory",
        "      cute_nvgpu.tmem_dealloc {columns = 32 : i32}\n",
        "",
        ("CD-R8", "cute_nvgpu.tmem_alloc"),
    ),
    ("ones", "    pipeline.start\n", "", ("CD-R1", "cute.gemm")),
    ("exchange", "    pipeline.start {cluster}\n", "", ("CD-R5", "pipeline.exchange_wait")),
    (
        "exchange",
        "      pipeline.exchange_drain %0 : !pipeline.exchange\n    }",
        "    }",
        ("CD-R8", "pipeline.exchange_send"),
    ),
    (
        "exchange",
        "          pipeline.exchange_drain %0 : !pipeline.exchange\n",
        "",
        ("CD-R1", "pipeline.exchange_send"),
    ),
    ("exchange", "          cute.barrier\n", "", ("CD-R1", "pipeline.exchange_send")),
    ("sum", "          cute.barrier\n", "", ("CD-R1", "pipeline.exchange_wait")),
    (
        "reduction",
        "    pipeline.start_wait\n",
        "",
        ("CD-R5", "pipeline.exchange_wait"),
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "found"), EDITS)
def test_what_is_left_out_is_found(name, old, new, found):
    text = expanded(name)
    assert text.count(old) == 1
    assert found in findings_of(text.replace(old, new))


# By step of an exchange of CTAs that is left out: what is found of a scatter, a sum, a reduction.
STEPS = {
    "exchange_expect": {"CD-R5"},
    "exchange_send": {"CD-R5"},
    "exchange_wait": {"CD-R1", "CD-R5", "CD-R6", "CD-R8"},
    "exchange_tell": {"CD-R5"},
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", ["exchange", "sum", "reduction"])
def test_each_step_of_an_exchange_of_ctas_is_needed(name, step):
    lines = expanded(name).splitlines()
    places = [at for at, line in enumerate(lines) if f"pipeline.{step} " in line]
    assert places or (name, step) == ("reduction", "exchange_tell")
    for at in places:
        codes = {code for code, _ in findings_of("\n".join((*lines[:at], *lines[at + 1 :])))}
        assert codes
        assert codes <= STEPS[step]


@pytest.mark.parametrize("name", ["exchange", "sum", "reduction"])
def test_bytes_of_an_exchange_of_ctas_add_up(name):
    lines = expanded(name).splitlines()
    (at,) = [at for at, line in enumerate(lines) if "pipeline.exchange_expect " in line]
    less = lines[at].replace("bytes = ", "bytes = 1")
    found = findings_of("\n".join((*lines[:at], less, *lines[at + 1 :])))
    assert found == {("CD-R3", "pipeline.exchange_wait")}


def test_ones_need_a_proxy_fence():
    """Of B's writer, or of any role that is ordered in front of the multiply, one is enough."""
    text = expanded("ones").replace("cute_nvgpu.fence_proxy_async\n", "\n")
    found = {(each.code, each.other and each.other.name) for each in verdict(text).findings}
    assert found == {("CD-R2", "cute_nvgpu.write_ones"), ("CD-R2", "cute.copy")}


def test_a_relaxed_arrival_of_the_cluster_shows_nothing():
    """Ones that threads write in front of it are not seen behind it."""
    text = expanded("ones").replace("    pipeline.start\n", "    pipeline.start {cluster}\n")
    assert ("CD-R1", "cute.gemm") in findings_of(text)
    assert findings_of(text.replace("{cluster}", "{cluster, publishes}")) == set()


def test_a_multiply_without_its_ones_is_undecided():
    with pytest.raises(Undecided, match="tile of ones"):
        findings_of(f"builtin.module {{ {ONES} }}")


def test_a_pair_meets_before_it_gives_tensor_memory_back():
    """Columns of both CTAs are given back, and a barrier of one CTA says nothing of the other's."""
    text = expanded("tensor memory").replace("256 : i32}", "256 : i32, cluster = 2 : i32}")
    text = text.replace("{columns = 32 : i32}", "{columns = 32 : i32, pair}")
    assert findings_of(text) == {("CD-R1", "cute_nvgpu.tmem_dealloc")}
    of_cluster = LAST_BARRIER.replace("cute.barrier", "cute.barrier {cluster}")
    assert text.count(LAST_BARRIER) == 1
    assert findings_of(text.replace(LAST_BARRIER, of_cluster)) == set()


def test_who_reaches_other_ctas_waits_until_they_have_begun():
    text = expanded("exchange")
    assert text.count("pipeline.start {cluster}") == 1
    found = findings_of(text.replace("pipeline.start {cluster}", "pipeline.start"))
    assert found == {("CD-R1", "pipeline.exchange_send")}


def test_a_barrier_of_the_cluster_waits_for_all_roles_of_a_cta():
    """Those that end have come to it; one that waits for this role behind it never does."""
    text = expanded("tensor memory").replace("256 : i32}", "256 : i32, cluster = 2 : i32}")
    of_roles, of_cluster = 'cute.barrier {roles = ["main", "more"]}', "cute.barrier {cluster}"
    commit = "pipeline.producer_commit %q at %to : !pipeline.ring<2>, !pipeline.state<2>\n"
    assert text.count(commit) == 1
    text = text.replace(commit, f"{commit}{of_roles}\n")
    right = LAST_BARRIER.replace("cute.barrier", f"{of_roles}\n{of_cluster}")
    assert findings_of(text.replace(LAST_BARRIER, right)) == set()
    wrong = LAST_BARRIER.replace("cute.barrier", f"{of_cluster}\n{of_roles}")
    assert findings_of(text.replace(LAST_BARRIER, wrong)) == {("CD-R5", "cute.barrier")}
    both = text.replace(of_roles, f"{of_cluster}\n{of_roles}")
    assert findings_of(both.replace(LAST_BARRIER, wrong)) == set()
