// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// ptx.kernel
// CHECK: ptx.kernel @k(%a: b64, %n: b32) attributes{target = "sm_80", threads = 128 : i32} {
// CHECK-NEXT:   ptx.bar.sync 0
// CHECK-NEXT: }
ptx.kernel @k(%a: b64, %n: b32) attributes {target = "sm_80", threads = 128 : i32} {
  ptx.bar.sync 0
}

// -----

// ptx.mov
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.mov "b32" %b32v : (b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.mov "b32" %b32v : (b32) -> b32
}

// -----

// ptx.add
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.add "s32" %b32v, %b32v : (b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.add "s32" %b32v, %b32v : (b32, b32) -> b32
}

// -----

// ptx.sub
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.sub "f32" %f32v, %f32v : (f32, f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.sub "f32" %f32v, %f32v : (f32, f32) -> f32
}

// -----

// ptx.mul
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.mul "wide.u32" %b32v, %b32v : (b32, b32) -> b64
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.mul "wide.u32" %b32v, %b32v : (b32, b32) -> b64
}

// -----

// ptx.mad
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.mad "lo.s32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.mad "lo.s32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
}

// -----

// ptx.fma
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.fma "rn.f32" %f32v, %f32v, %f32v : (f32, f32, f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.fma "rn.f32" %f32v, %f32v, %f32v : (f32, f32, f32) -> f32
}

// -----

// ptx.mul24
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.mul24 "lo.u32" %b32v, %b32v : (b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.mul24 "lo.u32" %b32v, %b32v : (b32, b32) -> b32
}

// -----

// ptx.mad24
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.mad24 "lo.s32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.mad24 "lo.s32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
}

// -----

// ptx.sad
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.sad "u32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.sad "u32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
}

// -----

// ptx.div
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.div "u32" %b32v, %b32v : (b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.div "u32" %b32v, %b32v : (b32, b32) -> b32
}

// -----

// ptx.rem
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.rem "s32" %b32v, %b32v : (b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.rem "s32" %b32v, %b32v : (b32, b32) -> b32
}

// -----

// ptx.min
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.min "s32" %b32v, %b32v : (b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.min "s32" %b32v, %b32v : (b32, b32) -> b32
}

// -----

// ptx.max
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.max "f32" %f32v, %f32v : (f32, f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.max "f32" %f32v, %f32v : (f32, f32) -> f32
}

// -----

// ptx.neg
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.neg "f32" %f32v : (f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.neg "f32" %f32v : (f32) -> f32
}

// -----

// ptx.abs
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.abs "s32" %b32v : (b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.abs "s32" %b32v : (b32) -> b32
}

// -----

// ptx.and
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.and "b32" %b32v, %b32v : (b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.and "b32" %b32v, %b32v : (b32, b32) -> b32
}

// -----

// ptx.or
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %predv = ptx.imm 1 : pred
// CHECK-NEXT:   %r = ptx.or "pred" %predv, %predv : (pred, pred) -> pred
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %predv = ptx.imm 1 : pred
  %r = ptx.or "pred" %predv, %predv : (pred, pred) -> pred
}

// -----

// ptx.xor
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b64v = ptx.imm 1 : b64
// CHECK-NEXT:   %r = ptx.xor "b64" %b64v, %b64v : (b64, b64) -> b64
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b64v = ptx.imm 1 : b64
  %r = ptx.xor "b64" %b64v, %b64v : (b64, b64) -> b64
}

// -----

// ptx.not
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.not "b32" %b32v : (b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.not "b32" %b32v : (b32) -> b32
}

// -----

// ptx.cnot
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.cnot "b32" %b32v : (b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.cnot "b32" %b32v : (b32) -> b32
}

// -----

// ptx.lop3
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.lop3 "b32" %b32v, %b32v, %b32v, %b32v : (b32, b32, b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.lop3 "b32" %b32v, %b32v, %b32v, %b32v : (b32, b32, b32, b32) -> b32
}

// -----

// ptx.shf
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.shf "l.wrap.b32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.shf "l.wrap.b32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
}

// -----

// ptx.shl
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b64v = ptx.imm 1 : b64
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.shl "b64" %b64v, %b32v : (b64, b32) -> b64
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b64v = ptx.imm 1 : b64
  %b32v = ptx.imm 1 : b32
  %r = ptx.shl "b64" %b64v, %b32v : (b64, b32) -> b64
}

// -----

// ptx.shr
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.shr "u32" %b32v, %b32v : (b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.shr "u32" %b32v, %b32v : (b32, b32) -> b32
}

