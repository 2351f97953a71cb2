"""The programs of the cookbook's pages as they stand there, timed beside torch, torch.compile and
kernels in Triton (`benchmarks.triton_pages`) of those pages that it is written for.

    python -m benchmarks.cookbook [--only REGEX] [--json FILE] [--seconds S] [--budget S]

A page's kernels come out of its text; what grows is the number of rows, heads or tokens, not the
tiles, which the pages keep small. Each runs as a CUDA graph in turns with torch's own functions and
with what torch.compile makes of them. `of the best` is the time of the fastest of these over ours.
Results are compared with torch's in f32; those that draw numbers are checked by the share that they
choose. A peer that does not compile within `--seconds` is left out, one that fails or is wrong is
named behind the row. Of pages that multiply matrices `of gemm` is the time of `cute.gemm` for the
same products, from and to memory each, over ours.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import cutedialect as cute

from .progress import Progress
from .torch_gpu import torch_on_gpu

PAGES = Path(__file__).parents[1] / "docs" / "cookbook"
_PEERS = ("torch", "compiled", "triton")
HEADER = (
    f"{'page':22} {'size':>20} {'us':>9} {' '.join(f'{name:>9}' for name in _PEERS)} "
    f"{'of best':>8} {'of gemm':>8}  error"
)
_ROUNDS, _BATCH_SECONDS = 12, 2e-3
# Results in f32 of operands of 16 bits, rounded between multiplies.
_TOLERANCE = 2e-2
_DECAY = -0.1


@dataclass(frozen=True)
class Work:
    """One page's program on arrays of the device: `ours` writes `outputs`, `formula` gives what
    they hold, and `triton` the same of the module of its kernels. `check` takes the place of the
    comparison of both. `products` are the same multiplies by `cute.gemm`.
    """

    size: str
    ours: Callable[[], object]
    formula: Callable[[], Sequence[Any]]
    outputs: Sequence[Any]
    check: Callable[[Sequence[Any]], float] | None = None
    compiles: bool = True
    triton: Callable[[Any], Sequence[Any]] | None = None
    products: Callable[[], object] | None = None

    def error(self, results: Sequence[Any]) -> float:
        """The largest deviation of results from torch's, over the largest element of each."""
        if self.check is not None:
            return self.check(results)
        worst = 0.0
        for mine, want in zip(results, self.formula(), strict=True):
            largest = max(want.abs().max().item(), 1e-30)
            worst = max(worst, (mine.float() - want.float()).abs().max().item() / largest)
        return worst


def definitions(page: str) -> dict[str, Any]:
    """The kernels and functions of a page's programs, without what runs them."""
    path = PAGES / f"{page}.md"
    text = path.read_text()
    kept = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    scope: dict[str, Any] = {"__name__": f"cookbook_{page.replace('-', '_')}"}
    for program in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        tree = ast.parse(program[1])
        tree.body = [node for node in tree.body if isinstance(node, kept)]
        ast.increment_lineno(tree, text[: program.start(1)].count("\n"))
        exec(compile(tree, str(path), "exec"), scope)
    return scope


def _router(torch: Any, of: dict[str, Any]) -> Work:
    x = torch.randn(1 << 20, 64, device="cuda")
    weights = torch.empty(len(x), 4, device="cuda")
    experts = torch.empty(len(x), 4, dtype=torch.int32, device="cuda")

    def formula() -> Sequence[Any]:
        scores, places = torch.topk(x, 4)
        return scores.softmax(1), places.int()

    def check(results: Sequence[Any]) -> float:
        # Of equal scores torch may give any expert first.
        shares, places = results
        theirs, _ = formula()
        mine = x.gather(1, places.long())
        found = mine - torch.topk(x, 4)[0]
        is_twice = places.sort(1)[0].diff(dim=1) == 0
        return max(found.abs().max(), (shares - theirs).abs().max(), is_twice.any()).item()

    def ours() -> object:
        return of["router"](x, weights, experts)

    return Work(
        f"{len(x)}x64",
        ours,
        formula,
        (weights, experts),
        check,
        triton=lambda pages: pages.router(x),
    )


