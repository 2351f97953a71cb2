// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// ptx.bar.arrive
// CHECK: ptx.kernel @k() attributes{target = "sm_80", threads = 64 : i32} {
// CHECK-NEXT:   %half = ptx.imm 32 : b32
// CHECK-NEXT:   %t = ptx.special "tid.x" : b32
// CHECK-NEXT:   %first = ptx.setp "lt.s32" %t, %half : (b32, b32) -> pred
// CHECK-NEXT:   ptx.if %first {
// CHECK-NEXT:     ptx.bar.arrive 1, 64
// CHECK-NEXT:   } else {
// CHECK-NEXT:     ptx.bar.sync 1, 64
// CHECK-NEXT:   }
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_80", threads = 64 : i32} {
  %half = ptx.imm 32 : b32
  %t = ptx.special "tid.x" : b32
  %first = ptx.setp "lt.s32" %t, %half : (b32, b32) -> pred
  ptx.if %first {
    ptx.bar.arrive 1, 64
  } else {
    ptx.bar.sync 1, 64
  }
}

// -----

// ptx.mbarrier.init
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.mbarrier.init [%s + 8], 2
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.mbarrier.init [%s + 8], 2
}

// -----

// ptx.mbarrier.arrive
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.elect
// CHECK-NEXT:   %zero = ptx.imm 0 : b32
// CHECK-NEXT:   %first = ptx.mapa %s, %zero
// CHECK-NEXT:   ptx.mbarrier.init [%s], 4
// CHECK-NEXT:   ptx.mbarrier.arrive [%s], 2 if %p
// CHECK-NEXT:   ptx.mbarrier.arrive cluster [%first]
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  %p = ptx.elect
  %zero = ptx.imm 0 : b32
  %first = ptx.mapa %s, %zero
  ptx.mbarrier.init [%s], 4
  ptx.mbarrier.arrive [%s], 2 if %p
  ptx.mbarrier.arrive cluster [%first]
}

// -----

// ptx.mbarrier.arrive.expect_tx
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.elect
// CHECK-NEXT:   ptx.mbarrier.init [%s], 1
// CHECK-NEXT:   ptx.mbarrier.arrive.expect_tx [%s], 0 if %p
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  %p = ptx.elect
  ptx.mbarrier.init [%s], 1
  ptx.mbarrier.arrive.expect_tx [%s], 0 if %p
}

// -----

// ptx.mbarrier.wait
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.mbarrier.init [%s], 32
// CHECK-NEXT:   ptx.bar.sync 0
// CHECK-NEXT:   ptx.mbarrier.arrive [%s]
// CHECK-NEXT:   %parity = ptx.imm 0 : b32
// CHECK-NEXT:   ptx.mbarrier.wait [%s], %parity
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.mbarrier.init [%s], 32
  ptx.bar.sync 0
  ptx.mbarrier.arrive [%s]
  %parity = ptx.imm 0 : b32
  ptx.mbarrier.wait [%s], %parity
}

// -----

// ptx.mbarrier.inval
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.mbarrier.init [%s], 1
// CHECK-NEXT:   ptx.mbarrier.inval [%s]
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.mbarrier.init [%s], 1
  ptx.mbarrier.inval [%s]
}

// -----

// ptx.cp.async.mbarrier.arrive
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.mbarrier.init [%s], 32
// CHECK-NEXT:   ptx.bar.sync 0
// CHECK-NEXT:   ptx.cp.async.mbarrier.arrive noinc [%s]
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.mbarrier.init [%s], 32
  ptx.bar.sync 0
  ptx.cp.async.mbarrier.arrive noinc [%s]
}

// -----

// ptx.elect
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.elect
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
  %p = ptx.elect
}

// -----

// ptx.mapa
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %rank = ptx.imm 0 : b32
// CHECK-NEXT:   %there = ptx.mapa %s, %rank
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  %rank = ptx.imm 0 : b32
  %there = ptx.mapa %s, %rank
}

// -----

// ptx.barrier.cluster.arrive
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 32 : i32, cluster = array<i64: 2, 1, 1>} {
// CHECK-NEXT:   ptx.barrier.cluster.arrive "relaxed.aligned"
// CHECK-NEXT:   ptx.barrier.cluster.wait "aligned"
// CHECK-NEXT: }
ptx.kernel @k() attributes {
  target = "sm_90a", threads = 32 : i32, cluster = array<i64: 2, 1, 1>
} {
  ptx.barrier.cluster.arrive "relaxed.aligned"
  ptx.barrier.cluster.wait "aligned"
}

// -----

// ptx.barrier.cluster.wait
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.barrier.cluster.arrive
// CHECK-NEXT:   ptx.barrier.cluster.wait
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.barrier.cluster.arrive
  ptx.barrier.cluster.wait
}

// -----

