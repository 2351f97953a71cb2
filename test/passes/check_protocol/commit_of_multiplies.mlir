// RUN: cute-opt %s --cute-check-protocol --verify-diagnostics -o /dev/null

// Warps write what the tensor core multiplies, and wait for its commit, which tells of the multiplies
// alone: that other warps have read their rows of %rows tells only the barrier behind the write.

builtin.module attributes {cute.arch = "sm_100a"} {
  cute.kernel @k(%n: i32) attributes {threads = 256 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %false = arith.constant false
    %rows = cute.alloc_smem {scratch} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)">
    %a = cute.alloc_smem : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)">
    %acc = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,64,2):(65536,1,64)">
    %tiles = pipeline.create {kind = "threads", producers = 4 : i32, consumers = 1 : i32} : !pipeline.ring<2>
    %products = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
    pipeline.start
    pipeline.role "mma" attributes {first = 1 : i32, warps = 1 : i32, elect} {
      %from = pipeline.state "consumer" %tiles : !pipeline.ring<2> -> !pipeline.state<2>
      %to = pipeline.state "producer" %products : !pipeline.ring<2> -> !pipeline.state<2>
      scf.for %k = %zero to %n step %one : i32 {
        pipeline.consumer_wait %tiles at %from : !pipeline.ring<2>, !pipeline.state<2>
        %i = pipeline.index %from : !pipeline.state<2>
        %x = cute.stage %a[%i] : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
        %y = cute.subview %x, (0, 0) : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
        pipeline.producer_acquire %products at %to : !pipeline.ring<2>, !pipeline.state<2>
        cute_nvgpu.tcgen05_fence "after"
        %j = pipeline.index %to : !pipeline.state<2>
        %z = cute.stage %acc[%j] : !cute.memref<f32, tmem, align<4>, "(128,64,2):(65536,1,64)"> -> !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
        cute.gemm %x, %y, %z keeps %false {atom = !cute_nvgpu.sm100.mma<128x64x16, elem_type = (bf16, bf16, f32)>} : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">, !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
        pipeline.consumer_release %tiles at %from {commits} : !pipeline.ring<2>, !pipeline.state<2>
        pipeline.advance %from : !pipeline.state<2>
        pipeline.producer_commit %products at %to : !pipeline.ring<2>, !pipeline.state<2>
        pipeline.advance %to : !pipeline.state<2>
      }
    }
    pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
      %to = pipeline.state "producer" %tiles : !pipeline.ring<2> -> !pipeline.state<2>
      %from = pipeline.state "consumer" %products : !pipeline.ring<2> -> !pipeline.state<2>
      %x = arith.constant 0.0 : f32
      %sums = cute.alloc_fragment : !cute.fragment<f32, "(64,1)", "((32,4),16):((0,1),4)">
      cute.fill %sums, %x : !cute.fragment<f32, "(64,1)", "((32,4),16):((0,1),4)">
      %y = arith.constant 0.0 : bf16
      %tile = cute.alloc_fragment : !cute.fragment<bf16, "(128,64)", "((128,1),64):((1,0),128)">
      cute.fill %tile, %y : !cute.fragment<bf16, "(128,64)", "((128,1),64):((1,0),128)">
      scf.for %k = %zero to %n step %one : i32 {
        // expected-error @+1 {{CD-R1: writes %rows, which role 'main' read: expected a barrier or an arrival and a wait in between}}
        cute.copy %sums, %rows {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,1)", "((32,4),16):((0,1),4)"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)">
        cute.barrier
        %all = cute.alloc_fragment : !cute.fragment<f32, "(64,1)", "((64,2),32):((0,1),2)">
        cute.copy %rows, %all {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)"> -> !cute.fragment<f32, "(64,1)", "((64,2),32):((0,1),2)">
        pipeline.producer_acquire %tiles at %to : !pipeline.ring<2>, !pipeline.state<2>
        %i = pipeline.index %to : !pipeline.state<2>
        %stage = cute.stage %a[%i] : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
        cute.copy %tile, %stage {atom = !cute_nvgpu.atom.universal_copy<bf16, 128 b>} : !cute.fragment<bf16, "(128,64)", "((128,1),64):((1,0),128)"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
        cute_nvgpu.fence_proxy_async
        pipeline.producer_commit %tiles at %to : !pipeline.ring<2>, !pipeline.state<2>
        pipeline.advance %to : !pipeline.state<2>
        pipeline.consumer_wait %products at %from : !pipeline.ring<2>, !pipeline.state<2>
        cute_nvgpu.tcgen05_fence "after"
        %j = pipeline.index %from : !pipeline.state<2>
        %z = cute.stage %acc[%j] : !cute.memref<f32, tmem, align<4>, "(128,64,2):(65536,1,64)"> -> !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">
        %got = cute.alloc_fragment : !cute.fragment<f32, "(128,64)", "((4,8,4),(2,2,8,2)):((256,1,32),(128,8,1024,16))">
        cute.copy %z, %got {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)"> -> !cute.fragment<f32, "(128,64)", "((4,8,4),(2,2,8,2)):((256,1,32),(128,8,1024,16))">
        cute_nvgpu.tcgen05_fence "before"
        pipeline.consumer_release %products at %from : !pipeline.ring<2>, !pipeline.state<2>
        pipeline.advance %from : !pipeline.state<2>
      }
      pipeline.drain %tiles at %to : !pipeline.ring<2>, !pipeline.state<2>
    }
  }
}
