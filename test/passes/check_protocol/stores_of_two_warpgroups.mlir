// RUN: cute-opt %s --cute-check-protocol --verify-diagnostics -o /dev/null

// Each warpgroup stores its rows by a thread of its own, but only the first one's thread waits before
// the next trip writes the buffer again.

builtin.module attributes {cute.arch = "sm_90a"} {
  cute.kernel @k0(%X: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %W: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %Y: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %Z: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %tX: !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>, %tW: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>, %tY: !cute_nvgpu.tma_descriptor<f32, (128,32), S<3,4,3>>, %tZ: !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>>) attributes {schedule = #cute.schedule<"warps = (8,1), stages = 7, roles = specialized, registers = (40,232), scheduler = persistent, raster = 8, epilogue = tma">, threads = 384 : i32, roles = {load = array<i64: 0, 1, 40>, main = array<i64: 4, 8, 232>}} {
    %sX = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,7):(64,1,8192)">
    %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,7):(1,64,4096)">
    %sY = cute.alloc_smem : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(128,(32,2)):(32,(1,4096))">
    %sZ = cute.alloc_smem : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16,2):(16,1,2048)">
    %0 = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 24576 : i32} : !pipeline.ring<7>
    pipeline.start
    pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, registers = 40 : i32, elect} {
      %1 = pipeline.state "producer" %0 : !pipeline.ring<7> -> !pipeline.state<7>
      %2 = arith.constant 0 : i32
      %3 = arith.constant 2 : i32
      %4 = arith.constant 1 : i32
      scf.for %5 = %2 to %3 step %4 : i32 {
        %6 = arith.constant 0 : i32
        %X_1 = cute.local_tile %X, [128, 64], (%5, %6) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
        %7 = arith.constant 0 : i32
        %8 = arith.constant 0 : i32
        %W_1 = cute.local_tile %W, [64, 64], (%7, %8) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)">
        %9 = cute.transpose %W_1 : !cute.memref<f16, gmem, align<16>, "(64,64):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(1,?{i64 div=8})">
        pipeline.producer_acquire %0 at %1 : !pipeline.ring<7>, !pipeline.state<7>
        pipeline.expect %0 at %1 : !pipeline.ring<7>, !pipeline.state<7>
        %10 = pipeline.barrier %0 at %1 : !pipeline.ring<7>, !pipeline.state<7>
        %11 = pipeline.index %1 : !pipeline.state<7>
        %12 = cute.stage %sX[%11] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,7):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
        cute.copy %X_1, %12 tma %tX : !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>> signal %10 : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
        %13 = cute.stage %s[%11] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,7):(1,64,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">
        cute.copy %9, %13 tma %tW : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %10 : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(1,?{i64 div=8})"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">
        pipeline.producer_commit %0 at %1 : !pipeline.ring<7>, !pipeline.state<7>
        pipeline.advance %1 : !pipeline.state<7>
      }
    }
    pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32, registers = 232 : i32} {
      %14 = pipeline.state "consumer" %0 : !pipeline.ring<7> -> !pipeline.state<7>
      %15 = arith.constant 0 : i32
      %16 = arith.constant 2 : i32
      %17 = arith.constant 1 : i32
      scf.for %18 = %15 to %16 step %17 : i32 {
        %19 = cute.alloc_fragment : !cute.fragment<f32, "(128,64)", "((16,16),(4,8)):((512,1),(128,16))">
        %20 = arith.constant 0.000000e+00 : f32
        cute.fill %19, %20 : !cute.fragment<f32, "(128,64)", "((16,16),(4,8)):((512,1),(128,16))">
        %21 = cute.map (%22 = %19 : !cute.fragment<f32, "(128,64)", "((16,16),(4,8)):((512,1),(128,16))">) -> !cute.fragment<f32, "(128,64)", "((16,16),(4,8)):((512,1),(128,16))"> {
          %23 = arith.constant 1.000000e+00 : f32
          %24 = arith.mulf %22, %23 : f32
          cute.yield %24 : f32
        }
        %25 = arith.constant 0 : i32
        %Y_1 = cute.local_tile %Y, [128, 64], (%18, %25) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
        cute.barrier
        cute.copy %21, %sY {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(128,64)", "((16,16),(4,8)):((512,1),(128,16))"> -> !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(128,(32,2)):(32,(1,4096))">
        cute_nvgpu.fence_proxy_async
        cute.barrier
        cute.copy %sY, %Y_1 tma %tY : !cute_nvgpu.tma_descriptor<f32, (128,32), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32>} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(128,(32,2)):(32,(1,4096))"> -> !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_commit
        %26 = cute.alloc_fragment : !cute.fragment<f32, "(128,64)", "((4,8,4,2),((2,2,8),1,1)):((256,1,16,64),((128,8,1024),0,0))">
        %27 = arith.constant 0.000000e+00 : f32
        cute.fill %26, %27 : !cute.fragment<f32, "(128,64)", "((4,8,4,2),((2,2,8),1,1)):((256,1,16,64),((128,8,1024),0,0))">
        pipeline.consumer_wait %0 at %14 : !pipeline.ring<7>, !pipeline.state<7>
        %28 = pipeline.index %14 : !pipeline.state<7>
        %sX_1 = cute.stage %sX[%28] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64,7):(64,1,8192)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">
        %s_1 = cute.stage %s[%28] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,7):(1,64,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">
        cute_nvgpu.wgmma_fence
        cute.gemm %sX_1, %s_1, %26 {atom = !cute_nvgpu.sm90.mma<64x64x16, elem_type = (f16, f16, f32), a = smem>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(128,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(1,64)">, !cute.fragment<f32, "(128,64)", "((4,8,4,2),((2,2,8),1,1)):((256,1,16,64),((128,8,1024),0,0))">
        cute_nvgpu.wgmma_commit
        %29 = arith.constant 0 : i32
        %Z_1 = cute.local_tile %Z, [128, 64], (%18, %29) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=4},1)">
        cute_nvgpu.wgmma_wait {pending = 0 : i32}
        pipeline.consumer_release %0 at %14 : !pipeline.ring<7>, !pipeline.state<7>
        pipeline.advance %14 : !pipeline.state<7>
        %30 = cute.extract %26, (0, 0) : !cute.fragment<f32, "(128,64)", "((4,8,4,2),((2,2,8),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))">
        %31 = cute.map (%32 = %30 : !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))"> {
          %33 = arith.constant 1.000000e+00 : f32
          %34 = arith.mulf %32, %33 : f32
          cute.yield %34 : f32
        }
        %35 = arith.constant 0 : i32
        %36 = cute.stage %sZ[%35] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16,2):(16,1,2048)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)">
        // expected-error @+1 {{CD-R1: writes %sZ, which role 'main' read by bulk store}}
        cute.copy %31, %36 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)">
        cute_nvgpu.fence_proxy_async
        cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
        cute.barrier {warps = 4 : i32}
        %37 = cute.subview %Z_1, (0, 0) : !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(128,16):(?{i64 div=4},1)">
        cute.copy %36, %37 tma %tZ : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32, warps = 4>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(128,16):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_commit {warps = 4 : i32}
        %38 = cute.extract %26, (0, 16) : !cute.fragment<f32, "(128,64)", "((4,8,4,2),((2,2,8),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))">
        %39 = cute.map (%40 = %38 : !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))"> {
          %41 = arith.constant 1.000000e+00 : f32
          %42 = arith.mulf %40, %41 : f32
          cute.yield %42 : f32
        }
        %43 = arith.constant 1 : i32
        %44 = cute.stage %sZ[%43] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16,2):(16,1,2048)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)">
        cute.copy %39, %44 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)">
        cute_nvgpu.fence_proxy_async
        cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
        cute.barrier {warps = 4 : i32}
        %45 = cute.subview %Z_1, (0, 16) : !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(128,16):(?{i64 div=4},1)">
        cute.copy %44, %45 tma %tZ : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32, warps = 4>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(128,16):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_commit {warps = 4 : i32}
        %46 = cute.extract %26, (0, 32) : !cute.fragment<f32, "(128,64)", "((4,8,4,2),((2,2,8),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))">
        %47 = cute.map (%48 = %46 : !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))"> {
          %49 = arith.constant 1.000000e+00 : f32
          %50 = arith.mulf %48, %49 : f32
          cute.yield %50 : f32
        }
        %51 = arith.constant 0 : i32
        %52 = cute.stage %sZ[%51] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16,2):(16,1,2048)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)">
        cute.copy %47, %52 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)">
        cute_nvgpu.fence_proxy_async
        cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
        cute.barrier {warps = 4 : i32}
        %53 = cute.subview %Z_1, (0, 32) : !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(128,16):(?{i64 div=4},1)">
        cute.copy %52, %53 tma %tZ : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32, warps = 4>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(128,16):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_commit {warps = 4 : i32}
        %54 = cute.extract %26, (0, 48) : !cute.fragment<f32, "(128,64)", "((4,8,4,2),((2,2,8),1,1)):((256,1,16,64),((128,8,1024),0,0))"> -> !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))">
        %55 = cute.map (%56 = %54 : !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))">) -> !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))"> {
          %57 = arith.constant 1.000000e+00 : f32
          %58 = arith.mulf %56, %57 : f32
          cute.yield %58 : f32
        }
        %59 = arith.constant 1 : i32
        %60 = cute.stage %sZ[%59] : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16,2):(16,1,2048)"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)">
        cute.copy %55, %60 {atom = !cute_nvgpu.atom.universal_copy<f32, 128 b>} : !cute.fragment<f32, "(128,16)", "((4,8,4,2),(2,2,2)):((256,1,16,64),(128,8,1024))"> -> !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)">
        cute_nvgpu.fence_proxy_async
        cute.barrier {warps = 4 : i32}
        %61 = cute.subview %Z_1, (0, 48) : !cute.memref<f32, gmem, align<16>, "(128,64):(?{i64 div=4},1)"> -> !cute.memref<f32, gmem, align<16>, "(128,16):(?{i64 div=4},1)">
        cute.copy %60, %61 tma %tZ : !cute_nvgpu.tma_descriptor<f32, (64,16), S<2,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32, warps = 4>} : !cute.memref<f32, smem, align<512>, S<2,4,3>, "(128,16):(16,1)"> -> !cute.memref<f32, gmem, align<16>, "(128,16):(?{i64 div=4},1)">
        cute_nvgpu.tma_store_commit {warps = 4 : i32}
      }
      cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
      cute_nvgpu.tma_store_wait {pending = 0 : i32, read, warps = 4 : i32}
    }
  }
}
