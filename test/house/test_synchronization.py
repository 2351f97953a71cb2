"""Lowering adds no synchronization by itself: each instruction that waits, arrives, fences or
commits is printed for an op that says so in the IR, which `cute-check-protocol` has judged.
"""

import ast
import re
from pathlib import Path

from cutedialect.dialects import cute, cute_nvgpu, pipeline
from cutedialect.passes.lower.convert_to_ptx import _HANDLERS
from cutedialect.passes.protocol.events import ATOMS, ROWS

LOWER = Path(__file__).parents[2] / "cutedialect/passes/lower"
# Classes of `ptx` that synchronize, and what of the context emits them.
CLASSES = re.compile(r"(Bar\w*|\w*Fence\w*|Mbarrier\w*|\w*Commit|\w*Wait\w*|\w*Arrive)Op$")
METHODS = ("barrier", "turn", "any_thread", "wait_for_launch")

# By function that emits some: the ops that it lowers, or helps to. `wait_for_launch` is of the
# launch in front of a kernel and of global memory, for which no role waits; a load from tensor
# memory and its wait are one op, and so are a store and its.
PRINTED = {
    "cluster_reductions.py _drain": (pipeline.ExchangeDrainOp,),
    "cluster_reductions.py _expect": (pipeline.ExchangeExpectOp,),
    "cluster_reductions.py _wait": (pipeline.ExchangeWaitOp,),
    "cluster_reductions.py _tell": (pipeline.ExchangeTellOp,),
    "context.py wait_for_launch": (),
    "lowering.py run": (),
    "roles.py _role": (),
    "context.py barrier": (cute.BarrierOp,),
    "context.py any_thread": (cute.AnyOp,),
    "tile_math.py _any": (cute.AnyOp,),
    "context.py turn": (pipeline.TurnWaitOp, pipeline.TurnPassOp),
    "roles.py _turn": (pipeline.TurnWaitOp, pipeline.TurnPassOp),
    "groups.py _fence_tensor_maps": (cute_nvgpu.FenceTensorMapsOp,),
    "rings.py wait": (pipeline.ProducerAcquireOp, pipeline.ConsumerWaitOp, pipeline.DrainOp),
    "rings.py _start": (pipeline.StartOp,),
    "rings.py _start_arrive": (pipeline.StartArriveOp,),
    "rings.py _start_wait": (pipeline.StartWaitOp,),
    "rings.py _make_barriers": (pipeline.StartOp, pipeline.StartArriveOp),
    "rings.py _expect": (pipeline.ExpectOp,),
    "rings.py _commit": (pipeline.ProducerCommitOp,),
    "rings.py _commit_multiplies": (pipeline.ProducerCommitOp, pipeline.ConsumerReleaseOp),
    "rings.py _arrive": (pipeline.ProducerCommitOp, pipeline.ConsumerReleaseOp),
    "roles.py _barrier": (cute.BarrierOp,),
    "roles.py _wgmma_wait": (cute_nvgpu.WgmmaWaitOp,),
    "roles.py HANDLERS": (
        cute_nvgpu.CpAsyncCommitOp,
        cute_nvgpu.CpAsyncWaitOp,
        cute_nvgpu.ProxyFenceOp,
        cute_nvgpu.Tcgen05FenceOp,
        cute_nvgpu.WgmmaCommitOp,
        cute_nvgpu.WgmmaFenceOp,
    ),
    "early_multiplies.py _fence_of": (cute_nvgpu.WgmmaFenceOp,),
    "tensor_memory.py load": (cute_nvgpu.TmemLoadType,),
    "tensor_memory.py store": (cute_nvgpu.TmemStoreType,),
    "tma.py _store_step": (cute_nvgpu.TmaStoreCommitOp, cute_nvgpu.TmaStoreWaitOp),
}


def functions(tree):
    """The functions and tables of a file, with their names, those of classes among them."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node)
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target), node


def emits(node):
    """Whether code makes an op that synchronizes, or asks the context for one."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Attribute):
            continue
        of = ast.unparse(inner.value)
        if of == "ptx" and CLASSES.fullmatch(inner.attr):
            return True
        if "context" in of and inner.attr in METHODS:
            return True
    return False


def test_who_prints_what_synchronizes():
    found = {
        f"{path.name} {name}"
        for path in LOWER.glob("*.py")
        for name, node in functions(ast.parse(path.read_text()))
        if emits(node)
    }
    assert found == PRINTED.keys()


def test_the_check_knows_what_is_printed():
    for ops in PRINTED.values():
        for op in ops:
            assert op in ROWS or op in ATOMS
            assert op in ATOMS or op in _HANDLERS


def test_a_barrier_that_lowering_adds_is_found():
    added = "def _sort(self, op):\n    self.context.barrier()\n"
    assert [name for name, node in functions(ast.parse(added)) if emits(node)] == ["_sort"]
    added = "class Sort:\n    def run(self):\n        self.builder.emit(ptx.BarSyncOp(0))\n"
    assert [name for name, node in functions(ast.parse(added)) if emits(node)] == ["run"]
