// RUN: cute-opt %s -p 'cute-tile{arch=sm_80 schedule="split_k = 4"}' | filecheck %s --check-prefix=ORDERED
// RUN: cute-opt %s -p 'cute-tile{arch=sm_80 schedule="split_k = 4, reduction = atomic"}' | filecheck %s --check-prefix=ATOMIC
// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a schedule="split_k = 4, reduction = cluster, roles = specialized"}' | filecheck %s --check-prefix=CLUSTER

// Each CTA of the cluster goes on with 16 of the 64 columns.
// CLUSTER: scf.for %[[ITEM:.*]] = %0 to
// CLUSTER: %[[RANK:.*]] = arith.remsi %[[ITEM]],
// CLUSTER: cute.gemm
// CLUSTER: %[[PART:.*]] = cute.cluster_scatter %{{.*}} of 4 : !cute.fragment<f32, "(64,64)"> -> !cute.fragment<f32, "(64,16)">
// CLUSTER: cute.map (%{{.*}} = %[[PART]] : !cute.fragment<f32, "(64,16)">) -> !cute.fragment<f16, "(64,16)">
// CLUSTER: %[[N:.*]] = arith.addi %{{.*}}, %[[RANK]]
// CLUSTER: cute.local_tile %D, [64, 16], (%{{.*}}, %[[N]])
// CLUSTER: cute.copy %{{.*}} : !cute.fragment<f16, "(64,16)"> -> !cute.memref<f16, gmem, align<16>, "(64,16):(?{i64 div=8},1)">

