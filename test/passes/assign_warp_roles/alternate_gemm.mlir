// Two teams of four warps behind the loading warp, and a block of threads for all of them.
// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a},cute-partition{arch=sm_90a},cute-assign-warp-roles' | filecheck %s
// CHECK: threads = 384 : i32
// CHECK-SAME: roles = {load = array<i64: 0, 1, 40>, main = array<i64: 4, 8, 232, 2>}
// CHECK: cute.copy {{.*}} {role = "load", atom = !cute_nvgpu.atom.tma_load<f16>}
// CHECK: cute.gemm {{.*}} {role = "main"
// CHECK: cute.launch @gemm {{.*}} {threads = 384 : i32}

cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"tile = (128,128,64), cluster = (2,1), roles = alternate">} {
  %0, %1 = cute.tile_index %D, [128, 128] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %2 = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  %3 = arith.constant 0.000000e+00 : f32
  cute.fill %2, %3 : !cute.fragment<f32, "(128,128)">
  %4 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %5 = arith.constant 64 : i32
  %6 = arith.ceildivsi %4, %5 : i32
  %7 = arith.constant 0 : i32
  %8 = arith.constant 1 : i32
  scf.for %9 = %7 to %6 step %8 : i32 {
    %A_1 = cute.local_tile %A, [128, 64], (%0, %9) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
    %10 = arith.constant 128 : i32
    %11 = arith.muli %0, %10 : i32
    %12 = arith.constant 64 : i32
    %13 = arith.muli %9, %12 : i32
    %B_1 = cute.local_tile %B, [64, 128], (%9, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,128):(1,?{i64 div=8})">
    %14 = arith.constant 64 : i32
    %15 = arith.muli %9, %14 : i32
    %16 = arith.constant 128 : i32
    %17 = arith.muli %1, %16 : i32
    %18 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(64,128):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
    cute.gemm %A_1, %18, %2 : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.fragment<f32, "(128,128)">
  }
  %19 = cute.map (%20 = %2 : !cute.fragment<f32, "(128,128)">) -> !cute.fragment<f16, "(128,128)"> {
    %21 = arith.mulf %20, %alpha : f32
    %22 = arith.truncf %21 : f32 to f16
    cute.yield %22 : f16
  }
  %D_1 = cute.local_tile %D, [128, 128], (%0, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,128):(?{i64 div=8},1)">
  %23 = arith.constant 128 : i32
  %24 = arith.muli %0, %23 : i32
  %25 = arith.constant 128 : i32
  %26 = arith.muli %1, %25 : i32
  cute.copy %19, %D_1 : !cute.fragment<f16, "(128,128)"> -> !cute.memref<f16, gmem, align<16>, "(128,128):(?{i64 div=8},1)">
}
