// RUN: cute-opt %s -p cute-fuse | filecheck %s

// A product becomes part of the sum that takes it, also across fused maps; not one with two uses,
// and none of bf16, which is computed in f32 and rounded after each op.
builtin.module {
  cute.kernel @sums(%x: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, %h: !cute.memref<bf16, gmem, align<16>, "(8,8):(8,1)">, %s: f32) {
    %a = cute.load %x : !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)"> -> !cute.fragment<f32, "(8,8)">
    %scaled = cute.map (%v = %a : !cute.fragment<f32, "(8,8)">) -> !cute.fragment<f32, "(8,8)"> {
      %p = arith.mulf %v, %s : f32
      cute.yield %p : f32
    }
    %less = cute.map (%v = %scaled : !cute.fragment<f32, "(8,8)">, %w = %a : !cute.fragment<f32, "(8,8)">) -> !cute.fragment<f32, "(8,8)"> {
      %d = arith.subf %w, %v : f32
      %q = arith.mulf %d, %d : f32
      %e = arith.addf %q, %s : f32
      %f = arith.subf %e, %q : f32
      cute.yield %f : f32
    }
    cute.copy %less, %x : !cute.fragment<f32, "(8,8)"> -> !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">
    %b = cute.load %h : !cute.memref<bf16, gmem, align<16>, "(8,8):(8,1)"> -> !cute.fragment<bf16, "(8,8)">
    %twice = cute.map (%v = %b : !cute.fragment<bf16, "(8,8)">) -> !cute.fragment<bf16, "(8,8)"> {
      %p = arith.mulf %v, %v : bf16
      %r = arith.addf %p, %v : bf16
      cute.yield %r : bf16
    }
    cute.copy %twice, %h : !cute.fragment<bf16, "(8,8)"> -> !cute.memref<bf16, gmem, align<16>, "(8,8):(8,1)">
  }
}

// CHECK:      %[[N:.*]] = arith.negf %[[V:.*]] : f32
// CHECK-NEXT: %[[D:.*]] = math.fma %[[N]], %{{.*}}, %[[V]] : f32
// CHECK-NEXT: %[[Q:.*]] = arith.mulf %[[D]], %[[D]] : f32
// CHECK-NEXT: %[[E:.*]] = arith.addf %[[Q]], %{{.*}} : f32
// CHECK-NEXT: arith.subf %[[E]], %[[Q]] : f32
// CHECK:      arith.mulf %{{.*}} : bf16
// CHECK-NEXT: arith.addf %{{.*}} : bf16