// BLESSED ORDERED
// ORDERED: builtin.module attributes {cute.arch = "sm_80"} {
// ORDERED-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32, %arrivals: !cute.memref<i32, gmem, align<16>, "(?):(1)">, %partials: !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))">) attributes {schedule = #cute.schedule<"warps = (2,2), roles = uniform, scheduler = single, raster = 8, split_k = 4">, threads = 128 : i32} {
// ORDERED-NEXT:     %0 = cute.block_idx x
// ORDERED-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ORDERED-NEXT:     %2 = arith.constant 64 : i32
// ORDERED-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// ORDERED-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ORDERED-NEXT:     %5 = arith.constant 64 : i32
// ORDERED-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// ORDERED-NEXT:     %7 = arith.constant 4 : i32
// ORDERED-NEXT:     %8 = arith.divsi %0, %7 : i32
// ORDERED-NEXT:     %9 = arith.remsi %0, %7 : i32
// ORDERED-NEXT:     %10 = arith.muli %3, %6 overflow<nsw> : i32
// ORDERED-NEXT:     %11 = arith.constant 8 : i32
// ORDERED-NEXT:     %12 = arith.constant 1 : i32
// ORDERED-NEXT:     %13 = arith.muli %11, %6 overflow<nsw> : i32
// ORDERED-NEXT:     %14 = arith.divsi %8, %13 : i32
// ORDERED-NEXT:     %15 = arith.muli %14, %11 overflow<nsw> : i32
// ORDERED-NEXT:     %16 = arith.remsi %8, %13 : i32
// ORDERED-NEXT:     %17 = arith.remsi %3, %11 : i32
// ORDERED-NEXT:     %18 = arith.subi %3, %17 overflow<nsw> : i32
// ORDERED-NEXT:     %19 = arith.remsi %3, %11 : i32
// ORDERED-NEXT:     %20 = arith.maxsi %19, %12 : i32
// ORDERED-NEXT:     %21 = arith.cmpi sge, %15, %18 : i32
// ORDERED-NEXT:     %22 = arith.remsi %16, %20 : i32
// ORDERED-NEXT:     %23 = arith.remsi %16, %11 : i32
// ORDERED-NEXT:     %24 = arith.select %21, %22, %23 : i32
// ORDERED-NEXT:     %25 = arith.divsi %16, %20 : i32
// ORDERED-NEXT:     %26 = arith.divsi %16, %11 : i32
// ORDERED-NEXT:     %27 = arith.select %21, %25, %26 : i32
// ORDERED-NEXT:     %28 = arith.addi %15, %24 overflow<nsw> : i32
// ORDERED-NEXT:     %29 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
// ORDERED-NEXT:     %30 = arith.constant 0.000000e+00 : f32
// ORDERED-NEXT:     cute.fill %29, %30 : !cute.fragment<f32, "(64,64)">
// ORDERED-NEXT:     %31 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ORDERED-NEXT:     %32 = arith.constant 32 : i32
// ORDERED-NEXT:     %33 = arith.ceildivsi %31, %32 : i32
// ORDERED-NEXT:     %34 = arith.constant 0 : i32
// ORDERED-NEXT:     %35 = arith.constant 1 : i32
// ORDERED-NEXT:     %36 = arith.divsi %33, %7 : i32
// ORDERED-NEXT:     %37 = arith.remsi %33, %7 : i32
// ORDERED-NEXT:     %38 = arith.muli %9, %36 overflow<nsw> : i32
// ORDERED-NEXT:     %39 = arith.minsi %9, %37 : i32
// ORDERED-NEXT:     %40 = arith.addi %38, %39 overflow<nsw> : i32
// ORDERED-NEXT:     %41 = arith.cmpi slt, %9, %37 : i32
// ORDERED-NEXT:     %42 = arith.constant 1 : i32
// ORDERED-NEXT:     %43 = arith.addi %36, %42 overflow<nsw> : i32
// ORDERED-NEXT:     %44 = arith.select %41, %43, %36 : i32
// ORDERED-NEXT:     %45 = arith.constant 0 : i32
// ORDERED-NEXT:     scf.for %46 = %45 to %44 step %35 : i32 {
// ORDERED-NEXT:       %47 = arith.addi %46, %40 overflow<nsw> : i32
// ORDERED-NEXT:       %A_1 = cute.local_tile %A, [64, 32], (%28, %47) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
// ORDERED-NEXT:       %48 = arith.constant 64 : i32
// ORDERED-NEXT:       %49 = arith.muli %28, %48 : i32
// ORDERED-NEXT:       %50 = arith.constant 32 : i32
// ORDERED-NEXT:       %51 = arith.muli %47, %50 : i32
// ORDERED-NEXT:       %B_1 = cute.local_tile %B, [32, 64], (%47, %27) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)">
// ORDERED-NEXT:       %52 = arith.constant 32 : i32
// ORDERED-NEXT:       %53 = arith.muli %47, %52 : i32
// ORDERED-NEXT:       %54 = arith.constant 64 : i32
// ORDERED-NEXT:       %55 = arith.muli %27, %54 : i32
// ORDERED-NEXT:       %56 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">
// ORDERED-NEXT:       cute.gemm %A_1, %56, %29 : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">, !cute.fragment<f32, "(64,64)">
// ORDERED-NEXT:     }
// ORDERED-NEXT:     %57 = arith.muli %8, %7 overflow<nsw> : i32
// ORDERED-NEXT:     %58 = arith.addi %57, %9 overflow<nsw> : i32
// ORDERED-NEXT:     %59 = arith.constant 0 : i32
// ORDERED-NEXT:     %60 = cute.local_tile %partials, [*, _, _], (%58, %59, %59) : !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))"> -> !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// ORDERED-NEXT:     cute.copy %29, %60 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,64)"> -> !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// ORDERED-NEXT:     %61 = cute.last_arrival %arrivals[%8] of %7 : !cute.memref<i32, gmem, align<16>, "(?):(1)">
// ORDERED-NEXT:     scf.if %61 {
// ORDERED-NEXT:       %62 = arith.constant 0.000000e+00 : f32
// ORDERED-NEXT:       cute.fill %29, %62 : !cute.fragment<f32, "(64,64)">
// ORDERED-NEXT:       %63 = arith.constant 0 : i32
// ORDERED-NEXT:       %64 = arith.constant 1 : i32
// ORDERED-NEXT:       scf.for %65 = %63 to %7 step %64 : i32 {
// ORDERED-NEXT:         %66 = arith.muli %8, %7 overflow<nsw> : i32
// ORDERED-NEXT:         %67 = arith.addi %66, %65 overflow<nsw> : i32
// ORDERED-NEXT:         %68 = arith.constant 0 : i32
// ORDERED-NEXT:         %69 = cute.local_tile %partials, [*, _, _], (%67, %68, %68) : !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))"> -> !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// ORDERED-NEXT:         %70 = cute.load %69 : !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))"> -> !cute.fragment<f32, "(64,64)">
// ORDERED-NEXT:         %71 = cute.map (%72 = %29 : !cute.fragment<f32, "(64,64)">, %73 = %70 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f32, "(64,64)"> {
// ORDERED-NEXT:           %74 = arith.addf %72, %73 : f32
// ORDERED-NEXT:           cute.yield %74 : f32
// ORDERED-NEXT:         }
// ORDERED-NEXT:         cute.copy %71, %29 : !cute.fragment<f32, "(64,64)"> -> !cute.fragment<f32, "(64,64)">
// ORDERED-NEXT:       }
// ORDERED-NEXT:       %75 = cute.map (%76 = %29 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f16, "(64,64)"> {
// ORDERED-NEXT:         %77 = arith.mulf %76, %alpha : f32
// ORDERED-NEXT:         %78 = arith.truncf %77 : f32 to f16
// ORDERED-NEXT:         cute.yield %78 : f16
// ORDERED-NEXT:       }
// ORDERED-NEXT:       %D_1 = cute.local_tile %D, [64, 64], (%28, %27) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// ORDERED-NEXT:       %79 = arith.constant 64 : i32
// ORDERED-NEXT:       %80 = arith.muli %28, %79 : i32
// ORDERED-NEXT:       %81 = arith.constant 64 : i32
// ORDERED-NEXT:       %82 = arith.muli %27, %81 : i32
// ORDERED-NEXT:       cute.copy %75, %D_1 : !cute.fragment<f16, "(64,64)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// ORDERED-NEXT:     } else {
// ORDERED-NEXT:     }
// ORDERED-NEXT:   }
// ORDERED-NEXT:   func.func @launch(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {cute.written = array<i64: 2>} {
// ORDERED-NEXT:     %0 = arith.constant 1 : i32
// ORDERED-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ORDERED-NEXT:     %2 = arith.constant 64 : i32
// ORDERED-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// ORDERED-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ORDERED-NEXT:     %5 = arith.constant 64 : i32
// ORDERED-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// ORDERED-NEXT:     %7 = arith.muli %3, %6 overflow<nsw> : i32
// ORDERED-NEXT:     %8 = arith.constant 4 : i32
// ORDERED-NEXT:     %9 = arith.muli %7, %8 overflow<nsw> : i32
// ORDERED-NEXT:     %10 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ORDERED-NEXT:     %11 = arith.constant 64 : i32
// ORDERED-NEXT:     %12 = arith.ceildivsi %10, %11 : i32
// ORDERED-NEXT:     %13 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ORDERED-NEXT:     %14 = arith.constant 64 : i32
// ORDERED-NEXT:     %15 = arith.ceildivsi %13, %14 : i32
// ORDERED-NEXT:     %16 = arith.muli %12, %15 overflow<nsw> : i32
// ORDERED-NEXT:     %arrivals = cute.workspace(%16) zeroed : !cute.memref<i32, gmem, align<16>, "(?):(1)">
// ORDERED-NEXT:     %17 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ORDERED-NEXT:     %18 = arith.constant 64 : i32
// ORDERED-NEXT:     %19 = arith.ceildivsi %17, %18 : i32
// ORDERED-NEXT:     %20 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ORDERED-NEXT:     %21 = arith.constant 64 : i32
// ORDERED-NEXT:     %22 = arith.ceildivsi %20, %21 : i32
// ORDERED-NEXT:     %23 = arith.muli %19, %22 overflow<nsw> : i32
// ORDERED-NEXT:     %24 = arith.constant 4 : i32
// ORDERED-NEXT:     %25 = arith.muli %23, %24 overflow<nsw> : i32
// ORDERED-NEXT:     %partials = cute.workspace(%25) : !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))">
// ORDERED-NEXT:     cute.launch @gemm grid(%9, %0, %0) args(%A, %B, %D, %alpha, %arrivals, %partials) {threads = 128 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32, !cute.memref<i32, gmem, align<16>, "(?):(1)">, !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))">
// ORDERED-NEXT:     func.return
// ORDERED-NEXT:   }
// ORDERED-NEXT: }
// END BLESSED

