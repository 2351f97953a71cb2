// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a}' | filecheck %s --check-prefix=SPLIT

// BLESSED SPLIT
// SPLIT: builtin.module attributes {cute.arch = "sm_90a"} {
// SPLIT-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"warps = (8,1), cluster = (2,1), stages = 4, roles = specialized, registers = (40,232), scheduler = persistent, raster = 8, epilogue = tma">, threads = 256 : i32, cluster = 2 : i32} {
// SPLIT-NEXT:     %0 = cute.block_idx x
// SPLIT-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:     %2 = arith.constant 128 : i32
// SPLIT-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// SPLIT-NEXT:     %4 = arith.constant 2 : i32
// SPLIT-NEXT:     %5 = arith.ceildivsi %3, %4 : i32
// SPLIT-NEXT:     %6 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:     %7 = arith.constant 256 : i32
// SPLIT-NEXT:     %8 = arith.ceildivsi %6, %7 : i32
// SPLIT-NEXT:     %9 = arith.constant 2 : i32
// SPLIT-NEXT:     %10 = arith.divsi %0, %9 {cluster_uniform} : i32
// SPLIT-NEXT:     %11 = arith.remsi %0, %9 : i32
// SPLIT-NEXT:     %12 = arith.muli %5, %8 : i32
// SPLIT-NEXT:     %13 = cute.grid_dim x
// SPLIT-NEXT:     %14 = arith.constant 2 : i32
// SPLIT-NEXT:     %15 = arith.divsi %13, %14 : i32
// SPLIT-NEXT:     scf.for %16 = %10 to %12 step %15 : i32 {
// SPLIT-NEXT:       %17 = arith.muli %5, %8 : i32
// SPLIT-NEXT:       %18 = arith.constant 8 : i32
// SPLIT-NEXT:       %19 = arith.muli %18, %8 : i32
// SPLIT-NEXT:       %20 = arith.divsi %16, %19 : i32
// SPLIT-NEXT:       %21 = arith.muli %20, %18 : i32
// SPLIT-NEXT:       %22 = arith.subi %5, %21 : i32
// SPLIT-NEXT:       %23 = arith.minsi %22, %18 : i32
// SPLIT-NEXT:       %24 = arith.remsi %16, %19 : i32
// SPLIT-NEXT:       %25 = arith.remsi %24, %23 : i32
// SPLIT-NEXT:       %26 = arith.addi %21, %25 : i32
// SPLIT-NEXT:       %27 = arith.divsi %24, %23 : i32
// SPLIT-NEXT:       %28 = arith.constant 2 : i32
// SPLIT-NEXT:       %29 = arith.remsi %11, %28 : i32
// SPLIT-NEXT:       %30 = arith.constant 2 : i32
// SPLIT-NEXT:       %31 = arith.muli %26, %30 : i32
// SPLIT-NEXT:       %32 = arith.addi %31, %29 {cluster_mode = 0 : i32} : i32
// SPLIT-NEXT:       %33 = cute.alloc_fragment : !cute.fragment<f32, "(128,256)">
// SPLIT-NEXT:       %34 = arith.constant 0.000000e+00 : f32
// SPLIT-NEXT:       cute.fill %33, %34 : !cute.fragment<f32, "(128,256)">
// SPLIT-NEXT:       %35 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:       %36 = arith.constant 64 : i32
// SPLIT-NEXT:       %37 = arith.ceildivsi %35, %36 : i32
// SPLIT-NEXT:       %38 = arith.constant 0 : i32
// SPLIT-NEXT:       %39 = arith.constant 1 : i32
// SPLIT-NEXT:       scf.for %40 = %38 to %37 step %39 : i32 {
// SPLIT-NEXT:         %A_1 = cute.local_tile %A, [128, 64], (%32, %40) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         %41 = arith.constant 128 : i32
// SPLIT-NEXT:         %42 = arith.muli %32, %41 : i32
// SPLIT-NEXT:         %43 = arith.constant 64 : i32
// SPLIT-NEXT:         %44 = arith.muli %40, %43 : i32
// SPLIT-NEXT:         %B_1 = cute.local_tile %B, [64, 256], (%40, %27) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})">
// SPLIT-NEXT:         %45 = arith.constant 64 : i32
// SPLIT-NEXT:         %46 = arith.muli %40, %45 : i32
// SPLIT-NEXT:         %47 = arith.constant 256 : i32
// SPLIT-NEXT:         %48 = arith.muli %27, %47 : i32
// SPLIT-NEXT:         %49 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute.gemm %A_1, %49, %33 : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)">, !cute.fragment<f32, "(128,256)">
// SPLIT-NEXT:       }
// SPLIT-NEXT:       %50 = cute.map (%51 = %33 : !cute.fragment<f32, "(128,256)">) -> !cute.fragment<f16, "(128,256)"> {
// SPLIT-NEXT:         %52 = arith.mulf %51, %alpha : f32
// SPLIT-NEXT:         %53 = arith.truncf %52 : f32 to f16
// SPLIT-NEXT:         cute.yield %53 : f16
// SPLIT-NEXT:       }
// SPLIT-NEXT:       %D_1 = cute.local_tile %D, [128, 256], (%32, %27) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)">
// SPLIT-NEXT:       %54 = arith.constant 128 : i32
// SPLIT-NEXT:       %55 = arith.muli %32, %54 : i32
// SPLIT-NEXT:       %56 = arith.constant 256 : i32
// SPLIT-NEXT:       %57 = arith.muli %27, %56 : i32
// SPLIT-NEXT:       cute.copy %50, %D_1 : !cute.fragment<f16, "(128,256)"> -> !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)">
// SPLIT-NEXT:     }
// SPLIT-NEXT:   }
// SPLIT-NEXT:   func.func @launch(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {cute.written = array<i64: 2>} {
// SPLIT-NEXT:     %0 = arith.constant 1 : i32
// SPLIT-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:     %2 = arith.constant 128 : i32
// SPLIT-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// SPLIT-NEXT:     %4 = arith.constant 2 : i32
// SPLIT-NEXT:     %5 = arith.ceildivsi %3, %4 : i32
// SPLIT-NEXT:     %6 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:     %7 = arith.constant 256 : i32
// SPLIT-NEXT:     %8 = arith.ceildivsi %6, %7 : i32
// SPLIT-NEXT:     %9 = arith.muli %5, %8 : i32
// SPLIT-NEXT:     %10 = arith.constant 2 : i32
// SPLIT-NEXT:     %11 = cute.sm_count : i32
// SPLIT-NEXT:     %12 = arith.divsi %11, %10 : i32
// SPLIT-NEXT:     %13 = arith.constant 1 : i32
// SPLIT-NEXT:     %14 = arith.maxsi %12, %13 : i32
// SPLIT-NEXT:     %15 = arith.minsi %9, %14 : i32
// SPLIT-NEXT:     %16 = arith.muli %15, %10 : i32
// SPLIT-NEXT:     cute.launch @gemm grid(%16, %0, %0) cluster(2, 1, 1) args(%A, %B, %D, %alpha) {threads = 256 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32
// SPLIT-NEXT:     func.return
// SPLIT-NEXT:   }
// SPLIT-NEXT: }
// END BLESSED

cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"cluster = (2,1)">} {
  %0, %1 = cute.tile_index %D, [128, 256] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %2 = cute.alloc_fragment : !cute.fragment<f32, "(128,256)">
  %3 = arith.constant 0.000000e+00 : f32
  cute.fill %2, %3 : !cute.fragment<f32, "(128,256)">
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
    %B_1 = cute.local_tile %B, [64, 256], (%9, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})">
    %14 = arith.constant 64 : i32
    %15 = arith.muli %9, %14 : i32
    %16 = arith.constant 256 : i32
    %17 = arith.muli %1, %16 : i32
    %18 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)">
    cute.gemm %A_1, %18, %2 : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)">, !cute.fragment<f32, "(128,256)">
  }
  %19 = cute.map (%20 = %2 : !cute.fragment<f32, "(128,256)">) -> !cute.fragment<f16, "(128,256)"> {
    %21 = arith.mulf %20, %alpha : f32
    %22 = arith.truncf %21 : f32 to f16
    cute.yield %22 : f16
  }
  %D_1 = cute.local_tile %D, [128, 256], (%0, %1) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)">
  %23 = arith.constant 128 : i32
  %24 = arith.muli %0, %23 : i32
  %25 = arith.constant 256 : i32
  %26 = arith.muli %1, %25 : i32
  cute.copy %19, %D_1 : !cute.fragment<f16, "(128,256)"> -> !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)">
}
