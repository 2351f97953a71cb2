"""torch tensors in calls that torch does not know of: nothing is detached, overwritten behind
autograd's back, or read as what it does not stand for; and what cannot be read says so.
"""

import random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cutedialect as cute  # noqa: E402
from cutedialect.frontend.launch import compile_kernel  # noqa: E402
from cutedialect.torch import operators  # noqa: E402


def drawn(*shape, dtype=torch.float16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


A, B = drawn(16, 32), drawn(32, 16, seed=1)
Q = drawn(1, 1, 16, 16)


@cute.kernel
def doubled(X, Y):
    at = cute.tile_index(Y, (16, 16))
    cute.copy(cute.load(cute.local_tile(X, (16, 16), at)) * 2.0, cute.local_tile(Y, (16, 16), at))


COMPILED = compile_kernel(doubled, (Q[0, 0], Q[0, 0]), {"arch": "sm_80"})


def calls_with(a):
    """Every entry with a tensor (16, 32) in the place of an input."""
    square = a[:, :16]
    return {
        "gemm": lambda: cute.gemm(a, B),
        "grouped_gemm": lambda: cute.grouped_gemm([A, a], [B, B]),
        "attention": lambda: cute.attention(*(square[None, None],) * 3),
        "kernel": lambda: doubled(square, torch.empty(16, 16, dtype=torch.float16)),
        "compiled": lambda: COMPILED.launch(square, torch.empty(16, 16, dtype=torch.float16)),
    }


ENTRIES = tuple(calls_with(A))


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_gradient_is_never_dropped(entry):
    a = A.clone().requires_grad_()
    call = calls_with(a)[entry]
    calls_with(A)[entry]()  # a warm call has to refuse, too
    with pytest.raises(ValueError, match=r"expected a tensor without gradient.*cutedialect\.torch"):
        call()
    with torch.no_grad():
        call()
    with torch.inference_mode():
        call()
    with pytest.raises(ValueError, match="without gradient"):
        call()


def test_parameters_without_grad_mode_are_ordinary_tensors():
    weight = torch.nn.Parameter(B.clone())
    with torch.no_grad():
        result = cute.gemm(A, weight)
    assert type(result) is torch.Tensor
    torch.testing.assert_close(result, A @ B)


@pytest.mark.parametrize("entry", ["gemm", "aux", "grouped_gemm", "attention", "kernel", "swapped"])
def test_a_written_tensor_has_a_new_version(entry):
    out = torch.zeros(16, 16, dtype=torch.float16)
    calls = {
        "gemm": lambda: cute.gemm(A, B, out=out),
        "aux": lambda: cute.gemm(A, B, activation="relu", aux=out),
        "grouped_gemm": lambda: cute.grouped_gemm([A], [B], out=[out]),
        "attention": lambda: cute.attention(Q, Q, Q, out=out[None, None]),
        "kernel": lambda: doubled(Q[0, 0], out),
        "swapped": lambda: cute.gemm(A, B, out=out.T),
    }
    factor = torch.ones(16, 16, dtype=torch.float16, requires_grad=True)
    product = factor * out  # saves out
    before = out._version
    for _ in range(2):
        calls[entry]()
    assert out._version >= before + 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_an_input_keeps_its_version():
    before = A._version, B._version
    cute.gemm(A, B)
    assert (A._version, B._version) == before


def test_an_output_that_requires_a_gradient_is_refused():
    leaf = torch.zeros(16, 16, dtype=torch.float16, requires_grad=True)
    for out in (leaf, leaf * 1):
        with pytest.raises(ValueError, match="out: expected a tensor without gradient"):
            cute.gemm(A, B, out=out)
    with torch.no_grad():
        assert cute.gemm(A, B, out=leaf) is leaf
    assert leaf._version == 1


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_negated_view_is_refused(entry):
    calls_with(A)[entry]()
    with pytest.raises(ValueError, match=r"a view that negates it; use \.resolve_neg\(\)"):
        calls_with(torch._neg_view(A))[entry]()
    parts = torch.complex(A.float(), A.float()).conj()
    with pytest.raises(ValueError, match="a view that negates"):
        cute.gemm(parts.imag, B.float())


def test_names_of_arguments_are_in_the_errors():
    wrong = B.clone().requires_grad_()
    with pytest.raises(ValueError, match=r"^b: expected"):
        cute.gemm(A, wrong)
    with pytest.raises(ValueError, match=r"^bs\[1\]: expected"):
        cute.grouped_gemm([A, A], [B, wrong])
    with pytest.raises(ValueError, match=r"^k: expected"):
        cute.attention(Q, Q.clone().requires_grad_(), Q)
    with pytest.raises(ValueError, match=r"^X: expected"):
        doubled(wrong[:16], torch.empty(16, 16, dtype=torch.float16))


class Plain(torch.Tensor):
    """A subclass with memory of its own."""


class Dispatching(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("expected no operation")


@pytest.mark.parametrize("entry", ["gemm", "grouped_gemm", "attention"])
def test_a_subclass_with_memory_gives_torch_tensors(entry):
    result = calls_with(A.as_subclass(Plain))[entry]()
    assert all(type(each) is torch.Tensor for each in (result if entry[1] == "r" else [result]))
    want = calls_with(A)[entry]()
    torch.testing.assert_close(result, want)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_subclass_that_dispatches_is_refused(entry):
    wrapped = torch.Tensor._make_wrapper_subclass(Dispatching, (16, 32), dtype=torch.float16)
    with pytest.raises(TypeError, match="got a Dispatching, which dispatches operations itself"):
        cute.gemm(wrapped, B)
    with torch._subclasses.FakeTensorMode():
        fake = torch.zeros(16, 32, dtype=torch.float16)
        with pytest.raises(TypeError, match="expected a tensor with memory, got a FakeTensor"):
            calls_with(fake)[entry]()


def test_meta_tensors_are_refused_with_a_remedy():
    with pytest.raises(TypeError, match=r"^a: expected a tensor with memory.*cutedialect\.torch"):
        cute.gemm(A.to("meta"), B)
    with pytest.raises(TypeError, match=r"^out: expected a tensor with memory"):
        cute.gemm(A, B, out=torch.empty(16, 16, dtype=torch.float16, device="meta"))


def test_a_dtensor_is_refused_with_a_remedy():
    tensors = pytest.importorskip("torch.distributed.tensor")
    distributed = torch.Tensor._make_wrapper_subclass(
        tensors.DTensor, (16, 32), dtype=torch.float16
    )
    with pytest.raises(TypeError, match=r"a: expected a local tensor, got a DTensor; .*to_local"):
        cute.gemm(distributed, B)


@pytest.mark.parametrize("transform", [torch.vmap, lambda f: torch.func.grad(lambda x: f(x).sum())])
def test_transforms_are_refused_with_a_remedy(transform):
    with pytest.raises((TypeError, ValueError), match=r"cutedialect\.torch"):
        transform(lambda a: cute.gemm(a, B))(A[None])


def test_other_layouts_are_refused():
    with pytest.raises(ValueError, match=r"a: expected a strided tensor, .*use \.to_dense\(\)"):
        cute.gemm(A.to_sparse(), B)
    with pytest.raises(TypeError, match="expected a to be one of f16"):
        cute.gemm(A.to(torch.complex64), B)


def test_results_are_torchs_where_the_first_operand_is():
    generator = random.Random(3)
    for _ in range(4):
        m, n, k = (generator.randint(1, 40) for _ in range(3))
        a, b = drawn(m, k, seed=m), drawn(k, n, seed=n)
        result = cute.gemm(a, b.numpy())
        assert type(result) is torch.Tensor
        np.testing.assert_array_equal(result.numpy(), (a.float() @ b.float()).half().numpy())


@pytest.mark.parametrize("entry", ["gemm", "attention", "kernel"])
def test_dynamo_breaks_the_graph_at_a_call_and_goes_on(entry):
    def program(a):
        x = a * 2 + 1
        if entry == "gemm":
            return cute.gemm(x, B) - 1
        if entry == "attention":
            return cute.attention(*(x[None, None, :, :16],) * 3) - 1
        y = torch.empty(16, 16, dtype=torch.float16)
        doubled(x[:, :16], y)
        return y - 1

    want = program(A)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(program, backend="eager")(A), want)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"cutedialect\.torch"):
        torch.compile(program, backend="eager", fullgraph=True)(A)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_tangent_and_a_trace_are_refused(entry):
    calls_with(A)[entry]()
    with torch.autograd.forward_ad.dual_level():
        calls_with(A)[entry]()
        dual = torch.autograd.forward_ad.make_dual(A, A)
        with pytest.raises(NotImplementedError, match="expected tensors without a tangent"):
            calls_with(dual)[entry]()
    with pytest.raises(NotImplementedError, match=r"expected a call outside of torch\.jit\.trace"):
        torch.jit.trace(lambda a: calls_with(a)[entry](), (A,))


