// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// ptx.kernel
// CHECK: ptx.kernel @k(%a: b64, %n: b32) attributes{target = "sm_80", threads = 128 : i32} {
// CHECK-NEXT:   ptx.bar.sync
// CHECK-NEXT: }
ptx.kernel @k(%a: b64, %n: b32) attributes {target = "sm_80", threads = 128 : i32} {
  ptx.bar.sync
}

// -----

// ptx.imm
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %c = ptx.imm 5 : b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %c = ptx.imm 5 : b32
}

// -----

// ptx.special
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %t = ptx.special "tid.x" : b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %t = ptx.special "tid.x" : b32
}

// -----

// ptx.smem_base
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32, smem = 1024 : i32} {
// CHECK-NEXT:   %s = ptx.smem_base : b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32, smem = 1024 : i32} {
  %s = ptx.smem_base : b32
}

// -----

// ptx.pack
// CHECK: ptx.kernel @k(%a: b16, %b: b16) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %r = ptx.pack %a, %b : (b16, b16) -> b32
// CHECK-NEXT: }
ptx.kernel @k(%a: b16, %b: b16) attributes {target = "sm_80", threads = 32 : i32} {
  %r = ptx.pack %a, %b : (b16, b16) -> b32
}

// -----

// ptx.unpack
// CHECK: ptx.kernel @k(%a: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %lo, %hi = ptx.unpack %a : b32 -> (b16, b16)
// CHECK-NEXT: }
ptx.kernel @k(%a: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %lo, %hi = ptx.unpack %a : b32 -> (b16, b16)
}

// -----

// ptx.regs
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 4>
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
}

// -----

// ptx.fill
// CHECK: ptx.kernel @k(%v: f32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 4>
// CHECK-NEXT:   ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<f32>
// CHECK-NEXT: }
ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<f32>
}

// -----

// ptx.foreach
// CHECK: ptx.kernel @k(%v: f32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 4>
// CHECK-NEXT:   ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<f32>
// CHECK-NEXT:   ptx.foreach 4 (%a = %x [0, 1, 2, 3], %k = imm [0, 8, 16, 24]) -> (%x [0, 1, 2, 3]) {
// CHECK-NEXT:     %y = ptx.mul "f32" %a, %v : (f32, f32) -> f32
// CHECK-NEXT:     ptx.yield %y : !ptx.reg<f32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<f32>
  ptx.foreach 4 (%a = %x [0, 1, 2, 3], %k = imm [0, 8, 16, 24]) -> (%x [0, 1, 2, 3]) {
    %y = ptx.mul "f32" %a, %v : (f32, f32) -> f32
    ptx.yield %y : !ptx.reg<f32>
  }
}

// -----

// ptx.yield
// CHECK: ptx.kernel @k(%v: f32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 4>
// CHECK-NEXT:   ptx.foreach 4 () -> (%x [0, 1, 2, 3]) {
// CHECK-NEXT:     ptx.yield %v : !ptx.reg<f32>
// CHECK-NEXT:   }
// CHECK-NEXT: }
ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  ptx.foreach 4 () -> (%x [0, 1, 2, 3]) {
    ptx.yield %v : !ptx.reg<f32>
  }
}

// -----

// ptx.ld
// CHECK: ptx.kernel @k(%a: b64) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<b32 x 4>
// CHECK-NEXT:   ptx.ld "global.v2.b32", %x[%a] {base = array<i64: 0, 0>, offset = array<i64: 0, 64>, regs = array<i64: 0, 1, 2, 3>} : !ptx.regs<b32 x 4>, !ptx.reg<b64>
// CHECK-NEXT: }
ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<b32 x 4>
  ptx.ld "global.v2.b32", %x [%a] {base = array<i64: 0, 0>, offset = array<i64: 0, 64>, regs = array<i64: 0, 1, 2, 3>} : !ptx.regs<b32 x 4>, !ptx.reg<b64>
}

// -----

// ptx.st
// CHECK: ptx.kernel @k(%a: b64) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 1>
// CHECK-NEXT:   ptx.st "global.f32", %x[%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
// CHECK-NEXT: }
ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  ptx.st "global.f32", %x [%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
}

// -----

// ptx.red
// CHECK: ptx.kernel @k(%a: b64) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 1>
// CHECK-NEXT:   ptx.red "relaxed.gpu.global.add.f32", %x[%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
// CHECK-NEXT: }
ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  ptx.red "relaxed.gpu.global.add.f32", %x [%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
}

// -----

// ptx.ldmatrix
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<b32 x 4>
// CHECK-NEXT:   ptx.ldmatrix "sync.aligned.m8n8.x4.shared.b16", %x[%s] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1, 2, 3>} : !ptx.regs<b32 x 4>, !ptx.reg<b32>
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<b32 x 4>
  ptx.ldmatrix "sync.aligned.m8n8.x4.shared.b16", %x [%s] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1, 2, 3>} : !ptx.regs<b32 x 4>, !ptx.reg<b32>
}

