// RUN: cute-opt %s -p 'cute-partition{arch=sm_80}' | filecheck %s

// Tiles get memory spaces, swizzled shared-memory layouts and MMA fragments.

// BLESSED CHECK
// CHECK: builtin.module {
// CHECK-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"tile = (64,64,32), warps = (2,2), stages = 3, roles = uniform, raster = 8, epilogue = direct">, threads = 128 : i32} {
// CHECK-NEXT:     %sA = cute.alloc_smem : !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)">
// CHECK-NEXT:     %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,32):(1,64)">
// CHECK-NEXT:     %0 = cute.block_idx x
// CHECK-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %2 = arith.constant 64 : i32
// CHECK-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// CHECK-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %5 = arith.constant 64 : i32
// CHECK-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// CHECK-NEXT:     %7 = arith.muli %3, %6 : i32
// CHECK-NEXT:     %8 = arith.constant 8 : i32
// CHECK-NEXT:     %9 = arith.muli %8, %6 : i32
// CHECK-NEXT:     %10 = arith.divsi %0, %9 : i32
// CHECK-NEXT:     %11 = arith.muli %10, %8 : i32
// CHECK-NEXT:     %12 = arith.subi %3, %11 : i32
// CHECK-NEXT:     %13 = arith.minsi %12, %8 : i32
// CHECK-NEXT:     %14 = arith.remsi %0, %9 : i32
// CHECK-NEXT:     %15 = arith.remsi %14, %13 : i32
// CHECK-NEXT:     %16 = arith.addi %11, %15 : i32
// CHECK-NEXT:     %17 = arith.divsi %14, %13 : i32
// CHECK-NEXT:     %18 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)", "((4,8,2,2),((2,2),2,4)):((128,1,32,2048),((64,8),16,512))">
// CHECK-NEXT:     %19 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     cute.fill %18, %19 : !cute.fragment<f32, "(64,64)", "((4,8,2,2),((2,2),2,4)):((128,1,32,2048),((64,8),16,512))">
// CHECK-NEXT:     %20 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %21 = arith.constant 32 : i32
// CHECK-NEXT:     %22 = arith.ceildivsi %20, %21 : i32
// CHECK-NEXT:     %23 = arith.constant 0 : i32
// CHECK-NEXT:     %24 = arith.constant 1 : i32
// CHECK-NEXT:     scf.for %25 = %23 to %22 step %24 : i32 {
// CHECK-NEXT:       %A_1 = cute.local_tile %A, [64, 32], (%16, %25) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
// CHECK-NEXT:       %26 = arith.constant 64 : i32
// CHECK-NEXT:       %27 = arith.muli %16, %26 : i32
// CHECK-NEXT:       %28 = arith.constant 32 : i32
// CHECK-NEXT:       %29 = arith.muli %25, %28 : i32
// CHECK-NEXT:       %B_1 = cute.local_tile %B, [32, 64], (%25, %17) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)">
// CHECK-NEXT:       %30 = arith.constant 32 : i32
// CHECK-NEXT:       %31 = arith.muli %25, %30 : i32
// CHECK-NEXT:       %32 = arith.constant 64 : i32
// CHECK-NEXT:       %33 = arith.muli %17, %32 : i32
// CHECK-NEXT:       %34 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">
// CHECK-NEXT:       cute.copy %A_1, %sA {atom = !cute_nvgpu.atom.simt_async_copy<f16, cache = global, 128 b>, tiled = #cute.tiled_copy<"((4,32),8):((256,1),32)", tiler = "(32,32)", order = "(1,0)">} : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)">
// CHECK-NEXT:       cute.copy %34, %s {atom = !cute_nvgpu.atom.simt_async_copy<f16, cache = global, 128 b>, tiled = #cute.tiled_copy<"((8,16),8):((8,64),1)", tiler = "(64,16)">} : !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,32):(1,64)">
// CHECK-NEXT:       %35 = cute.subview %sA, (0, 0) : !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)"> -> !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,16):(32,1)">
// CHECK-NEXT:       %36 = cute.alloc_fragment : !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2,2),2,1)):((128,1,32,0),((64,8,512),16,0))">
// CHECK-NEXT:       cute.copy %35, %36 {atom = !cute_nvgpu.atom.ldsm<val_type = f16, num_matrices = 4, n>} : !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,16):(32,1)"> -> !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2,2),2,1)):((128,1,32,0),((64,8,512),16,0))">
// CHECK-NEXT:       %37 = cute.subview %s, (0, 0) : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,32):(1,64)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,16):(1,64)">
// CHECK-NEXT:       %38 = cute.alloc_fragment : !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2),4,1)):((128,1,0,32),((64,512),8,0))">
// CHECK-NEXT:       cute.copy %37, %38 {atom = !cute_nvgpu.atom.ldsm<val_type = f16, num_matrices = 4, t>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,16):(1,64)"> -> !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2),4,1)):((128,1,0,32),((64,512),8,0))">
// CHECK-NEXT:       cute.gemm %36, %38, %18 {atom = !cute_nvgpu.sm80.mma<16x8x16, elem_type = (f16, f16, f32)>} : !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2,2),2,1)):((128,1,32,0),((64,8,512),16,0))">, !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2),4,1)):((128,1,0,32),((64,512),8,0))">, !cute.fragment<f32, "(64,64)", "((4,8,2,2),((2,2),2,4)):((128,1,32,2048),((64,8),16,512))">
// CHECK-NEXT:       %39 = cute.subview %sA, (0, 16) : !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)"> -> !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,16):(32,1)">
// CHECK-NEXT:       %40 = cute.alloc_fragment : !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2,2),2,1)):((128,1,32,0),((64,8,512),16,0))">
// CHECK-NEXT:       cute.copy %39, %40 {atom = !cute_nvgpu.atom.ldsm<val_type = f16, num_matrices = 4, n>} : !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,16):(32,1)"> -> !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2,2),2,1)):((128,1,32,0),((64,8,512),16,0))">
// CHECK-NEXT:       %41 = cute.subview %s, (0, 16) : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,32):(1,64)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,16):(1,64)">
// CHECK-NEXT:       %42 = cute.alloc_fragment : !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2),4,1)):((128,1,0,32),((64,512),8,0))">
// CHECK-NEXT:       cute.copy %41, %42 {atom = !cute_nvgpu.atom.ldsm<val_type = f16, num_matrices = 4, t>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,16):(1,64)"> -> !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2),4,1)):((128,1,0,32),((64,512),8,0))">
// CHECK-NEXT:       cute.gemm %40, %42, %18 {atom = !cute_nvgpu.sm80.mma<16x8x16, elem_type = (f16, f16, f32)>} : !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2,2),2,1)):((128,1,32,0),((64,8,512),16,0))">, !cute.fragment<f16, "(64,16)", "((4,8,2,2),((2,2),4,1)):((128,1,0,32),((64,512),8,0))">, !cute.fragment<f32, "(64,64)", "((4,8,2,2),((2,2),2,4)):((128,1,32,2048),((64,8),16,512))">
// CHECK-NEXT:     }
// CHECK-NEXT:     %43 = cute.map (%44 = %18 : !cute.fragment<f32, "(64,64)", "((4,8,2,2),((2,2),2,4)):((128,1,32,2048),((64,8),16,512))">) -> !cute.fragment<f16, "(64,64)", "((4,8,2,2),((2,2),2,4)):((128,1,32,2048),((64,8),16,512))"> {
// CHECK-NEXT:       %45 = arith.mulf %44, %alpha : f32
// CHECK-NEXT:       %46 = arith.truncf %45 : f32 to f16
// CHECK-NEXT:       cute.yield %46 : f16
// CHECK-NEXT:     }
// CHECK-NEXT:     %D_1 = cute.local_tile %D, [64, 64], (%16, %17) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// CHECK-NEXT:     %47 = arith.constant 64 : i32
// CHECK-NEXT:     %48 = arith.muli %16, %47 : i32
// CHECK-NEXT:     %49 = arith.constant 64 : i32
// CHECK-NEXT:     %50 = arith.muli %17, %49 : i32
// CHECK-NEXT:     cute.copy %43, %D_1 {atom = !cute_nvgpu.atom.universal_copy<f16, 128 b>} : !cute.fragment<f16, "(64,64)", "((4,8,2,2),((2,2),2,4)):((128,1,32,2048),((64,8),16,512))"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @launch(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {cute.written = array<i64: 2>} {
// CHECK-NEXT:     %0 = arith.constant 1 : i32
// CHECK-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %2 = arith.constant 64 : i32
// CHECK-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// CHECK-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT:     %5 = arith.constant 64 : i32
// CHECK-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// CHECK-NEXT:     %7 = arith.muli %3, %6 : i32
// CHECK-NEXT:     cute.launch @gemm grid(%7, %0, %0) args(%A, %B, %D, %alpha) {threads = 128 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32
// CHECK-NEXT:     func.return
// CHECK-NEXT:   }
// CHECK-NEXT: }
// END BLESSED

cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"tile = (64,64,32), warps = (2,2), stages = 3, roles = uniform, raster = 8, epilogue = direct">, threads = 128 : i32} {
  %0 = cute.block_idx x
  %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %2 = arith.constant 64 : i32
  %3 = arith.ceildivsi %1, %2 : i32
  %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %5 = arith.constant 64 : i32
  %6 = arith.ceildivsi %4, %5 : i32
  %7 = arith.muli %3, %6 : i32
  %8 = arith.constant 8 : i32
  %9 = arith.muli %8, %6 : i32
  %10 = arith.divsi %0, %9 : i32
  %11 = arith.muli %10, %8 : i32
  %12 = arith.subi %3, %11 : i32
  %13 = arith.minsi %12, %8 : i32
  %14 = arith.remsi %0, %9 : i32
  %15 = arith.remsi %14, %13 : i32
  %16 = arith.addi %11, %15 : i32
  %17 = arith.divsi %14, %13 : i32
  %18 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  %19 = arith.constant 0.000000e+00 : f32
  cute.fill %18, %19 : !cute.fragment<f32, "(64,64)">
  %20 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %21 = arith.constant 32 : i32
  %22 = arith.ceildivsi %20, %21 : i32
  %23 = arith.constant 0 : i32
  %24 = arith.constant 1 : i32
  scf.for %25 = %23 to %22 step %24 : i32 {
    %A_1 = cute.local_tile %A, [64, 32], (%16, %25) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
    %26 = arith.constant 64 : i32
    %27 = arith.muli %16, %26 : i32
    %28 = arith.constant 32 : i32
    %29 = arith.muli %25, %28 : i32
    %B_1 = cute.local_tile %B, [32, 64], (%25, %17) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)">
    %30 = arith.constant 32 : i32
    %31 = arith.muli %25, %30 : i32
    %32 = arith.constant 64 : i32
    %33 = arith.muli %17, %32 : i32
    %34 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">
    cute.gemm %A_1, %34, %18 : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">, !cute.fragment<f32, "(64,64)">
  }
  %35 = cute.map (%36 = %18 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f16, "(64,64)"> {
    %37 = arith.mulf %36, %alpha : f32
    %38 = arith.truncf %37 : f32 to f16
    cute.yield %38 : f16
  }
  %D_1 = cute.local_tile %D, [64, 64], (%16, %17) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
  %39 = arith.constant 64 : i32
  %40 = arith.muli %16, %39 : i32
  %41 = arith.constant 64 : i32
  %42 = arith.muli %17, %41 : i32
  cute.copy %35, %D_1 : !cute.fragment<f16, "(64,64)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
}
func.func @launch(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {cute.written = array<i64: 2>} {
  %0 = arith.constant 1 : i32
  %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %2 = arith.constant 64 : i32
  %3 = arith.ceildivsi %1, %2 : i32
  %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %5 = arith.constant 64 : i32
  %6 = arith.ceildivsi %4, %5 : i32
  %7 = arith.muli %3, %6 : i32
  cute.launch @gemm grid(%7, %0, %0) args(%A, %B, %D, %alpha) {threads = 128 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32
  func.return
}
