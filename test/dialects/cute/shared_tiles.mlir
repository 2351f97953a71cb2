// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// cute.last_arrival
// CHECK: cute.kernel @k(%counters: !cute.memref<i32, gmem, align<16>, "(?):(1)">, %i: i32, %n: i32) {
// CHECK-NEXT:   %last = cute.last_arrival %counters[%i] of %n : !cute.memref<i32, gmem, align<16>, "(?):(1)">
// CHECK-NEXT: }
cute.kernel @k(%counters: !cute.memref<i32, gmem, align<16>, "(?):(1)">, %i: i32, %n: i32) {
  %last = cute.last_arrival %counters[%i] of %n : !cute.memref<i32, gmem, align<16>, "(?):(1)">
}

// -----

// cute.cluster_sum
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,8)">
// CHECK-NEXT:   %first = cute.cluster_sum %acc of 2 : !cute.fragment<f32, "(64,8)">
// CHECK-NEXT: }
cute.kernel @k() {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,8)">
  %first = cute.cluster_sum %acc of 2 : !cute.fragment<f32, "(64,8)">
}

// -----

// cute.cluster_scatter
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
// CHECK-NEXT:   %part = cute.cluster_scatter %acc of 4 : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,8)">
// CHECK-NEXT: }
cute.kernel @k() {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
  %part = cute.cluster_scatter %acc of 4 : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,8)">
}

// -----

// cute.workspace
// CHECK: func.func @launch(%n: i32) {
// CHECK-NEXT:   %w = cute.workspace(%n) : !cute.memref<f32, gmem, align<16>, "(?,64,64):(4096,64,1)">
// CHECK-NEXT:   %c = cute.workspace(%n) zeroed : !cute.memref<i32, gmem, align<16>, "(?):(1)">
// CHECK-NEXT:   %s = cute.workspace() : !cute.memref<i32, gmem, align<16>, "(8):(1)">
// CHECK-NEXT:   %r = cute.workspace(%n, %n) : !cute.memref<f32, gmem, align<16>, "(?,?,64):(?{i64 div=64},64,1)">
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
func.func @launch(%n: i32) {
  %w = cute.workspace(%n) : !cute.memref<f32, gmem, align<16>, "(?,64,64):(4096,64,1)">
  %c = cute.workspace(%n) zeroed : !cute.memref<i32, gmem, align<16>, "(?):(1)">
  %s = cute.workspace() : !cute.memref<i32, gmem, align<16>, "(8):(1)">
  %r = cute.workspace(%n, %n) : !cute.memref<f32, gmem, align<16>, "(?,?,64):(?{i64 div=64},64,1)">
  func.return
}

// -----

// cute.claim
// CHECK: cute.kernel @k(%claims: !cute.memref<i32, gmem, align<16>, "(1):(1)">, %n: i32) {
// CHECK-NEXT:   %next = cute.claim %claims of %n : !cute.memref<i32, gmem, align<16>, "(1):(1)">
// CHECK-NEXT: }
cute.kernel @k(%claims: !cute.memref<i32, gmem, align<16>, "(1):(1)">, %n: i32) {
  %next = cute.claim %claims of %n : !cute.memref<i32, gmem, align<16>, "(1):(1)">
}

// -----

// cute.cluster_bound
// CHECK: cute.kernel @bounds(%n: i32) {
// CHECK-NEXT:   %end = cute.cluster_bound "max", %n
// CHECK-NEXT: }
cute.kernel @bounds(%n: i32) {
  %end = cute.cluster_bound "max", %n
}

// -----

// cute.cluster_rank, cute.cluster_reduce
// CHECK: cute.kernel @rows() {
// CHECK-NEXT:   %rank = cute.cluster_rank of 4
// CHECK-NEXT:   %part = cute.alloc_fragment : !cute.fragment<f32, "(1,1)">
// CHECK-NEXT:   %total = cute.cluster_reduce "add", %part of 4 : !cute.fragment<f32, "(1,1)"> -> !cute.fragment<f32, "(1,1)">
// CHECK-NEXT: }
cute.kernel @rows() {
  %rank = cute.cluster_rank of 4
  %part = cute.alloc_fragment : !cute.fragment<f32, "(1,1)">
  %total = cute.cluster_reduce "add", %part of 4 : !cute.fragment<f32, "(1,1)"> -> !cute.fragment<f32, "(1,1)">
}
