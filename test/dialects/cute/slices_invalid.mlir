// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @slice_of_shared_memory(%b: i32) {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<16>, "(8,8):(8,1)">
  // expected-error @+1 {{'cute.slice': expected a tensor in gmem, got smem}}
  %t = "cute.slice"(%s, %b, %b) {mode = 0 : i64} : (!cute.memref<f16, smem, align<16>, "(8,8):(8,1)">, i32, i32) -> !cute.memref<f16, gmem, align<16>, "(?,8):(8,1)">
}

// -----

cute.kernel @slice_of_no_mode(%a: !cute.memref<f16, gmem, align<16>, "(?,8):(8,1)">, %b: i32) {
  // expected-error @+1 {{expected a mode in 0..1, got 2}}
  %t = cute.slice %a, 2, (%b, %b) : !cute.memref<f16, gmem, align<16>, "(?,8):(8,1)"> -> !cute.memref<f16, gmem, align<16>, "(?,8):(8,1)">
}

// -----

cute.kernel @slice_of_a_nested_mode(%a: !cute.memref<f16, gmem, align<16>, "((4,8),8):((8,32),1)">, %b: i32) {
  // expected-error @+1 {{expected a mode without nesting to cut, got (4, 8)}}
  %t = cute.slice %a, 0, (%b, %b) : !cute.memref<f16, gmem, align<16>, "((4,8),8):((8,32),1)"> -> !cute.memref<f16, gmem, align<16>, "(?,8):(8,1)">
}

// -----

cute.kernel @slice_of_another_type(%a: !cute.memref<f16, gmem, align<16>, "(?,8):(8,1)">, %b: i32) {
  // expected-error @+1 {{expected the slice's type !cute.memref<f16, gmem, align<2>, "(?,?):(8,1)">, got}}
  %t = cute.slice %a, 1, (%b, %b) : !cute.memref<f16, gmem, align<16>, "(?,8):(8,1)"> -> !cute.memref<f16, gmem, align<16>, "(?,8):(8,1)">
}

// -----

cute.kernel @read_of_a_number(%a: i32, %b: i32) {
  // expected-error @+1 {{expected a memref, got i32}}
  %t = cute.read %a[%b] : i32
}

// -----

cute.kernel @read_of_shared_memory(%b: i32) {
  %s = cute.alloc_smem : !cute.memref<i32, smem, align<16>, "(8):(1)">
  // expected-error @+1 {{'cute.read': expected a tensor in gmem, got smem}}
  %t = cute.read %s[%b] : !cute.memref<i32, smem, align<16>, "(8):(1)">
}

// -----

cute.kernel @read_of_a_row(%a: !cute.memref<i32, gmem, align<4>, "(?,8):(8,1)">, %b: i32) {
  // expected-error @+1 {{expected one coordinate for each of the 2 modes of (?,8):(8,1), got 1}}
  %t = cute.read %a[%b] : !cute.memref<i32, gmem, align<4>, "(?,8):(8,1)">
}

// -----

cute.kernel @read_of_another_type(%a: !cute.memref<i32, gmem, align<4>, "(?):(1)">, %b: i32) {
  // expected-error @+1 {{expected a result of type i32, got i64}}
  %t = "cute.read"(%a, %b) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (!cute.memref<i32, gmem, align<4>, "(?):(1)">, i32) -> i64
}

// -----

cute.kernel @search_by_two_numbers(%n: i32) {
  // expected-error @+1 {{expected a body with one argument of i32, got}}
  %s = cute.search %n below %n {
  ^bb0(%i: i32, %j: i32):
    cute.yield %i : i32
  }
}

// -----

cute.kernel @search_without_an_image(%n: i32) {
  // expected-error @+1 {{expected the body to end with cute.yield of an i32}}
  %s = cute.search %n below %n {
  ^bb0(%i: i32):
    %x = arith.constant 1.0 : f32
    cute.yield %x : f32
  }
}
