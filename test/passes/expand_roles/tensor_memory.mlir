// RUN: cute-opt %s -p cute-expand-roles | filecheck %s
// RUN: cute-opt %s -p cute-expand-roles,cute-expand-roles | filecheck %s

// One warp takes the columns of all buffers before the roles begin, and the first of the roles that load
// from them gives them back when all have met. What is expanded stays as it is.

builtin.module attributes {cute.arch = "sm_100a"} {
  // CHECK-LABEL: @one_reader
  cute.kernel @one_reader() attributes {threads = 256 : i32} {
    %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,8):(65536,1)">
    %acc = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,128):(65536,1)">
    // CHECK:      cute_nvgpu.tmem_alloc {columns = 256 : i32}
    // CHECK-NEXT: pipeline.start
    // CHECK-NEXT: cute_nvgpu.tmem_address
    // CHECK-NEXT: pipeline.role "mma"
    pipeline.role "mma" attributes {first = 0 : i32, warps = 4 : i32} {
      // CHECK-NEXT: cute.barrier
      // CHECK-NEXT: }
      cute.barrier
    }
    // CHECK-NEXT: pipeline.role "main"
    pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
      %f = cute.alloc_fragment : !cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
      // CHECK: cute.copy
      // CHECK-NEXT: cute_nvgpu.tcgen05_fence "before"
      // CHECK-NEXT: cute.barrier
      // CHECK-NEXT: cute_nvgpu.tcgen05_fence "after"
      // CHECK-NEXT: cute_nvgpu.tmem_dealloc {columns = 256 : i32}
      // CHECK-NEXT: }
      cute.copy %t, %f {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "(128,8):(65536,1)"> -> !cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
    }
  }

  // CHECK-LABEL: @two_readers_of_a_pair
  cute.kernel @two_readers_of_a_pair() attributes {threads = 384 : i32, cluster = 2 : i32} {
    %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,8):(65536,1)">
    // CHECK:      cute_nvgpu.tmem_alloc {columns = 32 : i32, pair}
    // CHECK-NEXT: pipeline.start{{$}}
    // CHECK-NEXT: cute_nvgpu.tmem_address
    pipeline.role "mma" attributes {first = 0 : i32, warps = 1 : i32, elect, pair} {
      cute_nvgpu.tma_store_commit
    }
    // CHECK: pipeline.role "one"
    pipeline.role "one" attributes {first = 4 : i32, warps = 4 : i32} {
      %f = cute.alloc_fragment : !cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
      // CHECK: cute.copy
      // CHECK-NEXT: cute_nvgpu.tcgen05_fence "before"
      // CHECK-NEXT: cute.barrier {roles = ["one", "two"]}
      // CHECK-NEXT: cute.barrier {cluster}
      // CHECK-NEXT: cute_nvgpu.tcgen05_fence "after"
      // CHECK-NEXT: cute_nvgpu.tmem_dealloc {columns = 32 : i32, pair}
      // CHECK-NEXT: }
      cute.copy %t, %f {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "(128,8):(65536,1)"> -> !cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
    }
    // CHECK: pipeline.role "two"
    pipeline.role "two" attributes {first = 8 : i32, warps = 4 : i32} {
      %f = cute.alloc_fragment : !cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
      // CHECK: cute.copy
      // CHECK-NEXT: cute_nvgpu.tcgen05_fence "before"
      // CHECK-NEXT: cute.barrier {roles = ["one", "two"]}
      // CHECK-NEXT: }
      cute.copy %t, %f {atom = !cute_nvgpu.atom.tmem_load<f32, 16x256b>} : !cute.memref<f32, tmem, align<4>, "(128,8):(65536,1)"> -> !cute.fragment<f32, "(128,8)", "((4,8,4),(2,2,2)):((256,1,32),(128,8,16))">
    }
  }
}
