// RUN: cute-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: @launch
// CHECK: cute.tile_shares %{{.*}}, %a[1], %n : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
func.func @launch(%a: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, %n: i32) {
  %o = cute.tile_offsets %a, [128, _] cluster(1, 1) : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
  %s = cute.tile_shares %o, %a[1], %n : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
  func.return
}

// -----

// CHECK-LABEL: @k
// CHECK: cute.tile_index %c, [64, 64] work(%a[0]) :
cute.kernel @k(%a: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(1,?)">>, %c: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?,1)">>) {
  %i, %m, %n = cute.tile_index %c, [64, 64] work(%a[0]) : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?,1)">>, !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(1,?)">>
}

// -----

cute.kernel @mode(%c: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?,1)">>) {
  // expected-error @+1 {{expected a mode in 0..1 of (?,?):(?,1) for work, got 2}}
  %i, %m, %n = cute.tile_index %c, [64, 64] work(%c[2]) : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?,1)">>, !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?,1)">>
}

// -----

cute.kernel @one(%a: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?,1)">>, %c: !cute.memref<f16, gmem, align<16>, "(?,?):(?,1)">) {
  // expected-error @+1 {{expected work, with a mode, for a group of tensors alone}}
  %m, %n = cute.tile_index %c, [64, 64] work(%a[1]) : !cute.memref<f16, gmem, align<16>, "(?,?):(?,1)">, !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?,1)">>
}
