// RUN: cute-opt %s --cute-check-protocol --protocol-trace -o /dev/null 2>&1 | filecheck %s
// RUN: cute-opt %s --cute-check-protocol | filecheck %s --check-prefix=SAME

// A ring of two stages that TMA fills and a warpgroup multiplies, and a store by TMA: proved. The pass
// changes nothing; the trace shows each role's times, and what it knows of the others'.

// CHECK:      @gemm, one tile of each extent
// CHECK:      load {{[0-9]+}}: pipeline.start at {{.*}}; knows nothing of others
// CHECK:      main {{[0-9]+}}: pipeline.start at {{.*}}; knows nothing of others
// CHECK:      load {{[0-9]+}}: pipeline.producer_acquire at {{.*}}; knows main {{[0-9]+}}
// CHECK:      main {{[0-9]+}}: pipeline.consumer_wait at {{.*}}; knows load {{[0-9]+}}
// CHECK:      main {{[0-9]+}}: cute.gemm at {{.*}}; knows load {{[0-9]+}}
// SAME:       pipeline.consumer_release

builtin.module attributes {cute.arch = "sm_90a"} {
  cute.kernel @gemm(%A: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %B: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %C: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %n: i32, %tA: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>, %tB: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>, %tC: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %sA = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
    %sB = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
    %sC = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    %ring = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 16384 : i32} : !pipeline.ring<2>
    pipeline.start
    pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
      %to = pipeline.state "producer" %ring : !pipeline.ring<2> -> !pipeline.state<2>
      scf.for %k = %zero to %n step %one : i32 {
        pipeline.producer_acquire %ring at %to : !pipeline.ring<2>, !pipeline.state<2>
        pipeline.expect %ring at %to : !pipeline.ring<2>, !pipeline.state<2>
        %full = pipeline.barrier %ring at %to : !pipeline.ring<2>, !pipeline.state<2>
        %i = pipeline.index %to : !pipeline.state<2>
        %a = cute.stage %sA[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
        cute.copy %A, %a tma %tA : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %full : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
        %b = cute.stage %sB[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
        cute.copy %B, %b tma %tB : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %full : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
        pipeline.producer_commit %ring at %to : !pipeline.ring<2>, !pipeline.state<2>
        pipeline.advance %to : !pipeline.state<2>
      }
    }
    pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
      %from = pipeline.state "consumer" %ring : !pipeline.ring<2> -> !pipeline.state<2>
      %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)", "((4,8,4),((2,2,8),1,1)):((128,1,16),((64,8,512),0,0))">
      %x = arith.constant 0.0 : f32
      cute.fill %acc, %x : !cute.fragment<f32, "(64,64)", "((4,8,4),((2,2,8),1,1)):((128,1,16),((64,8,512),0,0))">
      scf.for %k = %zero to %n step %one : i32 {
        pipeline.consumer_wait %ring at %from : !pipeline.ring<2>, !pipeline.state<2>
        %i = pipeline.index %from : !pipeline.state<2>
        %a = cute.stage %sA[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
        %b = cute.stage %sB[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
        cute_nvgpu.wgmma_fence
        cute.gemm %a, %b, %acc {atom = !cute_nvgpu.sm90.mma<64x64x16, elem_type = (f16, f16, f32), a = smem>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.fragment<f32, "(64,64)", "((4,8,4),((2,2,8),1,1)):((128,1,16),((64,8,512),0,0))">
        cute_nvgpu.wgmma_commit
        cute_nvgpu.wgmma_wait {pending = 1 : i32}
        %later = arith.cmpi ne, %k, %zero : i32
        pipeline.consumer_release %ring at %from if %later {back = 1 : i32} : !pipeline.ring<2>, !pipeline.state<2>
        pipeline.advance %from : !pipeline.state<2>
      }
      cute_nvgpu.wgmma_wait {pending = 0 : i32}
      %any = arith.cmpi slt, %zero, %n : i32
      pipeline.consumer_release %ring at %from if %any {back = 1 : i32} : !pipeline.ring<2>, !pipeline.state<2>
      %c = cute.map (%y = %acc : !cute.fragment<f32, "(64,64)", "((4,8,4),((2,2,8),1,1)):((128,1,16),((64,8,512),0,0))">) -> !cute.fragment<f16, "(64,64)", "((4,8,4),((2,2,8),1,1)):((128,1,16),((64,8,512),0,0))"> {
        %z = arith.truncf %y : f32 to f16
        cute.yield %z : f16
      }
      cute.copy %c, %sC {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 4, n>} : !cute.fragment<f16, "(64,64)", "((4,8,4),((2,2,8),1,1)):((128,1,16),((64,8,512),0,0))"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
      cute_nvgpu.fence_proxy_async
      cute.barrier
      cute.copy %sC, %C tma %tC : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f16>} : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">
      cute_nvgpu.tma_store_commit
      cute_nvgpu.tma_store_wait {pending = 0 : i32, read}
    }
  }
}
