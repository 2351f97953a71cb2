// RUN: cute-opt %s --split-input-file --cute-check-protocol --verify-diagnostics -o /dev/null

// A loop of two trips reads the first stage each time: what its last trip reads is used there.

builtin.module attributes {cute.arch = "sm_80"} {
  cute.kernel @own(%Y: !cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)">) attributes {threads = 32 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %three = arith.constant 3 : i32
    %end = arith.constant 2 : i32
    %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)">
    %x = arith.constant 1.0 : f32
    %tile = cute.alloc_fragment : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    cute.fill %tile, %x : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    scf.for %k = %zero to %end step %one : i32 {
      %i = arith.remui %k, %three : i32
      %to = cute.stage %s[%i] : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      cute.copy %tile, %to {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      cute.barrier
      %from = cute.stage %s[%zero] : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      %got = cute.alloc_fragment : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
      // expected-error @+1 {{CD-R10: reads %s as other trips than its own wrote it}}
      cute.copy %from, %got {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<16>, "(32,4):(4,1)"> -> !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
      %Y_1 = cute.local_tile %Y, [32, 4], (%zero, %k) : !cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(32,4):(?{i64 div=4},1)">
      cute.copy %got, %Y_1 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)"> -> !cute.memref<f32, gmem, align<16>, "(32,4):(?{i64 div=4},1)">
      cute.barrier
    }
  }
}

// -----

// One that reads for the next trip does so once for somebody, and reads the first stage again.

builtin.module attributes {cute.arch = "sm_80"} {
  cute.kernel @next(%Y: !cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)">) attributes {threads = 32 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %three = arith.constant 3 : i32
    %end = arith.constant 2 : i32
    %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)">
    %x = arith.constant 1.0 : f32
    %tile = cute.alloc_fragment : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    cute.fill %tile, %x : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    %begin = arith.constant 0 : i32
    scf.for %k = %begin to %two step %one : i32 {
      %i = arith.remui %k, %three : i32
      %to = cute.stage %s[%i] : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      cute.copy %tile, %to {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
    }
    cute.barrier
    %got = cute.alloc_fragment : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    %first = cute.stage %s[%begin] : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
    cute.copy %first, %got {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<16>, "(32,4):(4,1)"> -> !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    scf.for %k = %zero to %end step %one : i32 {
      %Y_1 = cute.local_tile %Y, [32, 4], (%zero, %k) : !cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(32,4):(?{i64 div=4},1)">
      cute.copy %got, %Y_1 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)"> -> !cute.memref<f32, gmem, align<16>, "(32,4):(?{i64 div=4},1)">
      cute.barrier
      %next = cute.stage %s[%zero] : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      // expected-error @+1 {{CD-R10: reads %s as other trips than its own wrote it}}
      cute.copy %next, %got {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<16>, "(32,4):(4,1)"> -> !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    }
  }
}

// -----

// One that reads the stage behind its own is right.

builtin.module attributes {cute.arch = "sm_80"} {
  cute.kernel @right(%Y: !cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)">) attributes {threads = 32 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %three = arith.constant 3 : i32
    %end = arith.constant 2 : i32
    %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)">
    %x = arith.constant 1.0 : f32
    %tile = cute.alloc_fragment : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    cute.fill %tile, %x : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    %begin = arith.constant 0 : i32
    scf.for %k = %begin to %three step %one : i32 {
      %i = arith.remui %k, %three : i32
      %to = cute.stage %s[%i] : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      cute.copy %tile, %to {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
    }
    cute.barrier
    %got = cute.alloc_fragment : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    %first = cute.stage %s[%begin] : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
    cute.copy %first, %got {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<16>, "(32,4):(4,1)"> -> !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    scf.for %k = %zero to %end step %one : i32 {
      %Y_1 = cute.local_tile %Y, [32, 4], (%zero, %k) : !cute.memref<f32, gmem, align<16>, "(32,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(32,4):(?{i64 div=4},1)">
      cute.copy %got, %Y_1 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(32,4)", "(32,4):(1,32)"> -> !cute.memref<f32, gmem, align<16>, "(32,4):(?{i64 div=4},1)">
      cute.barrier
      %following = arith.addi %k, %one : i32
      %place = arith.remui %following, %three : i32
      %next = cute.stage %s[%place] : !cute.memref<f32, smem, align<16>, "(32,4,3):(4,1,128)"> -> !cute.memref<f32, smem, align<16>, "(32,4):(4,1)">
      cute.copy %next, %got {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<16>, "(32,4):(4,1)"> -> !cute.fragment<f32, "(32,4)", "(32,4):(1,32)">
    }
  }
}
