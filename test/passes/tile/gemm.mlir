// RUN: cute-opt %s -p 'cute-tile{arch=sm_80}' | filecheck %s

// Work items become block indices, and the module gets its host part.

// BLESSED CHECK
// CHECK: builtin.module attributes {cute.arch = "sm_80"} {
// CHECK-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"tile = (64,64,32), warps = (2,2), stages = 3, roles = uniform, scheduler = single, raster = 8">, threads = 128 : i32} {
// CHECK-NEXT:     %0 = cute.block_idx x
// CHECK-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %2 = arith.constant 64 : i32
// CHECK-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// CHECK-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %5 = arith.constant 64 : i32
// CHECK-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// CHECK-NEXT:     %7 = arith.muli %3, %6 overflow<nsw> : i32
// CHECK-NEXT:     %8 = arith.constant 8 : i32
// CHECK-NEXT:     %9 = arith.constant 1 : i32
// CHECK-NEXT:     %10 = arith.muli %8, %6 overflow<nsw> : i32
// CHECK-NEXT:     %11 = arith.divsi %0, %10 : i32
// CHECK-NEXT:     %12 = arith.muli %11, %8 overflow<nsw> : i32
// CHECK-NEXT:     %13 = arith.remsi %0, %10 : i32
// CHECK-NEXT:     %14 = arith.remsi %3, %8 : i32
// CHECK-NEXT:     %15 = arith.subi %3, %14 overflow<nsw> : i32
// CHECK-NEXT:     %16 = arith.remsi %3, %8 : i32
// CHECK-NEXT:     %17 = arith.maxsi %16, %9 : i32
// CHECK-NEXT:     %18 = arith.cmpi sge, %12, %15 : i32
// CHECK-NEXT:     %19 = arith.remsi %13, %17 : i32
// CHECK-NEXT:     %20 = arith.remsi %13, %8 : i32
// CHECK-NEXT:     %21 = arith.select %18, %19, %20 : i32
// CHECK-NEXT:     %22 = arith.divsi %13, %17 : i32
// CHECK-NEXT:     %23 = arith.divsi %13, %8 : i32
// CHECK-NEXT:     %24 = arith.select %18, %22, %23 : i32
// CHECK-NEXT:     %25 = arith.addi %12, %21 overflow<nsw> : i32
// CHECK-NEXT:     %26 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
// CHECK-NEXT:     %27 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     cute.fill %26, %27 : !cute.fragment<f32, "(64,64)">
// CHECK-NEXT:     %28 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %29 = arith.constant 32 : i32
// CHECK-NEXT:     %30 = arith.ceildivsi %28, %29 : i32
// CHECK-NEXT:     %31 = arith.constant 0 : i32
// CHECK-NEXT:     %32 = arith.constant 1 : i32
// CHECK-NEXT:     scf.for %33 = %31 to %30 step %32 : i32 {
// CHECK-NEXT:       %A_1 = cute.local_tile %A, [64, 32], (%25, %33) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
// CHECK-NEXT:       %34 = arith.constant 64 : i32
// CHECK-NEXT:       %35 = arith.muli %25, %34 : i32
// CHECK-NEXT:       %36 = arith.constant 32 : i32
// CHECK-NEXT:       %37 = arith.muli %33, %36 : i32
// CHECK-NEXT:       %B_1 = cute.local_tile %B, [32, 64], (%33, %24) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)">
// CHECK-NEXT:       %38 = arith.constant 32 : i32
// CHECK-NEXT:       %39 = arith.muli %33, %38 : i32
// CHECK-NEXT:       %40 = arith.constant 64 : i32
// CHECK-NEXT:       %41 = arith.muli %24, %40 : i32
// CHECK-NEXT:       %42 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">
// CHECK-NEXT:       cute.gemm %A_1, %42, %26 : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">, !cute.fragment<f32, "(64,64)">
// CHECK-NEXT:     }
// CHECK-NEXT:     %43 = cute.map (%44 = %26 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f16, "(64,64)"> {
// CHECK-NEXT:       %45 = arith.mulf %44, %alpha : f32
// CHECK-NEXT:       %46 = arith.truncf %45 : f32 to f16
// CHECK-NEXT:       cute.yield %46 : f16
// CHECK-NEXT:     }
// CHECK-NEXT:     %D_1 = cute.local_tile %D, [64, 64], (%25, %24) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// CHECK-NEXT:     %47 = arith.constant 64 : i32
// CHECK-NEXT:     %48 = arith.muli %25, %47 : i32
// CHECK-NEXT:     %49 = arith.constant 64 : i32
// CHECK-NEXT:     %50 = arith.muli %24, %49 : i32
// CHECK-NEXT:     cute.copy %43, %D_1 : !cute.fragment<f16, "(64,64)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @launch(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {cute.written = array<i64: 2>} {
// CHECK-NEXT:     %0 = arith.constant 1 : i32
// CHECK-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %2 = arith.constant 64 : i32
// CHECK-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// CHECK-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %5 = arith.constant 64 : i32
// CHECK-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// CHECK-NEXT:     %7 = arith.muli %3, %6 overflow<nsw> : i32
// CHECK-NEXT:     cute.launch @gemm grid(%7, %0, %0) args(%A, %B, %D, %alpha) {threads = 128 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32
// CHECK-NEXT:     func.return
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
  %19 = cute.map (%20 = %2 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f16, "(64,64)"> {
    %21 = arith.mulf %20, %alpha : f32
    %22 = arith.truncf %21 : f32 to f16
    cute.yield %22 : f16
  }
  %D_1 = cute.local_tile %D, [64, 64], (%0, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
  %23 = arith.constant 64 : i32
  %24 = arith.muli %0, %23 : i32
  %25 = arith.constant 64 : i32
  %26 = arith.muli %1, %25 : i32
  cute.copy %19, %D_1 : !cute.fragment<f16, "(64,64)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
}
