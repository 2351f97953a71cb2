// RUN: cute-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected 1 to 1024 threads, got 2048}}
ptx.kernel @threads() attributes {target = "sm_80", threads = 2048 : i32} {
}

// -----

// expected-error @+1 {{expected min_ctas of 1 or more, got 0}}
ptx.kernel @min_ctas() attributes {target = "sm_80", threads = 32 : i32, min_ctas = 0 : i32} {
}

// -----

// expected-error @+1 {{expected a register class (pred, b16, b32, b64, f32, f64), got u32}}
ptx.kernel @parameter_class(%a: u32) attributes {target = "sm_80", threads = 32 : i32} {
}

// -----

// expected-error @+1 {{expected a register class (pred, b16, b32, b64, f32, f64), got f16}}
%array_class = ptx.regs : !ptx.regs<f16 x 4>

// -----

// expected-error @+1 {{expected at least one register, got 0}}
%array_count = ptx.regs : !ptx.regs<f32 x 0>

// -----

%a = ptx.imm 1 : b32
// expected-error @+1 {{expected 2 operands of add.s32, got 1}}
%operand_count = ptx.add "s32" %a : (b32) -> b32

// -----

%x = ptx.imm 1.0 : f32
// expected-error @+1 {{expected operand 0 of add.s32 of class b32, got f32}}
%operand_class = ptx.add "s32" %x, %x : (f32, f32) -> b32

// -----

%a = ptx.imm 1 : b32
// expected-error @+1 {{expected operand 2 of selp.b32 of class pred, got b32}}
%predicate_class = ptx.selp "b32" %a, %a, %a : (b32, b32, b32) -> b32

// -----

%a = ptx.imm 1 : b32
// expected-error @+1 {{expected a result of class b64 for mul.wide.u32, got b32}}
%result_class = ptx.mul "wide.u32" %a, %a : (b32, b32) -> b32

// -----

%a = ptx.imm 1 : b32
// expected-error @+1 {{expected a type in the modifiers of add, got 'add.sat'}}
%no_type = ptx.add "sat" %a, %a : (b32, b32) -> b32

// -----

%a = ptx.imm 1 : b64
// expected-error @+1 {{expected a wide product of u16, s16, u32 or s32, got 'mul.wide.u64'}}
%wide = ptx.mul "wide.u64" %a, %a : (b64, b64) -> b64

// -----

// expected-error @+1 {{expected an integer of class b32, got 1.5}}
%float_literal = ptx.imm 1.5 : b32

// -----

// expected-error @+1 {{expected 32 bits of class f32, got 0x1FFFFFFFF}}
%float_bits = ptx.imm 0x1FFFFFFFF : f32

// -----

// expected-error @+1 {{expected a float in the range of class f32, got 1.0e60}}
%float_range = ptx.imm 1.0e60 : f32

// -----

// expected-error @+1 {{expected an integer of 16 bits, got 65536}}
%literal_range = ptx.imm 65536 : b16

// -----

%a = ptx.imm 1 : b16
// expected-error @+1 {{expected parts of 64 bits in all, got 32}}
%pack = ptx.pack %a, %a : (b16, b16) -> b64

// -----

%a = ptx.imm 1 : b32
// expected-error @+1 {{expected parts of 32 bits in all, got 64}}
%unpack_lo, %unpack_hi = ptx.unpack %a : b32 -> (b32, b32)

// -----

%v = ptx.imm 1 : b32
%x = ptx.regs : !ptx.regs<f32 x 4>
// expected-error @+1 {{expected a value of class f32, got b32}}
ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<b32>

// -----

%x = ptx.regs : !ptx.regs<f32 x 4>
// expected-error @+1 {{expected a register index below 4, got 4}}
%get = ptx.get %x[4]

// -----

%v = ptx.imm 1 : b32
%x = ptx.regs : !ptx.regs<f32 x 4>
// expected-error @+1 {{expected a register of class f32, got b32}}
ptx.set %x[3], %v

// -----

%v = ptx.imm 1.0 : f32
// expected-error @+1 {{expected an array of registers, got !ptx.reg<f32>}}
%get_of_scalar = ptx.get %v[0]

// -----

// expected-error @+1 {{expected a value that is defined above, got %missing}}
%undefined = ptx.get %missing[0]

// -----

