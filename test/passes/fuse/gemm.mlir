// RUN: cute-opt %s -p 'cute-fuse' | filecheck %s

// The scaling and the rounding of the accumulator become one map.

// BLESSED CHECK
// CHECK: builtin.module {
// CHECK-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"tile = (64,64,32), stages = 3">} {
// CHECK-NEXT:     %0, %1 = cute.tile_index %D, [64, 64] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %2 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
// CHECK-NEXT:     %3 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     cute.fill %2, %3 : !cute.fragment<f32, "(64,64)">
// CHECK-NEXT:     %4 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %5 = arith.constant 32 : i32
// CHECK-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// CHECK-NEXT:     %7 = arith.constant 0 : i32
// CHECK-NEXT:     %8 = arith.constant 1 : i32
// CHECK-NEXT:     scf.for %9 = %7 to %6 step %8 : i32 {
// CHECK-NEXT:       %A_1 = cute.local_tile %A, [64, 32], (%0, %9) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
// CHECK-NEXT:       %10 = arith.constant 64 : i32
// CHECK-NEXT:       %11 = arith.muli %0, %10 : i32
// CHECK-NEXT:       %12 = arith.constant 32 : i32
// CHECK-NEXT:       %13 = arith.muli %9, %12 : i32
// CHECK-NEXT:       %B_1 = cute.local_tile %B, [32, 64], (%9, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)">
// CHECK-NEXT:       %14 = arith.constant 32 : i32
// CHECK-NEXT:       %15 = arith.muli %9, %14 : i32
// CHECK-NEXT:       %16 = arith.constant 64 : i32
// CHECK-NEXT:       %17 = arith.muli %1, %16 : i32
// CHECK-NEXT:       %18 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">
// CHECK-NEXT:       cute.gemm %A_1, %18, %2 : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">, !cute.fragment<f32, "(64,64)">
// CHECK-NEXT:     }
// CHECK-NEXT:     %19 = cute.map (%20 = %2 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f16, "(64,64)"> {
// CHECK-NEXT:       %21 = arith.mulf %20, %alpha : f32
// CHECK-NEXT:       %22 = arith.truncf %21 : f32 to f16
// CHECK-NEXT:       cute.yield %22 : f16
// CHECK-NEXT:     }
// CHECK-NEXT:     %D_1 = cute.local_tile %D, [64, 64], (%0, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// CHECK-NEXT:     %23 = arith.constant 64 : i32
// CHECK-NEXT:     %24 = arith.muli %0, %23 : i32
// CHECK-NEXT:     %25 = arith.constant 64 : i32
// CHECK-NEXT:     %26 = arith.muli %1, %25 : i32
// CHECK-NEXT:     cute.copy %19, %D_1 : !cute.fragment<f16, "(64,64)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// CHECK-NEXT:   }
// CHECK-NEXT: }
// END BLESSED

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
