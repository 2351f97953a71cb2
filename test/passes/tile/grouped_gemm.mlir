// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a schedule="cluster = (2,1)"}' | filecheck %s --check-prefix=SPLIT

// BLESSED SPLIT
// SPLIT: builtin.module attributes {cute.arch = "sm_90a"} {
// SPLIT-NEXT:   cute.kernel @gemm(%A: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, %B: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">>, %D: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, %offsets: !cute.group<i32>) attributes {schedule = #cute.schedule<"warps = (8,1), cluster = (2,1), roles = specialized, scheduler = persistent, raster = 8, epilogue = tma">, threads = 256 : i32, cluster = 2 : i32} {
// SPLIT-NEXT:     %0 = cute.block_idx x
// SPLIT-NEXT:     %1 = arith.constant 2 : i32
// SPLIT-NEXT:     %2 = arith.divsi %0, %1 {cluster_uniform} : i32
// SPLIT-NEXT:     %3 = arith.remsi %0, %1 : i32
// SPLIT-NEXT:     %4 = cute.group_size %offsets : !cute.group<i32>
// SPLIT-NEXT:     %5 = arith.constant 1 : i32
// SPLIT-NEXT:     %6 = arith.subi %4, %5 overflow<nsw> : i32
// SPLIT-NEXT:     %7 = cute.member %offsets[%6] : !cute.group<i32>
// SPLIT-NEXT:     %8 = cute.grid_dim x
// SPLIT-NEXT:     %9 = arith.constant 2 : i32
// SPLIT-NEXT:     %10 = arith.divsi %8, %9 : i32
// SPLIT-NEXT:     scf.for %11 = %2 to %7 step %10 : i32 {
// SPLIT-NEXT:       %p = cute.find %11 in %offsets : !cute.group<i32>
// SPLIT-NEXT:       %12 = cute.member %offsets[%p] : !cute.group<i32>
// SPLIT-NEXT:       %13 = arith.subi %11, %12 overflow<nsw> : i32
// SPLIT-NEXT:       %14 = cute.member %D[%p] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
// SPLIT-NEXT:       %15 = cute.dim %14, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:       %16 = arith.constant 128 : i32
// SPLIT-NEXT:       %17 = arith.ceildivsi %15, %16 : i32
// SPLIT-NEXT:       %18 = arith.constant 2 : i32
// SPLIT-NEXT:       %19 = arith.ceildivsi %17, %18 : i32
// SPLIT-NEXT:       %20 = cute.dim %14, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:       %21 = arith.constant 128 : i32
// SPLIT-NEXT:       %22 = arith.ceildivsi %20, %21 : i32
// SPLIT-NEXT:       %23 = arith.muli %19, %22 overflow<nsw> : i32
// SPLIT-NEXT:       %24 = arith.constant 8 : i32
// SPLIT-NEXT:       %25 = arith.constant 1 : i32
// SPLIT-NEXT:       %26 = arith.muli %24, %22 overflow<nsw> : i32
// SPLIT-NEXT:       %27 = arith.divsi %13, %26 : i32
// SPLIT-NEXT:       %28 = arith.muli %27, %24 overflow<nsw> : i32
// SPLIT-NEXT:       %29 = arith.remsi %13, %26 : i32
// SPLIT-NEXT:       %30 = arith.remsi %19, %24 : i32
// SPLIT-NEXT:       %31 = arith.subi %19, %30 overflow<nsw> : i32
// SPLIT-NEXT:       %32 = arith.remsi %19, %24 : i32
// SPLIT-NEXT:       %33 = arith.maxsi %32, %25 : i32
// SPLIT-NEXT:       %34 = arith.cmpi sge, %28, %31 : i32
// SPLIT-NEXT:       %35 = arith.remsi %29, %33 : i32
// SPLIT-NEXT:       %36 = arith.remsi %29, %24 : i32
// SPLIT-NEXT:       %37 = arith.select %34, %35, %36 : i32
// SPLIT-NEXT:       %38 = arith.divsi %29, %33 : i32
// SPLIT-NEXT:       %39 = arith.divsi %29, %24 : i32
// SPLIT-NEXT:       %n = arith.select %34, %38, %39 : i32
// SPLIT-NEXT:       %40 = arith.addi %28, %37 overflow<nsw> : i32
// SPLIT-NEXT:       %41 = arith.constant 2 : i32
// SPLIT-NEXT:       %42 = arith.remsi %3, %41 : i32
// SPLIT-NEXT:       %43 = arith.constant 2 : i32
// SPLIT-NEXT:       %44 = arith.muli %40, %43 overflow<nsw> : i32
// SPLIT-NEXT:       %m = arith.addi %44, %42 overflow<nsw> {cluster_mode = 0 : i32} : i32
// SPLIT-NEXT:       %a = cute.member %A[%p] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
// SPLIT-NEXT:       %b = cute.member %B[%p] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">>
// SPLIT-NEXT:       %d = cute.member %D[%p] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
// SPLIT-NEXT:       %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
// SPLIT-NEXT:       %z = arith.constant 0.000000e+00 : f32
// SPLIT-NEXT:       cute.fill %acc, %z : !cute.fragment<f32, "(128,128)">
// SPLIT-NEXT:       %zero = arith.constant 0 : i32
// SPLIT-NEXT:       %one = arith.constant 1 : i32
// SPLIT-NEXT:       %c64 = arith.constant 64 : i32
// SPLIT-NEXT:       %K = cute.dim %a, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:       %t = arith.ceildivsi %K, %c64 : i32
// SPLIT-NEXT:       scf.for %k = %zero to %t step %one : i32 {
// SPLIT-NEXT:         %ta = cute.local_tile %a, [128, 64], (%m, %k) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         %tb = cute.local_tile %b, [64, 128], (%k, %n) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,128):(1,?{i64 div=8})">
// SPLIT-NEXT:         %tbt = cute.transpose %tb : !cute.memref<f16, gmem, align<16>, "(64,128):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute.gemm %ta, %tbt, %acc : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.fragment<f32, "(128,128)">
// SPLIT-NEXT:       }
// SPLIT-NEXT:       %h = cute.map (%x = %acc : !cute.fragment<f32, "(128,128)">) -> !cute.fragment<f16, "(128,128)"> {
// SPLIT-NEXT:         %y = arith.truncf %x : f32 to f16
// SPLIT-NEXT:         cute.yield %y : f16
// SPLIT-NEXT:       }
// SPLIT-NEXT:       %td = cute.local_tile %d, [128, 128], (%m, %n) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,128):(?{i64 div=8},1)">
// SPLIT-NEXT:       cute.copy %h, %td : !cute.fragment<f16, "(128,128)"> -> !cute.memref<f16, gmem, align<16>, "(128,128):(?{i64 div=8},1)">
// SPLIT-NEXT:     } {work_items}
// SPLIT-NEXT:   }
// SPLIT-NEXT:   func.func @launch(%A: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, %B: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">>, %D: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>) attributes {cute.written = array<i64: 2>} {
// SPLIT-NEXT:     %0 = arith.constant 1 : i32
// SPLIT-NEXT:     %1 = cute.tile_offsets %D, [128, 128] cluster(2, 1) : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
// SPLIT-NEXT:     %2 = cute.group_size %1 : !cute.group<i32>
// SPLIT-NEXT:     %3 = arith.constant 1 : i32
// SPLIT-NEXT:     %4 = arith.subi %2, %3 overflow<nsw> : i32
// SPLIT-NEXT:     %5 = cute.member %1[%4] : !cute.group<i32>
// SPLIT-NEXT:     %6 = arith.constant 2 : i32
// SPLIT-NEXT:     %7 = cute.sm_count : i32
// SPLIT-NEXT:     %8 = arith.divsi %7, %6 : i32
// SPLIT-NEXT:     %9 = arith.constant 1 : i32
// SPLIT-NEXT:     %10 = arith.maxsi %8, %9 : i32
// SPLIT-NEXT:     %11 = arith.minsi %5, %10 : i32
// SPLIT-NEXT:     %12 = arith.muli %11, %6 overflow<nsw> : i32
// SPLIT-NEXT:     cute.launch @gemm grid(%12, %0, %0) cluster(2, 1, 1) args(%A, %B, %D, %1) {threads = 256 : i32} : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">>, !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, !cute.group<i32>
// SPLIT-NEXT:     func.return
// SPLIT-NEXT:   }
// SPLIT-NEXT: }
// END BLESSED