// -----

// ptx.setp
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.setp "lt.s32" %b32v, %b32v : (b32, b32) -> pred
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.setp "lt.s32" %b32v, %b32v : (b32, b32) -> pred
}

// -----

// ptx.selp
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %predv = ptx.imm 1 : pred
// CHECK-NEXT:   %r = ptx.selp "f32" %f32v, %f32v, %predv : (f32, f32, pred) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %predv = ptx.imm 1 : pred
  %r = ptx.selp "f32" %f32v, %f32v, %predv : (f32, f32, pred) -> f32
}

// -----

// ptx.slct
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.slct "f32.s32" %f32v, %f32v, %b32v : (f32, f32, b32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %b32v = ptx.imm 1 : b32
  %r = ptx.slct "f32.s32" %f32v, %f32v, %b32v : (f32, f32, b32) -> f32
}

// -----

// ptx.cvt
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.cvt "rn.f16x2.f32" %f32v, %f32v : (f32, f32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.cvt "rn.f16x2.f32" %f32v, %f32v : (f32, f32) -> b32
}

// -----

// ptx.rcp
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.rcp "approx.ftz.f32" %f32v : (f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.rcp "approx.ftz.f32" %f32v : (f32) -> f32
}

// -----

// ptx.sqrt
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.sqrt "rn.f32" %f32v : (f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.sqrt "rn.f32" %f32v : (f32) -> f32
}

// -----

// ptx.rsqrt
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.rsqrt "approx.f32" %f32v : (f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.rsqrt "approx.f32" %f32v : (f32) -> f32
}

// -----

// ptx.ex2
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.ex2 "approx.ftz.f32" %f32v : (f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.ex2 "approx.ftz.f32" %f32v : (f32) -> f32
}

// -----

// ptx.lg2
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.lg2 "approx.f32" %f32v : (f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.lg2 "approx.f32" %f32v : (f32) -> f32
}

// -----

// ptx.sin
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.sin "approx.f32" %f32v : (f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.sin "approx.f32" %f32v : (f32) -> f32
}

// -----

// ptx.cos
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.cos "approx.f32" %f32v : (f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.cos "approx.f32" %f32v : (f32) -> f32
}

// -----

// ptx.tanh
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.tanh "approx.f32" %f32v : (f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.tanh "approx.f32" %f32v : (f32) -> f32
}

// -----

// ptx.prmt
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.prmt "b32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.prmt "b32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
}

// -----

// ptx.bfe
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.bfe "u32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.bfe "u32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
}

// -----

// ptx.bfi
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.bfi "b32" %b32v, %b32v, %b32v, %b32v : (b32, b32, b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.bfi "b32" %b32v, %b32v, %b32v, %b32v : (b32, b32, b32, b32) -> b32
}

// -----

// ptx.popc
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b64v = ptx.imm 1 : b64
// CHECK-NEXT:   %r = ptx.popc "b64" %b64v : (b64) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b64v = ptx.imm 1 : b64
  %r = ptx.popc "b64" %b64v : (b64) -> b32
}

// -----

// ptx.clz
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.clz "b32" %b32v : (b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.clz "b32" %b32v : (b32) -> b32
}

// -----

// ptx.brev
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.brev "b32" %b32v : (b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.brev "b32" %b32v : (b32) -> b32
}

// -----

// ptx.dp4a
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b32v = ptx.imm 1 : b32
// CHECK-NEXT:   %r = ptx.dp4a "s32.s32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b32v = ptx.imm 1 : b32
  %r = ptx.dp4a "s32.s32" %b32v, %b32v, %b32v : (b32, b32, b32) -> b32
}

// -----

// ptx.cvta
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %b64v = ptx.imm 1 : b64
// CHECK-NEXT:   %r = ptx.cvta "to.global.u64" %b64v : (b64) -> b64
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %b64v = ptx.imm 1 : b64
  %r = ptx.cvta "to.global.u64" %b64v : (b64) -> b64
}

// -----

// ptx.createpolicy
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.createpolicy "fractional.L2::evict_first.b64" %f32v : (f32) -> b64
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.createpolicy "fractional.L2::evict_first.b64" %f32v : (f32) -> b64
}

// -----

