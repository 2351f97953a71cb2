"""`cutedialect.torch.conv2d`: results and gradients beside torch's, and what is refused."""

import pytest

torch = pytest.importorskip("torch")

from torch.library import opcheck  # noqa: E402

import cutedialect.torch as ct  # noqa: E402

HOW = {"stride": (2, 1), "padding": (1, 0), "dilation": 1}


def drawn(grad=False):
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 7, 6, 8), (16, 3, 2, 8), (16,)
    return [torch.randn(shape, generator=generator).half().requires_grad_(grad) for shape in shapes]


@pytest.mark.parametrize("activation", [None, "relu"])
def test_gradients(activation):
    x, w, bias = drawn(grad=True)
    y = ct.conv2d(x, w, bias=bias, activation=activation, **HOW)
    y.float().pow(2).sum().backward()
    wide = [each.detach().double().requires_grad_() for each in (x, w, bias)]
    images, filters = (each.permute(0, 3, 1, 2) for each in wide[:2])
    want = torch.nn.functional.conv2d(images, filters, wide[2], **HOW).permute(0, 2, 3, 1)
    want = want.relu() if activation else want
    torch.testing.assert_close(y.double(), want, atol=3e-2, rtol=2e-2)
    want.pow(2).sum().backward()
    for mine, theirs in zip((x, w, bias), wide, strict=True):
        scale = theirs.grad.abs().max()
        assert (mine.grad.double() - theirs.grad).abs().max() <= 1e-2 * scale


def test_gradients_of_a_filter_for_each_channel():
    x, w, _ = drawn()
    x, w = x.requires_grad_(), w[:8, :, :, :1].contiguous().requires_grad_()
    ct.conv2d(x, w, **HOW).float().pow(2).sum().backward()
    wide = [each.detach().double().requires_grad_() for each in (x, w)]
    images, filters = (each.permute(0, 3, 1, 2) for each in wide)
    torch.nn.functional.conv2d(images, filters, groups=8, **HOW).pow(2).sum().backward()
    for mine, theirs in zip((x, w), wide, strict=True):
        scale = theirs.grad.abs().max()
        assert (mine.grad.double() - theirs.grad).abs().max() <= 1e-2 * scale


def test_the_operator_and_whole_graphs():
    x, w, bias = drawn()
    opcheck(torch.ops.cutedialect.conv2d.default, (x, w, bias, [1, 1], [1, 1]))

    def program(x, w):
        return ct.conv2d(x * 2, w, padding=1)

    torch._dynamo.reset()
    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, w), program(x, w))


def test_what_is_refused():
    x, w, _ = drawn(grad=True)
    with pytest.raises(ValueError, match=r"^activation: expected None or 'relu'"):
        ct.conv2d(x, w, activation="gelu")
