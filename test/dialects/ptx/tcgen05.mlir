// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// ptx.tcgen05.alloc
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_100a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.tcgen05.alloc [%s + 8], 256, 1
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_100a", threads = 32 : i32} {
  ptx.tcgen05.alloc [%s + 8], 256, 1
}

// -----

// ptx.tcgen05.dealloc
// CHECK: ptx.kernel @k(%t: b32) attributes{target = "sm_100a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.tcgen05.dealloc %t, 256, 1
// CHECK-NEXT: }
ptx.kernel @k(%t: b32) attributes {target = "sm_100a", threads = 32 : i32} {
  ptx.tcgen05.dealloc %t, 256, 1
}

// -----

// ptx.tcgen05.relinquish_alloc_permit
// CHECK: ptx.kernel @k() attributes{target = "sm_100a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.tcgen05.relinquish_alloc_permit 1
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_100a", threads = 32 : i32} {
  ptx.tcgen05.relinquish_alloc_permit 1
}

// -----

// ptx.tcgen05.mma
// CHECK: ptx.kernel @k(%start: b64, %t: b32, %p: b32) attributes{target = "sm_100a", threads = 128 : i32} {
// CHECK-NEXT:   %a = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// CHECK-NEXT:   %zero = ptx.imm 0 : b32
// CHECK-NEXT:   %later = ptx.setp "ne.s32" %p, %zero : (b32, b32) -> pred
// CHECK-NEXT:   ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %a, %a enable %later {idesc = 136314896 : i64, d = array<i64: 0, 0>, a = array<i64: 0, 2>, b = array<i64: 0, 2>, scale = array<i64: 0, -1>} : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// CHECK-NEXT: }
ptx.kernel @k(%start: b64, %t: b32, %p: b32) attributes {
  target = "sm_100a", threads = 128 : i32
} {
  %a = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
  %zero = ptx.imm 0 : b32
  %later = ptx.setp "ne.s32" %p, %zero : (b32, b32) -> pred
  ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %a, %a enable %later {
    idesc = 136314896, d = array<i64: 0, 0>, a = array<i64: 0, 2>,
    b = array<i64: 0, 2>, scale = array<i64: 0, -1>
  } : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
}

// -----

// Lanes of D that a multiply leaves as they are: 4 words, of a pair 8.
// CHECK: ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %t, %b masks %x, %x, %x, %x {idesc
// CHECK-NEXT: ptx.tcgen05.mma "cta_group::2.kind::f16", %t, %t, %b masks %x, %x, %x, %x, %x, %x, %x, %x {idesc
ptx.kernel @k(%start: b64, %t: b32, %x: b32) attributes {target = "sm_100a", threads = 128 : i32} {
  %b = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
  ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %t, %b masks %x, %x, %x, %x {
    idesc = 136314896, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
  } : !ptx.reg<b32>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
  ptx.tcgen05.mma "cta_group::2.kind::f16", %t, %t, %b masks %x, %x, %x, %x, %x, %x, %x, %x {
    idesc = 270532624, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
  } : !ptx.reg<b32>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
}

// -----

// The largest register of each thread beside what is loaded.
// CHECK: ptx.tcgen05.ld "red.sync.aligned.32x32b.x16.max.f32", %r, %t reduced %m {registers = array<i64: 0, 16>, addends = array<i64: 0, 16>} : !ptx.regs<f32 x 32>, !ptx.regs<f32 x 2>
ptx.kernel @k(%t: b32) attributes {target = "sm_103a", threads = 128 : i32} {
  %r = ptx.regs : !ptx.regs<f32 x 32>
  %m = ptx.regs : !ptx.regs<f32 x 2>
  ptx.tcgen05.ld "red.sync.aligned.32x32b.x16.max.f32", %r, %t reduced %m {
    registers = array<i64: 0, 16>, addends = array<i64: 0, 16>
  } : !ptx.regs<f32 x 32>, !ptx.regs<f32 x 2>
  ptx.tcgen05.wait_ld
}

// -----

// ptx.tcgen05.commit
// CHECK: ptx.kernel @k(%s: b32, %h: b16) attributes{target = "sm_100a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.tcgen05.commit [%s + 8], 1
// CHECK-NEXT:   ptx.tcgen05.commit [%s + 8], 1 multicast %h
// CHECK-NEXT: }
ptx.kernel @k(%s: b32, %h: b16) attributes {target = "sm_100a", threads = 32 : i32} {
  ptx.tcgen05.commit [%s + 8], 1
  ptx.tcgen05.commit [%s + 8], 1 multicast %h
}

