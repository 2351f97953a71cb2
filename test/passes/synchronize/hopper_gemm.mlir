// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a},cute-partition{arch=sm_90a},cute-assign-warp-roles,cute-schedule-loops,cute-synchronize' | filecheck %s --check-prefix=SPLIT

// BLESSED SPLIT
// SPLIT: builtin.module attributes {cute.arch = "sm_90a"} {
// SPLIT-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32, %tA: !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>, %tB: !cute_nvgpu.tma_descriptor<f16, (64,128), S<3,4,3>>, %tD: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {schedule = #cute.schedule<"warps = (8,1), cluster = (2,1), stages = 4, roles = specialized, registers = (40,232), scheduler = persistent, raster = 8, epilogue = tma">, threads = 384 : i32, cluster = 2 : i32, roles = {load = array<i64: 0, 1, 40>, main = array<i64: 4, 8, 232>}} {
// SPLIT-NEXT:     %sA = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,4):(64,1,8192)">
// SPLIT-NEXT:     %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64,4):(64,1,16384)">
// SPLIT-NEXT:     %sD = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)">
// SPLIT-NEXT:     %0 = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 16 : i32, bytes = 49152 : i32, peers = array<i64: 2, 1>} : !pipeline.ring<4>
// SPLIT-NEXT:     pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, registers = 40 : i32, elect} {
// SPLIT-NEXT:       %1 = pipeline.state "producer" %0 : !pipeline.ring<4> -> !pipeline.state<4>
// SPLIT-NEXT:       %2 = cute.block_idx x
// SPLIT-NEXT:       %3 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:       %4 = arith.constant 128 : i32
// SPLIT-NEXT:       %5 = arith.ceildivsi %3, %4 : i32
// SPLIT-NEXT:       %6 = arith.constant 2 : i32
// SPLIT-NEXT:       %7 = arith.ceildivsi %5, %6 : i32
// SPLIT-NEXT:       %8 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:       %9 = arith.constant 256 : i32
// SPLIT-NEXT:       %10 = arith.ceildivsi %8, %9 : i32
// SPLIT-NEXT:       %11 = arith.constant 2 : i32
// SPLIT-NEXT:       %12 = arith.divsi %2, %11 {cluster_uniform} : i32
// SPLIT-NEXT:       %13 = arith.remsi %2, %11 : i32
// SPLIT-NEXT:       %14 = arith.muli %7, %10 overflow<nsw> : i32
// SPLIT-NEXT:       %15 = cute.grid_dim x
// SPLIT-NEXT:       %16 = arith.constant 2 : i32
// SPLIT-NEXT:       %17 = arith.divsi %15, %16 : i32
// SPLIT-NEXT:       scf.for %18 = %12 to %14 step %17 : i32 {
// SPLIT-NEXT:         %19 = arith.constant 8 : i32
// SPLIT-NEXT:         %20 = arith.constant 1 : i32
// SPLIT-NEXT:         %21 = arith.muli %19, %10 overflow<nsw> : i32
// SPLIT-NEXT:         %22 = arith.divsi %18, %21 : i32
// SPLIT-NEXT:         %23 = arith.muli %22, %19 overflow<nsw> : i32
// SPLIT-NEXT:         %24 = arith.remsi %18, %21 : i32
// SPLIT-NEXT:         %25 = arith.remsi %7, %19 : i32
// SPLIT-NEXT:         %26 = arith.subi %7, %25 overflow<nsw> : i32
// SPLIT-NEXT:         %27 = arith.remsi %7, %19 : i32
// SPLIT-NEXT:         %28 = arith.maxsi %27, %20 : i32
// SPLIT-NEXT:         %29 = arith.cmpi sge, %23, %26 : i32
// SPLIT-NEXT:         %30 = arith.remsi %24, %28 : i32
// SPLIT-NEXT:         %31 = arith.remsi %24, %19 : i32
// SPLIT-NEXT:         %32 = arith.select %29, %30, %31 : i32
// SPLIT-NEXT:         %33 = arith.divsi %24, %28 : i32
// SPLIT-NEXT:         %34 = arith.divsi %24, %19 : i32
// SPLIT-NEXT:         %35 = arith.select %29, %33, %34 : i32
// SPLIT-NEXT:         %36 = arith.addi %23, %32 overflow<nsw> : i32
// SPLIT-NEXT:         %37 = arith.constant 2 : i32
// SPLIT-NEXT:         %38 = arith.remsi %13, %37 : i32
// SPLIT-NEXT:         %39 = arith.constant 2 : i32
// SPLIT-NEXT:         %40 = arith.muli %36, %39 overflow<nsw> : i32
// SPLIT-NEXT:         %41 = arith.addi %40, %38 overflow<nsw> {cluster_mode = 0 : i32} : i32
// SPLIT-NEXT:         %42 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:         %43 = arith.constant 64 : i32
// SPLIT-NEXT:         %44 = arith.ceildivsi %42, %43 : i32
// SPLIT-NEXT:         %45 = arith.constant 0 : i32
// SPLIT-NEXT:         %46 = arith.constant 1 : i32
// SPLIT-NEXT:         scf.for %47 = %45 to %44 step %46 : i32 {
// SPLIT-NEXT:           %A_1 = cute.local_tile %A, [128, 64], (%41, %47) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:           %B_1 = cute.local_tile %B, [64, 256], (%47, %35) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})">
// SPLIT-NEXT:           %48 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)">
// SPLIT-NEXT:           pipeline.producer_acquire %0 at %1 : !pipeline.ring<4>, !pipeline.state<4>
// SPLIT-NEXT:           %49 = pipeline.barrier %0 at %1 : !pipeline.ring<4>, !pipeline.state<4>
// SPLIT-NEXT:           %50 = pipeline.index %1 : !pipeline.state<4>
// SPLIT-NEXT:           %51 = cute.stage %sA[%50] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,4):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:           cute.copy %A_1, %51 tma %tA : !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>> signal %49 : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:           %52 = cute.stage %s[%50] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64,4):(64,1,16384)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">
// SPLIT-NEXT:           cute.copy %48, %52 tma %tB : !cute_nvgpu.tma_descriptor<f16, (64,128), S<3,4,3>> signal %49 : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16, multicast = 2:1>} : !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">
// SPLIT-NEXT:           pipeline.producer_commit %0 at %1 : !pipeline.ring<4>, !pipeline.state<4>
// SPLIT-NEXT:           pipeline.advance %1 : !pipeline.state<4>
// SPLIT-NEXT:         }
// SPLIT-NEXT:       } {work_items}
// SPLIT-NEXT:     }
// SPLIT-NEXT:     pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32, registers = 232 : i32} {
// SPLIT-NEXT:       %53 = pipeline.state "consumer" %0 : !pipeline.ring<4> -> !pipeline.state<4>
// SPLIT-NEXT:       %54 = cute.block_idx x
// SPLIT-NEXT:       %55 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:       %56 = arith.constant 128 : i32
// SPLIT-NEXT:       %57 = arith.ceildivsi %55, %56 : i32
// SPLIT-NEXT:       %58 = arith.constant 2 : i32
// SPLIT-NEXT:       %59 = arith.ceildivsi %57, %58 : i32
// SPLIT-NEXT:       %60 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:       %61 = arith.constant 256 : i32
// SPLIT-NEXT:       %62 = arith.ceildivsi %60, %61 : i32
// SPLIT-NEXT:       %63 = arith.constant 2 : i32
// SPLIT-NEXT:       %64 = arith.divsi %54, %63 {cluster_uniform} : i32
// SPLIT-NEXT:       %65 = arith.remsi %54, %63 : i32
// SPLIT-NEXT:       %66 = arith.muli %59, %62 overflow<nsw> : i32
// SPLIT-NEXT:       %67 = cute.grid_dim x
// SPLIT-NEXT:       %68 = arith.constant 2 : i32
// SPLIT-NEXT:       %69 = arith.divsi %67, %68 : i32
// SPLIT-NEXT:       scf.for %70 = %64 to %66 step %69 : i32 {
// SPLIT-NEXT:         %71 = arith.constant 8 : i32
// SPLIT-NEXT:         %72 = arith.constant 1 : i32
// SPLIT-NEXT:         %73 = arith.muli %71, %62 overflow<nsw> : i32
// SPLIT-NEXT:         %74 = arith.divsi %70, %73 : i32
// SPLIT-NEXT:         %75 = arith.muli %74, %71 overflow<nsw> : i32
// SPLIT-NEXT:         %76 = arith.remsi %70, %73 : i32
// SPLIT-NEXT:         %77 = arith.remsi %59, %71 : i32
// SPLIT-NEXT:         %78 = arith.subi %59, %77 overflow<nsw> : i32
// SPLIT-NEXT:         %79 = arith.remsi %59, %71 : i32
// SPLIT-NEXT:         %80 = arith.maxsi %79, %72 : i32
// SPLIT-NEXT:         %81 = arith.cmpi sge, %75, %78 : i32
// SPLIT-NEXT:         %82 = arith.remsi %76, %80 : i32
// SPLIT-NEXT:         %83 = arith.remsi %76, %71 : i32
// SPLIT-NEXT:         %84 = arith.select %81, %82, %83 : i32
// SPLIT-NEXT:         %85 = arith.divsi %76, %80 : i32
// SPLIT-NEXT:         %86 = arith.divsi %76, %71 : i32
// SPLIT-NEXT:         %87 = arith.select %81, %85, %86 : i32
// SPLIT-NEXT:         %88 = arith.addi %75, %84 overflow<nsw> : i32
// SPLIT-NEXT:         %89 = arith.constant 2 : i32
// SPLIT-NEXT:         %90 = arith.remsi %65, %89 : i32
// SPLIT-NEXT:         %91 = arith.constant 2 : i32
// SPLIT-NEXT:         %92 = arith.muli %88, %91 overflow<nsw> : i32
// SPLIT-NEXT:         %93 = arith.addi %92, %90 overflow<nsw> {cluster_mode = 0 : i32} : i32
// SPLIT-NEXT:         %94 = cute.alloc_fragment : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))">
// SPLIT-NEXT:         %95 = arith.constant 0.000000e+00 : f32
// SPLIT-NEXT:         cute.fill %94, %95 : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))">
// SPLIT-NEXT:         %96 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// SPLIT-NEXT:         %97 = arith.constant 64 : i32
// SPLIT-NEXT:         %98 = arith.ceildivsi %96, %97 : i32
// SPLIT-NEXT:         %99 = arith.constant 0 : i32
// SPLIT-NEXT:         %100 = arith.constant 1 : i32
// SPLIT-NEXT:         scf.for %101 = %99 to %98 step %100 : i32 {
// SPLIT-NEXT:           pipeline.consumer_wait %0 at %53 : !pipeline.ring<4>, !pipeline.state<4>
// SPLIT-NEXT:           %102 = pipeline.index %53 : !pipeline.state<4>
// SPLIT-NEXT:           %sA_1 = cute.stage %sA[%102] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,4):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:           %s_1 = cute.stage %s[%102] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64,4):(64,1,16384)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">
// SPLIT-NEXT:           cute_nvgpu.wgmma_fence
// SPLIT-NEXT:           cute.gemm %sA_1, %s_1, %94 {atom = !cute_nvgpu.sm90.mma<64x256x16, elem_type = (f16, f16, f32), a = smem>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">, !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))">
// SPLIT-NEXT:           cute_nvgpu.wgmma_commit
// SPLIT-NEXT:           cute_nvgpu.wgmma_wait {pending = 1 : i32}
// SPLIT-NEXT:           %103 = arith.cmpi ne, %101, %99 : i32
// SPLIT-NEXT:           pipeline.consumer_release %0 at %53 if %103 {back = 1 : i32} : !pipeline.ring<4>, !pipeline.state<4>
// SPLIT-NEXT:           pipeline.advance %53 : !pipeline.state<4>
// SPLIT-NEXT:         }
// SPLIT-NEXT:         cute_nvgpu.wgmma_wait {pending = 0 : i32}
// SPLIT-NEXT:         %104 = arith.cmpi slt, %99, %98 : i32
// SPLIT-NEXT:         pipeline.consumer_release %0 at %53 if %104 {back = 1 : i32} : !pipeline.ring<4>, !pipeline.state<4>
// SPLIT-NEXT:         %D_1 = cute.local_tile %D, [128, 256], (%93, %87) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)">
// SPLIT-NEXT:         %105 = cute.extract %94, (0, 0) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// SPLIT-NEXT:         %106 = cute.map (%107 = %105 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// SPLIT-NEXT:           %108 = arith.mulf %107, %alpha : f32
// SPLIT-NEXT:           %109 = arith.truncf %108 : f32 to f16
// SPLIT-NEXT:           cute.yield %109 : f16
// SPLIT-NEXT:         }
// SPLIT-NEXT:         %110 = arith.constant 0 : i32
// SPLIT-NEXT:         %111 = cute.stage %sD[%110] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:         cute.copy %106, %111 {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:         cute_nvgpu.fence_proxy_async
// SPLIT-NEXT:         cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
// SPLIT-NEXT:         cute.barrier {warps = 4 : i32}
// SPLIT-NEXT:         %112 = cute.subview %D_1, (0, 0) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute.copy %111, %112 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute_nvgpu.tma_store_commit {warps = 4 : i32}
// SPLIT-NEXT:         %113 = cute.extract %94, (0, 64) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// SPLIT-NEXT:         %114 = cute.map (%115 = %113 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// SPLIT-NEXT:           %116 = arith.mulf %115, %alpha : f32
// SPLIT-NEXT:           %117 = arith.truncf %116 : f32 to f16
// SPLIT-NEXT:           cute.yield %117 : f16
// SPLIT-NEXT:         }
// SPLIT-NEXT:         %118 = arith.constant 1 : i32
// SPLIT-NEXT:         %119 = cute.stage %sD[%118] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:         cute.copy %114, %119 {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:         cute_nvgpu.fence_proxy_async
// SPLIT-NEXT:         cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
// SPLIT-NEXT:         cute.barrier {warps = 4 : i32}
// SPLIT-NEXT:         %120 = cute.subview %D_1, (0, 64) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute.copy %119, %120 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute_nvgpu.tma_store_commit {warps = 4 : i32}
// SPLIT-NEXT:         %121 = cute.extract %94, (0, 128) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// SPLIT-NEXT:         %122 = cute.map (%123 = %121 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// SPLIT-NEXT:           %124 = arith.mulf %123, %alpha : f32
// SPLIT-NEXT:           %125 = arith.truncf %124 : f32 to f16
// SPLIT-NEXT:           cute.yield %125 : f16
// SPLIT-NEXT:         }
// SPLIT-NEXT:         %126 = arith.constant 0 : i32
// SPLIT-NEXT:         %127 = cute.stage %sD[%126] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:         cute.copy %122, %127 {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:         cute_nvgpu.fence_proxy_async
// SPLIT-NEXT:         cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
// SPLIT-NEXT:         cute.barrier {warps = 4 : i32}
// SPLIT-NEXT:         %128 = cute.subview %D_1, (0, 128) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute.copy %127, %128 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute_nvgpu.tma_store_commit {warps = 4 : i32}
// SPLIT-NEXT:         %129 = cute.extract %94, (0, 192) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// SPLIT-NEXT:         %130 = cute.map (%131 = %129 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// SPLIT-NEXT:           %132 = arith.mulf %131, %alpha : f32
// SPLIT-NEXT:           %133 = arith.truncf %132 : f32 to f16
// SPLIT-NEXT:           cute.yield %133 : f16
// SPLIT-NEXT:         }
// SPLIT-NEXT:         %134 = arith.constant 1 : i32
// SPLIT-NEXT:         %135 = cute.stage %sD[%134] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:         cute.copy %130, %135 {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// SPLIT-NEXT:         cute_nvgpu.fence_proxy_async
// SPLIT-NEXT:         cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
// SPLIT-NEXT:         cute.barrier {warps = 4 : i32}
// SPLIT-NEXT:         %136 = cute.subview %D_1, (0, 192) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute.copy %135, %136 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// SPLIT-NEXT:         cute_nvgpu.tma_store_commit {warps = 4 : i32}
// SPLIT-NEXT:       } {work_items}
// SPLIT-NEXT:       cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
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
// SPLIT-NEXT:     cute.launch @gemm grid(%16, %0, %0) cluster(2, 1, 1) args(%A, %B, %D, %alpha, %tA, %tB, %tD) {threads = 384 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32, !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>, !cute_nvgpu.tma_descriptor<f16, (64,128), S<3,4,3>>, !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>
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
