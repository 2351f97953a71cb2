// RUN: cute-opt %s --split-input-file --verify-diagnostics

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected a count of arrivals in 1..1048575, got 0}}
ptx.mbarrier.init [%s], 0

// -----

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected a count of arrivals in 1..1048575, got 1048576}}
ptx.mbarrier.arrive [%s], 1048576

// -----

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected an offset that is a multiple of 8 bytes, got 4}}
ptx.mbarrier.inval [%s + 4]

// -----

%s = ptx.imm 0 : b32
// expected-error @+1 {{expected a number of bytes in 0..1048575, got 1048576}}
ptx.mbarrier.arrive.expect_tx [%s], 1048576

// -----

ptx.kernel @address_class(%s: b64) attributes {target = "sm_90a", threads = 32 : i32} {
  // expected-error @+1 {{!ptx.reg<b32>}}
  ptx.mbarrier.wait [%s], %s
}

// -----

ptx.kernel @map_class(%a: b32, %s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  // expected-error @+1 {{expected a tensor map or its address of class b64, got !ptx.reg<b32>}}
  ptx.tma.load [%s], %a[%s], [%s] : !ptx.reg<b32>
}

// -----

ptx.kernel @map_of_predicate() attributes {target = "sm_90a", threads = 32 : i32} {
  %p = ptx.imm 1 : pred
  // expected-error @+1 {{expected a tensor map or its address of class b64, got !ptx.reg<pred>}}
  ptx.prefetch.tensormap %p : !ptx.reg<pred>
}

// -----

ptx.kernel @no_coordinates(%A: tensor_map) attributes {target = "sm_90a", threads = 32 : i32} {
  // expected-error @+1 {{expected 1 to 5 coordinates, got 0}}
  ptx.tma.prefetch %A[] : !ptx.tensor_map
}

// -----

ptx.kernel @six_coordinates(%A: tensor_map, %x: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  // expected-error @+1 {{expected 1 to 5 coordinates, got 6}}
  ptx.tma.load [%x], %A[%x, %x, %x, %x, %x, %x], [%x] : !ptx.tensor_map
}

// -----

ptx.kernel @three_rows(%A: tensor_map, %x: b32) attributes {target = "sm_100a", threads = 32 : i32} {
  // expected-error @+1 {{expected a column and four rows to gather, got 4 coordinates and 0 offsets}}
  ptx.tma.load [%x], %A[%x, %x, %x, %x], [%x] gather : !ptx.tensor_map
}

// -----

ptx.kernel @reduction(%A: tensor_map, %x: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  // expected-error @+1 {{expected a reduction (add, min, max, inc, dec, and, or, xor), got 'mul'}}
  ptx.tma.store %A[%x], [%x] reduce "mul" : !ptx.tensor_map
}

// -----

ptx.kernel @bulk_bytes(%a: b64, %s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  // expected-error @+1 {{expected a multiple of 16 bytes to copy, got 24}}
  ptx.bulk.load [%s], [%a] bytes 24, [%s]
}

// -----

ptx.kernel @bulk_without_size(%a: b64, %s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  // expected-error @+1 {{expected a size in bytes, either a constant or a register, got none}}
  ptx.bulk.store [%a], [%s]
}

// -----

ptx.kernel @bulk_with_both_sizes(%a: b64, %s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  // expected-error @+1 {{expected a size in bytes, either a constant or a register, got both}}
  ptx.bulk.store [%a], [%s] bytes 16 size %s
}

// -----

ptx.kernel @bulk_offset(%a: b64, %s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
  // expected-error @+1 {{expected offsets that are multiples of 16 bytes, got 8}}
  ptx.bulk.store [%a], [%s + 8] bytes 16
}

// -----

// expected-error @+1 {{expected a number of groups of 0 or more, got -1}}
"ptx.cp.async.bulk.wait_group"() <{pending = -1 : i64}> : () -> ()

// -----

// expected-error @+1 {{expected a number of groups in 0..7, got 8}}
ptx.wgmma.wait_group 8

// -----

// expected-error @+1 {{expected modifiers ('', 'acquire', 'aligned', 'acquire.aligned'), got 'release'}}
ptx.barrier.cluster.wait "release"

// -----

// expected-error @+1 {{expected modifiers ('', 'release', 'relaxed', 'aligned', 'release.aligned', 'relaxed.aligned'), got 'acquire'}}
ptx.barrier.cluster.arrive "acquire"