cute.kernel @gemm(%A: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, %B: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">>, %D: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>) {
  %p, %m, %n = cute.tile_index %D, [128, 128] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
  %a = cute.member %A[%p] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
  %b = cute.member %B[%p] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">>
  %d = cute.member %D[%p] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
  %z = arith.constant 0.0 : f32
  cute.fill %acc, %z : !cute.fragment<f32, "(128,128)">
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %K = cute.dim %a, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %t = arith.ceildivsi %K, %c64 : i32
  scf.for %k = %zero to %t step %one : i32 {
    %ta = cute.local_tile %a, [128, 64], (%m, %k) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
    %tb = cute.local_tile %b, [64, 128], (%k, %n) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,128):(1,?{i64 div=8})">
    %tbt = cute.transpose %tb : !cute.memref<f16, gmem, align<16>, "(64,128):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
    cute.gemm %ta, %tbt, %acc : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">, !cute.fragment<f32, "(128,128)">
  }
  %h = cute.map (%x = %acc : !cute.fragment<f32, "(128,128)">) -> !cute.fragment<f16, "(128,128)"> {
    %y = arith.truncf %x : f32 to f16
    cute.yield %y : f16
  }
  %td = cute.local_tile %d, [128, 128], (%m, %n) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,128):(?{i64 div=8},1)">
  cute.copy %h, %td : !cute.fragment<f16, "(128,128)"> -> !cute.memref<f16, gmem, align<16>, "(128,128):(?{i64 div=8},1)">
}