def test_a_warm_call_on_a_device_looks_for_what_torch_records():
    """It repeats a launch for equal looks, and a tensor with a tangent looks like one without."""
    from types import SimpleNamespace

    from cutedialect.backend.runtime.repeats import repeat_of

    launches = []
    template = SimpleNamespace(run=lambda *given: launches.append(given))
    prepared: Any = SimpleNamespace(
        template=template, stream=lambda: 7, pointers=(A.data_ptr(),), numbers=()
    )
    repeat = repeat_of(prepared, [A], [0], alignment=1)
    assert repeat is not None
    for is_known in (False, True):
        launches.clear()
        assert repeat(None, None, is_known, A)
        assert launches == [((A.data_ptr(),), (), 7)]
        with torch.autograd.forward_ad.dual_level():
            assert repeat(None, None, is_known, A) is None
        traced = [True]
        torch.jit.trace(
            lambda a: (traced.append(repeat(None, None, is_known, A)), a)[1],  # noqa: B023
            (A,), check_trace=False,
        )  # fmt: skip
        assert traced == [True, None]
        assert len(launches) == 1
        assert repeat(None, None, is_known, A)


def test_a_device_tensor_without_memory_is_left_to_be_refused():
    from cutedialect.backend.runtime.torch_tensors import torch_reader

    class OnDevice:
        """As a sparse tensor, or one inside of a transform, is on a device."""

        is_cuda, requires_grad, dtype = True, False, torch.float16
        shape, device = (4, 4), "cuda:0"

        def is_neg(self):
            return False

        def stride(self):
            raise RuntimeError("no strides")

        data_ptr = stride

    reader = torch_reader(OnDevice)
    tensor = OnDevice()
    assert reader.pointer(tensor) is None
    assert reader.key(tensor) is None
    assert reader.look(tensor) is None


