"""A stand-in for torch with a clock of its own: arrays are NumPy's, every product advances the
device's time by what the test says, and graphs replay what was captured.
"""

import contextlib
import sys
import types
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

# Some distributions install a `benchmarks` of their own.
sys.path.insert(0, str(Path(__file__).parents[2]))


class Tensor:
    device = "cuda"

    def __init__(self, array):
        self.array = array

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)

    def element_size(self):
        return self.array.itemsize

    def is_floating_point(self):
        return self.array.dtype.kind not in "iub"

    def to(self, dtype):
        return Tensor(self.array.astype(dtype))

    def double(self):
        assert self.array.dtype != ml_dtypes.float8_e4m3fn
        return self.to(np.float64)

    def float(self):
        return self.to(np.float32)

    def long(self):
        return self.to(np.int64)

    def reshape(self, *shape):
        return Tensor(self.array.reshape(*shape))

    def repeat_interleave(self, count, dim):
        return Tensor(np.repeat(self.array, count, dim))

    def masked_fill(self, mask, value):
        assert mask.dtype == bool
        return Tensor(np.where(mask.array, np.asarray(value, self.dtype), self.array))

    def exp(self):
        return Tensor(np.exp(self.array))

    def amax(self, dim, keepdim):
        return Tensor(np.max(self.array, dim, keepdims=keepdim))

    def sum(self, dim=None, keepdim=False):
        return Tensor(np.sum(self.array, dim, keepdims=keepdim))

    def transpose(self, one, other):
        return Tensor(np.swapaxes(self.array, one, other))

    def contiguous(self):
        return Tensor(np.ascontiguousarray(self.array))

    def strides(self):
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def fill_(self, value):
        self.array[...] = value

    def copy_(self, other):
        self.array[...] = other.array

    def round(self):
        return Tensor(self.array.round())

    def clamp(self, low, high):
        return Tensor(self.array.clip(low, high))

    def abs(self):
        return Tensor(np.abs(self.array))

    def max(self):
        return Tensor(np.max(self.array))

    def argmax(self):
        return Tensor(np.argmax(self.array))

    def any(self):
        return bool(np.any(self.array))

    def item(self):
        return self.array.item()

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        return Tensor(
            self.array[tuple(one.array if isinstance(one, Tensor) else one for one in keys)]
        )

    def __add__(self, other):
        return Tensor(self.array + self._like(other))

    def __sub__(self, other):
        return Tensor(self.array - self._like(other))

    def __mul__(self, other):
        return Tensor(self.array * self._like(other))

    def __truediv__(self, other):
        return Tensor(self.array / self._like(other))

    def __floordiv__(self, number):
        return Tensor(self.array // number)

    def __or__(self, other):
        return Tensor(self.array | other.array)

    def __lt__(self, other):
        return Tensor(self.array < self._like(other))

    def __gt__(self, other):
        return Tensor(self.array > self._like(other))

    def _like(self, other):
        """An operand of the same type, or a number: other types have to be converted first."""
        if not isinstance(other, Tensor):
            return np.asarray(other, self.array.dtype)
        assert other.dtype == self.dtype, (self.dtype, other.dtype)
        return other.array

    def __eq__(self, other):
        return Tensor(self.array == (other.array if isinstance(other, Tensor) else other))

    def __ne__(self, other):
        return Tensor(self.array != other.array)

    __hash__ = None


class Device:
    """The stream: seconds of GPU time, and the graph that is being captured."""

    def __init__(self):
        self.now = 0.0
        self.capturing = None
        self.uncapturable = set()
        self.launches = []
        self.lost = False
        self.l2 = 50 << 20

    def launch(self, name, seconds, work):
        if self.capturing is not None:
            if name in self.uncapturable:
                raise RuntimeError("operation not permitted when stream is capturing")
            self.capturing.append((name, seconds, work))
            return
        self.launches.append(name)
        self.now += seconds
        work()


class Event:
    def __init__(self, device):
        self.device = device

    def record(self):
        self.time = self.device.now

    def elapsed_time(self, other):
        return 1e3 * (other.time - self.time)


class Graph:
    def __init__(self, device):
        self.device = device
        self.nodes = []

    def replay(self):
        assert self.device.capturing is None
        for node in self.nodes:
            self.device.launch(*node)


class Capture:
    def __init__(self, graph):
        self.graph = graph

    def __enter__(self):
        self.graph.device.capturing = self.graph.nodes

    def __exit__(self, *error):
        self.graph.device.capturing = None


class Generator:
    def __init__(self, device):
        assert device == "cuda"

    def manual_seed(self, seed):
        self.random = np.random.default_rng(seed)


def product(device, name, seconds, scale=1.0):
    """A contender: `out` = scale * a @ b in float64, rounded once."""

    def call(a, b, out):
        def work():
            exact = scale * (a.array.astype(np.float64) @ b.array.astype(np.float64))
            out.array[...] = exact.astype(out.array.dtype)

        device.launch(name, seconds, work)

    return call


def matmul(a, b):
    """As on the device: one type, sums in more than 16 bits, rounded once."""
    assert a.dtype == b.dtype
    assert a.element_size() > 1
    wide = np.promote_types(np.float32, a.dtype) if a.is_floating_point() else a.dtype
    return Tensor((a.array.astype(wide) @ b.array.astype(wide)).astype(a.dtype))


def softmax(x, dim):
    weights = np.exp(x.array - x.array.max(dim, keepdims=True))
    return Tensor(weights / weights.sum(dim, keepdims=True))


def cat(parts, dim):
    assert all(part.element_size() > 1 for part in parts)
    return Tensor(np.concatenate([part.array for part in parts], dim))


def _attended(q, k, v, causal, window=None, scales=(1, 1, 1)):
    """Attention of NumPy arrays (heads, rows, depth) in float64; heads of k and v repeated."""
    q, k, v = (
        each.astype(np.float64) * np.asarray(scale).reshape(-1, 1, 1)
        for each, scale in zip((q, k, v), scales, strict=True)
    )
    k, v = (np.repeat(each, len(q) // len(each), 0) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    rows, keys = scores.shape[-2:]
    apart = np.arange(keys) - np.arange(rows)[:, None] - (keys - rows)
    hidden = (apart > 0) if causal else np.zeros_like(apart, bool)
    if window is not None:
        hidden |= apart < -window
    scores = np.where(hidden, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


class Libraries:
    """torch.nn: one library at a time computes attention, unless it is among those that refuse."""

    def __init__(self, device):
        self.device = device
        self.backend = None
        self.refusing = set()
        self.attention = types.SimpleNamespace(
            SDPBackend=types.SimpleNamespace(CUDNN_ATTENTION="cuDNN", FLASH_ATTENTION="flash"),
            sdpa_kernel=self.only,
        )
        self.functional = types.SimpleNamespace(scaled_dot_product_attention=self.compute)
        self.seconds = {"cuDNN": 1e-6, "flash": 2e-6}

    @contextlib.contextmanager
    def only(self, backend):
        self.backend = backend
        yield
        self.backend = None

    def compute(self, q, k, v, *, is_causal, enable_gqa):
        name = self.backend
        if name in self.refusing or ("shared heads" in self.refusing and enable_gqa):
            raise RuntimeError("No available kernel. Aborting execution.")
        assert q.element_size() == 2
        assert enable_gqa == (q.shape[1] != k.shape[1])
        out = Tensor(np.empty(q.shape, q.dtype))

        def work():
            for one in range(q.shape[0]):
                exact = _attended(q.array[one], k.array[one], v.array[one], is_causal)
                out.array[one] = exact.astype(q.dtype)

        self.device.launch(name, self.seconds[name], work)
        return out


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def torch(device):
    def synchronize():
        if device.lost:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def sleep(cycles):
        device.now += cycles / 2e9

    def scaled_mm(a, b, scale_a, scale_b, *, out_dtype, use_fast_accum, out):
        """What torch takes: K contiguous; scales of one element, or of blocks without fast sums,
        those of a contiguous along M and those of b along K.
        """
        assert out_dtype == out.dtype
        (m, k), n = a.shape, b.shape[1]
        if (a.strides()[1], b.strides()[0]) != (1, 1):
            raise RuntimeError("mat_b must be column-major")
        assert k % 16 == n % 16 == 0
        if scale_a.shape == ():
            assert scale_a.item() == scale_b.item() == 1
            return product(device, "cuBLAS", 1e-3)(a, b, out)
        assert not use_fast_accum
        assert scale_a.dtype == scale_b.dtype == np.float32
        assert (scale_a.shape, scale_a.strides()) == ((m, -(-k // 128)), (1, m))
        assert scale_b.shape == (-(-k // 128), -(-n // 128))
        assert scale_b.strides() == (1, scale_b.shape[0])
        rows, block = (np.repeat(each.array, 128, 1) for each in (scale_a, scale_b))
        wide = a.array.astype(np.float32) * rows[:, :k]
        scaled = b.array.astype(np.float32) * np.repeat(block, 128, 0)[:k, :n]
        return product(device, "cuBLAS", 1e-3)(Tensor(wide), Tensor(scaled), out)

    def plain(a, b, *, out):
        product(device, "cuBLAS", 1e-3)(a, b, out)

    cuda = types.SimpleNamespace(
        synchronize=synchronize,
        empty_cache=lambda: None,
        get_device_properties=lambda index: types.SimpleNamespace(
            L2_cache_size=device.l2, multi_processor_count=132
        ),
        get_device_name=lambda: "a device",
        Event=lambda enable_timing: Event(device),
        CUDAGraph=lambda: Graph(device),
        graph=Capture,
        set_stream=lambda stream: None,
        default_stream=lambda: None,
        _sleep=sleep,
    )
    return types.SimpleNamespace(
        __version__="2",
        version=types.SimpleNamespace(cuda="13.0"),
        cuda=cuda,
        Generator=Generator,
        bfloat16=np.dtype(ml_dtypes.bfloat16),
        float16=np.dtype(np.float16),
        float32=np.dtype(np.float32),
        float8_e4m3fn=np.dtype(ml_dtypes.float8_e4m3fn),
        int8=np.dtype(np.int8),
        int32=np.dtype(np.int32),
        int64=np.dtype(np.int64),
        randn=lambda shape, *, generator, device: Tensor(
            generator.random.standard_normal(shape, np.float32)
        ),
        randint=lambda low, high, shape, *, generator, device: Tensor(
            generator.random.integers(low, high, shape)
        ),
        empty=lambda shape, *, dtype, device: Tensor(np.zeros(shape, dtype)),
        ones=lambda shape, *, dtype, device: Tensor(np.ones(shape, dtype)),
        matmul=matmul,
        cat=cat,
        softmax=softmax,
        arange=lambda *numbers, device: Tensor(np.arange(*numbers)),
        tensor=lambda values, *, dtype, device: Tensor(np.array(values, dtype)),
        rand=lambda shape, *, generator, device: Tensor(generator.random.random(shape, np.float32)),
        randperm=lambda count, *, generator, device: Tensor(generator.random.permutation(count)),
        finfo=ml_dtypes.finfo,
        nn=Libraries(device),
        mm=plain,
        bmm=plain,
        _int_mm=plain,
        _scaled_mm=scaled_mm,
        set_float32_matmul_precision=lambda precision: None,
    )


@pytest.fixture
def contender(device):
    """Makes contenders of a name, seconds of GPU time for a launch, and a factor on the result."""

    def make(name, seconds, scale=1.0):
        one = product(device, name, seconds, scale)

        def call(operands):
            for a, b, out in operands.products:
                one(a, b, out)

        return lambda: call

    return make


@pytest.fixture
def attended():
    return _attended