def _sampling(torch: Any, of: dict[str, Any]) -> Work:
    x = 3 * torch.randn(1 << 17, 128, device="cuda")
    token = torch.empty(len(x), 1, dtype=torch.int32, device="cuda")

    def ordered() -> tuple[Any, Any]:
        shares, order = x.softmax(1).sort(1, descending=True)
        before = shares.cumsum(1) - shares
        return torch.where(before < 0.8, shares, 0.0), order

    def formula() -> Sequence[Any]:
        nucleus, order = ordered()
        drawn = torch.rand(len(x), 1, device="cuda") * nucleus.sum(1, keepdim=True)
        rank = (nucleus.cumsum(1) <= drawn).sum(1, keepdim=True)
        return (order.gather(1, rank.clamp(max=127)).int(),)

    def check(results: Sequence[Any]) -> float:
        nucleus, order = ordered()
        chosen = nucleus.gather(1, (order == results[0]).int().argmax(1, keepdim=True))
        return (chosen == 0).float().mean().item()

    return Work("131072x128", lambda: of["sample"](x, token), formula, (token,), check)


def _cross_entropy(torch: Any, of: dict[str, Any]) -> Work:
    x = torch.randn(1 << 19, 128, device="cuda")
    labels = torch.randint(128, (len(x), 1), device="cuda", dtype=torch.int32)
    loss, slope = torch.empty(len(x), 1, device="cuda"), torch.empty_like(x)

    def formula() -> Sequence[Any]:
        total = x.logsumexp(1, keepdim=True)
        is_label = torch.arange(128, device="cuda") == labels
        chosen = torch.where(is_label, x, 0.0).sum(1, keepdim=True)
        losses = total - 0.9 * chosen - 0.1 * x.mean(1, keepdim=True)
        return losses, (x - total).exp() - torch.where(is_label, 0.9, 0.0) - 0.1 / 128

    def ours() -> object:
        return of["cross_entropy"](x, labels, loss, slope, 0.1)

    return Work(
        "524288x128",
        ours,
        formula,
        (loss, slope),
        triton=lambda pages: pages.cross_entropy(x, labels),
    )


def _rope(torch: Any, of: dict[str, Any]) -> Work:
    x = torch.randn(1 << 20, 32, device="cuda")
    halves, pairs = torch.empty_like(x), torch.empty_like(x)

    def formula() -> Sequence[Any]:
        powers = 10000.0 ** (-torch.arange(16, device="cuda") / 16)
        angle = torch.arange(len(x), device="cuda")[:, None] * powers
        cos, sin = angle.cos(), angle.sin()
        a, b, even, odd = x[:, :16], x[:, 16:], x[:, ::2], x[:, 1::2]
        turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), 2)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), 1), turned.view(len(x), 32)

    def check(results: Sequence[Any]) -> float:
        # Angles of far rows are rounded in f32, and by each side in its own way.
        near = [(one - other)[:4096] for one, other in zip(results, formula(), strict=True)]
        return max(part.abs().max().item() for part in near)

    return Work(
        "1048576x32",
        lambda: of["rope"](x, halves, pairs),
        formula,
        (halves, pairs),
        check,
        triton=lambda pages: pages.rope(x),
    )


def _dropout(torch: Any, of: dict[str, Any]) -> Work:
    x = torch.ones(8192, 8192, device="cuda")
    y = torch.empty_like(x)

    def check(results: Sequence[Any]) -> float:
        return abs((results[0] == 0).float().mean().item() - 0.25)

    def formula() -> Sequence[Any]:
        return (torch.nn.functional.dropout(x, 0.25),)

    return Work(
        "8192x8192",
        lambda: of["dropout"](x, y, 11),
        formula,
        (y,),
        check,
        triton=lambda pages: pages.dropout(x),
    )


def _convolution(torch: Any, of: dict[str, Any]) -> Work:
    x, w = torch.randn(1 << 16, 1024, device="cuda"), torch.randn(4, 1024, device="cuda")
    y = torch.empty_like(x)

    def formula() -> Sequence[Any]:
        padded = torch.nn.functional.pad(x, (0, 0, 3, 0))
        taps = [padded[k : k + len(x)] * w[k] for k in range(4)]
        return (torch.nn.functional.silu(taps[0] + taps[1] + taps[2] + taps[3]),)

    return Work(
        "65536x1024",
        lambda: of["convolution"](x, w, y),
        formula,
        (y,),
        triton=lambda pages: pages.convolution(x, w),
    )


