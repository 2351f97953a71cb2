// RUN: cute-opt %s -t ptx | filecheck %s

// One warp multiplies a ragged M x K by K x 8 through two stages of shared memory, scales, clamps
// at zero and stores the rows that exist. test_pipelined_gemm.py runs it.

// CHECK: .extern .shared .align 1024 .b8 gemm_smem[];
// CHECK: .visible .entry gemm(
// CHECK: .reqntid 32, 1, 1
// CHECK: $L_gemm_body_1:
// CHECK: .pragma "nounroll";
// CHECK: cp.async.cg.shared.global
// CHECK: cp.async.wait_group 1;
// CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// CHECK: $L_gemm_end_1:
// CHECK: st.global.v2.f32
ptx.kernel @gemm(%a: b64, %b: b64, %c: b64, %m: b32, %k: b32, %alpha: f32) attributes {target = "sm_80", threads = 32 : i32, smem = 1536 : i32} {
  %zero = ptx.imm 0 : b32
  %fzero = ptx.imm 0.0 : f32
  %one = ptx.imm 1 : b32
  %two = ptx.imm 2 : b32
  %three = ptx.imm 3 : b32
  %four = ptx.imm 4 : b32
  %five = ptx.imm 5 : b32
  %seven = ptx.imm 7 : b32
  %eight = ptx.imm 8 : b32
  %fifteen = ptx.imm 15 : b32
  %sixteen = ptx.imm 16 : b32
  %stage_bytes = ptx.imm 768 : b32
  %lane = ptx.special "tid.x" : b32
  %smem = ptx.smem_base : b32

  // The chunk of 16 bytes that this lane copies: row lane / 2, half lane % 2.
  %row = ptx.shr "u32" %lane, %one : (b32, b32) -> b32
  %half = ptx.and "b32" %lane, %one : (b32, b32) -> b32
  %half_k = ptx.shl "b32" %half, %three : (b32, b32) -> b32
  %lane16 = ptx.shl "b32" %lane, %four : (b32, b32) -> b32
  %row_k = ptx.mad "lo.s32" %row, %k, %half_k : (b32, b32, b32) -> b32
  %row_bytes = ptx.mul "wide.s32" %row_k, %two : (b32, b32) -> b64
  %a_chunk = ptx.add "s64" %a, %row_bytes : (b64, b64) -> b64
  %b_chunk = ptx.add "s64" %b, %row_bytes : (b64, b64) -> b64
  %copies_b = ptx.setp "lt.s32" %lane, %sixteen : (b32, b32) -> pred
  %has_row = ptx.setp "lt.s32" %row, %m : (b32, b32) -> pred

  // The rows that this lane names for ldmatrix.
  %a_row = ptx.and "b32" %lane, %fifteen : (b32, b32) -> b32
  %a_half = ptx.shr "u32" %lane, %four : (b32, b32) -> b32
  %a_half16 = ptx.shl "b32" %a_half, %four : (b32, b32) -> b32
  %a_at = ptx.shl "b32" %a_row, %five : (b32, b32) -> b32
  %a_offset = ptx.add "s32" %a_at, %a_half16 : (b32, b32) -> b32
  %b_row = ptx.and "b32" %lane, %seven : (b32, b32) -> b32
  %b_part = ptx.bfe "u32" %lane, %three, %one : (b32, b32, b32) -> b32
  %b_half16 = ptx.shl "b32" %b_part, %four : (b32, b32) -> b32
  %b_at = ptx.shl "b32" %b_row, %five : (b32, b32) -> b32
  %b_offset = ptx.add "s32" %b_at, %b_half16 : (b32, b32) -> b32

  %acc = ptx.regs : !ptx.regs<f32 x 4>
  %fa = ptx.regs : !ptx.regs<b32 x 4>
  %fb = ptx.regs : !ptx.regs<b32 x 2>
  ptx.fill %acc, %fzero : !ptx.regs<f32 x 4>, !ptx.reg<f32>
  %k15 = ptx.add "s32" %k, %fifteen : (b32, b32) -> b32
  %tiles = ptx.shr "u32" %k15, %four : (b32, b32) -> b32

  // Trip i copies tile i and multiplies tile i - 1; the first multiplies nothing.
  %trips = ptx.add "s32" %tiles, %one : (b32, b32) -> b32
  ptx.for %i = %zero to %trips step 1 {
    %start = ptx.shl "b32" %i, %four : (b32, b32) -> b32
    %mine = ptx.add "s32" %start, %half_k : (b32, b32) -> b32
    %left = ptx.sub "s32" %k, %mine : (b32, b32) -> b32
    %bytes = ptx.shl "b32" %left, %one : (b32, b32) -> b32
    %low = ptx.max "s32" %bytes, %zero : (b32, b32) -> b32
    %size = ptx.min "s32" %low, %sixteen : (b32, b32) -> b32
    %a_size = ptx.selp "b32" %size, %zero, %has_row : (b32, b32, pred) -> b32
    %even = ptx.and "b32" %i, %one : (b32, b32) -> b32
    %write = ptx.mad "lo.s32" %even, %stage_bytes, %smem : (b32, b32, b32) -> b32
    %to = ptx.add "s32" %write, %lane16 : (b32, b32) -> b32
    %along = ptx.mul "wide.s32" %start, %two : (b32, b32) -> b64
    %a_from = ptx.add "s64" %a_chunk, %along : (b64, b64) -> b64
    %b_from = ptx.add "s64" %b_chunk, %along : (b64, b64) -> b64
    ptx.cp.async "cg.shared.global", 16, [%to] [%a_from, %b_from] size %a_size, %size : !ptx.reg<b32>, !ptx.reg<b32> if %copies_b : !ptx.reg<pred> {
      dst_base = array<i64: 0, 0>, dst_offset = array<i64: 0, 512>, src_base = array<i64: 0, 1>,
      src_offset = array<i64: 0, 0>, size = array<i64: 0, 1>, pred = array<i64: -1, 0>
    } : !ptx.reg<b64>, !ptx.reg<b64> -> !ptx.reg<b32>
    ptx.cp.async.commit_group
    ptx.cp.async.wait_group {pending = 1 : i64}
    ptx.bar.sync 0
    %some = ptx.setp "gt.s32" %i, %zero : (b32, b32) -> pred
    ptx.if %some {
      %odd = ptx.xor "b32" %even, %one : (b32, b32) -> b32
      %read = ptx.mad "lo.s32" %odd, %stage_bytes, %smem : (b32, b32, b32) -> b32
      %a_read = ptx.add "s32" %read, %a_offset : (b32, b32) -> b32
      %b_read = ptx.add "s32" %read, %b_offset : (b32, b32) -> b32
      ptx.ldmatrix "sync.aligned.m8n8.x4.shared.b16", %fa [%a_read] {
        base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1, 2, 3>
      } : !ptx.regs<b32 x 4>, !ptx.reg<b32>
      ptx.ldmatrix "sync.aligned.m8n8.x2.shared.b16", %fb [%b_read] {
        base = array<i64: 0>, offset = array<i64: 512>, regs = array<i64: 0, 1>
      } : !ptx.regs<b32 x 2>, !ptx.reg<b32>
      ptx.mma "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", %acc, %fa, %fb {
        counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
      } : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>
    }
    ptx.bar.sync 0
  }

  ptx.foreach 4 (%x = %acc [0, 1, 2, 3]) -> (%acc [0, 1, 2, 3]) {
    %scaled = ptx.mul "f32" %x, %alpha : (f32, f32) -> f32
    %clamped = ptx.max "f32" %scaled, %fzero : (f32, f32) -> f32
    ptx.yield %clamped : !ptx.reg<f32>
  }
  %g = ptx.shr "u32" %lane, %two : (b32, b32) -> b32
  %g8 = ptx.add "s32" %g, %eight : (b32, b32) -> b32
  %q = ptx.and "b32" %lane, %three : (b32, b32) -> b32
  %q2 = ptx.shl "b32" %q, %one : (b32, b32) -> b32
  %element = ptx.mad "lo.s32" %g, %eight, %q2 : (b32, b32, b32) -> b32
  %element_bytes = ptx.mul "wide.s32" %element, %four : (b32, b32) -> b64
  %out = ptx.add "s64" %c, %element_bytes : (b64, b64) -> b64
  %upper = ptx.setp "lt.s32" %g, %m : (b32, b32) -> pred
  %lower = ptx.setp "lt.s32" %g8, %m : (b32, b32) -> pred
  ptx.st "global.v2.f32", %acc [%out] if %upper, %lower : !ptx.reg<pred>, !ptx.reg<pred> {
    base = array<i64: 0, 0>, offset = array<i64: 0, 256>, regs = array<i64: 0, 1, 2, 3>,
    pred = array<i64: 0, 1>
  } : !ptx.regs<f32 x 4>, !ptx.reg<b64>
}