ptx.kernel @base_class(%a: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  // expected-error @+1 {{expected bases of class b64, got b32}}
  ptx.ld "global.f32", %x [%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b32>
}

// -----

ptx.kernel @space(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  // expected-error @+1 {{expected .global or .shared in the modifiers, got 'f32'}}
  ptx.ld "f32", %x [%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
}

// -----

ptx.kernel @vector_length(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  // expected-error @+1 {{expected 4 registers for 1 of ld.global.v4.f32, got 2}}
  ptx.ld "global.v4.f32", %x [%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1>} : !ptx.regs<f32 x 4>, !ptx.reg<b64>
}

// -----

ptx.kernel @data_class(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<b32 x 1>
  // expected-error @+1 {{expected registers of class f64 or b64 for st.global.f64, got b32}}
  ptx.st "global.f64", %x [%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<b32 x 1>, !ptx.reg<b64>
}

// -----

ptx.kernel @base_index(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  // expected-error @+1 {{expected base indices in 0..0, got [1]}}
  ptx.st "global.f32", %x [%a] {base = array<i64: 1>, offset = array<i64: 0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
}

// -----

ptx.kernel @register_index(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  // expected-error @+1 {{expected register indices in 0..3, got [4]}}
  ptx.st "global.f32", %x [%a] {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 4>} : !ptx.regs<f32 x 4>, !ptx.reg<b64>
}

// -----

ptx.kernel @offset_count(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  // expected-error @+1 {{expected 2 offsets, got 1}}
  ptx.st "global.f32", %x [%a] {base = array<i64: 0, 0>, offset = array<i64: 4>, regs = array<i64: 0, 1>} : !ptx.regs<f32 x 4>, !ptx.reg<b64>
}

// -----

ptx.kernel @no_instruction(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  // expected-error @+1 {{expected at least one instruction, got none}}
  ptx.st "global.f32", %x [%a] {base = array<i64>, offset = array<i64>, regs = array<i64>} : !ptx.regs<f32 x 4>, !ptx.reg<b64>
}

// -----

ptx.kernel @predicate_index(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %p = ptx.imm 1 : pred
  %x = ptx.regs : !ptx.regs<f32 x 1>
  // expected-error @+1 {{expected predicate indices in -1..0, got [1]}}
  ptx.st "global.f32", %x [%a] if %p : !ptx.reg<pred> {base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>, pred = array<i64: 1>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
}

// -----

ptx.kernel @copy_bytes(%s: b32, %a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  // expected-error @+1 {{expected cp.async of 4, 8 or 16 bytes, got 2}}
  ptx.cp.async "ca.shared.global", 2, [%s] [%a] {dst_base = array<i64: 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0>, src_offset = array<i64: 0>} : !ptx.reg<b64> -> !ptx.reg<b32>
}

// -----

ptx.kernel @copy_past_l1(%s: b32, %a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  // expected-error @+1 {{expected cp.async.cg of 16 bytes, got 8}}
  ptx.cp.async "cg.shared.global", 8, [%s] [%a] {dst_base = array<i64: 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0>, src_offset = array<i64: 0>} : !ptx.reg<b64> -> !ptx.reg<b32>
}

// -----

ptx.kernel @copy_tables(%s: b32, %a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  // expected-error @+1 {{expected 2 entries in each table, got 1}}
  ptx.cp.async "cg.shared.global", 16, [%s] [%a] {dst_base = array<i64: 0, 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0, 0>, src_offset = array<i64: 0, 16>} : !ptx.reg<b64> -> !ptx.reg<b32>
}

// -----

ptx.kernel @copy_destination(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  // expected-error @+1 {{expected destinations of class b32, got b64}}
  ptx.cp.async "cg.shared.global", 16, [%a] [%a] {dst_base = array<i64: 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0>, src_offset = array<i64: 0>} : !ptx.reg<b64> -> !ptx.reg<b64>
}

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<b32 x 4>
%b = ptx.regs : !ptx.regs<b32 x 2>
// expected-error @+1 {{expected counts (4, 4, 2) for mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32, got (4, 2, 2)}}
ptx.mma "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", %c, %a, %b {counts = array<i64: 4, 2, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<b32 x 4>
%b = ptx.regs : !ptx.regs<b32 x 2>
// expected-error @+1 {{expected register indices in 0..0, got [1]}}
ptx.mma "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", %c, %a, %b {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 1>} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<b32 x 4>
%b = ptx.regs : !ptx.regs<b32 x 2>
// expected-error @+1 {{expected tables c, a and b of one length}}
ptx.mma "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", %c, %a, %b {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0, 0>, b = array<i64: 0>} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<b32 x 4>
%b = ptx.regs : !ptx.regs<b32 x 2>
%s = ptx.regs : !ptx.regs<b32 x 1>
// expected-error @+1 {{expected scales of A and B with their words and threads for a form with block_scale, none for another one}}
ptx.mma "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", %c, %a, %b {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<b32 x 4>
%b = ptx.regs : !ptx.regs<b32 x 2>
%s = ptx.regs : !ptx.regs<b32 x 1>
// expected-error @+1 {{expected tables of words and threads as long as those of registers}}
ptx.mma "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", %c, %a, %b scales %s, %s {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>, words_a = array<i64: 0, 0>, threads_a = array<i64: 0>, words_b = array<i64: 0>, threads_b = array<i64: 0>} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>, !ptx.regs<b32 x 1>, !ptx.regs<b32 x 1>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<b32 x 4>
%b = ptx.regs : !ptx.regs<b32 x 2>
%s = ptx.regs : !ptx.regs<b32 x 1>
// expected-error @+1 {{expected word indices in 0..0, got [1]}}
ptx.mma "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", %c, %a, %b scales %s, %s {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>, words_a = array<i64: 1>, threads_a = array<i64: 0>, words_b = array<i64: 0>, threads_b = array<i64: 0>} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>, !ptx.regs<b32 x 1>, !ptx.regs<b32 x 1>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<b32 x 4>
%b = ptx.regs : !ptx.regs<b32 x 2>
%s = ptx.regs : !ptx.regs<b32 x 1>
// expected-error @+1 {{expected thread of a quad indices in 0..1, got [2]}}
ptx.mma "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", %c, %a, %b scales %s, %s {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>, words_a = array<i64: 0>, threads_a = array<i64: 2>, words_b = array<i64: 0>, threads_b = array<i64: 0>} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>, !ptx.regs<b32 x 1>, !ptx.regs<b32 x 1>

// -----

%c = ptx.regs : !ptx.regs<f32 x 4>
%a = ptx.regs : !ptx.regs<b32 x 4>
%b = ptx.regs : !ptx.regs<b32 x 2>
%s = ptx.regs : !ptx.regs<b32 x 1>
// expected-error @+1 {{expected a byte of a word, got 4}}
ptx.mma "sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", %c, %a, %b scales %s, %s {counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>, words_a = array<i64: 0>, threads_a = array<i64: 1>, words_b = array<i64: 0>, threads_b = array<i64: 3>, byte = 4 : i32} : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>, !ptx.regs<b32 x 1>, !ptx.regs<b32 x 1>

// -----

ptx.kernel @scalar_vector(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  // expected-error @+1 {{expected one register, got the vector instruction ld.global.v2.b32}}
  %x = ptx.ld.scalar "global.v2.b32", %a {offset = 0 : i64} : !ptx.reg<b64> -> !ptx.reg<b32>
}

// -----

ptx.kernel @compare_and_swap(%a: b64, %x: b32) attributes {target = "sm_80", threads = 32 : i32} {
  // expected-error @+1 {{expected 2 values of atom.global.cas.b32, got 1}}
  %old = ptx.atom "global.cas.b32" %a, 0, %x : b32
}

// -----

ptx.kernel @foreach_table(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 4>
  // expected-error @+1 {{expected tables of 4 entries, got 3}}
  ptx.foreach 4 () -> (%x [0, 1, 2]) {
    ptx.yield %v : !ptx.reg<f32>
  }
}

// -----

ptx.kernel @foreach_constants(%v: b32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<b32 x 2>
  // expected-error @+1 {{expected tables of 2 entries, got 1}}
  ptx.foreach 2 (%k = imm [7]) -> (%x [0, 1]) {
    ptx.yield %k : !ptx.reg<b32>
  }
}

// -----

ptx.kernel @foreach_index(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 2>
  // expected-error @+1 {{expected register indices below 2, got 2}}
  ptx.foreach 2 () -> (%x [1, 2]) {
    ptx.yield %v : !ptx.reg<f32>
  }
}

// -----

ptx.kernel @foreach_body(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  // expected-error @+1 {{expected scalar instructions in the body, got ptx.bar.sync}}
  ptx.foreach 1 () -> (%x [0]) {
    ptx.bar.sync 0
    ptx.yield %v : !ptx.reg<f32>
  }
}

// -----

ptx.kernel @foreach_yield(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<b32 x 1>
  // expected-error @+1 {{expected to yield class b32, got f32}}
  ptx.foreach 1 () -> (%x [0]) {
    ptx.yield %v : !ptx.reg<f32>
  }
}

// -----

ptx.kernel @foreach_results(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  // expected-error @+1 {{expected to yield 1 values, got 2}}
  ptx.foreach 1 () -> (%x [0]) {
    ptx.yield %v, %v : !ptx.reg<f32>, !ptx.reg<f32>
  }
}

// -----

ptx.kernel @step(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
  // expected-error @+1 {{expected a positive step, got 0}}
  ptx.for %i = %n to %n step 0 {
  }
}

// -----

ptx.kernel @condition(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
  // expected-error @+1 {{!ptx.reg<pred>}}
  ptx.if %n {
  }
}

// -----

ptx.kernel @shuffle(%v: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %one = ptx.imm 1 : b32
  // expected-error @+1 {{expected a value and a result of one class of 32 bits}}
  %r = ptx.shfl "sync.bfly.b32", %v, %one, %one, %one : !ptx.reg<b64> -> !ptx.reg<b64>
}

// -----

%p = ptx.imm 1 : pred
%all = ptx.imm 4294967295 : b32
// expected-error @+1 {{expected a result !ptx.reg<b32>, got !ptx.reg<pred>}}
%ballot = ptx.vote "sync.ballot.b32", %p, %all : !ptx.reg<pred>

// -----

// expected-error @+1 {{expected a barrier in 0..15, got 16}}
ptx.bar.sync 16

// -----

// expected-error @+1 {{expected a multiple of 32 threads, got 48}}
ptx.bar.sync 1, 48

// -----

ptx.kernel @table_of_floats(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
  %x = ptx.regs : !ptx.regs<f32 x 1>
  // expected-error @+1 {{expected a table of integers, got array<f32: 0.000000e+00>}}
  ptx.st "global.f32", %x [%a] {base = array<i64: 0>, offset = array<f32: 0.0>, regs = array<i64: 0>} : !ptx.regs<f32 x 1>, !ptx.reg<b64>
}

// -----

// expected-error @+1 {{expected a special register of 32 bits, such as 'tid.x' or 'laneid', got 'tid'}}
%special = ptx.special "tid" : b32

// -----

// expected-error @+1 {{expected a barrier in 0..15, got 16}}
ptx.bar.arrive 16, 64

// -----

// expected-error @+1 {{expected the number of threads that meet, got none}}
ptx.bar.arrive 1

// -----

%n = ptx.imm 4 : b32
// expected-error @+1 {{expected a step, either a constant or a register, got both}}
"ptx.for"(%n, %n, %n) <{step = 1 : i64}> ({
^bb0(%i: !ptx.reg<b32>):
}) : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>) -> ()

// -----

%n = ptx.imm 4 : b32
// expected-error @+1 {{expected a step, either a constant or a register, got none}}
"ptx.for"(%n, %n) ({
^bb0(%i: !ptx.reg<b32>):
}) : (!ptx.reg<b32>, !ptx.reg<b32>) -> ()

// -----

// expected-error @+1 {{expected a cluster of 3 extents and 1 to 16 CTAs, got (32, 1, 1)}}
ptx.kernel @cluster_size() attributes {target = "sm_90a", threads = 32 : i32, cluster = array<i64: 32, 1, 1>} {
}

// -----

// expected-error @+1 {{expected a cluster of 3 extents and 1 to 16 CTAs, got (2,)}}
ptx.kernel @cluster_rank() attributes {target = "sm_90a", threads = 32 : i32, cluster = array<i64: 2>} {
}

// -----

// expected-error @+1 {{expected a fence such as 'acq_rel.gpu', 'proxy.async', 'proxy.async.shared::cta' or 'mbarrier_init.release.cluster', got 'proxy.async.shared'}}
ptx.fence "proxy.async.shared"

// -----

ptx.kernel @no_end_of_a_trip() attributes {target = "sm_80", threads = 32 : i32} {
  // expected-error @+1 {{expected ptx.again at the end, got ptx.bar.sync}}
  ptx.repeat {
    ptx.bar.sync 0
  }
}

// -----

ptx.kernel @again_outside_of_a_loop() attributes {target = "sm_80", threads = 32 : i32} {
  %p = ptx.imm 0 : pred
  // expected-error @+1 {{expected to be the last op of a ptx.repeat, got another place}}
  ptx.again %p
}

// -----

ptx.kernel @half_a_warp_meets(%n: b32) attributes {target = "sm_80", threads = 64 : i32} {
  %p = ptx.imm 1 : pred
  // expected-error @+1 {{expected a multiple of 32 threads, got 16}}
  %q = ptx.bar.any %p, %n {threads = 16 : i32}
}