// -----

// expected-error @+1 {{expected an action 'inc' or 'dec', got 'set'}}
ptx.setmaxnreg "set", 40

// -----

// expected-error @+1 {{expected a multiple of 8 registers in 24..256, such as 232, got 230}}
ptx.setmaxnreg "inc", 230

// -----

// expected-error @+1 {{expected a multiple of 8 registers in 24..256, such as 24, got 16}}
ptx.setmaxnreg "dec", 16

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected a shape and the types of D, A and B in the modifiers, got 'wgmma.mma_async.sync.aligned.m64n8k16.f16'}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f16", %c, %d, %d {
  counts = array<i64: 4, 0>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected a shape m64nNk16 for f16, N a multiple of 8 in 8..256, got m64n8k8}}
ptx.wgmma.mma_async "sync.aligned.m64n8k8.f32.f16.f16", %c, %d, %d {
  counts = array<i64: 4, 0>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected counts (4, 0) for wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16, got (8, 0)}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %d, %d {
  counts = array<i64: 8, 0>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<b32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected an accumulator of class f32 for wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16, got b32}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %d, %d {
  counts = array<i64: 4, 0>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.regs<b32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected register indices in 0..0, got [1]}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %d, %d {
  counts = array<i64: 4, 0>, c = array<i64: 1>, a = array<i64: 0>, b = array<i64: 0>
} : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected 2 entries in each table, got 1}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %d, %d {
  counts = array<i64: 4, 0>, c = array<i64: 0, 0>, a = array<i64: 0, 2>, b = array<i64: 0>
} : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected addend indices in 0..16383, got [-2]}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %d, %d {
  counts = array<i64: 4, 0>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: -2>
} : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected predicate indices in -1..-1, got [0]}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %d, %d {
  counts = array<i64: 4, 0>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>,
  scale = array<i64: 0>
} : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<b32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected 2 signs (-1 or 1) and 1 majors (0 or 1) for wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16, got (1, 1, 0, 0)}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %a, %d {
  counts = array<i64: 4, 4>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>,
  immediates = array<i64: 1, 1, 0, 0>
} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%d = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected registers of class b32 for A, got f32}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %a, %d {
  counts = array<i64: 4, 4>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>,
  immediates = array<i64: 1, 1, 0>
} : !ptx.regs<f32 x 4>, !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%a = ptx.smem_desc %start : !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>
%b = ptx.smem_desc %start : !ptx.smem_desc<wgmma, MN, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected B by a descriptor that is K-major, as the instruction says, got !ptx.smem_desc<wgmma, MN}}
ptx.wgmma.mma_async "sync.aligned.m64n8k16.f32.f16.f16", %c, %a, %b {
  counts = array<i64: 4, 0>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>,
  immediates = array<i64: 1, 1, 0, 0>
} : !ptx.regs<f32 x 4>, !ptx.smem_desc<wgmma, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<wgmma, MN, 128B, leading = 16, stride = 1024>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%start = ptx.imm 0 : b64
%a = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
// expected-error @+1 {{expected B by a descriptor for wgmma, got !ptx.smem_desc<tcgen05, K}}
ptx.wgmma.mma_async "sync.aligned.m64n8k8.f32.tf32.tf32", %c, %a, %a {
  counts = array<i64: 4, 0>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>,
  immediates = array<i64: 1, 1>
} : !ptx.regs<f32 x 4>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>, !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>

// -----

// expected-error @+1 {{expected wgmma or tcgen05 as the unit, got mma}}
func.func private @unit(!ptx.smem_desc<mma, K, 128B, leading = 16, stride = 1024>)

// -----

// expected-error @+1 {{expected K or MN as the major, got M}}
func.func private @major(!ptx.smem_desc<wgmma, M, 128B, leading = 16, stride = 1024>)

// -----

// expected-error @+1 {{expected a swizzle of wgmma (none, 128B, 64B, 32B), got 128B_32B}}
func.func private @swizzle(!ptx.smem_desc<wgmma, MN, 128B_32B, leading = 16, stride = 1024>)

// -----

// expected-error @+1 {{expected a stride offset that is a positive multiple of 16 below 262144, got 8}}
func.func private @stride(!ptx.smem_desc<wgmma, K, 128B, leading = ?, stride = 8>)