// -----

// ptx.cp.async
// CHECK: ptx.kernel @k(%s: b32, %a: b64) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.cp.async "cg.shared.global", 16 : i64, [%s] [%a] {dst_base = array<i64: 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0>, src_offset = array<i64: 0>} : !ptx.reg<b64> -> !ptx.reg<b32>
// CHECK-NEXT: }
ptx.kernel @k(%s: b32, %a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  ptx.cp.async "cg.shared.global", 16, [%s] [%a] {dst_base = array<i64: 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0>, src_offset = array<i64: 0>} : !ptx.reg<b64> -> !ptx.reg<b32>
}

// -----

// ptx.mma
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %c = ptx.regs : !ptx.regs<f32 x 4>
// CHECK-NEXT:   %a = ptx.regs : !ptx.regs<b32 x 4>
// CHECK-NEXT:   %b = ptx.regs : !ptx.regs<b32 x 2>
// CHECK-NEXT:   ptx.mma "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", %c, %a, %b {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %c = ptx.regs : !ptx.regs<f32 x 4>
  %a = ptx.regs : !ptx.regs<b32 x 4>
  %b = ptx.regs : !ptx.regs<b32 x 2>
  ptx.mma "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", %c, %a, %b {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>
}

// -----

// ptx.ld.scalar
// CHECK: ptx.kernel @k(%a: b64) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.ld.scalar "global.b32", %a {offset = 16 : i64} : !ptx.reg<b64> -> !ptx.reg<b32>
// CHECK-NEXT: }
ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.ld.scalar "global.b32", %a {offset = 16 : i64} : !ptx.reg<b64> -> !ptx.reg<b32>
}

// -----

// ptx.st.scalar
// CHECK: ptx.kernel @k(%a: b64, %x: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.st.scalar "global.b32", %x, %a {offset = 16 : i64} : !ptx.reg<b32>, !ptx.reg<b64>
// CHECK-NEXT: }
ptx.kernel @k(%a: b64, %x: b32) attributes {target = "sm_80", threads = 32 : i32} {
  ptx.st.scalar "global.b32", %x, %a {offset = 16 : i64} : !ptx.reg<b32>, !ptx.reg<b64>
}

// -----

// ptx.for
// CHECK: ptx.kernel @k(%n: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %zero = ptx.imm 0 : b32
// CHECK-NEXT:   ptx.for %i = %zero to %n step 1 {
// CHECK-NEXT:     ptx.bar.sync
// CHECK-NEXT:   }
// CHECK-NEXT: }
ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %zero = ptx.imm 0 : b32
  ptx.for %i = %zero to %n step 1 {
    ptx.bar.sync
  }
}

// -----

// ptx.if
// CHECK: ptx.kernel @k(%n: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %zero = ptx.imm 0 : b32
// CHECK-NEXT:   %p = ptx.setp "gt.s32" %n, %zero : (b32, b32) -> pred
// CHECK-NEXT:   ptx.if %p {
// CHECK-NEXT:     ptx.bar.sync
// CHECK-NEXT:   } else {
// CHECK-NEXT:   ^bb0:
// CHECK-NEXT:   }
// CHECK-NEXT: }
ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %zero = ptx.imm 0 : b32
  %p = ptx.setp "gt.s32" %n, %zero : (b32, b32) -> pred
  ptx.if %p {
    ptx.bar.sync
  } else {
  }
}

// -----

// ptx.shfl
// CHECK: ptx.kernel @k(%v: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %one = ptx.imm 1 : b32
// CHECK-NEXT:   %c = ptx.imm 31 : b32
// CHECK-NEXT:   %all = ptx.imm 4294967295 : b32
// CHECK-NEXT:   %r = ptx.shfl "sync.bfly.b32", %v, %one, %c, %all : !ptx.reg<b32> -> !ptx.reg<b32>
// CHECK-NEXT: }
ptx.kernel @k(%v: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %one = ptx.imm 1 : b32
  %c = ptx.imm 31 : b32
  %all = ptx.imm 4294967295 : b32
  %r = ptx.shfl "sync.bfly.b32", %v, %one, %c, %all : !ptx.reg<b32> -> !ptx.reg<b32>
}

// -----

// ptx.bar.sync
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.bar.sync
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  ptx.bar.sync
}

// -----

// ptx.cp.async.commit_group
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.cp.async.commit_group
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  ptx.cp.async.commit_group
}

// -----

// ptx.cp.async.wait_group
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.cp.async.wait_group {pending = 1 : i64}
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  ptx.cp.async.wait_group {pending = 1 : i64}
}

// -----

// ptx.printf
// CHECK: ptx.kernel @k(%n: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.printf "n = %d\0A", %n : !ptx.reg<b32>
// CHECK-NEXT: }
ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
  ptx.printf "n = %d\n", %n : !ptx.reg<b32>
}
