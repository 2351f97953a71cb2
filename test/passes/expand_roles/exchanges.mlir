// RUN: cute-opt %s -p cute-expand-roles | filecheck %s

// Barriers of what CTAs of a cluster send each other: those of sums before the roles begin, with a wait at
// the end of a role that others tell when they have read what it sent; those of a reduction when the kernel
// begins, with a wait for the other CTAs at the first of them.

builtin.module attributes {cute.arch = "sm_90a"} {
  // CHECK-LABEL: @sums
  cute.kernel @sums() attributes {threads = 128 : i32, cluster = 2 : i32} {
    // CHECK-NEXT: %[[X:.*]] = pipeline.exchange {readers = 2 : i32}
    // CHECK-NEXT: %[[Y:.*]] = pipeline.exchange {readers = 1 : i32}
    // CHECK-NEXT: pipeline.start {cluster}
    // CHECK-NEXT: pipeline.role
    pipeline.role "main" attributes {first = 0 : i32, warps = 4 : i32} {
      %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
      // CHECK: cute.cluster_scatter %{{.*}} of 2 via %[[X]] : !pipeline.exchange :
      // CHECK-NEXT: cute.cluster_sum %{{.*}} of 2 via %[[Y]] : !pipeline.exchange :
      // CHECK-NEXT: pipeline.exchange_drain %[[X]]
      // CHECK-NEXT: }
      %part = cute.cluster_scatter %acc of 2 : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,16)">
      %first = cute.cluster_sum %acc of 2 : !cute.fragment<f32, "(64,32)">
    }
  }

  // CHECK-LABEL: @reductions
  cute.kernel @reductions() attributes {threads = 128 : i32, cluster = 4 : i32} {
    // CHECK-NEXT: %[[X:.*]] = pipeline.exchange {readers = 0 : i32, bytes = 64 : i32}
    // CHECK-NEXT: %[[Y:.*]] = pipeline.exchange {readers = 0 : i32, bytes = 64 : i32}
    // CHECK-NEXT: pipeline.start_arrive
    // CHECK-NEXT: cute.alloc_fragment
    // CHECK-NEXT: pipeline.start_wait
    // CHECK-NEXT: cute.cluster_reduce "add", %{{.*}} of 4 via %[[X]]
    // CHECK-NEXT: cute.cluster_reduce "max", %{{.*}} of 4 via %[[Y]]
    %part = cute.alloc_fragment : !cute.fragment<f32, "(1,1)">
    %total = cute.cluster_reduce "add", %part of 4 : !cute.fragment<f32, "(1,1)"> -> !cute.fragment<f32, "(1,1)">
    %most = cute.cluster_reduce "max", %part of 4 : !cute.fragment<f32, "(1,1)"> -> !cute.fragment<f32, "(1,1)">
  }
}
