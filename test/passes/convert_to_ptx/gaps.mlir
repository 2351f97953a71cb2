// RUN: cute-opt %s -p convert-to-ptx | filecheck %s

// In their order the second buffer would begin behind a gap of 960 bytes, and end behind 166912.

// CHECK: smem = 166464 : i32
cute.kernel @gaps() attributes {threads = 32 : i32} {
  %a = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(4,4):(4,1)">
  %b = cute.alloc_smem : !cute.memref<f32, smem, align<1024>, "(208,200):(200,1)">
}
