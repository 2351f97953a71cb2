// RUN: cute-opt %s -p cute-expand-rings | filecheck %s
// RUN: cute-opt %s -p cute-expand-rings,cute-expand-rings | filecheck %s

// A commit that tells both CTAs of a pair says whether loops and branches in front of it have multiplied, be it that an
// operand has been read or that a result is there. What threads write for a pair is fenced as for one CTA, and one that
// has nothing to release is not waited for.

builtin.module attributes {cute.arch = "sm_100a"} {
  cute.kernel @pair(%n: i32) attributes {threads = 256 : i32, cluster = 2 : i32} {
    %a = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
    %b = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(32,64):(64,1)">
    %o = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
    %q = pipeline.create {kind = "threads", producers = 8 : i32, consumers = 1 : i32, pair} : !pipeline.ring<1>
    %p = pipeline.create {kind = "tmem", producers = 8 : i32, consumers = 0 : i32, pair} : !pipeline.ring<2>
    // CHECK: pipeline.role "mma"
    pipeline.role "mma" attributes {first = 0 : i32, warps = 1 : i32, elect, pair} {
      %from = pipeline.state "consumer" %q : !pipeline.ring<1> -> !pipeline.state<1>
      %has = pipeline.state "consumer" %p : !pipeline.ring<2> -> !pipeline.state<2>
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %some = arith.cmpi slt, %zero, %n : i32
      // CHECK: pipeline.consumer_wait
      pipeline.consumer_wait %q at %from : !pipeline.ring<1>, !pipeline.state<1>
      // CHECK-NEXT: scf.if %[[SOME:.*]] {
      scf.if %some {
        cute.gemm %a, %b, %o {atom = !cute_nvgpu.sm100.mma<256x64x16, elem_type = (f16, f16, f32), cta_group = 2>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(32,64):(64,1)">, !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
      }
      // CHECK: scf.for
      scf.for %i = %one to %n step %one : i32 {
        pipeline.consumer_wait %p at %has : !pipeline.ring<2>, !pipeline.state<2>
        cute.gemm %a, %b, %o {atom = !cute_nvgpu.sm100.mma<256x64x16, elem_type = (f16, f16, f32), cta_group = 2>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(32,64):(64,1)">, !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
      }
      // CHECK: %[[ENTERS:.*]] = arith.cmpi slt
      // CHECK-NEXT: %[[ANY:.*]] = arith.ori %[[ENTERS]], %[[SOME]]
      // CHECK-NEXT: pipeline.consumer_release {{.*}} multiplied %[[ANY]] {commits}
      pipeline.consumer_release %q at %from {commits} : !pipeline.ring<1>, !pipeline.state<1>
    }
    // CHECK: pipeline.role "main"
    pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
      %to = pipeline.state "producer" %q : !pipeline.ring<1> -> !pipeline.state<1>
      %own = pipeline.state "producer" %p : !pipeline.ring<2> -> !pipeline.state<2>
      // CHECK: pipeline.producer_acquire %[[Q:.*]] at
      // CHECK-NEXT: pipeline.producer_commit %[[Q]]
      // CHECK-NEXT: cute_nvgpu.tcgen05_fence "before"
      // CHECK-NEXT: pipeline.producer_commit %[[P:.*]] at
      // CHECK-NEXT: pipeline.drain %[[Q]]
      // CHECK-NEXT: }
      pipeline.producer_acquire %q at %to : !pipeline.ring<1>, !pipeline.state<1>
      pipeline.producer_commit %q at %to : !pipeline.ring<1>, !pipeline.state<1>
      pipeline.producer_commit %p at %own : !pipeline.ring<2>, !pipeline.state<2>
    }
  }
}
