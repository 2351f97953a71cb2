// RUN: cute-opt %s --split-input-file --verify-diagnostics

// tcgen05: one rule per case.

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected a power of two in 32..512 columns, got 48}}
ptx.tcgen05.alloc [%s], 48, 1

// -----

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected a CTA group of 1 or 2, got 3}}
ptx.tcgen05.alloc [%s], 64, 3

// -----

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected an offset that is a multiple of 4 bytes, got 2}}
ptx.tcgen05.alloc [%s + 2], 64, 1

// -----

%t = ptx.imm 0 : b32
// expected-error @+1 {{expected a power of two in 32..512 columns, got 1024}}
ptx.tcgen05.dealloc %t, 1024, 1

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected a CTA group and a kind (f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4) in the modifiers, got 'cta_group::1.kind::f64'}}
ptx.tcgen05.mma "cta_group::1.kind::f64", %t, %d, %d {
  idesc = 0, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected 2 addresses of scale factors for cta_group::1.kind::mxf4.block_scale, got 0}}
ptx.tcgen05.mma "cta_group::1.kind::mxf4.block_scale", %t, %d, %d {
  idesc = 0, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
%f = ptx.imm 0.0 : f32
// expected-error @+1 {{expected a descriptor (!ptx.smem_desc) or an address of tensor memory (b32) as A, got !ptx.reg<f32>}}
ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %f, %d {
  idesc = 0, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.reg<f32>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected 2 entries in each table, got 1}}
ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %d, %d {
  idesc = 0, d = array<i64: 0, 0>, a = array<i64: 0, 2>, b = array<i64: 0>
} : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected column indices in 0..511, got [512]}}
ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %d, %d {
  idesc = 0, d = array<i64: 512>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected predicate indices in -1..-1, got [0]}}
ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %d, %d {
  idesc = 0, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>, scale = array<i64: 0>
} : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected an instruction descriptor of 32 bits, got 4294967296}}
ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %d, %d {
  idesc = 4294967296, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected an offset that is a multiple of 8 bytes, got 4}}
ptx.tcgen05.commit [%s + 4], 1

// -----

%t = ptx.imm 0 : b32
%r = ptx.regs : !ptx.regs<b32 x 8>
// expected-error @+1 {{expected a shape (32x32b, 16x64b, 16x128b, 16x256b) and .xN of at most 128 registers, got 'sync.aligned.16x256b.x64.b32'}}
ptx.tcgen05.ld "sync.aligned.16x256b.x64.b32", %r, %t {
  registers = array<i64: 0>, addends = array<i64: 0>
} : !ptx.regs<b32 x 8>

// -----

%t = ptx.imm 0 : b32
%r = ptx.regs : !ptx.regs<b32 x 8>
// expected-error @+1 {{expected register indices in 0..0, got [8]}}
ptx.tcgen05.ld "sync.aligned.32x32b.x8.b32", %r, %t {
  registers = array<i64: 8>, addends = array<i64: 0>
} : !ptx.regs<b32 x 8>

// -----

%t = ptx.imm 0 : b32
%r = ptx.regs : !ptx.regs<b64 x 8>
// expected-error @+1 {{expected registers of 32 bits for tcgen05.st, got b64}}
ptx.tcgen05.st "sync.aligned.32x32b.x8.b32", %t, %r {
  registers = array<i64: 0>, addends = array<i64: 0>
} : !ptx.regs<b64 x 8>

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected a CTA group and a shape (128x256b, 4x256b, 128x128b, 64x128b.warpx2::02_13, 64x128b.warpx2::01_23, 32x128b.warpx4), got 'cta_group::1.32x128b'}}
ptx.tcgen05.cp "cta_group::1.32x128b", %t, %d : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

// expected-error @+1 {{expected a fence (before_thread_sync or after_thread_sync), got 'sync'}}
ptx.tcgen05.fence "sync"

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected B by a descriptor for tcgen05, got !ptx.smem_desc<wgmma, K, 128B}}
ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %t, %d {
  idesc = 0, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.reg<b32>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%t = ptx.imm 0 : b32
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected A by a descriptor that is MN-major, as the instruction says, got !ptx.smem_desc<tcgen05, K}}
ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %d, %d {
  idesc = 32768, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

ptx.kernel @a_pair_with_four_words_of_masks(%start: b64, %t: b32, %x: b32) attributes {target = "sm_100a", threads = 32 : i32} {
%d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected 8 words of lane masks for cta_group::2.kind::f16, got 4}}
ptx.tcgen05.mma "cta_group::2.kind::f16", %t, %t, %d masks %x, %x, %x, %x {
  idesc = 270532624, d = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.reg<b32>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
}

// -----

ptx.kernel @a_reduction_without_registers(%t: b32) attributes {target = "sm_103a", threads = 32 : i32} {
%r = ptx.regs : !ptx.regs<f32 x 16>
// expected-error @+1 {{expected registers that are reduced with red, and none without, got 'red.sync.aligned.32x32b.x16.max.f32' and None}}
ptx.tcgen05.ld "red.sync.aligned.32x32b.x16.max.f32", %r, %t {
  registers = array<i64: 0>, addends = array<i64: 0>
} : !ptx.regs<f32 x 16>
}

// -----

ptx.kernel @a_reduction_of_one_register(%t: b32) attributes {target = "sm_103a", threads = 32 : i32} {
%r = ptx.regs : !ptx.regs<f32 x 1>
// expected-error @+1 {{expected red.sync.aligned, the shape 32x32b, at least .x2, and .min or .max of f32, u32 or s32, got 'red.sync.aligned.32x32b.x1.max.f32'}}
ptx.tcgen05.ld "red.sync.aligned.32x32b.x1.max.f32", %r, %t reduced %r {
  registers = array<i64: 0>, addends = array<i64: 0>
} : !ptx.regs<f32 x 1>, !ptx.regs<f32 x 1>
}