// -----

// ptx.tcgen05.ld
// CHECK: ptx.kernel @k(%t: b32) attributes{target = "sm_100a", threads = 128 : i32} {
// CHECK-NEXT:   %r = ptx.regs : !ptx.regs<f32 x 32>
// CHECK-NEXT:   ptx.tcgen05.ld "sync.aligned.32x32b.x16.b32", %r, %t {registers = array<i64: 0, 16>, addends = array<i64: 0, 16>} : !ptx.regs<f32 x 32>
// CHECK-NEXT:   ptx.tcgen05.wait_ld
// CHECK-NEXT: }
ptx.kernel @k(%t: b32) attributes {target = "sm_100a", threads = 128 : i32} {
  %r = ptx.regs : !ptx.regs<f32 x 32>
  ptx.tcgen05.ld "sync.aligned.32x32b.x16.b32", %r, %t {
    registers = array<i64: 0, 16>, addends = array<i64: 0, 16>
  } : !ptx.regs<f32 x 32>
  ptx.tcgen05.wait_ld
}

// -----

// ptx.tcgen05.st
// CHECK: ptx.kernel @k(%t: b32) attributes{target = "sm_100a", threads = 128 : i32} {
// CHECK-NEXT:   %r = ptx.regs : !ptx.regs<b32 x 16>
// CHECK-NEXT:   ptx.tcgen05.st "sync.aligned.32x32b.x16.b32", %t, %r {registers = array<i64: 0>, addends = array<i64: 0>} : !ptx.regs<b32 x 16>
// CHECK-NEXT:   ptx.tcgen05.wait_st
// CHECK-NEXT: }
ptx.kernel @k(%t: b32) attributes {target = "sm_100a", threads = 128 : i32} {
  %r = ptx.regs : !ptx.regs<b32 x 16>
  ptx.tcgen05.st "sync.aligned.32x32b.x16.b32", %t, %r {
    registers = array<i64: 0>, addends = array<i64: 0>
  } : !ptx.regs<b32 x 16>
  ptx.tcgen05.wait_st
}

// -----

// ptx.tcgen05.cp
// CHECK: ptx.kernel @k(%t: b32, %start: b64) attributes{target = "sm_100a", threads = 32 : i32} {
// CHECK-NEXT:   %d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// CHECK-NEXT:   ptx.tcgen05.cp "cta_group::1.32x128b.warpx4", %t, %d : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// CHECK-NEXT: }
ptx.kernel @k(%t: b32, %start: b64) attributes {target = "sm_100a", threads = 32 : i32} {
  %d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
  ptx.tcgen05.cp "cta_group::1.32x128b.warpx4", %t, %d : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
}

// -----

// ptx.tcgen05.wait_ld
// CHECK: ptx.kernel @k() attributes{target = "sm_100a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.tcgen05.wait_ld
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_100a", threads = 32 : i32} {
  ptx.tcgen05.wait_ld
}

// -----

// ptx.tcgen05.wait_st
// CHECK: ptx.kernel @k() attributes{target = "sm_100a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.tcgen05.wait_st
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_100a", threads = 32 : i32} {
  ptx.tcgen05.wait_st
}

// -----

// ptx.tcgen05.fence
// CHECK: ptx.kernel @k() attributes{target = "sm_100a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.tcgen05.fence "before_thread_sync"
// CHECK-NEXT:   ptx.tcgen05.fence "after_thread_sync"
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_100a", threads = 32 : i32} {
  ptx.tcgen05.fence "before_thread_sync"
  ptx.tcgen05.fence "after_thread_sync"
}

// -----

// Block-scaled products, A in tensor memory.
// CHECK: ptx.tcgen05.mma "cta_group::2.kind::mxf8f6f4.block_scale.block32", %t, %t, %b factors %sa, %sb {
ptx.kernel @k(%start: b64, %t: b32, %sa: b32, %sb: b32) attributes {
  target = "sm_100a", threads = 128 : i32
} {
  %b = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
  ptx.tcgen05.mma "cta_group::2.kind::mxf8f6f4.block_scale.block32", %t, %t, %b factors %sa, %sb {
    idesc = 278921216, d = array<i64: 0>, a = array<i64: 256>, b = array<i64: 0>
  } : !ptx.reg<b32>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
}