def _embedding(torch: Any, of: dict[str, Any]) -> Work:
    tokens = torch.randint(1 << 15, (1 << 20,), device="cuda")
    values, order = tokens.sort(stable=True)
    slopes = torch.randn(1 << 20, 16, device="cuda")
    rows, keys = order.int()[:, None], values.int()[:, None]
    g, theirs, summed = (torch.zeros(1 << 15, 16, device="cuda") for _ in range(3))

    def formula() -> Sequence[Any]:
        return (theirs.index_add_(0, tokens, slopes),)

    def ours() -> object:
        return of["gradient"](slopes, rows, keys, g)

    def added(pages: Any) -> Sequence[Any]:
        return pages.gradient(slopes, rows, keys, summed)

    def check(results: Sequence[Any]) -> float:
        """Of a sum that begins at 0."""
        found = results[0].zero_()
        if found is g:
            ours()
        else:
            from . import triton_pages

            added(triton_pages)
        want = torch.zeros_like(g).index_add_(0, tokens, slopes)
        return (found - want).abs().max().item() / want.abs().max().item()

    return Work("1048576x16 to 32768", ours, formula, (g,), check, compiles=False, triton=added)


def _heads(torch: Any, heads: int, length: int, count: int) -> list[Any]:
    shape = heads, length, 16
    return [torch.randn(shape, device="cuda", dtype=torch.float16) / 4 for _ in range(count)]


