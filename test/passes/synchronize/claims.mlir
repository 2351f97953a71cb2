// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a},cute-partition{arch=sm_90a},cute-assign-warp-roles,cute-schedule-loops,cute-synchronize' | filecheck %s --check-prefix=CLAIMS

// BLESSED CLAIMS
// CLAIMS: builtin.module attributes {cute.arch = "sm_90a"} {
// CLAIMS-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32, %claims: !cute.memref<i32, gmem, align<16>, "(1):(1)">, %tA: !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>, %tB: !cute_nvgpu.tma_descriptor<f16, (64,256), S<3,4,3>>, %tD: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {schedule = #cute.schedule<"warps = (8,1), stages = 4, roles = specialized, registers = (40,232), scheduler = dynamic, raster = 8, epilogue = tma">, threads = 384 : i32, roles = {load = array<i64: 0, 1, 40>, main = array<i64: 4, 8, 232>}} {
// CLAIMS-NEXT:     %claimed = cute.alloc_smem : !cute.memref<i32, smem, align<8>, "(2):(1)">
// CLAIMS-NEXT:     %sA = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,4):(64,1,8192)">
// CLAIMS-NEXT:     %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64,4):(64,1,16384)">
// CLAIMS-NEXT:     %sD = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)">
// CLAIMS-NEXT:     %0 = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
// CLAIMS-NEXT:     %1 = pipeline.create {kind = "threads", producers = 1 : i32, consumers = 8 : i32} : !pipeline.ring<2>
// CLAIMS-NEXT:     pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, registers = 40 : i32, elect} {
// CLAIMS-NEXT:       %2 = pipeline.state "producer" %1 : !pipeline.ring<2> -> !pipeline.state<2>
// CLAIMS-NEXT:       %3 = pipeline.state "producer" %0 : !pipeline.ring<4> -> !pipeline.state<4>
// CLAIMS-NEXT:       %4 = cute.block_idx x
// CLAIMS-NEXT:       %5 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CLAIMS-NEXT:       %6 = arith.constant 128 : i32
// CLAIMS-NEXT:       %7 = arith.ceildivsi %5, %6 : i32
// CLAIMS-NEXT:       %8 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CLAIMS-NEXT:       %9 = arith.constant 256 : i32
// CLAIMS-NEXT:       %10 = arith.ceildivsi %8, %9 : i32
// CLAIMS-NEXT:       %11 = arith.muli %7, %10 overflow<nsw> : i32
// CLAIMS-NEXT:       %12 = scf.while (%13 = %4) : (i32) -> i32 {
// CLAIMS-NEXT:         %14 = arith.cmpi slt, %13, %11 : i32
// CLAIMS-NEXT:         scf.condition(%14) %13 : i32
// CLAIMS-NEXT:       } do {
// CLAIMS-NEXT:       ^bb0(%15: i32):
// CLAIMS-NEXT:         %16 = cute.claim %claims of %11 : !cute.memref<i32, gmem, align<16>, "(1):(1)">
// CLAIMS-NEXT:         %17 = arith.constant 8 : i32
// CLAIMS-NEXT:         %18 = arith.constant 1 : i32
// CLAIMS-NEXT:         %19 = arith.muli %17, %10 overflow<nsw> : i32
// CLAIMS-NEXT:         %20 = arith.divsi %15, %19 : i32
// CLAIMS-NEXT:         %21 = arith.muli %20, %17 overflow<nsw> : i32
// CLAIMS-NEXT:         %22 = arith.remsi %15, %19 : i32
// CLAIMS-NEXT:         %23 = arith.remsi %7, %17 : i32
// CLAIMS-NEXT:         %24 = arith.subi %7, %23 overflow<nsw> : i32
// CLAIMS-NEXT:         %25 = arith.remsi %7, %17 : i32
// CLAIMS-NEXT:         %26 = arith.maxsi %25, %18 : i32
// CLAIMS-NEXT:         %27 = arith.cmpi sge, %21, %24 : i32
// CLAIMS-NEXT:         %28 = arith.remsi %22, %26 : i32
// CLAIMS-NEXT:         %29 = arith.remsi %22, %17 : i32
// CLAIMS-NEXT:         %30 = arith.select %27, %28, %29 : i32
// CLAIMS-NEXT:         %31 = arith.divsi %22, %26 : i32
// CLAIMS-NEXT:         %32 = arith.divsi %22, %17 : i32
// CLAIMS-NEXT:         %33 = arith.select %27, %31, %32 : i32
// CLAIMS-NEXT:         %34 = arith.addi %21, %30 overflow<nsw> : i32
// CLAIMS-NEXT:         %35 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CLAIMS-NEXT:         %36 = arith.constant 64 : i32
// CLAIMS-NEXT:         %37 = arith.ceildivsi %35, %36 : i32
// CLAIMS-NEXT:         %38 = arith.constant 0 : i32
// CLAIMS-NEXT:         %39 = arith.constant 1 : i32
// CLAIMS-NEXT:         scf.for %40 = %38 to %37 step %39 : i32 {
// CLAIMS-NEXT:           %A_1 = cute.local_tile %A, [128, 64], (%34, %40) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:           %B_1 = cute.local_tile %B, [64, 256], (%40, %33) : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})">
// CLAIMS-NEXT:           %41 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(64,256):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:           pipeline.producer_acquire %0 at %3 : !pipeline.ring<4>, !pipeline.state<4>
// CLAIMS-NEXT:           %42 = pipeline.barrier %0 at %3 : !pipeline.ring<4>, !pipeline.state<4>
// CLAIMS-NEXT:           %43 = pipeline.index %3 : !pipeline.state<4>
// CLAIMS-NEXT:           %44 = cute.stage %sA[%43] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,4):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:           cute.copy %A_1, %44 tma %tA : !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>> signal %42 : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:           %45 = cute.stage %s[%43] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64,4):(64,1,16384)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">
// CLAIMS-NEXT:           cute.copy %41, %45 tma %tB : !cute_nvgpu.tma_descriptor<f16, (64,256), S<3,4,3>> signal %42 : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(256,64):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">
// CLAIMS-NEXT:           pipeline.producer_commit %0 at %3 : !pipeline.ring<4>, !pipeline.state<4>
// CLAIMS-NEXT:           pipeline.advance %3 : !pipeline.state<4>
// CLAIMS-NEXT:         }
// CLAIMS-NEXT:         pipeline.producer_acquire %1 at %2 : !pipeline.ring<2>, !pipeline.state<2>
// CLAIMS-NEXT:         %46 = pipeline.index %2 : !pipeline.state<2>
// CLAIMS-NEXT:         pipeline.send %16 to %claimed[%46] : !cute.memref<i32, smem, align<8>, "(2):(1)">
// CLAIMS-NEXT:         pipeline.producer_commit %1 at %2 : !pipeline.ring<2>, !pipeline.state<2>
// CLAIMS-NEXT:         pipeline.advance %2 : !pipeline.state<2>
// CLAIMS-NEXT:         scf.yield %16 : i32
// CLAIMS-NEXT:       } attributes {work_items}
// CLAIMS-NEXT:     }
// CLAIMS-NEXT:     pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32, registers = 232 : i32} {
// CLAIMS-NEXT:       %47 = pipeline.state "consumer" %1 : !pipeline.ring<2> -> !pipeline.state<2>
// CLAIMS-NEXT:       %48 = pipeline.state "consumer" %0 : !pipeline.ring<4> -> !pipeline.state<4>
// CLAIMS-NEXT:       %49 = cute.block_idx x
// CLAIMS-NEXT:       %50 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CLAIMS-NEXT:       %51 = arith.constant 128 : i32
// CLAIMS-NEXT:       %52 = arith.ceildivsi %50, %51 : i32
// CLAIMS-NEXT:       %53 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CLAIMS-NEXT:       %54 = arith.constant 256 : i32
// CLAIMS-NEXT:       %55 = arith.ceildivsi %53, %54 : i32
// CLAIMS-NEXT:       %56 = arith.muli %52, %55 overflow<nsw> : i32
// CLAIMS-NEXT:       %57 = scf.while (%58 = %49) : (i32) -> i32 {
// CLAIMS-NEXT:         %59 = arith.cmpi slt, %58, %56 : i32
// CLAIMS-NEXT:         scf.condition(%59) %58 : i32
// CLAIMS-NEXT:       } do {
// CLAIMS-NEXT:       ^bb0(%60: i32):
// CLAIMS-NEXT:         %61 = arith.constant 8 : i32
// CLAIMS-NEXT:         %62 = arith.constant 1 : i32
// CLAIMS-NEXT:         %63 = arith.muli %61, %55 overflow<nsw> : i32
// CLAIMS-NEXT:         %64 = arith.divsi %60, %63 : i32
// CLAIMS-NEXT:         %65 = arith.muli %64, %61 overflow<nsw> : i32
// CLAIMS-NEXT:         %66 = arith.remsi %60, %63 : i32
// CLAIMS-NEXT:         %67 = arith.remsi %52, %61 : i32
// CLAIMS-NEXT:         %68 = arith.subi %52, %67 overflow<nsw> : i32
// CLAIMS-NEXT:         %69 = arith.remsi %52, %61 : i32
// CLAIMS-NEXT:         %70 = arith.maxsi %69, %62 : i32
// CLAIMS-NEXT:         %71 = arith.cmpi sge, %65, %68 : i32
// CLAIMS-NEXT:         %72 = arith.remsi %66, %70 : i32
// CLAIMS-NEXT:         %73 = arith.remsi %66, %61 : i32
// CLAIMS-NEXT:         %74 = arith.select %71, %72, %73 : i32
// CLAIMS-NEXT:         %75 = arith.divsi %66, %70 : i32
// CLAIMS-NEXT:         %76 = arith.divsi %66, %61 : i32
// CLAIMS-NEXT:         %77 = arith.select %71, %75, %76 : i32
// CLAIMS-NEXT:         %78 = arith.addi %65, %74 overflow<nsw> : i32
// CLAIMS-NEXT:         %79 = cute.alloc_fragment : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))">
// CLAIMS-NEXT:         %80 = arith.constant 0.000000e+00 : f32
// CLAIMS-NEXT:         cute.fill %79, %80 : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))">
// CLAIMS-NEXT:         %81 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CLAIMS-NEXT:         %82 = arith.constant 64 : i32
// CLAIMS-NEXT:         %83 = arith.ceildivsi %81, %82 : i32
// CLAIMS-NEXT:         %84 = arith.constant 0 : i32
// CLAIMS-NEXT:         %85 = arith.constant 1 : i32
// CLAIMS-NEXT:         scf.for %86 = %84 to %83 step %85 : i32 {
// CLAIMS-NEXT:           pipeline.consumer_wait %0 at %48 : !pipeline.ring<4>, !pipeline.state<4>
// CLAIMS-NEXT:           %87 = pipeline.index %48 : !pipeline.state<4>
// CLAIMS-NEXT:           %sA_1 = cute.stage %sA[%87] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,4):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:           %s_1 = cute.stage %s[%87] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64,4):(64,1,16384)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">
// CLAIMS-NEXT:           cute_nvgpu.wgmma_fence
// CLAIMS-NEXT:           cute.gemm %sA_1, %s_1, %79 {atom = !cute_nvgpu.sm90.mma<64x256x16, elem_type = (f16, f16, f32), a = smem>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(256,64):(64,1)">, !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))">
// CLAIMS-NEXT:           cute_nvgpu.wgmma_commit
// CLAIMS-NEXT:           cute_nvgpu.wgmma_wait {pending = 1 : i32}
// CLAIMS-NEXT:           %88 = arith.cmpi ne, %86, %84 : i32
// CLAIMS-NEXT:           pipeline.consumer_release %0 at %48 if %88 {back = 1 : i32} : !pipeline.ring<4>, !pipeline.state<4>
// CLAIMS-NEXT:           pipeline.advance %48 : !pipeline.state<4>
// CLAIMS-NEXT:         }
// CLAIMS-NEXT:         cute_nvgpu.wgmma_wait {pending = 0 : i32}
// CLAIMS-NEXT:         %89 = arith.cmpi slt, %84, %83 : i32
// CLAIMS-NEXT:         pipeline.consumer_release %0 at %48 if %89 {back = 1 : i32} : !pipeline.ring<4>, !pipeline.state<4>
// CLAIMS-NEXT:         %D_1 = cute.local_tile %D, [128, 256], (%78, %77) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)">
// CLAIMS-NEXT:         %90 = cute.extract %79, (0, 0) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// CLAIMS-NEXT:         %91 = cute.map (%92 = %90 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// CLAIMS-NEXT:           %93 = arith.mulf %92, %alpha : f32
// CLAIMS-NEXT:           %94 = arith.truncf %93 : f32 to f16
// CLAIMS-NEXT:           cute.yield %94 : f16
// CLAIMS-NEXT:         }
// CLAIMS-NEXT:         %95 = arith.constant 0 : i32
// CLAIMS-NEXT:         %96 = cute.stage %sD[%95] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:         cute.copy %91, %96 {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:         cute_nvgpu.fence_proxy_async
// CLAIMS-NEXT:         cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
// CLAIMS-NEXT:         cute.barrier {warps = 4 : i32}
// CLAIMS-NEXT:         %97 = cute.subview %D_1, (0, 0) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:         cute.copy %96, %97 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:         cute_nvgpu.tma_store_commit {warps = 4 : i32}
// CLAIMS-NEXT:         %98 = cute.extract %79, (0, 64) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// CLAIMS-NEXT:         %99 = cute.map (%100 = %98 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// CLAIMS-NEXT:           %101 = arith.mulf %100, %alpha : f32
// CLAIMS-NEXT:           %102 = arith.truncf %101 : f32 to f16
// CLAIMS-NEXT:           cute.yield %102 : f16
// CLAIMS-NEXT:         }
// CLAIMS-NEXT:         %103 = arith.constant 1 : i32
// CLAIMS-NEXT:         %104 = cute.stage %sD[%103] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:         cute.copy %99, %104 {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:         cute_nvgpu.fence_proxy_async
// CLAIMS-NEXT:         cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
// CLAIMS-NEXT:         cute.barrier {warps = 4 : i32}
// CLAIMS-NEXT:         %105 = cute.subview %D_1, (0, 64) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:         cute.copy %104, %105 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:         cute_nvgpu.tma_store_commit {warps = 4 : i32}
// CLAIMS-NEXT:         %106 = cute.extract %79, (0, 128) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// CLAIMS-NEXT:         %107 = cute.map (%108 = %106 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// CLAIMS-NEXT:           %109 = arith.mulf %108, %alpha : f32
// CLAIMS-NEXT:           %110 = arith.truncf %109 : f32 to f16
// CLAIMS-NEXT:           cute.yield %110 : f16
// CLAIMS-NEXT:         }
// CLAIMS-NEXT:         %111 = arith.constant 0 : i32
// CLAIMS-NEXT:         %112 = cute.stage %sD[%111] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:         cute.copy %107, %112 {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:         cute_nvgpu.fence_proxy_async
// CLAIMS-NEXT:         cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
// CLAIMS-NEXT:         cute.barrier {warps = 4 : i32}
// CLAIMS-NEXT:         %113 = cute.subview %D_1, (0, 128) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:         cute.copy %112, %113 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:         cute_nvgpu.tma_store_commit {warps = 4 : i32}
// CLAIMS-NEXT:         %114 = cute.extract %79, (0, 192) : !cute.fragment<f32, "(128,256)", "((4,8,4,2),((2,2,32),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">
// CLAIMS-NEXT:         %115 = cute.map (%116 = %114 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> {
// CLAIMS-NEXT:           %117 = arith.mulf %116, %alpha : f32
// CLAIMS-NEXT:           %118 = arith.truncf %117 : f32 to f16
// CLAIMS-NEXT:           cute.yield %118 : f16
// CLAIMS-NEXT:         }
// CLAIMS-NEXT:         %119 = arith.constant 1 : i32
// CLAIMS-NEXT:         %120 = cute.stage %sD[%119] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,2):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:         cute.copy %115, %120 {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(128,64)", "((4,8,4,2),(2,2,8)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
// CLAIMS-NEXT:         cute_nvgpu.fence_proxy_async
// CLAIMS-NEXT:         cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
// CLAIMS-NEXT:         cute.barrier {warps = 4 : i32}
// CLAIMS-NEXT:         %121 = cute.subview %D_1, (0, 192) : !cute.memref<f16, gmem, align<16>, "(128,256):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:         cute.copy %120, %121 tma %tD : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16, warps = 4>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
// CLAIMS-NEXT:         cute_nvgpu.tma_store_commit {warps = 4 : i32}
// CLAIMS-NEXT:         pipeline.consumer_wait %1 at %47 : !pipeline.ring<2>, !pipeline.state<2>
// CLAIMS-NEXT:         %122 = pipeline.index %47 : !pipeline.state<2>
// CLAIMS-NEXT:         %123 = pipeline.receive %claimed[%122] : !cute.memref<i32, smem, align<8>, "(2):(1)">
// CLAIMS-NEXT:         pipeline.consumer_release %1 at %47 : !pipeline.ring<2>, !pipeline.state<2>
// CLAIMS-NEXT:         pipeline.advance %47 : !pipeline.state<2>
// CLAIMS-NEXT:         scf.yield %123 : i32
// CLAIMS-NEXT:       } attributes {work_items}
// CLAIMS-NEXT:       cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
// CLAIMS-NEXT:     }
// CLAIMS-NEXT:   }
// CLAIMS-NEXT:   func.func @launch(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {cute.written = array<i64: 2>} {
// CLAIMS-NEXT:     %0 = arith.constant 1 : i32
// CLAIMS-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CLAIMS-NEXT:     %2 = arith.constant 128 : i32
// CLAIMS-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// CLAIMS-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CLAIMS-NEXT:     %5 = arith.constant 256 : i32
// CLAIMS-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// CLAIMS-NEXT:     %7 = arith.muli %3, %6 overflow<nsw> : i32
// CLAIMS-NEXT:     %8 = cute.sm_count : i32
// CLAIMS-NEXT:     %9 = arith.minsi %7, %8 : i32
// CLAIMS-NEXT:     %claims = cute.workspace() zeroed : !cute.memref<i32, gmem, align<16>, "(1):(1)">
// CLAIMS-NEXT:     %tA = cute_nvgpu.make_tma_descriptor %A : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>
// CLAIMS-NEXT:     %tB = cute_nvgpu.make_tma_descriptor %B : !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})"> -> !cute_nvgpu.tma_descriptor<f16, (64,256), S<3,4,3>>
// CLAIMS-NEXT:     %tD = cute_nvgpu.make_tma_descriptor %D : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>
// CLAIMS-NEXT:     cute.launch @gemm grid(%9, %0, %0) args(%A, %B, %D, %alpha, %claims, %tA, %tB, %tD) {threads = 384 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32, !cute.memref<i32, gmem, align<16>, "(1):(1)">, !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>, !cute_nvgpu.tma_descriptor<f16, (64,256), S<3,4,3>>, !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>
// CLAIMS-NEXT:     func.return
// CLAIMS-NEXT:   }
// CLAIMS-NEXT: }
// END BLESSED

cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(1,?{i64 div=8})">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {schedule = #cute.schedule<"scheduler = dynamic">} {
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
