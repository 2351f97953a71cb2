// Buffers that tensor memory does not have, and multiplies that may not forget.
// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @space() {
  // expected-error @+1 {{expected a tmem memref, got smem}}
  %t = cute.alloc_tmem : !cute.memref<f32, smem, align<16>, "(128,64):(64,1)">
}

// -----

cute.kernel @element() {
  // expected-error @+1 {{expected elements of 8, 16 or 32 bits in tensor memory, got 64}}
  %t = cute.alloc_tmem : !cute.memref<f64, tmem, align<8>, "(128,64):(65536,1)">
}

// -----

cute.kernel @halves_of_columns() {
  // expected-error @+1 {{expected at most 512 columns of tensor memory, got 513}}
  %t = cute.alloc_tmem : !cute.memref<f16, tmem, align<4>, "(128,2):(131072,1024)">
}

// -----

cute.kernel @columns() {
  // expected-error @+1 {{expected at most 512 columns of tensor memory, got 513}}
  %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,2):(65536,512)">
}

// -----

cute.kernel @lanes() {
  // expected-error @+1 {{expected at most 128 lanes of tensor memory, got 256}}
  %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(256,2):(65536,1)">
}

// -----

cute.kernel @keeps(%a: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, %keeps: i1) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  // expected-error @+1 {{expected an accumulator in tensor memory with keeps, got}}
  cute.gemm %a, %a, %acc keeps %keeps : !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.fragment<f32, "(64,64)">
}

// -----

cute.kernel @over_no_buffer(%t: !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)">) {
  // expected-error @+1 {{expected another buffer with columns of its own under this one}}
  %p = cute.alloc_tmem over %t : !cute.memref<f32, tmem, align<4>, "(128,64):(65536,1)"> : !cute.memref<f16, tmem, align<4>, "(128,64):(131072,1)">
}

// -----

cute.kernel @over_too_few_columns() {
  %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,16):(65536,1)">
  // expected-error @+1 {{expected at most the 16 columns of the buffer under this one, got 32}}
  %p = cute.alloc_tmem over %t : !cute.memref<f32, tmem, align<4>, "(128,16):(65536,1)"> : !cute.memref<f16, tmem, align<4>, "(128,64):(131072,1)">
}