def _chunks(torch: Any, q: Any, k: Any, v: Any, logs: Any) -> Any:
    """Linear attention with the logarithms of decays (heads, length) in chunks of 16, all at once:
    what chunks leave is multiplied by the decays between them.
    """
    heads, length, _ = q.shape
    q, k, v = (x.view(heads, -1, 16, 16).float() for x in (q, k, v))
    since = logs.view(heads, -1, 16).cumsum(2)
    inside = since[..., :, None] - since[..., None, :]
    past = torch.ones(16, 16, device="cuda", dtype=torch.bool).tril()
    scores = (q @ k.mT) * torch.where(past, inside, -torch.inf).exp()
    left = (since[..., -1:] - since).exp()
    states = ((k * left[..., None]).mT @ v).view(heads, length // 16, 256)
    whole = since[..., -1].cumsum(1)
    before = whole - since[..., -1]
    between = before[:, :, None] - whole[:, None, :]
    earlier = torch.ones(between.shape[1:], device="cuda", dtype=torch.bool).tril(-1)
    between = torch.where(earlier, between, -torch.inf).exp()
    carried = (between @ states).view(heads, -1, 16, 16)
    return ((q * since.exp()[..., None]) @ carried + scores @ v).view(heads, length, 16)


def _products(torch: Any, *pairs: tuple[Any, Any]) -> Callable[[], object]:
    """Products of stacks of matrices in f32."""
    outputs = [
        torch.empty(*a.shape[:-1], b.shape[-1], device="cuda", dtype=torch.float32)
        for a, b in pairs
    ]

    def multiply() -> None:
        for (a, b), out in zip(pairs, outputs, strict=True):
            cute.gemm(a, b, out=out)

    return multiply


def _of_chunks(torch: Any, q: Any, k: Any, v: Any) -> Callable[[], object]:
    """The products of chunks of 16: scores, what they weigh, and what a state gives and takes."""
    q, k, v = (x.view(-1, 16, 16) for x in (q, k, v))
    return _products(torch, (q, k.mT), (q, v), (q, v), (k.mT, v))


def _in_chunks(
    torch: Any, ours: Callable[[], object], q: Any, k: Any, v: Any, logs: Any, o: Any
) -> Work:
    """Work of linear attention of q, k, v with the logarithms of decays, which writes o."""

    def formula() -> Sequence[Any]:
        return (_chunks(torch, q, k, v, logs),)

    return Work(
        "1024 heads x 1024",
        ours,
        formula,
        (o,),
        triton=lambda pages: pages.linear_attention(q, k, v, logs),
        products=_of_chunks(torch, q, k, v),
    )


def _linear_attention(torch: Any, of: dict[str, Any]) -> Work:
    q, k, v = _heads(torch, 1024, 1024, 3)
    o = torch.empty(q.shape, device="cuda")
    logs = torch.full(q.shape[:2], _DECAY, device="cuda")
    return _in_chunks(torch, lambda: of["decayed"](q, k, v, o, _DECAY), q, k, v, logs, o)


def _ssd(torch: Any, of: dict[str, Any]) -> Work:
    x, b, c = _heads(torch, 1024, 1024, 3)
    y = torch.empty(x.shape, device="cuda")
    a = -torch.rand(1024, 1024, 1, device="cuda") / 2
    return _in_chunks(torch, lambda: of["chunk_scan"](x, a, b, c, y), c, b, x, a[..., 0], y)


def _gated_delta(torch: Any, of: dict[str, Any]) -> Work:
    q, k, v = (x.float() for x in _heads(torch, 4096, 64, 3))
    g, beta = (torch.rand(4096, 64, device="cuda") / 2 + 0.5 for _ in range(2))
    o = torch.empty_like(q)

    def formula() -> Sequence[Any]:
        state, rows = torch.zeros(4096, 16, 16, device="cuda"), []
        for t in range(64):
            key, by = k[:, t, :, None], beta[:, t, None, None]
            read = (state * key).sum(1, keepdim=True)
            state = g[:, t, None, None] * (state - by * key * read) + by * key * v[:, t, None]
            rows.append((state * q[:, t, :, None]).sum(1))
        return (torch.stack(rows, 1),)

    def ours() -> object:
        return of["gated_delta"](q, k, v, g, beta, o)

    return Work("4096 heads x 64", ours, formula, (o,), compiles=False)


def _block_sparse(torch: Any, of: dict[str, Any]) -> Work:
    q, k, v = (torch.randn(1 << 16, 16, device="cuda", dtype=torch.float16) / 2 for _ in range(3))
    blocks = torch.randint(4096, (4096 * 16,), device="cuda", dtype=torch.int32)
    first = torch.arange(4097, device="cuda", dtype=torch.int32) * 16
    o = torch.empty(q.shape, device="cuda")

    def formula() -> Sequence[Any]:
        keys, values = (x.view(-1, 16, 16)[blocks.long()].view(4096, 256, 16) for x in (k, v))
        scores = (q.view(4096, 16, 16) @ keys.mT).float().softmax(2)
        return ((scores.half() @ values).float().view(-1, 16),)

    def ours() -> object:
        return of["block_sparse"](q, k, v, first, blocks, o)

    chosen = (x.view(-1, 16, 16)[blocks.long()].view(4096, 256, 16) for x in (k, v))
    keys, values = (x.contiguous() for x in chosen)
    scores = torch.empty(4096, 16, 256, device="cuda", dtype=torch.float16).normal_()
    products = _products(torch, (q.view(4096, 16, 16), keys.mT), (scores, values))
    return Work("65536x16, 16 blocks", ours, formula, (o,), products=products)


def _decoding(torch: Any, of: dict[str, Any]) -> Work:
    q, k, v = (torch.randn(n, 16, device="cuda") for n in (1, 256, 256))
    o = torch.empty(1, 16, device="cuda")

    def formula() -> Sequence[Any]:
        return ((q @ k.T).softmax(1) @ v,)

    return Work("1 query, 256 keys", lambda: of["decode"](q, k, v, o), formula, (o,))


def _narrow_weights(torch: Any, of: dict[str, Any]) -> Work:
    rows, n, k, group = 64, 8192, 8192, 64
    x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
    numbers = torch.randint(0, 16, (n, k), device="cuda", dtype=torch.uint8)
    packed = numbers[:, 0::2] | numbers[:, 1::2] << 4
    scales = torch.rand(n, k // group, device="cuda") / 8
    wide = ((numbers.float() - 8) * scales.repeat_interleave(group, 1)).bfloat16()
    y = torch.empty(rows, n, device="cuda")

    def formula() -> Sequence[Any]:
        return ((x @ wide.T).float(),)

    def check(results: Sequence[Any]) -> float:
        exact = x.float() @ wide.float().T
        return ((results[0] - exact).abs().max() / exact.abs().max()).item()

    return Work(
        f"{rows}x{n}x{k}",
        lambda: of["grouped"](x, packed, scales, y, tile=(64, rows, group)),
        formula,
        (y,),
        check,
        products=_products(torch, (x, wide.T)),
    )


WORK: dict[str, Callable[[Any, dict[str, Any]], Work]] = {
    "router": _router,
    "sampling": _sampling,
    "cross-entropy": _cross_entropy,
    "rope": _rope,
    "dropout": _dropout,
    "causal-convolution": _convolution,
    "linear-attention": _linear_attention,
    "ssd": _ssd,
    "gated-delta": _gated_delta,
    "block-sparse": _block_sparse,
    "flash-decoding": _decoding,
    "embedding-gradient": _embedding,
    "narrow-weights": _narrow_weights,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """0; 1 where a result is wrong or a program fails, or without a GPU."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cookbook",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="pages whose names match")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to this file")
    parser.add_argument("--seconds", type=float, default=40, metavar="S", help="to compile a peer")
    parser.add_argument("--budget", type=float, default=600, metavar="S", help="seconds in all")
    options = parser.parse_args(arguments)
    pages = [page for page in WORK if re.search(options.only, page)]
    torch = torch_on_gpu()
    if torch is None:
        return 1
    print(torch.cuda.get_device_name())
    print(HEADER)
    end, rows, progress = (
        time.monotonic() + options.budget,
        list[dict[str, Any]](),
        Progress(len(pages)),
    )
    for page in pages:
        if time.monotonic() > end:
            print(f"{page:22} left out: the budget was spent")
            continue
        progress.step(page)
        try:
            row = _row(torch, page, min(options.seconds, end - time.monotonic()), progress)
        except Exception as failure:
            row = {"page": page, "failure": f"{type(failure).__name__}: {failure}".splitlines()[0]}
        rows.append(row)
        progress.clear()
        print(_line(row), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(rows, indent=1))
    shares = [row["of_best"] for row in rows if row.get("of_best")]
    if shares:
        least, mean = min(shares), geometric_mean(shares)
        print(f"{len(shares)} pages beside a peer: mean {mean:.2f} of the best, least {least:.2f}")
    return int(any("failure" in row or row["error"] > _TOLERANCE for row in rows))


def _row(torch: Any, page: str, seconds: float, progress: Progress) -> dict[str, Any]:
    torch.manual_seed(37)
    work = WORK[page](torch, definitions(page))
    work.ours()
    torch.cuda.synchronize()
    error = work.error(work.outputs)
    calls: dict[str, Callable[[], object]] = {"ours": work.ours, "torch": work.formula}
    if work.compiles and seconds > 0:
        progress.note("torch.compile")
        begun = time.monotonic()
        torch._dynamo.reset()
        compiled = torch.compile(work.formula, dynamic=False)
        compiled()
        torch.cuda.synchronize()
        if time.monotonic() - begun < seconds:
            calls["compiled"] = compiled
    noted = {} if work.triton is None else _added(torch, work, calls)
    if work.products is not None:
        calls["gemm"] = work.products
    progress.note("times")
    taken = _microseconds(torch, calls)
    best = min(value for name, value in taken.items() if name in _PEERS)
    row = {"page": page, "size": work.size, **taken, "of_best": best / taken["ours"]}
    if work.products is not None:
        row["of_gemm"] = taken["gemm"] / taken["ours"]
    return row | {"error": error, **noted}


def _added(torch: Any, work: Work, calls: dict[str, Callable[[], object]]) -> dict[str, str]:
    """Add the call of Triton's kernel, or say why there is none."""
    try:
        from . import triton_pages

        assert work.triton is not None
        call = functools.partial(work.triton, triton_pages)
        error = work.error(call())
        torch.cuda.synchronize()
    except Exception as failure:
        return {"note": f"no Triton: {type(failure).__name__}: {failure}".splitlines()[0]}
    if not error <= _TOLERANCE:
        return {"note": f"no Triton: its error is {error:.2g}"}
    calls["triton"] = call
    return {}


def _microseconds(torch: Any, calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median time of each call in turns, as replays of a CUDA graph of as many calls as fill
    a batch.
    """
    graphs = {name: _captured(torch, call) for name, call in calls.items()}
    counts = dict.fromkeys(calls, 1)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(_ROUNDS + 2):
        for name, graph in graphs.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(counts[name]):
                graph()
            stop.record()
            stop.synchronize()
            ms = start.elapsed_time(stop) / counts[name]
            if number == 0:
                counts[name] = max(1, min(200, round(1e3 * _BATCH_SECONDS / ms)))
            elif number > 1:
                taken[name].append(1e3 * ms)
    return {name: median(times) for name, times in taken.items()}


def _captured(torch: Any, call: Callable[[], object]) -> Callable[[], object]:
    """The replay of a graph of one call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def _line(row: dict[str, Any]) -> str:
    if "failure" in row:
        return f"{row['page']:22} FAILED {row['failure']}"
    times = " ".join(
        f"{row[name]:9.1f}" if name in row else f"{'':9}" for name in ("ours", *_PEERS)
    )
    verdict = "  WRONG" if row["error"] > _TOLERANCE else ""
    of_gemm = f"{row['of_gemm']:8.2f}" if "of_gemm" in row else f"{'':8}"
    return (
        f"{row['page']:22} {row['size']:>20} {times} {row['of_best']:8.2f} {of_gemm}  "
        f"{row['error']:.2g}"
        f"{verdict}{'  ' * ('note' in row)}{row.get('note', '')}"
    )


if __name__ == "__main__":
    sys.exit(main())
