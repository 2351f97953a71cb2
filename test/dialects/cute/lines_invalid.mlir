// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @scans_of_two_shapes() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  %u = cute.alloc_fragment : !cute.fragment<f32, "(8,8)">
  // expected-error @+1 {{expected register tiles of one shape, (4, 8), got (8, 8)}}
  %p, %q = cute.scan %t, %u {mode = 1 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<f32, "(8,8)"> -> !cute.fragment<f32, "(4,8)">, !cute.fragment<f32, "(8,8)"> {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    cute.yield %a, %b : f32, f32
  }
}

// -----

cute.kernel @scans_to_another_type() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  // expected-error @+1 {{expected results of f32, got i32}}
  %p = cute.scan %t {mode = 1 : i64} : !cute.fragment<f32, "(4,8)"> -> !cute.fragment<i32, "(4,8)"> {
  ^bb0(%a: f32, %b: f32):
    cute.yield %a : f32
  }
}

// -----

cute.kernel @scans_along_no_mode() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  // expected-error @+1 {{expected a mode in 0..1, got 2}}
  %p = cute.scan %t {mode = 2 : i64} : !cute.fragment<f32, "(4,8)"> -> !cute.fragment<f32, "(4,8)"> {
  ^bb0(%a: f32, %b: f32):
    cute.yield %a : f32
  }
}

// -----

cute.kernel @scans_bytes() {
  %t = cute.alloc_fragment : !cute.fragment<i8, "(4,8)">
  // expected-error @+1 {{expected elements of 32 or 64 bits, f16 or bf16 to scan, got i8}}
  %p = cute.scan %t {mode = 1 : i64} : !cute.fragment<i8, "(4,8)"> -> !cute.fragment<i8, "(4,8)"> {
  ^bb0(%a: i8, %b: i8):
    cute.yield %a : i8
  }
}

// -----

cute.kernel @scans_by_a_body_of_one_element() {
  %t = cute.alloc_fragment : !cute.fragment<f16, "(4,8)">
  // expected-error @+1 {{expected a body with arguments of f32, f32, got f32}}
  %p = cute.scan %t {mode = 1 : i64} : !cute.fragment<f16, "(4,8)"> -> !cute.fragment<f16, "(4,8)"> {
  ^bb0(%a: f32):
    cute.yield %a : f32
  }
}

// -----

cute.kernel @scans_to_two_values() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  // expected-error @+1 {{expected the body to end with cute.yield of f32, got f32, f32}}
  %p = cute.scan %t {mode = 1 : i64} : !cute.fragment<f32, "(4,8)"> -> !cute.fragment<f32, "(4,8)"> {
  ^bb0(%a: f32, %b: f32):
    cute.yield %a, %b : f32, f32
  }
}

// -----

cute.kernel @scans_from_another_type(%n: i32) {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  // expected-error @+1 {{expected initial values of f32, or none, got i32}}
  %p = cute.scan %t from %n : i32 {mode = 1 : i64} : !cute.fragment<f32, "(4,8)"> -> !cute.fragment<f32, "(4,8)"> {
  ^bb0(%a: f32, %b: f32):
    cute.yield %a : f32
  }
}

// -----

cute.kernel @scans_nothing() {
  // expected-error @+1 {{expected a register tile to scan, got none}}
  "cute.scan"() <{mode = 1 : i64, operandSegmentSizes = array<i32: 0, 0>}> ({
  ^bb0:
    %z = arith.constant 0 : i32
    cute.yield %z : i32
  }) : () -> ()
}

// -----

cute.kernel @sorts_nothing() {
  // expected-error @+1 {{expected a register tile to sort, got none}}
  "cute.sort"() <{mode = 1 : i64}> : () -> ()
}

// -----

cute.kernel @sorts_floats() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  // expected-error @+1 {{expected integers of 32 or 64 bits to sort, got f32}}
  %p = cute.sort %t {mode = 1 : i64} : !cute.fragment<f32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
}

// -----

cute.kernel @sorts_twelve() {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(4,12)">
  // expected-error @+1 {{expected a power of two of elements to sort, got 12; take 16, the last of which come behind all others}}
  %p = cute.sort %t {mode = 1 : i64} : !cute.fragment<i32, "(4,12)"> -> !cute.fragment<i32, "(4,12)">
}