def test_one_call_into_torch_tells_what_looks_different():
    from cutedialect.backend.runtime.torch_tensors import alike

    with torch.no_grad():
        for tensors in ([A], [A, B], [A[:, ::2], B.T, A[None]]):
            check = alike(tensors)
            assert check(*[tensor.detach() for tensor in tensors])
            for place, tensor in enumerate(tensors):
                for other in (
                    tensor[..., :-1], tensor.mT, tensor.double(), tensor.to("meta"), tensor[None],
                    torch._neg_view(tensor), tensor.clone().requires_grad_(), None, 1,
                    torch.nn.Parameter(tensor), tensor.as_subclass(Plain), tensor.to_sparse(),
                ):  # fmt: skip
                    assert not check(*tensors[:place], other, *tensors[place + 1 :])
    assert alike([A.as_subclass(Plain)]) is None
    with torch.inference_mode():
        assert alike([A])(A)
        assert not alike([A.clone()])(A)


def test_a_parameter_seen_without_gradients_is_not_taken_with_them():
    """torch's guards do not look at whether gradients are enabled."""
    from types import SimpleNamespace

    from cutedialect.backend.runtime.repeats import repeat_of

    weight = torch.nn.Parameter(A.clone())
    launches = []
    prepared: Any = SimpleNamespace(
        template=SimpleNamespace(run=lambda *given: launches.append(given)),
        stream=lambda: 7, pointers=(weight.data_ptr(),), numbers=(),
    )  # fmt: skip
    with torch.no_grad():
        repeat = repeat_of(prepared, [weight], [0], alignment=1)
        assert repeat is not None
        assert repeat(None, None, False, weight)
    assert repeat(None, None, False, weight) is None
    with torch.inference_mode():
        repeat(None, None, False, weight)
    assert len(launches) >= 1


@pytest.mark.parametrize("entry", ["gemm", "grouped_gemm", "attention"])
def test_a_nested_tensor_is_refused(entry):
    nested = torch.nested.nested_tensor([A, A])
    call = {
        "gemm": lambda: cute.gemm(nested, B),
        "grouped_gemm": lambda: cute.grouped_gemm([nested], [B]),
        "attention": lambda: cute.attention(Q, nested, Q),
    }[entry]
    with pytest.raises(ValueError, match="expected a tensor with one shape, got a nested one"):
        call()


@pytest.mark.parametrize("name", ["float4_e2m1fn_x2", "quint8"])
def test_elements_that_numpy_does_not_have_are_refused(name):
    odd = torch.empty(16, 32, dtype=getattr(torch, name))
    with pytest.raises(TypeError, match=f"^a: expected elements of a type .* got {name}"):
        cute.gemm(odd, B)


def test_plain_tensors_are_told_from_those_that_torch_has_to_see():
    made = torch.zeros(4, 4)
    weight = torch.nn.Parameter(torch.zeros(4, 4))
    assert operators._are_plain((made, None, made.T))
    assert not operators._are_plain((made, weight))
    with torch.no_grad():
        assert operators._are_plain((made, weight))
    part = torch.zeros(4, dtype=torch.complex64).conj().imag
    assert part.is_neg()
    sparse = made.to_sparse()
    nested = torch.nested.nested_tensor([made, made])
    meta = torch.zeros(4, device="meta")
    for other in (part, sparse, nested, meta, made.detach().requires_grad_(), [made], 3.0):
        assert not operators._are_plain((made, other))
