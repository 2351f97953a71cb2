// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  // expected-error @+1 {{expected a tiler of rank 2, got (64,)}}
  %x = cute.load %a {tiled = #cute.tiled_copy<"(32,2):(2,1)", tiler = "(64)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)">
}

// -----

cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  // expected-error @+1 {{expected a tiled copy that moves the register tile as ((8,4),(4,16)):((256,1),(64,4)), got}}
  %x = cute.load %a {tiled = #cute.tiled_copy<"(32,4):(1,32)", tiler = "(4,32)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)", "((8,4),(4,16)):((256,1),(64,4))">
}

// -----

cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  // expected-error @+1 {{expected a tile that (3,32) divides, got (64,32)}}
  %x = cute.load %a {tiled = #cute.tiled_copy<"(32,3):(1,32)", tiler = "(3,32)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)", "((8,4),(4,16)):((256,1),(64,4))">
}

// -----

cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">, %i: i32) {
  // expected-error @+1 {{expected a #cute.tiled_copy as 'tiled', got 1 : i32}}
  %t = cute.local_tile %a, [16, 32], (%i, %i) {tiled = 1 : i32} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f32, gmem, align<16>, "(16,32):(32,1)">
}

// -----

cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  // expected-error @+1 {{expected an order of the 2 modes of the tiler (4,32), got (0,0)}}
  %x = cute.load %a {tiled = #cute.tiled_copy<"(32,4):(1,32)", tiler = "(4,32)", order = "(0,0)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)">
}