// ptx.copysign
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %f32v = ptx.imm 1.0 : f32
// CHECK-NEXT:   %r = ptx.copysign "f32" %f32v, %f32v : (f32, f32) -> f32
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %f32v = ptx.imm 1.0 : f32
  %r = ptx.copysign "f32" %f32v, %f32v : (f32, f32) -> f32
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
  ptx.ld "global.v2.b32", %x [%a] {
    base = array<i64: 0, 0>, offset = array<i64: 0, 64>, regs = array<i64: 0, 1, 2, 3>
  } : !ptx.regs<b32 x 4>, !ptx.reg<b64>
}

// -----

// ptx.st
// CHECK: ptx.kernel @k(%a: b64) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 1>
// CHECK-NEXT:   ptx.st "global.f32", %x[%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
// CHECK-NEXT: }
ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  ptx.st "global.f32", %x [%a] {
    base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>
  } : !ptx.regs<f32 x 1>, !ptx.reg<b64>
}

// -----

// ptx.red
// CHECK: ptx.kernel @k(%a: b64) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 1>
// CHECK-NEXT:   ptx.red "relaxed.gpu.global.add.f32", %x[%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
// CHECK-NEXT: }
ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  ptx.red "relaxed.gpu.global.add.f32", %x [%a] {
    base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>
  } : !ptx.regs<f32 x 1>, !ptx.reg<b64>
}

// -----

// ptx.ldmatrix
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<b32 x 4>
// CHECK-NEXT:   ptx.ldmatrix "sync.aligned.m8n8.x4.shared.b16", %x[%s] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1, 2, 3>} : !ptx.regs<b32 x 4>, !ptx.reg<b32>
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<b32 x 4>
  ptx.ldmatrix "sync.aligned.m8n8.x4.shared.b16", %x [%s] {
    base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1, 2, 3>
  } : !ptx.regs<b32 x 4>, !ptx.reg<b32>
}

// -----

// ptx.cp.async
// CHECK: ptx.kernel @k(%s: b32, %a: b64) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.cp.async "cg.shared.global", 16 : i64, [%s] [%a] {dst_base = array<i64: 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0>, src_offset = array<i64: 0>} : !ptx.reg<b64> -> !ptx.reg<b32>
// CHECK-NEXT: }
ptx.kernel @k(%s: b32, %a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  ptx.cp.async "cg.shared.global", 16, [%s] [%a] {
    dst_base = array<i64: 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0>,
    src_offset = array<i64: 0>
  } : !ptx.reg<b64> -> !ptx.reg<b32>
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
  ptx.mma "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", %c, %a, %b {
    counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
  } : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>
}

// -----

// CHECK: ptx.kernel @scaled()
// CHECK: ptx.mma "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", %c, %a, %b scales %s, %s {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>, words_a = array<i64: 1>, threads_a = array<i64: 1>, words_b = array<i64: 0>, threads_b = array<i64: 3>, byte = 2 : i32} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>, !ptx.regs<b32 x 2>, !ptx.regs<b32 x 2>
ptx.kernel @scaled() attributes {target = "sm_120a", threads = 32 : i32} {
  %c = ptx.regs : !ptx.regs<f32 x 4>
  %a = ptx.regs : !ptx.regs<b32 x 4>
  %b = ptx.regs : !ptx.regs<b32 x 2>
  %s = ptx.regs : !ptx.regs<b32 x 2>
  ptx.mma "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", %c, %a, %b scales %s, %s {
    counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>,
    words_a = array<i64: 1>, threads_a = array<i64: 1>, words_b = array<i64: 0>, threads_b = array<i64: 3>, byte = 2 : i32
  } : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>, !ptx.regs<b32 x 2>, !ptx.regs<b32 x 2>
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
// CHECK-NEXT:     ptx.bar.sync 0
// CHECK-NEXT:   }
// CHECK-NEXT: }
ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %zero = ptx.imm 0 : b32
  ptx.for %i = %zero to %n step 1 {
    ptx.bar.sync 0
  }
}

// -----

// ptx.if
// CHECK: ptx.kernel @k(%n: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %zero = ptx.imm 0 : b32
// CHECK-NEXT:   %p = ptx.setp "gt.s32" %n, %zero : (b32, b32) -> pred
// CHECK-NEXT:   ptx.if %p {
// CHECK-NEXT:     ptx.bar.sync 0
// CHECK-NEXT:   } else {
// CHECK-NEXT:     ptx.trap
// CHECK-NEXT:   }
// CHECK-NEXT: }
ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %zero = ptx.imm 0 : b32
  %p = ptx.setp "gt.s32" %n, %zero : (b32, b32) -> pred
  ptx.if %p {
    ptx.bar.sync 0
  } else {
    ptx.trap
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
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 64 : i32} {
// CHECK-NEXT:   ptx.bar.sync 0
// CHECK-NEXT:   ptx.bar.sync 1, 64
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 64 : i32} {
  ptx.bar.sync 0
  ptx.bar.sync 1, 64
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

// -----

// ptx.fail
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.fail "expected one row or more"
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  ptx.fail "expected one row or more"
}

