// RUN: cute-opt %s -p cute-expand-rings | filecheck %s
// RUN: cute-opt %s -p cute-expand-rings,cute-expand-rings | filecheck %s

// Fences on either side of a signal between `tcgen05` instructions, and the wait at the end for what the
// tensor core says. What is expanded stays as it is.

builtin.module attributes {cute.arch = "sm_100a"} {
  cute.kernel @program() attributes {threads = 544 : i32} {
    %q = pipeline.create {kind = "threads", producers = 4 : i32, consumers = 1 : i32} : !pipeline.ring<4>
    %o = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,32):(65536,1)">
    %r = pipeline.create {kind = "tmem", producers = 4 : i32, consumers = 1 : i32} : !pipeline.ring<1>
    %t = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
    // CHECK: pipeline.role "load"
    pipeline.role "load" attributes {first = 8 : i32, warps = 4 : i32} {
      // CHECK: %[[TO:.*]] = pipeline.state "producer" %[[Q:.*]] :
      %to = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
      // CHECK-NEXT: pipeline.producer_acquire %[[Q]]
      // CHECK-NEXT: pipeline.producer_commit %[[Q]]
      // CHECK-NEXT: pipeline.advance
      // CHECK-NEXT: pipeline.drain %[[Q]] at %[[TO]]
      // CHECK-NEXT: }
      pipeline.producer_acquire %q at %to : !pipeline.ring<4>, !pipeline.state<4>
      pipeline.producer_commit %q at %to : !pipeline.ring<4>, !pipeline.state<4>
      pipeline.advance %to : !pipeline.state<4>
    }
    // CHECK: pipeline.role "mma"
    pipeline.role "mma" attributes {first = 0 : i32, warps = 1 : i32, elect} {
      %from = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
      %out = pipeline.state "producer" %t : !pipeline.ring<2> -> !pipeline.state<2>
      // CHECK: pipeline.producer_acquire %[[T:.*]] at
      // CHECK-NEXT: cute_nvgpu.tcgen05_fence "after"
      // CHECK-NEXT: pipeline.consumer_wait %[[Q]]
      // CHECK-NEXT: pipeline.consumer_release %[[Q]]
      // CHECK-NEXT: pipeline.producer_commit %[[T]]
      // CHECK-NEXT: }
      pipeline.producer_acquire %t at %out : !pipeline.ring<2>, !pipeline.state<2>
      pipeline.consumer_wait %q at %from : !pipeline.ring<4>, !pipeline.state<4>
      pipeline.consumer_release %q at %from {commits} : !pipeline.ring<4>, !pipeline.state<4>
      pipeline.producer_commit %t at %out : !pipeline.ring<2>, !pipeline.state<2>
    }
    // CHECK: pipeline.role "correction"
    // CHECK: pipeline.producer_acquire %[[R:.*]] at
    // CHECK-NEXT: scf.if
    // CHECK-NEXT: cute_nvgpu.tcgen05_fence "after"
    // CHECK-NEXT: cute.alloc_fragment
    // CHECK-NEXT: cute.copy
    // CHECK-NEXT: }
    // CHECK-NEXT: cute_nvgpu.tcgen05_fence "before"
    // CHECK-NEXT: pipeline.producer_commit %[[R]]
    // What is beside the branch orders its own use: the fence stays in front of both.
    // CHECK: pipeline.producer_acquire %[[R]] at
    // CHECK-NEXT: cute_nvgpu.tcgen05_fence "after"
    // CHECK-NEXT: scf.if
    pipeline.role "correction" attributes {first = 12 : i32, warps = 4 : i32} {
      %own = pipeline.state "producer" %r : !pipeline.ring<1> -> !pipeline.state<1>
      %some = arith.constant true
      pipeline.producer_acquire %r at %own : !pipeline.ring<1>, !pipeline.state<1>
      scf.if %some {
        %x = cute.alloc_fragment : !cute.fragment<f32, "(128,32)", "(128,32):(1,128)">
        cute.copy %o, %x {atom = !cute_nvgpu.atom.tmem_load<f32, 32x32b>} : !cute.memref<f32, tmem, align<4>, "(128,32):(65536,1)"> -> !cute.fragment<f32, "(128,32)", "(128,32):(1,128)">
      }
      pipeline.producer_commit %r at %own : !pipeline.ring<1>, !pipeline.state<1>
      pipeline.producer_acquire %r at %own : !pipeline.ring<1>, !pipeline.state<1>
      scf.if %some {
        %x = cute.alloc_fragment : !cute.fragment<f32, "(128,32)", "(128,32):(1,128)">
        cute.copy %o, %x {atom = !cute_nvgpu.atom.tmem_load<f32, 32x32b>} : !cute.memref<f32, tmem, align<4>, "(128,32):(65536,1)"> -> !cute.fragment<f32, "(128,32)", "(128,32):(1,128)">
      }
      %y = cute.alloc_fragment : !cute.fragment<f32, "(128,32)", "(128,32):(1,128)">
      cute.copy %o, %y {atom = !cute_nvgpu.atom.tmem_load<f32, 32x32b>} : !cute.memref<f32, tmem, align<4>, "(128,32):(65536,1)"> -> !cute.fragment<f32, "(128,32)", "(128,32):(1,128)">
      pipeline.producer_commit %r at %own : !pipeline.ring<1>, !pipeline.state<1>
    }
    pipeline.role "multiply" attributes {first = 16 : i32, warps = 1 : i32, elect} {
      %has = pipeline.state "consumer" %r : !pipeline.ring<1> -> !pipeline.state<1>
      pipeline.consumer_wait %r at %has : !pipeline.ring<1>, !pipeline.state<1>
      pipeline.consumer_release %r at %has {commits} : !pipeline.ring<1>, !pipeline.state<1>
    }
    // CHECK: pipeline.role "main"
    pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
      %at = pipeline.state "consumer" %t : !pipeline.ring<2> -> !pipeline.state<2>
      // CHECK: pipeline.consumer_wait %[[T]]
      // CHECK-NEXT: cute_nvgpu.tcgen05_fence "after"
      // CHECK-NEXT: cute_nvgpu.tcgen05_fence "before"
      // CHECK-NEXT: pipeline.consumer_release %[[T]]
      pipeline.consumer_wait %t at %at : !pipeline.ring<2>, !pipeline.state<2>
      pipeline.consumer_release %t at %at : !pipeline.ring<2>, !pipeline.state<2>
    }
  }
}
