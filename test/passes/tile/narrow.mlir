// RUN: cute-opt %s -p 'cute-tile{arch=sm_80}' | filecheck %s

// Rows of any length in an order that is asked for: four work items share 1,024 columns, so that short
// rows leave few lanes idle.

// CHECK-LABEL: cute.kernel @added
// CHECK: cute.local_tile %X, [4, 256]
// CHECK: cute.map ({{.*}}) -> !cute.fragment<f16, "(4,256)">
// CHECK: cute.local_tile %Y, [4, 256]
cute.kernel @added(%X: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %Y: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) attributes {schedule = #cute.schedule<"raster = 1">} {
  %i, %j = cute.tile_index %Y, [4, 1024] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
  %x = cute.local_tile %X, [4, 1024], (%i, %j) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(4,1024):(?{i64 div=8},1)">
  %v = cute.load %x : !cute.memref<f16, gmem, align<16>, "(4,1024):(?{i64 div=8},1)"> -> !cute.fragment<f16, "(4,1024)">
  %s = cute.map (%e = %v : !cute.fragment<f16, "(4,1024)">) -> !cute.fragment<f16, "(4,1024)"> {
    %t = arith.addf %e, %e : f16
    cute.yield %t : f16
  }
  %y = cute.local_tile %Y, [4, 1024], (%i, %j) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(4,1024):(?{i64 div=8},1)">
  cute.copy %s, %y : !cute.fragment<f16, "(4,1024)"> -> !cute.memref<f16, gmem, align<16>, "(4,1024):(?{i64 div=8},1)">
}
