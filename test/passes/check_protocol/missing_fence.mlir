// RUN: cute-opt %s --cute-check-protocol --verify-diagnostics -o /dev/null

// A multiply reads a tile that threads wrote to shared memory, and no proxy fence is in between.

builtin.module attributes {cute.arch = "sm_90a"} {
  cute.kernel @k(%K: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %V: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %G: !cute.memref<f32, gmem, align<16>, "(?):(1)">, %B: !cute.memref<f32, gmem, align<16>, "(?):(1)">, %O: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %tO: !cute_nvgpu.tma_descriptor<f16, (64,32), S<2,4,3>>) attributes {schedule = #cute.schedule<"warps = (4,1), stages = 16, roles = specialized, registers = (56,248), scheduler = persistent, raster = 8, overlap = yes, split_loops = yes, epilogue = tma">, threads = 128 : i32, roles = {main = array<i64: 0, 4, 248>}} {
    %0 = cute.alloc_smem {scratch} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)">
    %1 = cute.alloc_smem {operand} : !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)">
    %sO = cute.alloc_smem : !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)">
    pipeline.start
    pipeline.role "main" attributes {first = 0 : i32, warps = 4 : i32, registers = 248 : i32} {
      %2 = arith.constant 0 : i32
      %3 = arith.constant 0 : i32
      %4 = arith.constant 0 : i32
      %5 = arith.constant 0 : i32
      %6 = arith.constant 2 : i32
      %7 = arith.constant 1 : i32
      scf.for %8 = %5 to %6 step %7 : i32 {
        %9 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)", "((16,8),(4,8)):((256,1),(64,8))">
        %10 = arith.constant 0.000000e+00 : f32
        cute.fill %9, %10 : !cute.fragment<f32, "(64,64)", "((16,8),(4,8)):((256,1),(64,8))">
        %B_1 = cute.local_tile %B, [64], (%8) : !cute.memref<f32, gmem, align<16>, "(?):(1)"> -> !cute.memref<f32, gmem, align<16>, "(64):(1)">
        %11 = cute.transpose %B_1 : !cute.memref<f32, gmem, align<16>, "(64):(1)"> -> !cute.memref<f32, gmem, align<16>, "(1,64):(0,1)">
        %12 = cute.transpose %11 : !cute.memref<f32, gmem, align<16>, "(1,64):(0,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,1):(1,0)">
        %13 = cute.load %12 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>, tiled = #cute.tiled_copy<"((16,8),4):((4,0),1)", tiler = "(64,1)">} : !cute.memref<f32, gmem, align<16>, "(64,1):(1,0)"> -> !cute.fragment<f32, "(64,1)", "((16,8),4):((4,0),1)">
        %G_1 = cute.local_tile %G, [64], (%8) : !cute.memref<f32, gmem, align<16>, "(?):(1)"> -> !cute.memref<f32, gmem, align<16>, "(64):(1)">
        %14 = cute.transpose %G_1 : !cute.memref<f32, gmem, align<16>, "(64):(1)"> -> !cute.memref<f32, gmem, align<16>, "(1,64):(0,1)">
        %15 = cute.transpose %14 : !cute.memref<f32, gmem, align<16>, "(1,64):(0,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,1):(1,0)">
        %16 = cute.load %15 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>, tiled = #cute.tiled_copy<"((16,8),4):((4,0),1)", tiler = "(64,1)">} : !cute.memref<f32, gmem, align<16>, "(64,1):(1,0)"> -> !cute.fragment<f32, "(64,1)", "((16,8),4):((4,0),1)">
        %17 = cute.transpose %16 : !cute.fragment<f32, "(64,1)", "((16,8),4):((4,0),1)"> -> !cute.fragment<f32, "(1,64)", "((16,8),4):((4,0),1)">
        %18 = cute.map (%19 = %17 : !cute.fragment<f32, "(1,64)", "((16,8),4):((4,0),1)">, %20 = %9 : !cute.fragment<f32, "(64,64)", "((16,8),(4,8)):((256,1),(64,8))">) -> !cute.fragment<f32, "(64,64)", "((16,8),(4,8)):((256,1),(64,8))"> {
          %21 = arith.addf %19, %20 : f32
          %22 = cute.coord 0
          %23 = cute.coord 1
          %24 = arith.cmpi sle, %23, %22 : i32
          %25 = arith.constant 0.000000e+00 : f32
          %26 = arith.select %24, %21, %25 : f32
          cute.yield %26 : f32
        }
        %27 = cute.reduce "add", %18 {mode = 1 : i64} : !cute.fragment<f32, "(64,64)", "((16,8),(4,8)):((256,1),(64,8))"> -> !cute.fragment<f32, "(64,1)", "((16,8),8):((0,1),8)">
        cute.barrier
        cute.copy %27, %0 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,1)", "((16,8),8):((0,1),8)"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)">
        cute.barrier
        %28 = cute.alloc_fragment : !cute.fragment<f32, "(64,1)", "((16,8),4):((4,0),1)">
        cute.copy %0, %28 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)"> -> !cute.fragment<f32, "(64,1)", "((16,8),4):((4,0),1)">
        %K_1 = cute.local_tile %K, [64, 64], (%8, %2) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
        %29 = cute.load %K_1 {atom = !cute_nvgpu.atom.universal_copy<f16, 128 b>, tiled = #cute.tiled_copy<"((8,16),8):((128,1),16)", tiler = "(16,64)", order = "(1,0)">} : !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)"> -> !cute.fragment<f16, "(64,64)", "((8,16),(8,4)):((512,1),(64,16))">
        %30 = cute.alloc_fragment : !cute.fragment<f32, "(64,64)", "((4,8,4),((2,2,2),1,4)):((128,1,16),((64,8,512),0,1024))">
        %31 = arith.constant 0.000000e+00 : f32
        cute.fill %30, %31 : !cute.fragment<f32, "(64,64)", "((4,8,4),((2,2,2),1,4)):((128,1,16),((64,8,512),0,1024))">
        %V_1 = cute.local_tile %V, [64, 32], (%8, %3) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
        %32 = cute.load %V_1 {atom = !cute_nvgpu.atom.universal_copy<f16, 128 b>, tiled = #cute.tiled_copy<"((4,32),8):((256,1),32)", tiler = "(32,32)", order = "(1,0)">} : !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)"> -> !cute.fragment<f16, "(64,32)", "((4,32),(8,2)):((512,1),(64,32))">
        %33 = cute.map (%34 = %32 : !cute.fragment<f16, "(64,32)", "((4,32),(8,2)):((512,1),(64,32))">) -> !cute.fragment<f16, "(64,32)", "((4,32),(8,2)):((512,1),(64,32))"> {
          %35 = arith.constant 1.000000e+00 : f16
          %36 = arith.mulf %34, %35 : f16
          cute.yield %36 : f16
        }
        cute.copy %33, %1 {atom = !cute_nvgpu.atom.universal_copy<f16, 128 b>} : !cute.fragment<f16, "(64,32)", "((4,32),(8,2)):((512,1),(64,32))"> -> !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)">
        %37 = cute.map (%38 = %13 : !cute.fragment<f32, "(64,1)", "((16,8),4):((4,0),1)">, %39 = %28 : !cute.fragment<f32, "(64,1)", "((16,8),4):((4,0),1)">) -> !cute.fragment<f32, "(64,1)", "((16,8),4):((4,0),1)"> {
          %40 = arith.mulf %38, %39 : f32
          cute.yield %40 : f32
        }
        cute.barrier
        cute.copy %37, %0 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,1)", "((16,8),4):((4,0),1)"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)">
        cute.barrier
        %41 = cute.alloc_fragment : !cute.fragment<f32, "(64,1)", "((8,16),4):((0,1),16)">
        cute.copy %0, %41 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)"> -> !cute.fragment<f32, "(64,1)", "((8,16),4):((0,1),16)">
        %42 = cute.map (%43 = %29 : !cute.fragment<f16, "(64,64)", "((8,16),(8,4)):((512,1),(64,16))">, %44 = %41 : !cute.fragment<f32, "(64,1)", "((8,16),4):((0,1),16)">) -> !cute.fragment<f32, "(64,64)", "((8,16),(8,4)):((512,1),(64,16))"> {
          %45 = arith.extf %43 : f16 to f32
          %46 = arith.mulf %45, %44 : f32
          cute.yield %46 : f32
        }
        %47 = cute.alloc_fragment : !cute.fragment<f32, "(64,32)", "((4,8,4),((2,2,4),1,1)):((128,1,16),((64,8,512),0,0))">
        %48 = arith.constant 0.000000e+00 : f32
        cute.fill %47, %48 : !cute.fragment<f32, "(64,32)", "((4,8,4),((2,2,4),1,1)):((128,1,16),((64,8,512),0,0))">
        %49 = cute.map (%50 = %30 : !cute.fragment<f32, "(64,64)", "((4,8,4),((2,2,2),1,4)):((128,1,16),((64,8,512),0,1024))">) -> !cute.fragment<f16, "(64,64)", "((4,8,4),((2,2,2),1,4)):((128,1,16),((64,8,512),0,1024))"> {
          %51 = arith.truncf %50 : f32 to f16
          cute.yield %51 : f16
        }
        %52 = cute.transpose %1 : !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)"> -> !cute.memref<f16, smem, align<512>, S<2,4,3>, "(32,64):(1,32)">
        cute_nvgpu.wgmma_fence
        // expected-error @+1 {{CD-R2: reads by wgmma a buffer in shared memory, which role 'main' wrote through the generic proxy}}
        cute.gemm %49, %52, %47 {atom = !cute_nvgpu.sm90.mma<64x32x16, elem_type = (f16, f16, f32), a = rmem>} : !cute.fragment<f16, "(64,64)", "((4,8,4),((2,2,2),1,4)):((128,1,16),((64,8,512),0,1024))">, !cute.memref<f16, smem, align<512>, S<2,4,3>, "(32,64):(1,32)">, !cute.fragment<f32, "(64,32)", "((4,8,4),((2,2,4),1,1)):((128,1,16),((64,8,512),0,0))">
        cute_nvgpu.wgmma_commit
        %53 = cute.reduce "add", %42 {mode = 1 : i64} : !cute.fragment<f32, "(64,64)", "((8,16),(8,4)):((512,1),(64,16))"> -> !cute.fragment<f32, "(64,1)", "((8,16),4):((0,1),16)">
        cute.barrier
        cute.copy %53, %0 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(64,1)", "((8,16),4):((0,1),16)"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)">
        cute.barrier
        %54 = cute.alloc_fragment : !cute.fragment<f32, "(64,1)", "((4,8,4),2):((0,1,16),8)">
        cute.copy %0, %54 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "((32,2),1):((1,32),32)"> -> !cute.fragment<f32, "(64,1)", "((4,8,4),2):((0,1,16),8)">
        cute_nvgpu.wgmma_wait {pending = 0 : i32}
        %55 = cute.map (%56 = %47 : !cute.fragment<f32, "(64,32)", "((4,8,4),((2,2,4),1,1)):((128,1,16),((64,8,512),0,0))">, %57 = %54 : !cute.fragment<f32, "(64,1)", "((4,8,4),2):((0,1,16),8)">) -> !cute.fragment<f16, "(64,32)", "((4,8,4),((2,2,4),1,1)):((128,1,16),((64,8,512),0,0))"> {
          %58 = arith.addf %56, %57 : f32
          %59 = arith.truncf %58 : f32 to f16
          cute.yield %59 : f16
        }
        %O_1 = cute.local_tile %O, [64, 32], (%8, %4) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
        cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
        cute.barrier
        cute.copy %55, %sO {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(64,32)", "((4,8,4),((2,2,4),1,1)):((128,1,16),((64,8,512),0,0))"> -> !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)">
        cute_nvgpu.fence_proxy_async
        cute.barrier
        cute.copy %sO, %O_1 tma %tO : !cute_nvgpu.tma_descriptor<f16, (64,32), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16>} : !cute.memref<f16, smem, align<512>, S<2,4,3>, "(64,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(64,32):(?{i64 div=8},1)">
        cute_nvgpu.tma_store_commit
      }
      cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
    }
  }
}
