// RUN: cute-opt %s | cute-opt | filecheck %s
// RUN: cute-opt %s --mlir-print-op-generic | cute-opt | filecheck %s

// CHECK: ptx.kernel @literals() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %0 = ptx.imm -1 : b16
// CHECK-NEXT:   %1 = ptx.imm 4294967295 : b32
// CHECK-NEXT:   %2 = ptx.imm -9223372036854775808 : b64
// CHECK-NEXT:   %3 = ptx.imm 1 : pred
// CHECK-NEXT:   %4 = ptx.imm -0.0 : f32
// CHECK-NEXT:   %5 = ptx.imm 1.0e-05 : f64
// CHECK-NEXT:   %6 = ptx.imm 0x7F800000 : f32
// CHECK-NEXT:   %7 = ptx.imm 0xFFF0000000000000 : f64
// CHECK-NEXT:   %8 = ptx.imm 1.0e+30 : f64
// CHECK-NEXT: }
// Floats keep every bit: shortest decimals, and hexadecimal for what has none.
ptx.kernel @literals() attributes {target = "sm_80", threads = 32 : i32} {
  %0 = ptx.imm -1 : b16
  %1 = ptx.imm 4294967295 : b32
  %2 = ptx.imm -9223372036854775808 : b64
  %3 = ptx.imm 1 : pred
  %4 = ptx.imm -0.0 : f32
  %5 = ptx.imm 1.0e-05 : f64
  %6 = ptx.imm 0x7F800000 : f32
  %7 = ptx.imm 0xFFF0000000000000 : f64
  %8 = ptx.imm 1.0e+30 : f64
}

// CHECK: ptx.kernel @origins(%n: b32, %x: f32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %one = ptx.imm 1 {from = "cute.copy"} : b32
// CHECK-NEXT:   %t = ptx.special "tid.x" {from = "cute.copy"} : b32
// CHECK-NEXT:   %sum = ptx.add "s32" %one, %t {from = "cute.copy"} : (b32, b32) -> b32
// CHECK-NEXT:   %wide = ptx.pack %one, %t {from = "cute.copy"} : (b32, b32) -> b64
// CHECK-NEXT:   %r = ptx.regs {from = "cute.gemm"} : !ptx.regs<f32 x 2>
// CHECK-NEXT:   ptx.foreach 2 () -> (%r [0, 1]) attributes {from = "cute.map"} {
// CHECK-NEXT:     ptx.yield %x : !ptx.reg<f32>
// CHECK-NEXT:   }
// CHECK-NEXT:   ptx.for %i = %one to %n step 1 attributes {from = "scf.for"} {
// CHECK-NEXT:   }
// CHECK-NEXT:   %p = ptx.setp "lt.s32" %t, %n : (b32, b32) -> pred
// CHECK-NEXT:   ptx.if %p attributes {from = "scf.if"} {
// CHECK-NEXT:     ptx.trap
// CHECK-NEXT:   }
// CHECK-NEXT: }
// What an op came from travels in its attributes.
ptx.kernel @origins(%n: b32, %x: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %one = ptx.imm 1 {from = "cute.copy"} : b32
  %t = ptx.special "tid.x" {from = "cute.copy"} : b32
  %sum = ptx.add "s32" %one, %t {from = "cute.copy"} : (b32, b32) -> b32
  %wide = ptx.pack %one, %t {from = "cute.copy"} : (b32, b32) -> b64
  %r = ptx.regs {from = "cute.gemm"} : !ptx.regs<f32 x 2>
  ptx.foreach 2 () -> (%r [0, 1]) attributes {from = "cute.map"} {
    ptx.yield %x : !ptx.reg<f32>
  }
  ptx.for %i = %one to %n step 1 attributes {from = "scf.for"} {
  }
  %p = ptx.setp "lt.s32" %t, %n : (b32, b32) -> pred
  ptx.if %p attributes {from = "scf.if"} {
    ptx.trap
  }
}

// CHECK: ptx.kernel @empty(%n: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %zero = ptx.imm 0 : b32
// CHECK-NEXT:   %p = ptx.setp "lt.s32" %zero, %n : (b32, b32) -> pred
// CHECK-NEXT:   %s, %t = ptx.setp "lt.and.s32" %zero, %n, %p : (b32, b32, pred) -> pred, pred
// CHECK-NEXT:   ptx.for %i = %zero to %n step 4 {
// CHECK-NEXT:   }
// CHECK-NEXT:   ptx.if %s {
// CHECK-NEXT:   } else {
// CHECK-NEXT:     ptx.bar.sync 3, 64
// CHECK-NEXT:   }
// CHECK-NEXT: }
// Empty regions print without labels, and a second result of a comparison is its complement.
ptx.kernel @empty(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %zero = ptx.imm 0 : b32
  %p = ptx.setp "lt.s32" %zero, %n : (b32, b32) -> pred
  %s, %t = ptx.setp "lt.and.s32" %zero, %n, %p : (b32, b32, pred) -> pred, pred
  ptx.for %i = %zero to %n step 4 {
  }
  ptx.if %s {
  } else {
    ptx.bar.sync 3, 64
  }
}

// CHECK: ptx.kernel @nothing() attributes{target = "sm_80", threads = 1 : i32} {
// CHECK-NEXT: }
ptx.kernel @nothing() attributes {target = "sm_80", threads = 1 : i32} {
}
