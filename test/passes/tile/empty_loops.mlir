// RUN: cute-opt %s -p 'cute-tile{arch=sm_90a}' --split-input-file | filecheck %s

// A loop whose constant bounds leave no trip is dropped with what only it took, and what it gives is
// what it begins with.

// CHECK-LABEL: cute.kernel @zero
// CHECK-NOT: scf.for
// CHECK-NOT: cute.gemm
// CHECK: cute.copy
cute.kernel @zero(%A: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %D: !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">, %x: f32) attributes {schedule = #cute.schedule<"roles = specialized">} {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  cute.fill %acc, %x : !cute.fragment<f32, "(64,64)">
  scf.for %t = %zero to %zero step %one : i32 {
    cute.gemm %A, %A, %acc : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute.fragment<f32, "(64,64)">
  }
  cute.copy %acc, %D : !cute.fragment<f32, "(64,64)"> -> !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">
}

// -----

// The trips of Python's range, as they are traced for a step, and loops inside of others.
// CHECK-LABEL: cute.kernel @computed
// CHECK: scf.for
// CHECK-NOT: scf.for
// CHECK: cute.copy
cute.kernel @computed(%D: !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">, %x: f32, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %five = arith.constant 5 : i32
  %three = arith.constant 3 : i32
  %distance = arith.subi %three, %five : i32
  %count = arith.ceildivsi %distance, %two : i32
  %trips = arith.maxsi %count, %zero : i32
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  scf.for %t = %zero to %n step %one : i32 {
    cute.fill %acc, %x : !cute.fragment<f32, "(64,64)">
    scf.for %u = %zero to %trips step %one : i32 {
      scf.for %v = %five to %three step %one : i32 {
        cute.fill %acc, %x : !cute.fragment<f32, "(64,64)">
      }
    }
  }
  cute.copy %acc, %D : !cute.fragment<f32, "(64,64)"> -> !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">
}

// -----

// CHECK-LABEL: cute.kernel @carried
// CHECK-NOT: scf.for
// CHECK: cute.fill %{{.*}}, %x
cute.kernel @carried(%D: !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">, %x: f32) {
  %five = arith.constant 5 : i32
  %one = arith.constant 1 : i32
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  %y = scf.for %t = %five to %five step %one iter_args(%z = %x) -> (f32) : i32 {
    %w = arith.addf %z, %z : f32
    scf.yield %w : f32
  }
  cute.fill %acc, %y : !cute.fragment<f32, "(64,64)">
  cute.copy %acc, %D : !cute.fragment<f32, "(64,64)"> -> !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">
}