// ptx.setmaxnreg
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 128 : i32, min_ctas = 1 : i32} {
// CHECK-NEXT:   ptx.setmaxnreg "dec", 40
// CHECK-NEXT: }
ptx.kernel @k() attributes {
  target = "sm_90a", threads = 128 : i32, min_ctas = 1 : i32
} {
  ptx.setmaxnreg "dec", 40
}

// -----

// ptx.st.async
// CHECK: ptx.kernel @k(%s: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %x = ptx.regs : !ptx.regs<f32 x 8>
// CHECK-NEXT:   ptx.st.async %x [%s + 16], [%s + 8], stride 512 : !ptx.regs<f32 x 8>
// CHECK-NEXT: }
ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 8>
  ptx.st.async %x [%s + 16], [%s + 8], stride 512 : !ptx.regs<f32 x 8>
}

// -----

// ptx.griddepcontrol.wait
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.griddepcontrol.wait
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.griddepcontrol.wait
}

// -----

// ptx.griddepcontrol.launch_dependents
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.griddepcontrol.launch_dependents
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.griddepcontrol.launch_dependents
}

// -----

// ptx.tma.load
// CHECK: ptx.kernel @k(%A: tensor_map, %s: b32, %x: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.elect
// CHECK-NEXT:   %mask = ptx.imm 3 : b16
// CHECK-NEXT:   ptx.tma.load [%s + 1024], %A[%x, %x], [%s] if %p : !ptx.tensor_map
// CHECK-NEXT:   ptx.tma.load [%s], %A[%x], [%s + 8] multicast %mask if %p : !ptx.tensor_map
// CHECK-NEXT:   ptx.tma.load [%s], %A[%x], [%s] {pair} : !ptx.tensor_map
// CHECK-NEXT:   ptx.tma.load [%s], %A[%x, %x, %x, %x, %x], [%s] gather if %p : !ptx.tensor_map
// CHECK-NEXT: }
ptx.kernel @k(%A: tensor_map, %s: b32, %x: b32) attributes {
  target = "sm_90a", threads = 32 : i32
} {
  %p = ptx.elect
  %mask = ptx.imm 3 : b16
  ptx.tma.load [%s + 1024], %A[%x, %x], [%s] if %p : !ptx.tensor_map
  ptx.tma.load [%s], %A[%x], [%s + 8] multicast %mask if %p : !ptx.tensor_map
  ptx.tma.load [%s], %A[%x], [%s] {pair} : !ptx.tensor_map
  ptx.tma.load [%s], %A[%x, %x, %x, %x, %x], [%s] gather if %p : !ptx.tensor_map
}

// -----

// ptx.tma.store
// CHECK: ptx.kernel @k(%C: tensor_map, %s: b32, %x: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.fence "proxy.async.shared::cta"
// CHECK-NEXT:   %p = ptx.elect
// CHECK-NEXT:   ptx.tma.store %C[%x, %x], [%s] if %p : !ptx.tensor_map
// CHECK-NEXT:   ptx.tma.store %C[%x, %x], [%s + 4096] reduce "add" if %p : !ptx.tensor_map
// CHECK-NEXT:   ptx.cp.async.bulk.commit_group
// CHECK-NEXT: }
ptx.kernel @k(%C: tensor_map, %s: b32, %x: b32) attributes {
  target = "sm_90a", threads = 32 : i32
} {
  ptx.fence "proxy.async.shared::cta"
  %p = ptx.elect
  ptx.tma.store %C[%x, %x], [%s] if %p : !ptx.tensor_map
  ptx.tma.store %C[%x, %x], [%s + 4096] reduce "add" if %p : !ptx.tensor_map
  ptx.cp.async.bulk.commit_group
}

// -----

// ptx.tma.prefetch
// CHECK: ptx.kernel @k(%A: tensor_map, %x: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.elect
// CHECK-NEXT:   ptx.tma.prefetch %A[%x, %x] if %p : !ptx.tensor_map
// CHECK-NEXT: }
ptx.kernel @k(%A: tensor_map, %x: b32) attributes {
  target = "sm_90a", threads = 32 : i32
} {
  %p = ptx.elect
  ptx.tma.prefetch %A[%x, %x] if %p : !ptx.tensor_map
}

// -----

// ptx.prefetch.tensormap
// CHECK: ptx.kernel @k(%A: tensor_map) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.elect
// CHECK-NEXT:   ptx.prefetch.tensormap %A if %p : !ptx.tensor_map
// CHECK-NEXT: }
ptx.kernel @k(%A: tensor_map) attributes {target = "sm_90a", threads = 32 : i32} {
  %p = ptx.elect
  ptx.prefetch.tensormap %A if %p : !ptx.tensor_map
}

// -----

