// RUN: cute-opt %s --cute-expand-rings --cute-expand-roles --cute-check-protocol --verify-diagnostics -o /dev/null

// The multiply's operands come from the role that waits for its result first: neither goes on.

builtin.module attributes {cute.arch = "sm_100a"} {
  cute.kernel @k(%X: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %C: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %Z: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %tC: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>, %tB: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>, %tX: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>, %tY: !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>>, %tZ: !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>>) attributes {schedule = #cute.schedule<"warps = (4,1), stages = 8, roles = specialized, scheduler = persistent, raster = 8, epilogue = tma">, threads = 256 : i32, roles = {load = array<i64: 0, 1, 0>, mma = array<i64: 1, 1, 0>, main = array<i64: 4, 4, 0>}} {
    %sC = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(64,1,4096)">
    %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(64,1,4096)">
    %0 = cute.alloc_tmem : !cute.memref<f16, tmem, align<4>, "((16,4),64,2):((131072,4194304),1,64)">
    %s_1 = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(1,64,4096)">
    %1 = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
    %sY = cute.alloc_smem : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)">
    %sZ = cute.alloc_smem : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)">
    %2 = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)">
    %3 = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)">
    %4 = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)">
    %5 = pipeline.create {kind = "threads", producers = 4 : i32, consumers = 1 : i32} : !pipeline.ring<2>
    %6 = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 1 : i32, bytes = 8192 : i32} : !pipeline.ring<8>
    %7 = pipeline.create {kind = "tmem", producers = 4 : i32, consumers = 1 : i32} : !pipeline.ring<2>
    %8 = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 1 : i32, bytes = 16384 : i32} : !pipeline.ring<8>
    %9 = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
    %10 = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
    %11 = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
    pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
      %12 = pipeline.state "producer" %6 : !pipeline.ring<8> -> !pipeline.state<8>
      %13 = pipeline.state "producer" %8 : !pipeline.ring<8> -> !pipeline.state<8>
      %14 = cute.block_idx x
      %15 = arith.constant 1 : i32
      %16 = arith.constant 1 : i32
      %17 = arith.muli %15, %16 overflow<nsw> : i32
      %18 = cute.grid_dim x
      scf.for %19 = %14 to %17 step %18 : i32 {
        %20 = arith.constant 0 : i32
        %21 = arith.constant 0 : i32
        %22 = arith.constant 0 : i32
        %23 = arith.constant 0 : i32
        %24 = arith.constant 2 : i32
        %25 = arith.constant 1 : i32
        scf.for %26 = %23 to %24 step %25 : i32 {
          %C_1 = cute.local_tile %C, [64, 64], (%26, %22) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
          %B_1 = cute.local_tile %B, [64, 64], (%26, %21) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
          %27 = cute.transpose %B_1 : !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(1,?{i64 div=8})">
          %28 = cute.transpose %27 : !cute.memref<f16, gmem, align<16>, "(64,64):(1,?{i64 div=8})"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
          pipeline.producer_acquire %8 at %13 : !pipeline.ring<8>, !pipeline.state<8>
          %29 = pipeline.barrier %8 at %13 : !pipeline.ring<8>, !pipeline.state<8>
          %30 = pipeline.index %13 : !pipeline.state<8>
          %31 = cute.stage %sC[%30] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
          cute.copy %C_1, %31 tma %tC : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %29 : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
          %32 = cute.stage %s[%30] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
          cute.copy %28, %32 tma %tB : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %29 : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
          pipeline.producer_commit %8 at %13 : !pipeline.ring<8>, !pipeline.state<8>
          pipeline.advance %13 : !pipeline.state<8>
          %X_1 = cute.local_tile %X, [64, 64], (%26, %20) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
          %33 = cute.transpose %X_1 : !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(1,?{i64 div=8})">
          pipeline.producer_acquire %6 at %12 : !pipeline.ring<8>, !pipeline.state<8>
          %34 = pipeline.barrier %6 at %12 : !pipeline.ring<8>, !pipeline.state<8>
          %35 = pipeline.index %12 : !pipeline.state<8>
          %36 = cute.stage %s_1[%35] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(1,64,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">
          cute.copy %33, %36 tma %tX : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %34 : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(1,?{i64 div=8})"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">
          pipeline.producer_commit %6 at %12 : !pipeline.ring<8>, !pipeline.state<8>
          pipeline.advance %12 : !pipeline.state<8>
        }
      } {work_items}
    }
    pipeline.role "mma" attributes {first = 1 : i32, warps = 1 : i32, elect} {
      %37 = pipeline.state "consumer" %5 : !pipeline.ring<2> -> !pipeline.state<2>
      %38 = pipeline.state "consumer" %6 : !pipeline.ring<8> -> !pipeline.state<8>
      %39 = pipeline.state "consumer" %7 : !pipeline.ring<2> -> !pipeline.state<2>
      %40 = pipeline.state "consumer" %8 : !pipeline.ring<8> -> !pipeline.state<8>
      %41 = pipeline.state "producer" %9 : !pipeline.ring<2> -> !pipeline.state<2>
      %42 = pipeline.state "producer" %10 : !pipeline.ring<2> -> !pipeline.state<2>
      %43 = pipeline.state "producer" %11 : !pipeline.ring<2> -> !pipeline.state<2>
      %44 = cute.block_idx x
      %45 = arith.constant 1 : i32
      %46 = arith.constant 1 : i32
      %47 = arith.muli %45, %46 overflow<nsw> : i32
      %48 = cute.grid_dim x
      scf.for %49 = %44 to %47 step %48 : i32 {
        %50 = arith.constant 0 : i32
        %51 = arith.constant 2 : i32
        %52 = arith.constant 1 : i32
        pipeline.producer_acquire %9 at %41 : !pipeline.ring<2>, !pipeline.state<2>
        %53 = pipeline.index %41 : !pipeline.state<2>
        %54 = cute.stage %4[%53] : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
        %55 = arith.cmpi slt, %50, %51 : i32
        scf.if %55 {
          %56 = arith.constant false
          pipeline.producer_acquire %11 at %43 : !pipeline.ring<2>, !pipeline.state<2>
          %57 = pipeline.index %43 : !pipeline.state<2>
          %58 = cute.stage %2[%57] : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
          pipeline.consumer_wait %8 at %40 : !pipeline.ring<8>, !pipeline.state<8>
          %59 = pipeline.index %40 : !pipeline.state<8>
          %sC_1 = cute.stage %sC[%59] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
          %s_2 = cute.stage %s[%59] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
          cute.gemm %sC_1, %s_2, %58 keeps %56 {atom = !cute_nvgpu.sm100.mma<64x64x16, elem_type = (f16, f16, f32)>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
          pipeline.consumer_release %8 at %40 {commits} : !pipeline.ring<8>, !pipeline.state<8>
          pipeline.advance %40 : !pipeline.state<8>
          pipeline.producer_commit %11 at %43 : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.advance %43 : !pipeline.state<2>
          %60 = arith.addi %50, %52 overflow<nsw> : i32
          scf.for %61 = %60 to %51 step %52 : i32 {
            %62 = arith.subi %61, %52 overflow<nsw> : i32
            %63 = arith.constant false
            // expected-error @+1 {{CD-R5: no wait of these ever ends}}
            pipeline.consumer_wait %5 at %37 : !pipeline.ring<2>, !pipeline.state<2>
            %64 = pipeline.index %37 : !pipeline.state<2>
            %65 = cute.stage %1[%64] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
            %66 = cute.transpose %65 : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">
            %67 = arith.cmpi ne, %62, %50 : i32
            %68 = arith.constant false
            pipeline.producer_acquire %11 at %43 : !pipeline.ring<2>, !pipeline.state<2>
            %69 = pipeline.index %43 : !pipeline.state<2>
            %70 = cute.stage %2[%69] : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
            pipeline.consumer_wait %8 at %40 : !pipeline.ring<8>, !pipeline.state<8>
            %71 = pipeline.index %40 : !pipeline.state<8>
            %sC_2 = cute.stage %sC[%71] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
            %s_3 = cute.stage %s[%71] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
            cute.gemm %sC_2, %s_3, %70 keeps %68 {atom = !cute_nvgpu.sm100.mma<64x64x16, elem_type = (f16, f16, f32)>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
            pipeline.consumer_release %8 at %40 {commits} : !pipeline.ring<8>, !pipeline.state<8>
            pipeline.advance %40 : !pipeline.state<8>
            pipeline.producer_commit %11 at %43 : !pipeline.ring<2>, !pipeline.state<2>
            pipeline.advance %43 : !pipeline.state<2>
            pipeline.producer_acquire %10 at %42 : !pipeline.ring<2>, !pipeline.state<2>
            %72 = pipeline.index %42 : !pipeline.state<2>
            %73 = cute.stage %3[%72] : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
            pipeline.consumer_wait %7 at %39 : !pipeline.ring<2>, !pipeline.state<2>
            %74 = pipeline.index %39 : !pipeline.state<2>
            %75 = cute.stage %0[%74] : !cute.memref<f16, tmem, align<4>, "((16,4),64,2):((131072,4194304),1,64)"> -> !cute.memref<f16, tmem, align<4>, "((16,4),64):((131072,4194304),1)">
            pipeline.consumer_wait %6 at %38 : !pipeline.ring<8>, !pipeline.state<8>
            %76 = pipeline.index %38 : !pipeline.state<8>
            %s_4 = cute.stage %s_1[%76] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(1,64,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">
            cute.gemm %75, %s_4, %73 keeps %63 {atom = !cute_nvgpu.sm100.mma<64x64x16, elem_type = (f16, f16, f32)>} : !cute.memref<f16, tmem, align<4>, "((16,4),64):((131072,4194304),1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">, !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
            pipeline.consumer_release %7 at %39 {commits} : !pipeline.ring<2>, !pipeline.state<2>
            pipeline.advance %39 : !pipeline.state<2>
            pipeline.producer_commit %10 at %42 : !pipeline.ring<2>, !pipeline.state<2>
            pipeline.advance %42 : !pipeline.state<2>
            cute.gemm %66, %s_4, %54 keeps %67 {atom = !cute_nvgpu.sm100.mma<64x64x16, elem_type = (f16, f16, f32)>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">, !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
            pipeline.consumer_release %5 at %37 {commits} : !pipeline.ring<2>, !pipeline.state<2>
            pipeline.advance %37 : !pipeline.state<2>
            pipeline.consumer_release %6 at %38 {commits} : !pipeline.ring<8>, !pipeline.state<8>
            pipeline.advance %38 : !pipeline.state<8>
          }
          %77 = arith.subi %51, %50 overflow<nsw> : i32
          %78 = arith.ceildivsi %77, %52 : i32
          %79 = arith.muli %78, %52 overflow<nsw> : i32
          %80 = arith.addi %50, %79 overflow<nsw> : i32
          %81 = arith.subi %80, %52 overflow<nsw> : i32
          %82 = arith.constant false
          pipeline.consumer_wait %5 at %37 : !pipeline.ring<2>, !pipeline.state<2>
          %83 = pipeline.index %37 : !pipeline.state<2>
          %84 = cute.stage %1[%83] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
          %85 = cute.transpose %84 : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">
          %86 = arith.cmpi ne, %81, %50 : i32
          pipeline.producer_acquire %10 at %42 : !pipeline.ring<2>, !pipeline.state<2>
          %87 = pipeline.index %42 : !pipeline.state<2>
          %88 = cute.stage %3[%87] : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
          pipeline.consumer_wait %7 at %39 : !pipeline.ring<2>, !pipeline.state<2>
          %89 = pipeline.index %39 : !pipeline.state<2>
          %90 = cute.stage %0[%89] : !cute.memref<f16, tmem, align<4>, "((16,4),64,2):((131072,4194304),1,64)"> -> !cute.memref<f16, tmem, align<4>, "((16,4),64):((131072,4194304),1)">
          pipeline.consumer_wait %6 at %38 : !pipeline.ring<8>, !pipeline.state<8>
          %91 = pipeline.index %38 : !pipeline.state<8>
          %s_5 = cute.stage %s_1[%91] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,8):(1,64,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">
          cute.gemm %90, %s_5, %88 keeps %82 {atom = !cute_nvgpu.sm100.mma<64x64x16, elem_type = (f16, f16, f32)>} : !cute.memref<f16, tmem, align<4>, "((16,4),64):((131072,4194304),1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">, !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
          pipeline.consumer_release %7 at %39 {commits} : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.advance %39 : !pipeline.state<2>
          pipeline.producer_commit %10 at %42 : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.advance %42 : !pipeline.state<2>
          cute.gemm %85, %s_5, %54 keeps %86 {atom = !cute_nvgpu.sm100.mma<64x64x16, elem_type = (f16, f16, f32)>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">, !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
          pipeline.consumer_release %5 at %37 {commits} : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.advance %37 : !pipeline.state<2>
          pipeline.consumer_release %6 at %38 {commits} : !pipeline.ring<8>, !pipeline.state<8>
          pipeline.advance %38 : !pipeline.state<8>
        } else {
        }
        pipeline.producer_commit %9 at %41 : !pipeline.ring<2>, !pipeline.state<2>
        pipeline.advance %41 : !pipeline.state<2>
      } {work_items}
    }
    pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
      %92 = pipeline.state "producer" %5 : !pipeline.ring<2> -> !pipeline.state<2>
      %93 = pipeline.state "producer" %7 : !pipeline.ring<2> -> !pipeline.state<2>
      %94 = pipeline.state "consumer" %9 : !pipeline.ring<2> -> !pipeline.state<2>
      %95 = pipeline.state "consumer" %10 : !pipeline.ring<2> -> !pipeline.state<2>
      %96 = pipeline.state "consumer" %11 : !pipeline.ring<2> -> !pipeline.state<2>
      %97 = cute.block_idx x
      %98 = arith.constant 1 : i32
      %99 = arith.constant 1 : i32
      %100 = arith.muli %98, %99 overflow<nsw> : i32
      %101 = cute.grid_dim x
      scf.for %102 = %97 to %100 step %101 : i32 {
        %103 = arith.constant 0 : i32
        %104 = arith.constant 0 : i32
        %105 = arith.constant 0.000000e+00 : f32
        %106 = arith.constant 0 : i32
        %107 = arith.constant 2 : i32
        %108 = arith.constant 1 : i32
        scf.for %109 = %106 to %107 step %108 : i32 {
          %B_2 = cute.local_tile %B, [64, 64], (%109, %103) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
          %110 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)", "((4,8,4),(2,2,8)):((128,1,16),(64,8,512))">
          pipeline.consumer_wait %11 at %96 : !pipeline.ring<2>, !pipeline.state<2>
          %111 = pipeline.index %96 : !pipeline.state<2>
          %112 = cute.stage %2[%111] : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
          cute.copy %112, %110 {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)"> -> !cute.fragment<f32, "(64,64)", "((4,8,4),(2,2,8)):((128,1,16),(64,8,512))">
          pipeline.consumer_release %11 at %96 : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.advance %96 : !pipeline.state<2>
          %113 = cute.map (%114 = %110 : !cute.fragment<f32, "(64,64)", "((4,8,4),(2,2,8)):((128,1,16),(64,8,512))">) -> !cute.fragment<f16, "(64,64)", "((4,8,4),(2,2,8)):((128,1,16),(64,8,512))"> {
            %115 = arith.truncf %114 : f32 to f16
            cute.yield %115 : f16
          }
          pipeline.producer_acquire %7 at %93 : !pipeline.ring<2>, !pipeline.state<2>
          %116 = pipeline.barrier %7 at %93 : !pipeline.ring<2>, !pipeline.state<2>
          %117 = pipeline.index %93 : !pipeline.state<2>
          %118 = cute.stage %0[%117] : !cute.memref<f16, tmem, align<4>, "((16,4),64,2):((131072,4194304),1,64)"> -> !cute.memref<f16, tmem, align<4>, "((16,4),64):((131072,4194304),1)">
          cute.copy %113, %118 {atom = !cute_nvgpu.atom.tmem_store<f16, 16x128b>} : !cute.fragment<f16, "(64,64)", "((4,8,4),(2,2,8)):((128,1,16),(64,8,512))"> -> !cute.memref<f16, tmem, align<4>, "((16,4),64):((131072,4194304),1)">
          pipeline.producer_commit %7 at %93 : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.advance %93 : !pipeline.state<2>
          %Y_1 = cute.local_tile %Y, [64, 64], (%109, %104) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)">
          pipeline.consumer_wait %10 at %95 : !pipeline.ring<2>, !pipeline.state<2>
          %119 = pipeline.index %95 : !pipeline.state<2>
          %120 = cute.stage %3[%119] : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
          %121 = cute.subview %120, (0, 0) : !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)">
          %122 = cute.alloc_fragment : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
          cute.copy %121, %122 {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)"> -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
          %123 = arith.constant 0 : i32
          %124 = cute.stage %sY[%123] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
          cute.copy %122, %124 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
          cute_nvgpu.fence_proxy_async
          cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
          cute.barrier
          %125 = cute.subview %Y_1, (0, 0) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
          cute.copy %124, %125 tma %tY : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
          cute_nvgpu.tma_store_commit
          %126 = cute.subview %120, (0, 16) : !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)">
          %127 = cute.alloc_fragment : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
          cute.copy %126, %127 {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)"> -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
          %128 = arith.constant 1 : i32
          %129 = cute.stage %sY[%128] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
          cute.copy %127, %129 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
          cute_nvgpu.fence_proxy_async
          cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
          cute.barrier
          %130 = cute.subview %Y_1, (0, 16) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
          cute.copy %129, %130 tma %tY : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
          cute_nvgpu.tma_store_commit
          %131 = cute.subview %120, (0, 32) : !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)">
          %132 = cute.alloc_fragment : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
          cute.copy %131, %132 {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)"> -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
          %133 = arith.constant 0 : i32
          %134 = cute.stage %sY[%133] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
          cute.copy %132, %134 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
          cute_nvgpu.fence_proxy_async
          cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
          cute.barrier
          %135 = cute.subview %Y_1, (0, 32) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
          cute.copy %134, %135 tma %tY : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
          cute_nvgpu.tma_store_commit
          %136 = cute.subview %120, (0, 48) : !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)">
          %137 = cute.alloc_fragment : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
          cute.copy %136, %137 {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)"> -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
          pipeline.consumer_release %10 at %95 : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.advance %95 : !pipeline.state<2>
          %138 = arith.constant 1 : i32
          %139 = cute.stage %sY[%138] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
          cute.copy %137, %139 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
          cute_nvgpu.fence_proxy_async
          cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
          cute.barrier
          %140 = cute.subview %Y_1, (0, 48) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
          cute.copy %139, %140 tma %tY : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
          cute_nvgpu.tma_store_commit
          %141 = cute.load %B_2 {atom = !cute_nvgpu.atom.universal_copy<f16, 128 b>, tiled = #cute.tiled_copy<"((8,16),8):((128,1),16)", tiler = "(16,64)", order = "(1,0)">} : !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)"> -> !cute.fragment<f16, "(64,64)", "((8,16),(8,4)):((512,1),(64,16))">
          %142 = cute.map (%143 = %141 : !cute.fragment<f16, "(64,64)", "((8,16),(8,4)):((512,1),(64,16))">) -> !cute.fragment<f16, "(64,64)", "((8,16),(8,4)):((512,1),(64,16))"> {
            %144 = arith.constant 2.000000e+00 : f16
            %145 = arith.mulf %143, %144 : f16
            cute.yield %145 : f16
          }
          pipeline.producer_acquire %5 at %92 : !pipeline.ring<2>, !pipeline.state<2>
          %146 = pipeline.barrier %5 at %92 : !pipeline.ring<2>, !pipeline.state<2>
          %147 = pipeline.index %92 : !pipeline.state<2>
          %148 = cute.stage %1[%147] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
          cute.copy %142, %148 {atom = !cute_nvgpu.atom.universal_copy<f16, 128 b>} : !cute.fragment<f16, "(64,64)", "((8,16),(8,4)):((512,1),(64,16))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
          cute_nvgpu.fence_proxy_async
          pipeline.producer_commit %5 at %92 : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.advance %92 : !pipeline.state<2>
        }
        %149 = arith.cmpi slt, %106, %107 : i32
        %150 = arith.constant 0 : i32
        %151 = arith.constant 0 : i32
        %Z_1 = cute.local_tile %Z, [64, 64], (%150, %151) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)">
        pipeline.consumer_wait %9 at %94 : !pipeline.ring<2>, !pipeline.state<2>
        %152 = pipeline.index %94 : !pipeline.state<2>
        %153 = cute.stage %4[%152] : !cute.memref<f32, tmem, align<4>, "((16,4),64,2):((65536,2097152),1,64)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)">
        %154 = cute.subview %153, (0, 0) : !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)">
        %155 = cute.alloc_fragment : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        scf.if %149 {
          cute.copy %154, %155 {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)"> -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        } else {
          cute.fill %155, %105 : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        }
        %156 = cute.map (%157 = %155 : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">) -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> {
          %158 = arith.constant 1.000000e+00 : f32
          %159 = arith.mulf %157, %158 : f32
          cute.yield %159 : f32
        }
        %160 = arith.constant 0 : i32
        %161 = cute.stage %sZ[%160] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
        cute.copy %156, %161 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
        cute_nvgpu.fence_proxy_async
        cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
        cute.barrier
        %162 = cute.subview %Z_1, (0, 0) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
        cute.copy %161, %162 tma %tZ : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_commit
        %163 = cute.subview %153, (0, 16) : !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)">
        %164 = cute.alloc_fragment : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        scf.if %149 {
          cute.copy %163, %164 {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)"> -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        } else {
          cute.fill %164, %105 : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        }
        %165 = cute.map (%166 = %164 : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">) -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> {
          %167 = arith.constant 1.000000e+00 : f32
          %168 = arith.mulf %166, %167 : f32
          cute.yield %168 : f32
        }
        %169 = arith.constant 1 : i32
        %170 = cute.stage %sZ[%169] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
        cute.copy %165, %170 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
        cute_nvgpu.fence_proxy_async
        cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
        cute.barrier
        %171 = cute.subview %Z_1, (0, 16) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
        cute.copy %170, %171 tma %tZ : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_commit
        %172 = cute.subview %153, (0, 32) : !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)">
        %173 = cute.alloc_fragment : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        scf.if %149 {
          cute.copy %172, %173 {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)"> -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        } else {
          cute.fill %173, %105 : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        }
        %174 = cute.map (%175 = %173 : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">) -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> {
          %176 = arith.constant 1.000000e+00 : f32
          %177 = arith.mulf %175, %176 : f32
          cute.yield %177 : f32
        }
        %178 = arith.constant 0 : i32
        %179 = cute.stage %sZ[%178] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
        cute.copy %174, %179 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
        cute_nvgpu.fence_proxy_async
        cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
        cute.barrier
        %180 = cute.subview %Z_1, (0, 32) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
        cute.copy %179, %180 tma %tZ : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_commit
        %181 = cute.subview %153, (0, 48) : !cute.memref<f32, tmem, align<4>, "((16,4),64):((65536,2097152),1)"> -> !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)">
        %182 = cute.alloc_fragment : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        scf.if %149 {
          cute.copy %181, %182 {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "((16,4),16):((65536,2097152),1)"> -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        } else {
          cute.fill %182, %105 : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">
        }
        pipeline.consumer_release %9 at %94 : !pipeline.ring<2>, !pipeline.state<2>
        pipeline.advance %94 : !pipeline.state<2>
        %183 = cute.map (%184 = %182 : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))">) -> !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> {
          %185 = arith.constant 1.000000e+00 : f32
          %186 = arith.mulf %184, %185 : f32
          cute.yield %186 : f32
        }
        %187 = arith.constant 1 : i32
        %188 = cute.stage %sZ[%187] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16,2):(16,1,1024)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
        cute.copy %183, %188 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,16)", "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)">
        cute_nvgpu.fence_proxy_async
        cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
        cute.barrier
        %189 = cute.subview %Z_1, (0, 48) : !cute.memref<f32, gmem, align<16>, "(64,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
        cute.copy %188, %189 tma %tZ : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(64,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,16):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_commit
      } {work_items}
      cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
    }
  }
}
