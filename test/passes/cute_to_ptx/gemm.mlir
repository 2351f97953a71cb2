// RUN: cute-opt %s -p 'cute-to-ptx{arch=sm_80}' -t ptx | filecheck %s --check-prefix=PTX
// RUN: cute-opt %s -p 'cute-fuse,cute-tile{arch=sm_80},cute-partition{arch=sm_80},cute-assign-warp-roles,cute-schedule-loops,cute-synchronize,convert-to-ptx{arch=sm_80}' -t ptx | filecheck %s --check-prefix=PTX
// RUN: cute-opt %s -p 'cute-to-ptx{arch=sm_80 schedule="stages = 2"}' -t ptx | filecheck %s --check-prefix=SMALL

// PTX: .target sm_80
// PTX: .entry gemm(
// PTX: cp.async.cg.shared.global
// PTX: cp.async.commit_group
// PTX: cp.async.wait_group
// PTX: bar.sync
// PTX: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// PTX: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// SMALL: .target sm_80
// SMALL: cp.async.cg.shared.global

cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"tile = (64,64,32), stages = 3">} {
  %0, %1 = cute.tile_index %D, [64, 64] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %2 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  %3 = arith.constant 0.000000e+00 : f32
  cute.fill %2, %3 : !cute.fragment<f32, "(64,64)">
  %4 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %5 = arith.constant 32 : i32
  %6 = arith.ceildivsi %4, %5 : i32
  %7 = arith.constant 0 : i32
  %8 = arith.constant 1 : i32
  scf.for %9 = %7 to %6 step %8 : i32 {
    %A_1 = cute.local_tile %A, [64, 32], (%0, %9) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
    %10 = arith.constant 64 : i32
    %11 = arith.muli %0, %10 : i32
    %12 = arith.constant 32 : i32
    %13 = arith.muli %9, %12 : i32
    %B_1 = cute.local_tile %B, [32, 64], (%9, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)">
    %14 = arith.constant 32 : i32
    %15 = arith.muli %9, %14 : i32
    %16 = arith.constant 64 : i32
    %17 = arith.muli %1, %16 : i32
    %18 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">
    cute.gemm %A_1, %18, %2 : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">, !cute.fragment<f32, "(64,64)">
  }
  %19 = cute.map (%20 = %2 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f32, "(64,64)"> {
    %21 = arith.mulf %20, %alpha : f32
    cute.yield %21 : f32
  }
  %22 = cute.map (%23 = %19 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f16, "(64,64)"> {
    %24 = arith.truncf %23 : f32 to f16
    cute.yield %24 : f16
  }
  %D_1 = cute.local_tile %D, [64, 64], (%0, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
  %25 = arith.constant 64 : i32
  %26 = arith.muli %0, %25 : i32
  %27 = arith.constant 64 : i32
  %28 = arith.muli %1, %27 : i32
  cute.copy %22, %D_1 : !cute.fragment<f16, "(64,64)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
}
