// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @few_modes(%x: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %z: i32) {
  // expected-error @+1 {{expected images of 3 to 5 modes, a coordinate for each, and an offset for each but the first and the last, got 2, 2 and 0}}
  %t = cute.pixel_tile %x, [16, 32], (%z, %z) + (), pixels () () () : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(64,1)">
}

// -----

cute.kernel @far_corner(%x: !cute.memref<f16, gmem, align<16>, "(4,8,8,64):(4096,512,64,1)">, %z: i32) {
  // expected-error @+1 {{expected corners of pixels in -128..127 with 4 dimensions, got -129}}
  %t = cute.pixel_tile %x, [16, 32], (%z, %z, %z, %z) + (%z, %z), pixels (-129,0) (0,0) (1,1) : !cute.memref<f16, gmem, align<16>, "(4,8,8,64):(4096,512,64,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(64,1)">
}

// -----

cute.kernel @long_steps(%x: !cute.memref<f16, gmem, align<16>, "(4,8,8,64):(4096,512,64,1)">, %z: i32) {
  // expected-error @+1 {{expected steps of pixels of 1 to 8, got 9}}
  %t = cute.pixel_tile %x, [16, 32], (%z, %z, %z, %z) + (%z, %z), pixels (0,0) (0,0) (1,9) : !cute.memref<f16, gmem, align<16>, "(4,8,8,64):(4096,512,64,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(64,1)">
}

// -----

cute.kernel @other_type(%x: !cute.memref<f16, gmem, align<16>, "(4,8,8,64):(4096,512,64,1)">, %z: i32) {
  // expected-error @+1 {{expected the tile's type !cute.memref<f16, gmem, align<16>, "(16,32):(64,1)">, got !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">}}
  %t = cute.pixel_tile %x, [16, 32], (%z, %z, %z, %z) + (%z, %z), pixels (0,0) (0,0) (1,1) : !cute.memref<f16, gmem, align<16>, "(4,8,8,64):(4096,512,64,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">
}

// -----

// expected-error @+1 {{expected boxes of pixels along the last mode but one, of no slice, got (1, 2, 128, 64)}}
func.func @two_rows(%t: !cute_nvgpu.tma_descriptor<f16, (1,2,128,64), S<3,4,3>, pixels (0,0) (0,0) (1,1)>) {
  func.return
}
