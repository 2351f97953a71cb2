// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s

// A load by a tiled copy whose parts repeat along the columns first.
// CHECK: %x = cute.load %a {tiled = #cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)", order = "(1,0)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)", "((8,4),(4,16)):((256,1),(64,4))">
cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  %x = cute.load %a {tiled = #cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)", order = "(1,0)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)", "((8,4),(4,16)):((256,1),(64,4))">
}

// -----

// A program that names the copy of a tile.
// CHECK: %t = cute.local_tile %a, [16, 32], (%i, %i) {tiled = #cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f32, gmem, align<16>, "(16,32):(32,1)">
cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">, %i: i32) {
  %t = cute.local_tile %a, [16, 32], (%i, %i) {tiled = #cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f32, gmem, align<16>, "(16,32):(32,1)">
}
