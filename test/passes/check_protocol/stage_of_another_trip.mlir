// RUN: cute-opt %s --cute-check-protocol --verify-diagnostics -o /dev/null

// A warp fills stages in turn and reads the first one each time: a barrier orders all of it, and what
// it gets is that of another trip.

builtin.module attributes {cute.arch = "sm_80"} {
  cute.kernel @program(%Y: !cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)">, %n: i32) attributes {threads = 32 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(32,4,2):(4,1,128)">
    %x = arith.constant 1.0 : f32
    %tile = cute.alloc_fragment : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    cute.fill %tile, %x : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    scf.for %k = %zero to %n step %one : i32 {
      %i = arith.remui %k, %two : i32
      %to = cute.stage %s[%i] : !cute.memref<f32, smem, align<16>, "(32,4,2):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      cute.copy %tile, %to {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      cute.barrier
      %from = cute.stage %s[%zero] : !cute.memref<f32, smem, align<16>, "(32,4,2):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      %got = cute.alloc_fragment : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
      // expected-error @+1 {{CD-R10: reads %s as other trips than its own wrote it}}
      cute.copy %from, %got {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<16>, "(32,4):(4,1)"> -> !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
      %Y_1 = cute.local_tile %Y, [32, 4], (%zero, %k) : !cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(32,4):(?{i64 div=4},1)">
      cute.copy %got, %Y_1 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)"> -> !cute.memref<f32, gmem, align<16>, "(32,4):(?{i64 div=4},1)">
      cute.barrier
    }
  }
}
