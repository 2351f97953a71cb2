// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a},cute-partition{arch=sm_90a}' | filecheck %s --check-prefix=SPLIT

// BLESSED SPLIT
// SPLIT: builtin.module attributes {cute.arch = "sm_90a"} {
// SPLIT-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32, %tA: !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>, %tB: !cute_nvgpu.tma_descriptor<f16, (64,128), S<3,4,3>>, %tD: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {schedule = #cute.schedule<"warps = (8,1), cluster = (2,1), roles = specialized, scheduler = persistent, raster = 8, epilogue = tma">, threads = 256 : i32, cluster = 2 : i32} {
// SPLIT-NEXT:     %sA = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:     %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">
// SPLIT-NEXT:     %sD = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
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
// SPLIT-NEXT:     %12 = arith.muli %5, %8 overflow<nsw> : i32
// SPLIT-NEXT:     %13 = cute.grid_dim x
// SPLIT-NEXT:     %14 = arith.constant 2 : i32
// SPLIT-NEXT:     %15 = arith.divsi %13, %14 : i32
// SPLIT-NEXT:     scf.for %16 = %10 to %12 step %15 : i32 {
// SPLIT-NEXT:       %17 = arith.muli %5, %8 overflow<nsw> : i32
// SPLIT-NEXT:       %18 = arith.constant 8 : i32
// SPLIT-NEXT:       %19 = arith.constant 1 : i32
// SPLIT-NEXT:       %20 = arith.muli %18, %8 overflow<nsw> : i32
// SPLIT-NEXT:       %21 = arith.divsi %16, %20 : i32
// SPLIT-NEXT:       %22 = arith.muli %21, %18 overflow<nsw> : i32
// SPLIT-NEXT:       %23 = arith.remsi %16, %20 : i32
// SPLIT-NEXT:       %24 = arith.remsi %5, %18 : i32
// SPLIT-NEXT:       %25 = arith.subi %5, %24 overflow<nsw> : i32
// SPLIT-NEXT:       %26 = arith.remsi %5, %18 : i32
// SPLIT-NEXT:       %27 = arith.maxsi %26, %19 : i32
// SPLIT-NEXT:       %28 = arith.cmpi sge, %22, %25 : i32
// SPLIT-NEXT:       %29 = arith.remsi %23, %27 : i32
// SPLIT-NEXT:       %30 = arith.remsi %23, %18 : i32
// SPLIT-NEXT:       %31 = arith.select %28, %29, %30 : i32
// SPLIT-NEXT:       %32 = arith.divsi %23, %27 : i32
// SPLIT-NEXT:       %33 = arith.divsi %23, %18 : i32
// SPLIT-NEXT:       %34 = arith.select %28, %32, %33 : i32
// SPLIT-NEXT:       %35 = arith.addi %22, %31 overflow<nsw> : i32
// SPLIT-NEXT:       %36 = arith.constant 2 : i32
// SPLIT-NEXT:       %37 = arith.remsi %11, %36 : i32
// SPLIT-NEXT:       %38 = arith.constant 2 : i32
// SPLIT-NEXT:       %39 = arith.muli %35, %38 overflow<nsw> : i32
// SPLIT-NEXT:       %40 = arith.addi %39, %37 overflow<nsw> {cluster_mode = 0 : i32} : i32
// SPLIT-NEXT:       %41 = cute.alloc_fragment : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))">
// SPLIT-NEXT:       %42 = arith.constant 0.000000e+00 : f32
// SPLIT-NEXT:       cute.fill %41, %42 : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))">
// SPLIT-NEXT:       %43 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:       %44 = arith.constant 64 : i32
// SPLIT-NEXT:       %45 = arith.ceildivsi %43, %44 : i32
// SPLIT-NEXT:       %46 = arith.constant 0 : i32
// SPLIT-NEXT:       %47 = arith.constant 1 : i32
// SPLIT-NEXT:       scf.for %48 = %46 to %45 step %47 : i32 {
// SPLIT-NEXT:         %A_1 = cute.local_tile %A, [128, 64], (%40, %48) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         %49 = arith.constant 128 : i32
// SPLIT-NEXT:         %50 = arith.muli %40, %49 : i32
// SPLIT-NEXT:         %51 = arith.constant 64 : i32
// SPLIT-NEXT:         %52 = arith.muli %48, %51 : i32
// SPLIT-NEXT:         %B_1 = cute.local_tile %B, [64, 256], (%48, %34) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})">
// SPLIT-NEXT:         %53 = arith.constant 64 : i32
// SPLIT-NEXT:         %54 = arith.muli %48, %53 : i32
// SPLIT-NEXT:         %55 = arith.constant 256 : i32
// SPLIT-NEXT:         %56 = arith.muli %34, %55 : i32
// SPLIT-NEXT:         %57 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute.copy %A_1, %sA tma %tA : !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:         cute.copy %57, %s tma %tB : !cute_nvgpu.tma_descriptor<f16, (64,128), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_load<f16, multicast = 2:1>} : !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">
// SPLIT-NEXT:         cute.gemm %sA, %s, %41 {atom = !cute_nvgpu.sm90.mma<64x256x16, elem_type = (f16, f16, f32), a = smem>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">, !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))">
// SPLIT-NEXT:       }
// SPLIT-NEXT:       %D_1 = cute.local_tile %D, [128, 256], (%40, %34) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)">
// SPLIT-NEXT:       %58 = arith.constant 128 : i32
// SPLIT-NEXT:       %59 = arith.muli %40, %58 : i32
// SPLIT-NEXT:       %60 = arith.constant 256 : i32
// SPLIT-NEXT:       %61 = arith.muli %34, %60 : i32
// SPLIT-NEXT:       %62 = cute.extract %41, (0, 0) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// SPLIT-NEXT:       %63 = cute.map (%64 = %62 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// SPLIT-NEXT:         %65 = arith.mulf %64, %alpha : f32
// SPLIT-NEXT:         %66 = arith.truncf %65 : f32 to f16
// SPLIT-NEXT:         cute.yield %66 : f16
// SPLIT-NEXT:       }
// SPLIT-NEXT:       cute.copy %63, %sD {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:       %67 = cute.subview %D_1, (0, 0) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:       cute.copy %sD, %67 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:       %68 = cute.extract %41, (0, 64) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// SPLIT-NEXT:       %69 = cute.map (%70 = %68 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// SPLIT-NEXT:         %71 = arith.mulf %70, %alpha : f32
// SPLIT-NEXT:         %72 = arith.truncf %71 : f32 to f16
// SPLIT-NEXT:         cute.yield %72 : f16
// SPLIT-NEXT:       }
// SPLIT-NEXT:       cute.copy %69, %sD {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:       %73 = cute.subview %D_1, (0, 64) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:       cute.copy %sD, %73 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:       %74 = cute.extract %41, (0, 128) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// SPLIT-NEXT:       %75 = cute.map (%76 = %74 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// SPLIT-NEXT:         %77 = arith.mulf %76, %alpha : f32
// SPLIT-NEXT:         %78 = arith.truncf %77 : f32 to f16
// SPLIT-NEXT:         cute.yield %78 : f16
// SPLIT-NEXT:       }
// SPLIT-NEXT:       cute.copy %75, %sD {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:       %79 = cute.subview %D_1, (0, 128) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:       cute.copy %sD, %79 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:       %80 = cute.extract %41, (0, 192) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// SPLIT-NEXT:       %81 = cute.map (%82 = %80 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// SPLIT-NEXT:         %83 = arith.mulf %82, %alpha : f32
// SPLIT-NEXT:         %84 = arith.truncf %83 : f32 to f16
// SPLIT-NEXT:         cute.yield %84 : f16
// SPLIT-NEXT:       }
// SPLIT-NEXT:       cute.copy %81, %sD {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:       %85 = cute.subview %D_1, (0, 192) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:       cute.copy %sD, %85 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:     } {work_items}
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
// SPLIT-NEXT:     %9 = arith.muli %5, %8 overflow<nsw> : i32
// SPLIT-NEXT:     %10 = arith.constant 2 : i32
// SPLIT-NEXT:     %11 = cute.sm_count : i32
// SPLIT-NEXT:     %12 = arith.divsi %11, %10 : i32
// SPLIT-NEXT:     %13 = arith.constant 1 : i32
// SPLIT-NEXT:     %14 = arith.maxsi %12, %13 : i32
// SPLIT-NEXT:     %15 = arith.minsi %9, %14 : i32
// SPLIT-NEXT:     %16 = arith.muli %15, %10 overflow<nsw> : i32
// SPLIT-NEXT:     %tA = cute_nvgpu.make_tma_descriptor %A : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>
// SPLIT-NEXT:     %tB = cute_nvgpu.make_tma_descriptor %B : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute_nvgpu.tma_descriptor<f16, (64,128), S<3,4,3>>
// SPLIT-NEXT:     %tD = cute_nvgpu.make_tma_descriptor %D : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>
// SPLIT-NEXT:     cute.launch @gemm grid(%16, %0, %0) cluster(2, 1, 1) args(%A, %B, %D, %alpha, %tA, %tB, %tD) {threads = 256 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32, !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>, !cute_nvgpu.tma_descriptor<f16, (64,128), S<3,4,3>>, !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>
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