// BLESSED ATOMIC
// ATOMIC: builtin.module attributes {cute.arch = "sm_80"} {
// ATOMIC-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32, %arrivals: !cute.memref<i32, gmem, align<16>, "(?):(1)">, %partials: !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))">) attributes {schedule = #cute.schedule<"warps = (2,2), roles = uniform, scheduler = single, raster = 8, split_k = 4, reduction = atomic">, threads = 128 : i32} {
// ATOMIC-NEXT:     %0 = cute.block_idx x
// ATOMIC-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ATOMIC-NEXT:     %2 = arith.constant 64 : i32
// ATOMIC-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// ATOMIC-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ATOMIC-NEXT:     %5 = arith.constant 64 : i32
// ATOMIC-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// ATOMIC-NEXT:     %7 = arith.constant 4 : i32
// ATOMIC-NEXT:     %8 = arith.divsi %0, %7 : i32
// ATOMIC-NEXT:     %9 = arith.remsi %0, %7 : i32
// ATOMIC-NEXT:     %10 = arith.muli %3, %6 overflow<nsw> : i32
// ATOMIC-NEXT:     %11 = arith.constant 8 : i32
// ATOMIC-NEXT:     %12 = arith.constant 1 : i32
// ATOMIC-NEXT:     %13 = arith.muli %11, %6 overflow<nsw> : i32
// ATOMIC-NEXT:     %14 = arith.divsi %8, %13 : i32
// ATOMIC-NEXT:     %15 = arith.muli %14, %11 overflow<nsw> : i32
// ATOMIC-NEXT:     %16 = arith.remsi %8, %13 : i32
// ATOMIC-NEXT:     %17 = arith.remsi %3, %11 : i32
// ATOMIC-NEXT:     %18 = arith.subi %3, %17 overflow<nsw> : i32
// ATOMIC-NEXT:     %19 = arith.remsi %3, %11 : i32
// ATOMIC-NEXT:     %20 = arith.maxsi %19, %12 : i32
// ATOMIC-NEXT:     %21 = arith.cmpi sge, %15, %18 : i32
// ATOMIC-NEXT:     %22 = arith.remsi %16, %20 : i32
// ATOMIC-NEXT:     %23 = arith.remsi %16, %11 : i32
// ATOMIC-NEXT:     %24 = arith.select %21, %22, %23 : i32
// ATOMIC-NEXT:     %25 = arith.divsi %16, %20 : i32
// ATOMIC-NEXT:     %26 = arith.divsi %16, %11 : i32
// ATOMIC-NEXT:     %27 = arith.select %21, %25, %26 : i32
// ATOMIC-NEXT:     %28 = arith.addi %15, %24 overflow<nsw> : i32
// ATOMIC-NEXT:     %29 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
// ATOMIC-NEXT:     %30 = arith.constant 0.000000e+00 : f32
// ATOMIC-NEXT:     cute.fill %29, %30 : !cute.fragment<f32, "(64,64)">
// ATOMIC-NEXT:     %31 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ATOMIC-NEXT:     %32 = arith.constant 32 : i32
// ATOMIC-NEXT:     %33 = arith.ceildivsi %31, %32 : i32
// ATOMIC-NEXT:     %34 = arith.constant 0 : i32
// ATOMIC-NEXT:     %35 = arith.constant 1 : i32
// ATOMIC-NEXT:     %36 = arith.divsi %33, %7 : i32
// ATOMIC-NEXT:     %37 = arith.remsi %33, %7 : i32
// ATOMIC-NEXT:     %38 = arith.muli %9, %36 overflow<nsw> : i32
// ATOMIC-NEXT:     %39 = arith.minsi %9, %37 : i32
// ATOMIC-NEXT:     %40 = arith.addi %38, %39 overflow<nsw> : i32
// ATOMIC-NEXT:     %41 = arith.cmpi slt, %9, %37 : i32
// ATOMIC-NEXT:     %42 = arith.constant 1 : i32
// ATOMIC-NEXT:     %43 = arith.addi %36, %42 overflow<nsw> : i32
// ATOMIC-NEXT:     %44 = arith.select %41, %43, %36 : i32
// ATOMIC-NEXT:     %45 = arith.constant 0 : i32
// ATOMIC-NEXT:     scf.for %46 = %45 to %44 step %35 : i32 {
// ATOMIC-NEXT:       %47 = arith.addi %46, %40 overflow<nsw> : i32
// ATOMIC-NEXT:       %A_1 = cute.local_tile %A, [64, 32], (%28, %47) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
// ATOMIC-NEXT:       %48 = arith.constant 64 : i32
// ATOMIC-NEXT:       %49 = arith.muli %28, %48 : i32
// ATOMIC-NEXT:       %50 = arith.constant 32 : i32
// ATOMIC-NEXT:       %51 = arith.muli %47, %50 : i32
// ATOMIC-NEXT:       %B_1 = cute.local_tile %B, [32, 64], (%47, %27) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)">
// ATOMIC-NEXT:       %52 = arith.constant 32 : i32
// ATOMIC-NEXT:       %53 = arith.muli %47, %52 : i32
// ATOMIC-NEXT:       %54 = arith.constant 64 : i32
// ATOMIC-NEXT:       %55 = arith.muli %27, %54 : i32
// ATOMIC-NEXT:       %56 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">
// ATOMIC-NEXT:       cute.gemm %A_1, %56, %29 : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">, !cute.fragment<f32, "(64,64)">
// ATOMIC-NEXT:     }
// ATOMIC-NEXT:     %57 = arith.constant 0 : i32
// ATOMIC-NEXT:     %58 = cute.local_tile %partials, [*, _, _], (%8, %57, %57) : !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))"> -> !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// ATOMIC-NEXT:     cute.atomic "add", %29, %58 : !cute.fragment<f32, "(64,64)">, !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// ATOMIC-NEXT:     %59 = cute.last_arrival %arrivals[%8] of %7 : !cute.memref<i32, gmem, align<16>, "(?):(1)">
// ATOMIC-NEXT:     scf.if %59 {
// ATOMIC-NEXT:       %60 = arith.constant 0 : i32
// ATOMIC-NEXT:       %61 = cute.local_tile %partials, [*, _, _], (%8, %60, %60) : !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))"> -> !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// ATOMIC-NEXT:       %62 = cute.load %61 : !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))"> -> !cute.fragment<f32, "(64,64)">
// ATOMIC-NEXT:       cute.copy %62, %29 : !cute.fragment<f32, "(64,64)"> -> !cute.fragment<f32, "(64,64)">
// ATOMIC-NEXT:       %63 = cute.map (%64 = %62 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f32, "(64,64)"> {
// ATOMIC-NEXT:         %65 = arith.constant 0.000000e+00 : f32
// ATOMIC-NEXT:         cute.yield %65 : f32
// ATOMIC-NEXT:       }
// ATOMIC-NEXT:       cute.copy %63, %61 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,64)"> -> !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// ATOMIC-NEXT:       %66 = cute.map (%67 = %29 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f16, "(64,64)"> {
// ATOMIC-NEXT:         %68 = arith.mulf %67, %alpha : f32
// ATOMIC-NEXT:         %69 = arith.truncf %68 : f32 to f16
// ATOMIC-NEXT:         cute.yield %69 : f16
// ATOMIC-NEXT:       }
// ATOMIC-NEXT:       %D_1 = cute.local_tile %D, [64, 64], (%28, %27) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// ATOMIC-NEXT:       %70 = arith.constant 64 : i32
// ATOMIC-NEXT:       %71 = arith.muli %28, %70 : i32
// ATOMIC-NEXT:       %72 = arith.constant 64 : i32
// ATOMIC-NEXT:       %73 = arith.muli %27, %72 : i32
// ATOMIC-NEXT:       cute.copy %66, %D_1 : !cute.fragment<f16, "(64,64)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// ATOMIC-NEXT:     } else {
// ATOMIC-NEXT:     }
// ATOMIC-NEXT:   }
// ATOMIC-NEXT:   func.func @launch(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {cute.written = array<i64: 2>} {
// ATOMIC-NEXT:     %0 = arith.constant 1 : i32
// ATOMIC-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ATOMIC-NEXT:     %2 = arith.constant 64 : i32
// ATOMIC-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// ATOMIC-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ATOMIC-NEXT:     %5 = arith.constant 64 : i32
// ATOMIC-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// ATOMIC-NEXT:     %7 = arith.muli %3, %6 overflow<nsw> : i32
// ATOMIC-NEXT:     %8 = arith.constant 4 : i32
// ATOMIC-NEXT:     %9 = arith.muli %7, %8 overflow<nsw> : i32
// ATOMIC-NEXT:     %10 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ATOMIC-NEXT:     %11 = arith.constant 64 : i32
// ATOMIC-NEXT:     %12 = arith.ceildivsi %10, %11 : i32
// ATOMIC-NEXT:     %13 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ATOMIC-NEXT:     %14 = arith.constant 64 : i32
// ATOMIC-NEXT:     %15 = arith.ceildivsi %13, %14 : i32
// ATOMIC-NEXT:     %16 = arith.muli %12, %15 overflow<nsw> : i32
// ATOMIC-NEXT:     %arrivals = cute.workspace(%16) zeroed : !cute.memref<i32, gmem, align<16>, "(?):(1)">
// ATOMIC-NEXT:     %17 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ATOMIC-NEXT:     %18 = arith.constant 64 : i32
// ATOMIC-NEXT:     %19 = arith.ceildivsi %17, %18 : i32
// ATOMIC-NEXT:     %20 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// ATOMIC-NEXT:     %21 = arith.constant 64 : i32
// ATOMIC-NEXT:     %22 = arith.ceildivsi %20, %21 : i32
// ATOMIC-NEXT:     %23 = arith.muli %19, %22 overflow<nsw> : i32
// ATOMIC-NEXT:     %partials = cute.workspace(%23) zeroed : !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))">
// ATOMIC-NEXT:     cute.launch @gemm grid(%9, %0, %0) args(%A, %B, %D, %alpha, %arrivals, %partials) {threads = 128 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32, !cute.memref<i32, gmem, align<16>, "(?):(1)">, !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))">
// ATOMIC-NEXT:     func.return
// ATOMIC-NEXT:   }
// ATOMIC-NEXT: }
// END BLESSED

cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) {
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