// -----

cute.kernel @sorts_more_than_all() {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
  // expected-error @+1 {{expected 1..8 leading elements of a line, got 9}}
  %p = cute.sort %t {mode = 1 : i64, leading = 9 : i64} : !cute.fragment<i32, "(4,8)"> -> !cute.fragment<i32, "(4,8)">
}

// -----

cute.kernel @takes_by_floats() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  // expected-error @+1 {{expected i32 numbers of places, got f32}}
  %p = cute.take %t, %t {mode = 1 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<f32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
}

// -----

cute.kernel @takes_halves() {
  %t = cute.alloc_fragment : !cute.fragment<f16, "(4,8)">
  %i = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
  // expected-error @+1 {{expected elements of 32 or 64 bits, got f16}}
  %p = cute.take %t, %i {mode = 1 : i64} : !cute.fragment<f16, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<f16, "(4,8)">
}

// -----

cute.kernel @takes_of_other_lines() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  %i = cute.alloc_fragment : !cute.fragment<i32, "(2,8)">
  // expected-error @+1 {{expected numbers as many as lines of (4, 8) along mode 1, got (2, 8)}}
  %p = cute.take %t, %i {mode = 1 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(2,8)"> -> !cute.fragment<f32, "(2,8)">
}

// -----

cute.kernel @takes_to_another_type() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  %i = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
  // expected-error @+1 {{expected a result of f32, got !cute.fragment<i32, "(4,8)">}}
  %p = cute.take %t, %i {mode = 1 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<i32, "(4,8)">
}

// -----

cute.kernel @takes_of_an_extent_of_no_line() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  %i = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
  // expected-error @+1 {{expected an extent of a line along a mode, or none}}
  %p = cute.take %t, %i {extent = 4 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
}

// -----

cute.kernel @puts_other_values() {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(4,8)">
  %i = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
  // expected-error @+1 {{expected values of f32, got !cute.fragment<i32, "(4,8)">}}
  %p = cute.put %t, %i, %i {mode = 1 : i64} : !cute.fragment<f32, "(4,8)">, !cute.fragment<i32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
}

// -----

cute.kernel @puts_products() {
  %i = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
  // expected-error @+1 {{expected no kind, or "add" of i32, ui32 or f32, got mul of i32}}
  %p = cute.put %i, %i, %i {mode = 1 : i64, kind = "mul"} : !cute.fragment<i32, "(4,8)">, !cute.fragment<i32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<i32, "(4,8)">
}

// -----

cute.kernel @fetches_halves(%a: !cute.memref<f16, gmem, align<4>, "(64,1):(1,64)">) {
  %t = cute.alloc_fragment : !cute.fragment<f16, "(64,1)">
  // expected-error @+1 {{expected add of f32, f64, i32, ui32, i64, ui64, got f16}}
  %o = cute.fetch "add", %t, %a : !cute.fragment<f16, "(64,1)">, !cute.memref<f16, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<f16, "(64,1)">
}

// -----

cute.kernel @fetches_by_no_name(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">) {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
  // expected-error @+1 {{expected an atomic (add, max, min, and, or, xor, exchange, compare), got 'mul'}}
  %o = cute.fetch "mul", %t, %a : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,1)">
}

// -----

cute.kernel @fetches_in_no_order(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">) {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
  // expected-error @+1 {{expected an order (acquire, release, acq_rel), got 'sc'}}
  %o = cute.fetch "add", %t, %a {order = "sc"} : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,1)">
}

// -----

cute.kernel @compares_with_nothing(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">) {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
  // expected-error @+1 {{expected another tile with compare alone, got compare}}
  %o = cute.fetch "compare", %t, %a : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,1)">
}

// -----

cute.kernel @fetches_another_shape(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">) {
  %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
  // expected-error @+1 {{expected a tile like !cute.fragment<i32, "(64,1)">, got !cute.fragment<i32, "(64,2)">}}
  %o = cute.fetch "add", %t, %a : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,2)">
}
