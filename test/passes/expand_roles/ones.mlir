// RUN: cute-opt %s -p cute-expand-roles | filecheck %s

// A multiply that adds up the rows of A reads ones, which threads write before the roles begin: a proxy
// fence and the start come between.

builtin.module attributes {cute.arch = "sm_90a"} {
  cute.kernel @sums() attributes {threads = 256 : i32} {
    %b = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    // CHECK:      %[[ONES:.*]] = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(1024):(1)">
    // CHECK-NEXT: cute_nvgpu.write_ones %[[ONES]]
    // CHECK-NEXT: cute_nvgpu.fence_proxy_async
    // CHECK-NEXT: pipeline.start{{$}}
    // CHECK-NEXT: pipeline.role "load"
    pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
      cute_nvgpu.tma_store_commit
    }
    pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
      %a = cute.alloc_fragment : !cute.fragment<f16, "(64,64)">
      %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,72)">
      cute.gemm %a, %b, %acc {sums} : !cute.fragment<f16, "(64,64)">, !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">, !cute.fragment<f32, "(64,72)">
    }
  }
}
