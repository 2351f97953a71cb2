"""The operators and the direct calls on tensors of a GPU: where there is one."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU that torch sees", allow_module_level=True)

from torch.library import opcheck  # noqa: E402

import cutedialect as cute  # noqa: E402
import cutedialect.torch as ct  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.long]


@pytest.fixture(autouse=True)
def on_the_gpu(on_the_host, monkeypatch):
    monkeypatch.delenv("CUTEDIALECT_BACKEND", raising=False)


def drawn(*shape, dtype=torch.float16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).to(dtype).cuda()


A, B, BIAS = drawn(96, 64), drawn(64, 80, seed=1), drawn(80, seed=2)
Q = drawn(1, 2, 64, 64, seed=3)


@ct.op("cutedialect_gpu::doubled", outputs={"Y": torch.empty_like})
@cute.kernel
def doubled(X, Y, *, tile=(16, 16)):
    at = cute.tile_index(Y, tile)
    cute.copy(cute.load(cute.local_tile(X, tile, at)) * 2.0, cute.local_tile(Y, tile, at))


def test_values_gradients_and_whole_graphs():
    def layer(a, b, bias):
        return ct.gemm(a, b, bias=bias, activation="relu")

    want = torch.relu(A.float() @ B.float() + BIAS.float())
    assert torch.equal(layer(A, B, BIAS).float(), want)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for function in (layer, compiled):
        leaves = [each.clone().requires_grad_() for each in (A, B, BIAS)]
        result = function(*leaves)
        assert torch.equal(result.detach().float(), want)
        result.sum().backward()
        passed = (want > 0).float()
        assert torch.equal(leaves[0].grad.float(), (passed @ B.float().T))
        assert torch.equal(leaves[1].grad.float(), (A.float().T @ passed))
    assert torch.equal(torch.compile(doubled, fullgraph=True, backend="aot_eager")(A), 2 * A)


def test_opcheck():
    operators = torch.ops.cutedialect
    opcheck(operators.gemm, (A.clone().requires_grad_(), B))
    opcheck(operators.attention, (Q, Q, Q))
    opcheck(doubled, (A,))


def test_a_graph_is_replayed():
    calls = (
        lambda: ct.gemm(A, B),
        lambda: ct.attention(Q, Q, Q, causal=True),
        lambda: doubled(A),
        lambda: cute.gemm(A, B, activation="gelu"),
    )
    saved = A.clone()
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [call() for call in calls]
    A.mul_(-1)
    graph.replay()
    torch.cuda.synchronize()
    for call, result in zip(calls, results, strict=True):
        assert torch.equal(call(), result)
    A.copy_(saved)


def test_autocast_and_deterministic_mode():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert ct.gemm(A.float(), B.float()).dtype == torch.bfloat16
    torch.use_deterministic_algorithms(True)
    try:
        first = ct.gemm(A, B)
        assert torch.equal(first, ct.gemm(A, B))
        with pytest.raises(RuntimeError, match="reduction = ordered"):
            ct.gemm(A, B, schedule="split_k = 2, reduction = atomic")
    finally:
        torch.use_deterministic_algorithms(False)


def test_another_stream_is_told_to_the_allocator():
    side = torch.cuda.Stream()
    wants = A.float() @ B.float()
    torch.cuda.synchronize()
    for _ in range(50):
        result = cute.gemm(A, B, stream=side)
        side.synchronize()
        assert torch.equal(result.float(), wants)
        del result
        torch.full((96, 80), float("nan"), dtype=torch.float16, device="cuda")


CALLS = {
    "gemm": lambda a: cute.gemm(a, B),
    "grouped_gemm": lambda a: cute.grouped_gemm([A, a], [B, B]),
    "attention": lambda a: cute.attention(*(a[None, None],) * 3),
}


@pytest.mark.parametrize("entry", CALLS)
def test_what_is_refused(entry):
    call = CALLS[entry]
    call(A)
    with pytest.raises(ValueError, match="without gradient"):
        call(A.clone().requires_grad_())
    with pytest.raises(ValueError, match="a view that negates it"):
        call(torch._neg_view(A))
    with pytest.raises(TypeError, match="meta device"):
        call(A.to("meta"))
    with pytest.raises(ValueError, match="a strided tensor"):
        cute.gemm(A.to_sparse(), B)
    with pytest.raises(ValueError, match=r"expected an array on device 0"):
        cute.gemm(A, B.cpu())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(A, A)
        with pytest.raises(NotImplementedError, match="without a tangent"):
            call(dual)
    with torch._subclasses.FakeTensorMode():
        fake = torch.zeros(96, 64, dtype=torch.float16, device="cuda")
        with pytest.raises(TypeError, match="got a FakeTensor"):
            call(fake)


def test_gradients_of_attention():
    """Those of torch's own attention, as far as numbers of 16 bits agree."""
    sides = [[x.clone().requires_grad_() for x in (Q, Q, Q)] for _ in range(2)]
    for attend, operands in zip(
        (ct.attention, torch.nn.functional.scaled_dot_product_attention), sides, strict=True
    ):
        attend(*operands).square().sum().backward()
    for ours, theirs in zip(*sides, strict=True):
        assert (ours.grad - theirs.grad).abs().max() <= 0.02 * theirs.grad.abs().max()


def test_a_written_tensor_has_a_new_version():
    out = torch.zeros(96, 80, dtype=torch.float16, device="cuda")
    factor = torch.ones_like(out, requires_grad=True)
    product = factor * out
    for _ in range(2):
        before = out._version
        cute.gemm(A, B, out=out)
        assert out._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_the_stream_of_an_interface_orders_a_launch():
    class Exported:
        def __init__(self, tensor, stream):
            interface = dict(tensor.__cuda_array_interface__)
            self.__cuda_array_interface__ = interface | {"stream": stream.cuda_stream, "version": 3}

    side = torch.cuda.Stream()
    data = torch.zeros(96, 64, dtype=torch.float16, device="cuda")
    out = torch.empty(96, 80, dtype=torch.float16, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        data.copy_(A)
    cute.gemm(Exported(data, side), B, out=out)
    torch.cuda.synchronize()
    assert torch.equal(out.float(), A.float() @ B.float())
