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
      %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,32)", "(128,16):(1,128)">
      // CHECK:      pipeline.steps {
      // CHECK-NEXT:   pipeline.exchange_drain %[[X]]
      // CHECK-NEXT:   pipeline.exchange_expect %[[X]] {bytes = 8192 : i32}
      // CHECK-NEXT:   pipeline.exchange_send %[[X]] {bytes = 8192 : i32}
      // CHECK-NEXT:   pipeline.exchange_wait %[[X]] {side = "full"}
      // CHECK-NEXT:   pipeline.exchange_load %[[X]]
      // CHECK-NEXT:   cute.barrier
      // CHECK-NEXT:   pipeline.exchange_tell %[[X]] {first = 0 : i32, count = 2 : i32}
      // CHECK-NEXT: }
      // CHECK-NEXT: cute.cluster_scatter %{{.*}} of 2 via %[[X]] : !pipeline.exchange :
      // CHECK-NEXT: pipeline.steps attributes {ranked} {
      // CHECK-NEXT:   pipeline.exchange_expect %[[Y]] {bytes = 8192 : i32}
      // CHECK-NEXT:   pipeline.exchange_wait %[[Y]] {side = "full"}
      // CHECK-NEXT:   pipeline.exchange_load %[[Y]]
      // CHECK-NEXT:   cute.barrier
      // CHECK-NEXT:   pipeline.exchange_tell %[[Y]] {first = 1 : i32, count = 1 : i32}
      // CHECK-NEXT: } else {
      // CHECK-NEXT:   pipeline.exchange_send %[[Y]] {bytes = 8192 : i32}
      // CHECK-NEXT:   pipeline.exchange_wait %[[Y]] {side = "empty"}
      // CHECK-NEXT: }
      // CHECK-NEXT: cute.cluster_sum %{{.*}} of 2 via %[[Y]] : !pipeline.exchange :
      // CHECK-NEXT: pipeline.exchange_drain %[[X]]
      // CHECK-NEXT: }
      %part = cute.cluster_scatter %acc of 2 : !cute.fragment<f32, "(64,32)", "(128,16):(1,128)"> -> !cute.fragment<f32, "(64,16)", "(128,8):(1,128)">
      %first = cute.cluster_sum %acc of 2 : !cute.fragment<f32, "(64,32)", "(128,16):(1,128)">
    }
  }

  // CHECK-LABEL: @reductions
  cute.kernel @reductions() attributes {threads = 128 : i32, cluster = 4 : i32} {
    // CHECK-NEXT: %[[X:.*]] = pipeline.exchange {readers = 0 : i32, bytes = 64 : i32}
    // CHECK-NEXT: %[[Y:.*]] = pipeline.exchange {readers = 0 : i32, bytes = 64 : i32}
    // CHECK-NEXT: pipeline.start_arrive
    // CHECK-NEXT: cute.alloc_fragment
    // CHECK-NEXT: pipeline.start_wait
    // CHECK-NEXT: pipeline.steps {
    // CHECK-NEXT:   pipeline.exchange_expect %[[X]] {bytes = 64 : i32}
    // CHECK-NEXT:   pipeline.exchange_send %[[X]] {bytes = 64 : i32}
    // CHECK-NEXT:   pipeline.exchange_wait %[[X]] {side = "full"}
    // CHECK-NEXT:   pipeline.exchange_load %[[X]]
    // CHECK-NEXT: }
    // CHECK-NEXT: cute.cluster_reduce "add", %{{.*}} of 4 via %[[X]]
    // CHECK:      cute.cluster_reduce "max", %{{.*}} of 4 via %[[Y]]
    %part = cute.alloc_fragment : !cute.fragment<f32, "(1,1)">
    %total = cute.cluster_reduce "add", %part of 4 : !cute.fragment<f32, "(1,1)"> -> !cute.fragment<f32, "(1,1)">
    %most = cute.cluster_reduce "max", %part of 4 : !cute.fragment<f32, "(1,1)"> -> !cute.fragment<f32, "(1,1)">
  }
}
