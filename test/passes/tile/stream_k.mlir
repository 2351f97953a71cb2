// RUN: cute-opt %s -p 'cute-tile{arch=sm_80 schedule="scheduler = stream"}' | filecheck %s --check-prefix=STREAM

// BLESSED STREAM
// STREAM: builtin.module attributes {cute.arch = "sm_80"} {
// STREAM-NEXT:   cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32, %arrivals: !cute.memref<i32, gmem, align<16>, "(?):(1)">, %partials: !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))">) attributes {schedule = #cute.schedule<"warps = (2,2), roles = uniform, scheduler = stream, raster = 8">, threads = 128 : i32} {
// STREAM-NEXT:     %0 = cute.block_idx x
// STREAM-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// STREAM-NEXT:     %2 = arith.constant 64 : i32
// STREAM-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// STREAM-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// STREAM-NEXT:     %5 = arith.constant 64 : i32
// STREAM-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// STREAM-NEXT:     %7 = arith.muli %3, %6 overflow<nsw> : i32
// STREAM-NEXT:     %8 = arith.constant 0 : i32
// STREAM-NEXT:     %9 = arith.constant 1 : i32
// STREAM-NEXT:     %10 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// STREAM-NEXT:     %11 = arith.constant 32 : i32
// STREAM-NEXT:     %12 = arith.ceildivsi %10, %11 : i32
// STREAM-NEXT:     %13 = arith.constant 0 : i32
// STREAM-NEXT:     %14 = arith.subi %12, %13 overflow<nsw> : i32
// STREAM-NEXT:     %15 = arith.maxsi %14, %8 : i32
// STREAM-NEXT:     %16 = arith.maxsi %15, %9 : i32
// STREAM-NEXT:     %17 = cute.grid_dim x
// STREAM-NEXT:     %18 = arith.muli %7, %16 overflow<nsw> : i32
// STREAM-NEXT:     %19 = arith.divsi %18, %17 : i32
// STREAM-NEXT:     %20 = arith.remsi %18, %17 : i32
// STREAM-NEXT:     %21 = arith.muli %0, %19 overflow<nsw> : i32
// STREAM-NEXT:     %22 = arith.minsi %0, %20 : i32
// STREAM-NEXT:     %23 = arith.addi %21, %22 overflow<nsw> : i32
// STREAM-NEXT:     %24 = arith.cmpi slt, %0, %20 : i32
// STREAM-NEXT:     %25 = arith.constant 1 : i32
// STREAM-NEXT:     %26 = arith.addi %19, %25 overflow<nsw> : i32
// STREAM-NEXT:     %27 = arith.select %24, %26, %19 : i32
// STREAM-NEXT:     %28 = arith.addi %23, %27 overflow<nsw> : i32
// STREAM-NEXT:     %29 = arith.divsi %23, %16 : i32
// STREAM-NEXT:     %30 = arith.ceildivsi %28, %16 : i32
// STREAM-NEXT:     %31 = arith.divsi %18, %17 : i32
// STREAM-NEXT:     %32 = arith.remsi %18, %17 : i32
// STREAM-NEXT:     scf.for %33 = %29 to %30 step %9 : i32 {
// STREAM-NEXT:       %34 = arith.muli %33, %16 overflow<nsw> : i32
// STREAM-NEXT:       %35 = arith.subi %16, %9 overflow<nsw> : i32
// STREAM-NEXT:       %36 = arith.addi %34, %35 overflow<nsw> : i32
// STREAM-NEXT:       %37 = arith.addi %31, %9 overflow<nsw> : i32
// STREAM-NEXT:       %38 = arith.muli %32, %37 overflow<nsw> : i32
// STREAM-NEXT:       %39 = arith.subi %34, %38 overflow<nsw> : i32
// STREAM-NEXT:       %40 = arith.cmpi slt, %39, %8 : i32
// STREAM-NEXT:       %41 = arith.maxsi %39, %8 : i32
// STREAM-NEXT:       %42 = arith.maxsi %31, %9 : i32
// STREAM-NEXT:       %43 = arith.divsi %41, %42 : i32
// STREAM-NEXT:       %44 = arith.addi %32, %43 overflow<nsw> : i32
// STREAM-NEXT:       %45 = arith.divsi %34, %37 : i32
// STREAM-NEXT:       %46 = arith.select %40, %45, %44 : i32
// STREAM-NEXT:       %47 = arith.addi %31, %9 overflow<nsw> : i32
// STREAM-NEXT:       %48 = arith.muli %32, %47 overflow<nsw> : i32
// STREAM-NEXT:       %49 = arith.subi %36, %48 overflow<nsw> : i32
// STREAM-NEXT:       %50 = arith.cmpi slt, %49, %8 : i32
// STREAM-NEXT:       %51 = arith.maxsi %49, %8 : i32
// STREAM-NEXT:       %52 = arith.maxsi %31, %9 : i32
// STREAM-NEXT:       %53 = arith.divsi %51, %52 : i32
// STREAM-NEXT:       %54 = arith.addi %32, %53 overflow<nsw> : i32
// STREAM-NEXT:       %55 = arith.divsi %36, %47 : i32
// STREAM-NEXT:       %56 = arith.select %50, %55, %54 : i32
// STREAM-NEXT:       %57 = arith.subi %56, %46 overflow<nsw> : i32
// STREAM-NEXT:       %58 = arith.addi %57, %9 overflow<nsw> : i32
// STREAM-NEXT:       %59 = arith.subi %0, %46 overflow<nsw> : i32
// STREAM-NEXT:       %60 = arith.subi %23, %34 overflow<nsw> : i32
// STREAM-NEXT:       %61 = arith.maxsi %60, %8 : i32
// STREAM-NEXT:       %62 = arith.subi %28, %34 overflow<nsw> : i32
// STREAM-NEXT:       %63 = arith.minsi %62, %15 : i32
// STREAM-NEXT:       %64 = arith.subi %63, %61 overflow<nsw> : i32
// STREAM-NEXT:       %65 = arith.maxsi %64, %8 : i32
// STREAM-NEXT:       %66 = arith.muli %3, %6 overflow<nsw> : i32
// STREAM-NEXT:       %67 = arith.constant 8 : i32
// STREAM-NEXT:       %68 = arith.constant 1 : i32
// STREAM-NEXT:       %69 = arith.muli %67, %6 overflow<nsw> : i32
// STREAM-NEXT:       %70 = arith.divsi %33, %69 : i32
// STREAM-NEXT:       %71 = arith.muli %70, %67 overflow<nsw> : i32
// STREAM-NEXT:       %72 = arith.remsi %33, %69 : i32
// STREAM-NEXT:       %73 = arith.remsi %3, %67 : i32
// STREAM-NEXT:       %74 = arith.subi %3, %73 overflow<nsw> : i32
// STREAM-NEXT:       %75 = arith.remsi %3, %67 : i32
// STREAM-NEXT:       %76 = arith.maxsi %75, %68 : i32
// STREAM-NEXT:       %77 = arith.cmpi sge, %71, %74 : i32
// STREAM-NEXT:       %78 = arith.remsi %72, %76 : i32
// STREAM-NEXT:       %79 = arith.remsi %72, %67 : i32
// STREAM-NEXT:       %80 = arith.select %77, %78, %79 : i32
// STREAM-NEXT:       %81 = arith.divsi %72, %76 : i32
// STREAM-NEXT:       %82 = arith.divsi %72, %67 : i32
// STREAM-NEXT:       %83 = arith.select %77, %81, %82 : i32
// STREAM-NEXT:       %84 = arith.addi %71, %80 overflow<nsw> : i32
// STREAM-NEXT:       %85 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
// STREAM-NEXT:       %86 = arith.constant 0.000000e+00 : f32
// STREAM-NEXT:       cute.fill %85, %86 : !cute.fragment<f32, "(64,64)">
// STREAM-NEXT:       %87 = cute.dim %A, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// STREAM-NEXT:       %88 = arith.constant 32 : i32
// STREAM-NEXT:       %89 = arith.ceildivsi %87, %88 : i32
// STREAM-NEXT:       %90 = arith.constant 0 : i32
// STREAM-NEXT:       %91 = arith.constant 1 : i32
// STREAM-NEXT:       %92 = arith.constant 0 : i32
// STREAM-NEXT:       scf.for %93 = %92 to %65 step %91 : i32 {
// STREAM-NEXT:         %94 = arith.addi %93, %61 overflow<nsw> : i32
// STREAM-NEXT:         %A_1 = cute.local_tile %A, [64, 32], (%84, %94) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
// STREAM-NEXT:         %95 = arith.constant 64 : i32
// STREAM-NEXT:         %96 = arith.muli %84, %95 : i32
// STREAM-NEXT:         %97 = arith.constant 32 : i32
// STREAM-NEXT:         %98 = arith.muli %94, %97 : i32
// STREAM-NEXT:         %B_1 = cute.local_tile %B, [32, 64], (%94, %83) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)">
// STREAM-NEXT:         %99 = arith.constant 32 : i32
// STREAM-NEXT:         %100 = arith.muli %94, %99 : i32
// STREAM-NEXT:         %101 = arith.constant 64 : i32
// STREAM-NEXT:         %102 = arith.muli %83, %101 : i32
// STREAM-NEXT:         %103 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(32,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">
// STREAM-NEXT:         cute.gemm %A_1, %103, %85 : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(64,32):(1,?{i64 div=8})">, !cute.fragment<f32, "(64,64)">
// STREAM-NEXT:       }
// STREAM-NEXT:       %104 = arith.constant 1 : i32
// STREAM-NEXT:       %105 = arith.cmpi sgt, %58, %104 : i32
// STREAM-NEXT:       scf.if %105 {
// STREAM-NEXT:         %106 = arith.addi %46, %59 overflow<nsw> : i32
// STREAM-NEXT:         %107 = arith.cmpi eq, %59, %8 : i32
// STREAM-NEXT:         %108 = arith.select %107, %9, %8 : i32
// STREAM-NEXT:         %109 = arith.addi %106, %106 overflow<nsw> : i32
// STREAM-NEXT:         %110 = arith.addi %109, %108 overflow<nsw> : i32
// STREAM-NEXT:         %111 = arith.constant 0 : i32
// STREAM-NEXT:         %112 = cute.local_tile %partials, [*, _, _], (%110, %111, %111) : !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))"> -> !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// STREAM-NEXT:         cute.copy %85, %112 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,64)"> -> !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// STREAM-NEXT:       } else {
// STREAM-NEXT:       }
// STREAM-NEXT:       %113 = cute.last_arrival %arrivals[%46] of %58 : !cute.memref<i32, gmem, align<16>, "(?):(1)">
// STREAM-NEXT:       scf.if %113 {
// STREAM-NEXT:         %114 = arith.constant 1 : i32
// STREAM-NEXT:         %115 = arith.cmpi sgt, %58, %114 : i32
// STREAM-NEXT:         scf.if %115 {
// STREAM-NEXT:           %116 = arith.constant 0.000000e+00 : f32
// STREAM-NEXT:           cute.fill %85, %116 : !cute.fragment<f32, "(64,64)">
// STREAM-NEXT:           %117 = arith.constant 0 : i32
// STREAM-NEXT:           %118 = arith.constant 1 : i32
// STREAM-NEXT:           scf.for %119 = %117 to %58 step %118 : i32 {
// STREAM-NEXT:             %120 = arith.addi %46, %119 overflow<nsw> : i32
// STREAM-NEXT:             %121 = arith.cmpi eq, %119, %8 : i32
// STREAM-NEXT:             %122 = arith.select %121, %9, %8 : i32
// STREAM-NEXT:             %123 = arith.addi %120, %120 overflow<nsw> : i32
// STREAM-NEXT:             %124 = arith.addi %123, %122 overflow<nsw> : i32
// STREAM-NEXT:             %125 = arith.constant 0 : i32
// STREAM-NEXT:             %126 = cute.local_tile %partials, [*, _, _], (%124, %125, %125) : !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))"> -> !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))">
// STREAM-NEXT:             %127 = cute.load %126 : !cute.memref<f32, gmem, align<16>, "((8,2,4),(2,4,8)):((16,2,1024),(1,4,128))"> -> !cute.fragment<f32, "(64,64)">
// STREAM-NEXT:             %128 = cute.map (%129 = %85 : !cute.fragment<f32, "(64,64)">, %130 = %127 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f32, "(64,64)"> {
// STREAM-NEXT:               %131 = arith.addf %129, %130 : f32
// STREAM-NEXT:               cute.yield %131 : f32
// STREAM-NEXT:             }
// STREAM-NEXT:             cute.copy %128, %85 : !cute.fragment<f32, "(64,64)"> -> !cute.fragment<f32, "(64,64)">
// STREAM-NEXT:           }
// STREAM-NEXT:         } else {
// STREAM-NEXT:         }
// STREAM-NEXT:         %132 = cute.map (%133 = %85 : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f16, "(64,64)"> {
// STREAM-NEXT:           %134 = arith.mulf %133, %alpha : f32
// STREAM-NEXT:           %135 = arith.truncf %134 : f32 to f16
// STREAM-NEXT:           cute.yield %135 : f16
// STREAM-NEXT:         }
// STREAM-NEXT:         %D_1 = cute.local_tile %D, [64, 64], (%84, %83) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// STREAM-NEXT:         %136 = arith.constant 64 : i32
// STREAM-NEXT:         %137 = arith.muli %84, %136 : i32
// STREAM-NEXT:         %138 = arith.constant 64 : i32
// STREAM-NEXT:         %139 = arith.muli %83, %138 : i32
// STREAM-NEXT:         cute.copy %132, %D_1 : !cute.fragment<f16, "(64,64)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
// STREAM-NEXT:       } else {
// STREAM-NEXT:       }
// STREAM-NEXT:     } {work_items}
// STREAM-NEXT:   }
// STREAM-NEXT:   func.func @launch(%A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %D: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %alpha: f32) attributes {cute.written = array<i64: 2>} {
// STREAM-NEXT:     %0 = arith.constant 1 : i32
// STREAM-NEXT:     %1 = cute.dim %D, 0 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// STREAM-NEXT:     %2 = arith.constant 64 : i32
// STREAM-NEXT:     %3 = arith.ceildivsi %1, %2 : i32
// STREAM-NEXT:     %4 = cute.dim %D, 1 : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// STREAM-NEXT:     %5 = arith.constant 64 : i32
// STREAM-NEXT:     %6 = arith.ceildivsi %4, %5 : i32
// STREAM-NEXT:     %7 = arith.muli %3, %6 overflow<nsw> : i32
// STREAM-NEXT:     %8 = cute.sm_count : i32
// STREAM-NEXT:     %9 = arith.constant 1 : i32
// STREAM-NEXT:     %10 = arith.minsi %7, %9 : i32
// STREAM-NEXT:     %11 = arith.muli %10, %8 overflow<nsw> : i32
// STREAM-NEXT:     %12 = arith.minsi %11, %8 : i32
// STREAM-NEXT:     %arrivals = cute.workspace(%12) zeroed : !cute.memref<i32, gmem, align<16>, "(?):(1)">
// STREAM-NEXT:     %13 = arith.constant 2 : i32
// STREAM-NEXT:     %14 = arith.muli %12, %13 overflow<nsw> : i32
// STREAM-NEXT:     %partials = cute.workspace(%14) : !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))">
// STREAM-NEXT:     cute.launch @gemm grid(%12, %0, %0) args(%A, %B, %D, %alpha, %arrivals, %partials) {threads = 128 : i32} : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, f32, !cute.memref<i32, gmem, align<16>, "(?):(1)">, !cute.memref<f32, gmem, align<16>, "(?,(8,2,4),(2,4,8)):(4096,(16,2,1024),(1,4,128))">
// STREAM-NEXT:     func.return
// STREAM-NEXT:   }
// STREAM-NEXT: }
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