// -----

// ptx.get
// CHECK: ptx.kernel @k(%v: f32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 4>
// CHECK-NEXT:   ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<f32>
// CHECK-NEXT:   %y = ptx.get %x[3]
// CHECK-NEXT: }
ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<f32>
  %y = ptx.get %x[3]
}

// -----

// ptx.set
// CHECK: ptx.kernel @k(%v: f32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 4>
// CHECK-NEXT:   ptx.set %x[3], %v
// CHECK-NEXT: }
ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  ptx.set %x[3], %v
}

// -----

// ptx.stmatrix
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_90", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<b32 x 2>
// CHECK-NEXT:   ptx.stmatrix "sync.aligned.m8n8.x2.shared.b16", %x[%s] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1>} : !ptx.regs<b32 x 2>, !ptx.reg<b32>
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_90", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<b32 x 2>
  ptx.stmatrix "sync.aligned.m8n8.x2.shared.b16", %x [%s] {
    base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1>
  } : !ptx.regs<b32 x 2>, !ptx.reg<b32>
}

// -----

// ptx.atom
// CHECK: ptx.kernel @k(%a: b64, %x: b32) attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %old = ptx.atom "global.add.u32" %a, 16, %x : b32
// CHECK-NEXT:   %now = ptx.atom "global.cas.b32" %a, 16, %x, %old : b32
// CHECK-NEXT: }
ptx.kernel @k(%a: b64, %x: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %old = ptx.atom "global.add.u32" %a, 16, %x : b32
  %now = ptx.atom "global.cas.b32" %a, 16, %x, %old : b32
}

// -----

// ptx.vote
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.imm 1 : pred
// CHECK-NEXT:   %all = ptx.imm 4294967295 : b32
// CHECK-NEXT:   %any = ptx.vote "sync.any.pred", %p, %all : !ptx.reg<pred>
// CHECK-NEXT:   %lanes = ptx.vote "sync.ballot.b32", %p, %all : !ptx.reg<b32>
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %p = ptx.imm 1 : pred
  %all = ptx.imm 4294967295 : b32
  %any = ptx.vote "sync.any.pred", %p, %all : !ptx.reg<pred>
  %lanes = ptx.vote "sync.ballot.b32", %p, %all : !ptx.reg<b32>
}

// -----

// ptx.bar.warp.sync
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %all = ptx.imm 4294967295 : b32
// CHECK-NEXT:   ptx.bar.warp.sync %all
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %all = ptx.imm 4294967295 : b32
  ptx.bar.warp.sync %all
}

// -----

// ptx.fence
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.fence "acq_rel.gpu"
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  ptx.fence "acq_rel.gpu"
}

// -----

// ptx.return
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.imm 1 : pred
// CHECK-NEXT:   ptx.if %p {
// CHECK-NEXT:     ptx.return
// CHECK-NEXT:   }
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  %p = ptx.imm 1 : pred
  ptx.if %p {
    ptx.return
  }
}

// -----

// ptx.trap
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.trap
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  ptx.trap
}

// -----

// ptx.repeat, ptx.again
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 32 : i32} {
// CHECK-NEXT:   ptx.repeat {
// CHECK-NEXT:     %p = ptx.imm 0 : pred
// CHECK-NEXT:     ptx.again %p
// CHECK-NEXT:   }
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
  ptx.repeat {
    %p = ptx.imm 0 : pred
    ptx.again %p
  }
}

// -----

// ptx.bar.any
// CHECK: ptx.kernel @k(%n: b32, %x: b32) attributes{target = "sm_80", threads = 64 : i32} {
// CHECK-NEXT:   %p = ptx.setp "lt.s32" %n, %x : (b32, b32) -> pred
// CHECK-NEXT:   %q = ptx.bar.any %p, %n {threads = 64 : i32}
// CHECK-NEXT: }
ptx.kernel @k(%n: b32, %x: b32) attributes {target = "sm_80", threads = 64 : i32} {
  %p = ptx.setp "lt.s32" %n, %x : (b32, b32) -> pred
  %q = ptx.bar.any %p, %n {threads = 64 : i32}
}
