"""Remarks: collected while passes run, kept with the program, shown by `cute-opt --remarks`."""

import io
import threading

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.remarks import Remark, add, collecting
from cutedialect.tools.cute_opt import CuteOpt

SOURCE = """\
cute.kernel @gemm(
  %A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">,
  %D: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
) attributes {schedule = #cute.schedule<"tile = (64,64,32), roles = uniform">} {
  cute.gemm %A, %A, %D : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, \
!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, \
!cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
}
"""
REMARK = (
    "<stdin>:5:3: remark: [cute-partition] wgmma not taken, but mma_m16n8k16_f32_f16: its operands "
    "come from a role that loads, got a schedule with roles = uniform\n"
)


def cute_opt(*argv):
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt(argv, io.StringIO(SOURCE), out, err).run()
    return code, out.getvalue(), err.getvalue()


def test_cute_opt_shows_remarks_when_it_is_asked_to():
    passes = "cute-tile{arch=sm_90a},cute-partition{arch=sm_90a}"
    code, with_remarks, err = cute_opt("-p", passes, "--remarks")
    assert code == 0
    assert err.startswith(REMARK)
    assert err.split("\n")[1].startswith("  cute.gemm %A")
    assert cute_opt("-p", passes) == (0, with_remarks, "")


def test_remarks_of_a_pass_that_failed_come_before_its_error():
    code, _, err = cute_opt(
        "-p", "cute-tile{arch=sm_90a},cute-partition{arch=sm_90a},cute-partition", "--remarks"
    )
    assert code == 1
    assert err.index("remark:") < err.index("error:")


@cute.kernel
def product(A, B, C):
    m, n = cute.tile_index(C, (48, 64))
    gA, gB = cute.local_tile(A, (48, 32), (m, None)), cute.local_tile(B, (32, 64), (None, n))
    acc = cute.zeros((48, 64), cute.f32)
    for k in cute.range(gA.tiles):
        cute.gemm(gA[k], gB[k], acc)  # the line that the remark names
    cute.copy(acc, cute.local_tile(C, (48, 64), (m, n)))


def specs():
    half = cute.TensorSpec((None, None), cute.f16)
    return half, half, cute.TensorSpec((None, None), cute.f32)


def test_a_kernel_says_what_was_declined_and_where(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path))
    remarks = cute.compile(product, *specs(), arch="sm_90a").remarks
    (found,) = [one for one in remarks if one.pass_name == "cute-partition"]
    assert found.message.startswith(
        "wgmma not taken, but mma_m16n8k16_f32_f16: it multiplies 64 rows by 16 of the depth"
    )
    assert found.location is not None
    file, line, _ = found.location.rsplit(":", 2)
    assert file == __file__
    with open(__file__) as text:
        assert "the line that the remark names" in text.readlines()[int(line) - 1]
    assert str(found) == f"{found.location}: remark: [cute-partition] {found.message}"


def test_remarks_survive_the_disk_cache():
    kernel = cute.compile(product, *specs(), arch="sm_120a")
    assert kernel.remarks
    assert CompiledProgram.from_json(kernel.program.to_json()).remarks == kernel.remarks


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89"])
def test_a_target_that_does_its_best_says_nothing(arch):
    assert not [
        one for one in cute.compile(product, *specs(), arch=arch).remarks if "taken" in one.message
    ]


@pytest.mark.parametrize(
    ("arch", "text"),
    [
        ("sm_90", "wgmma not taken, but mma_m16n8k16_f32_f16: sm_90a has it, got sm_90"),
        ("sm_100a", "tcgen05.mma not taken, but"),
        ("sm_103f", "tcgen05.mma not taken, but"),
        ("sm_120f", "sm_120f has no path of its own"),
    ],
)
def test_a_target_without_its_fastest_tensor_cores_says_so(arch, text):
    assert [
        one for one in cute.compile(product, *specs(), arch=arch).remarks if text in one.message
    ]


def test_nothing_is_said_of_a_shape_that_wgmma_takes():
    a = np.zeros((128, 64), np.float16)
    kernel = cute.compile(cute.gemm, a, a.T, arch="sm_90a")
    assert "wgmma.mma_async" in kernel.ptx
    assert not [one for one in kernel.remarks if "wgmma" in one.message]


def test_remarks_are_collected_once_and_only_inside():
    one = Remark("cute-tile", "declined", "f.py:1:2")
    add(one)
    with collecting() as outer:
        add(one)
        add(one)
        with collecting() as inner:
            add(Remark("cute-tile", "other"))
        thread = threading.Thread(target=add, args=(Remark("cute-tile", "elsewhere"),))
        thread.start()
        thread.join()
    add(Remark("cute-tile", "too late"))
    assert outer == [one]
    assert inner == [Remark("cute-tile", "other")]
    assert str(inner[0]) == "remark: [cute-tile] other"


@cute.kernel
def wide_product(A, B, C):
    m, n = cute.tile_index(C, (128, 64))
    gA, gB = cute.local_tile(A, (128, 64), (m, None)), cute.local_tile(B, (64, 64), (None, n))
    acc = cute.zeros((128, 64), cute.f32)
    for k in cute.range(gA.tiles):
        cute.gemm(gA[k], gB[k], acc)
    cute.copy(acc, cute.local_tile(C, (128, 64), (m, n)))


def spec(align=16, dtype=cute.f16):
    return cute.TensorSpec((None, None), dtype, align=align)


def messages(*args, **options):
    kernel = cute.compile(*args, arch="sm_90a", **options)
    return [f"[{one.pass_name}] {one.message}" for one in kernel.remarks]


def test_a_tensor_that_has_no_map():
    assert messages(cute.gemm, spec(8), spec()) == [
        "[cute-partition] TMA not taken for a load: its tensor is aligned to 8 bytes, not 16"
    ]
    assert messages(wide_product, spec(), spec(), spec(4, cute.f32)) == [
        "[cute-partition] TMA not taken for a store, threads store aligned words of shared memory: "
        "its tensor is aligned to 4 bytes, not 16"
    ]


@cute.kernel
def three_in_a_row(Q, K, V, W, R, P):
    (m,) = (cute.tile_index(R, (128, 64))[0],)
    q = cute.local_tile(Q, (128, 64), (m, 0))
    k, v, w = (cute.local_tile(T, (64, 64), (None, 0)) for T in (K, V, W))
    o, p = cute.zeros((128, 64), cute.f32), cute.zeros((128, 64), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((128, 64), cute.f32)
        cute.gemm(q, k[j].T, s)
        e = cute.exp2(s).to(cute.f16)
        cute.gemm(e, v[j], o)
        t = cute.zeros((128, 64), cute.f32)
        cute.gemm(q, w[j].T, t)
        p.assign(p + t)
    cute.copy(o, cute.local_tile(R, (128, 64), (m, 0)))
    cute.copy(p, cute.local_tile(P, (128, 64), (m, 0)))


def test_multiplies_that_are_not_overlapped():
    results = spec(dtype=cute.f32)
    found = messages(three_in_a_row, spec(), spec(), spec(), spec(), results, results)
    assert [one for one in found if "of two trips not overlapped: its accumulator" in one], found


def test_a_buffer_without_room_for_a_second_stage():
    wide = cute.TensorSpec((1, 1, None, 256), cute.f16)
    (found,) = messages(cute.attention, wide, wide, wide)
    assert found.startswith("[cute-synchronize] one stage for what stays while a loop runs")
    narrow = cute.TensorSpec((1, 1, None, 128), cute.f16)
    others = messages(cute.attention, narrow, narrow, narrow)
    assert not [one for one in others if one.startswith("[cute-synchronize]")], others
