"""DTensors: two processes on a CPU (gloo) share products and attention, each of which computes its
part, and get what one process gets.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

ROOT = Path(__file__).parents[2]
HEAD = """
import torch
import torch.distributed as dist
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor, init_device_mesh

import cutedialect.torch as ct

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)


def small(*shape, dtype=torch.float16):
    return torch.randint(-2, 3, shape).to(dtype)


def parted(tensor, mode=None):
    return distribute_tensor(tensor, mesh, [Replicate() if mode is None else Shard(mode)])


def same(result, wanted, *placements):
    assert result.placements == placements, result.placements
    assert torch.equal(result.full_tensor(), wanted), (result.full_tensor() - wanted).abs().max()


"""
CASES = {
    "a tensor-parallel MLP": """
        x, up, down, bias = small(16, 32), small(32, 24), small(24, 32), small(24)
        hidden = ct.gemm(parted(x), parted(up, 1), bias=parted(bias, 0), activation="relu")
        same(hidden, ct.gemm(x, up, bias=bias, activation="relu"), Shard(1))
        wanted = ct.gemm(hidden.full_tensor(), down, out_dtype=torch.float32)
        result = ct.gemm(hidden, parted(down, 0), out_dtype=torch.float32)
        same(result, wanted, Partial())
    """,
    "rows, a batch, and what is added": """
        x, weight, c = small(16, 32), small(32, 24), small(16, 24)
        same(ct.gemm(parted(x, 0), parted(weight), c=parted(c, 0), beta=2.0),
             ct.gemm(x, weight, c=c, beta=2.0), Shard(0))
        many = small(4, 16, 32)
        same(ct.gemm(parted(many, 0), parted(weight)), ct.gemm(many, weight), Shard(0))
        # A bias is added once: K is brought together first.
        bias = small(24)
        result = ct.gemm(parted(x, 1), parted(weight, 0), bias=parted(bias))
        assert torch.equal(result.full_tensor(), ct.gemm(x, weight, bias=bias))
    """,
    "attention by heads, batch and rows": """
        q, k, v = (torch.randn(2, heads, 16, 32).half() for heads in (4, 2, 2))
        for mode in (0, 1):
            same(ct.attention(*(parted(each, mode) for each in (q, k, v)), causal=True),
                 ct.attention(q, k, v, causal=True), Shard(mode))
        same(ct.attention(parted(q, 2), parted(k), parted(v)), ct.attention(q, k, v), Shard(2))
        out, lse = ct.attention(*(parted(each, 1) for each in (q, k, v)), return_lse=True)
        one, other = ct.attention(q, k, v, return_lse=True)
        same(out, one, Shard(1))
        same(lse, other, Shard(1))
        # A head of keys that two ranks would share: all of it on either.
        shared = k[:, :1].contiguous()
        result = ct.attention(parted(q, 1), parted(shared), parted(shared))
        assert torch.equal(result.full_tensor(), ct.attention(q, shared, shared))
    """,
    "gradients of attention": """
        given = [torch.randn(2, heads, 16, 32).half() for heads in (4, 2, 2)]

        def slopes(tensors, **options):
            leaves = [each.detach().requires_grad_() for each in tensors]
            out, lse = ct.attention(*leaves, return_lse=True, **options)
            (out.float().square().sum() + lse.sum()).backward()
            return [leaf.grad for leaf in leaves]

        for mode, options in ((0, {"causal": True}), (1, {"causal": True}), (2, {})):
            modes = (mode, None, None) if mode == 2 else (mode,) * 3
            parts = [parted(each, at) for each, at in zip(given, modes, strict=True)]
            for at, mine, theirs in zip(
                modes, slopes(parts, **options), slopes(given, **options), strict=True
            ):
                # Of parted rows each rank has its part of the sums over rows.
                assert mine.placements == ((Partial(),) if at is None else (Shard(at),))
                torch.testing.assert_close(mine.full_tensor(), theirs, rtol=1e-2, atol=2e-2)
        q, k, v = (parted(each, 1) for each in given)
        q.requires_grad_()
        ct.attention(q, k, v).float().square().sum().backward()
        assert q.grad.placements == (Shard(1),) and k.grad is None
    """,
    "lists, each problem in its own way": """
        as_ = [small(16, 32), small(7, 24), small(8, 32)]
        bs = [small(32, 24), small(24, 16), small(32, 8)]
        wanted = ct.grouped_gemm(as_, bs)
        lefts = [parted(as_[0], 0), parted(as_[1]), parted(as_[2])]
        rights = [parted(bs[0]), parted(bs[1], 1), parted(bs[2])]
        results = ct.grouped_gemm(lefts, rights)
        for result, whole, placed in zip(results, wanted, (Shard(0), Shard(1), Replicate())):
            same(result, whole, placed)
        (uneven,) = ct.grouped_gemm([parted(as_[1], 0)], [parted(bs[1])])
        same(uneven, wanted[1], Shard(0))
        depth = [parted(as_[0], 1)], [parted(bs[0], 0)]
        (total,) = ct.grouped_gemm(*depth, out_dtype=torch.float32)
        same(total, wanted[0].float(), Partial())
        bias = [parted(small(24))]
        (gathered,) = ct.grouped_gemm(*depth, bias=bias, activation="relu")
        same(gathered, torch.relu(wanted[0] + bias[0].to_local()), Replicate())
        for arrays in (lefts, rights):
            for array in arrays:
                array.requires_grad_()
        for result in ct.grouped_gemm(lefts, rights):
            result.full_tensor().float().sum().backward(retain_graph=True)
        for left, right, a, b in zip(lefts, rights, as_, bs):
            ones = torch.ones(a.shape[0], b.shape[1])
            assert torch.equal(left.grad.full_tensor().float(), ones @ b.float().T)
            assert torch.equal(right.grad.full_tensor().float(), a.float().T @ ones)
        for wrong, error, said in (
            (lambda: ct.grouped_gemm(lefts, bs), TypeError, "bs[0]: expected a DTensor"),
            (lambda: ct.grouped_gemm(lefts[1:], rights[:2]), ValueError, "bs[0]: expected 24"),
            (lambda: ct.grouped_gemm(lefts, rights, out=lefts), ValueError, "out: expected None"),
        ):
            try:
                wrong()
            except error as refused:
                assert said in str(refused), refused
            else:
                raise AssertionError(said)
    """,
    "gradients": """
        x, weight, bias = small(16, 32), small(32, 24), small(24)
        whole = [each.clone().requires_grad_() for each in (x, weight, bias)]
        ct.gemm(whole[0], whole[1], bias=whole[2], activation="gelu").float().sum().backward()
        placed = zip((x, weight, bias), (None, 1, 0), strict=True)
        parts = [parted(each, mode).requires_grad_() for each, mode in placed]
        ct.gemm(parts[0], parts[1], bias=parts[2], activation="gelu").float().sum().backward()
        for mine, theirs in zip(parts, whole, strict=True):
            # Sums over the parts are rounded in another order.
            torch.testing.assert_close(mine.grad.full_tensor(), theirs.grad, rtol=2e-2, atol=2e-2)
    """,
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_compute_what_one_does(case, tmp_path):
    script = tmp_path / "ranks.py"
    script.write_text(f"{HEAD}{textwrap.dedent(CASES[case])}\ndist.destroy_process_group()\n")
    port = free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env=os.environ
            | {
                "PYTHONPATH": str(ROOT),
                "CUTEDIALECT_BACKEND": "emulator",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "WORLD_SIZE": "2",
                "RANK": str(rank),
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        told = [rank.communicate(timeout=110)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(told)