// ptx.bulk.load
// CHECK: ptx.kernel @k(%a: b64, %s: b32, %n: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.elect
// CHECK-NEXT:   ptx.bulk.load [%s + 1024], [%a + 64] bytes 256, [%s] if %p
// CHECK-NEXT:   ptx.bulk.load [%s + 2048], [%a] size %n, [%s + 8] if %p
// CHECK-NEXT: }
ptx.kernel @k(%a: b64, %s: b32, %n: b32) attributes {
  target = "sm_90a", threads = 32 : i32
} {
  %p = ptx.elect
  ptx.bulk.load [%s + 1024], [%a + 64] bytes 256, [%s] if %p
  ptx.bulk.load [%s + 2048], [%a] size %n, [%s + 8] if %p
}

// -----

// ptx.bulk.store
// CHECK: ptx.kernel @k(%a: b64, %s: b32) attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   %p = ptx.elect
// CHECK-NEXT:   ptx.bulk.store [%a], [%s + 64] bytes 256 if %p
// CHECK-NEXT:   ptx.bulk.store [%a + 256], [%s] bytes 64 reduce "add.f32" if %p
// CHECK-NEXT:   ptx.cp.async.bulk.commit_group
// CHECK-NEXT:   ptx.cp.async.bulk.wait_group 0 read
// CHECK-NEXT: }
ptx.kernel @k(%a: b64, %s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  %p = ptx.elect
  ptx.bulk.store [%a], [%s + 64] bytes 256 if %p
  ptx.bulk.store [%a + 256], [%s] bytes 64 reduce "add.f32" if %p
  ptx.cp.async.bulk.commit_group
  ptx.cp.async.bulk.wait_group 0 read
}

// -----

// ptx.cp.async.bulk.commit_group
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.cp.async.bulk.commit_group
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.cp.async.bulk.commit_group
}

// -----

// ptx.cp.async.bulk.wait_group
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 32 : i32} {
// CHECK-NEXT:   ptx.cp.async.bulk.wait_group 1 read
// CHECK-NEXT:   ptx.cp.async.bulk.wait_group 0
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
  ptx.cp.async.bulk.wait_group 1 read
  ptx.cp.async.bulk.wait_group 0
}

// -----

// ptx.wgmma.mma_async
// CHECK: ptx.kernel @k(%start: b64, %p: b32) attributes{target = "sm_90a", threads = 128 : i32} {
// CHECK-NEXT:   %a = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// CHECK-NEXT:   %b = ptx.smem_desc %start : !ptx.smem_desc<wgmma, MN, none, leading = ?, stride = 512>
// CHECK-NEXT:   %zero = ptx.imm 0 : b32
// CHECK-NEXT:   %later = ptx.setp "ne.s32" %p, %zero : (b32, b32) -> pred
// CHECK-NEXT:   %c = ptx.regs : !ptx.regs<f32 x 4>
// CHECK-NEXT:   ptx.wgmma.fence
// CHECK-NEXT:   ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %a, %b scale %later {counts = array<i64: 4, 0>, c = array<i64: 0, 0>, a = array<i64: 0, 2>, b = array<i64: 0, 2>, scale = array<i64: 0, -1>, immediates = array<i64: 1, 1, 0, 1>} : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, MN, none, leading = ?, stride = 512>
// CHECK-NEXT:   ptx.wgmma.commit_group
// CHECK-NEXT:   ptx.wgmma.wait_group 0
// CHECK-NEXT: }
ptx.kernel @k(%start: b64, %p: b32) attributes {
  target = "sm_90a", threads = 128 : i32
} {
  %a = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
  %b = ptx.smem_desc %start : !ptx.smem_desc<wgmma, MN, none, leading = ?, stride = 512>
  %zero = ptx.imm 0 : b32
  %later = ptx.setp "ne.s32" %p, %zero : (b32, b32) -> pred
  %c = ptx.regs : !ptx.regs<f32 x 4>
  ptx.wgmma.fence
  ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %a, %b scale %later {
    counts = array<i64: 4, 0>, c = array<i64: 0, 0>, a = array<i64: 0, 2>,
    b = array<i64: 0, 2>, scale = array<i64: 0, -1>, immediates = array<i64: 1, 1, 0, 1>
  } : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, MN, none, leading = ?, stride = 512>
  ptx.wgmma.commit_group
  ptx.wgmma.wait_group 0
}

// -----

// ptx.wgmma.fence
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 128 : i32} {
// CHECK-NEXT:   ptx.wgmma.fence
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_90a", threads = 128 : i32} {
  ptx.wgmma.fence
}

// -----

// ptx.wgmma.commit_group
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 128 : i32} {
// CHECK-NEXT:   ptx.wgmma.commit_group
// CHECK-NEXT:   ptx.wgmma.wait_group 0
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_90a", threads = 128 : i32} {
  ptx.wgmma.commit_group
  ptx.wgmma.wait_group 0
}

// -----

// ptx.wgmma.wait_group
// CHECK: ptx.kernel @k() attributes{target = "sm_90a", threads = 128 : i32} {
// CHECK-NEXT:   ptx.wgmma.wait_group 1
// CHECK-NEXT: }
ptx.kernel @k() attributes {target = "sm_90a", threads = 128 : i32} {
  ptx.wgmma.wait_group 1
}
