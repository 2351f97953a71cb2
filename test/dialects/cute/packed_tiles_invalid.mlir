// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @two_places_alike(%t: !cute.fragment<ui8, "(64,32)">) {
  // expected-error @+1 {{expected an order that has each of 4 places once, got (2,2):(1,1); neighbors one behind the other are 2:1}}
  %u = cute.unpack %t {mode = 1 : i64, order = #cute.layout<"(2,2):(1,1)">} : !cute.fragment<ui8, "(64,32)"> -> !cute.fragment<ui8, "(64,64)">
}

// -----

cute.kernel @parts_of_an_integer(%t: !cute.fragment<ui32, "(64,32)">) {
  // expected-error @+1 {{expected an order of whole integers of 8 elements, got 4 elements in 4:1}}
  %u = cute.unpack %t {mode = 1 : i64, order = #cute.layout<"4:1">} : !cute.fragment<ui32, "(64,32)"> -> !cute.fragment<ui8, "(64,256)">
}

// -----

cute.kernel @parts_of_a_block(%t: !cute.fragment<ui8, "(64,24)">) {
  // expected-error @+1 {{expected whole blocks of 64 elements of (32,2):(2,1), got 48}}
  %u = cute.unpack %t {mode = 1 : i64, order = #cute.layout<"(32,2):(2,1)">} : !cute.fragment<ui8, "(64,24)"> -> !cute.fragment<ui8, "(64,48)">
}

// -----

cute.kernel @another_shape(%t: !cute.fragment<ui8, "(64,32)">) {
  // expected-error @+1 {{expected a tile (128, 32) or (64, 32), got (64, 64)}}
  %u = cute.unpack %t {mode = 0 : i64, order = #cute.layout<"2:1">} : !cute.fragment<ui8, "(64,32)"> -> !cute.fragment<ui8, "(64,64)">
}

// -----

cute.kernel @no_such_mode(%t: !cute.fragment<ui8, "(64,32)">) {
  // expected-error @+1 {{expected a mode in 0..1, got 2}}
  %u = cute.unpack %t {mode = 2 : i64, order = #cute.layout<"2:1">} : !cute.fragment<ui8, "(64,32)"> -> !cute.fragment<ui8, "(64,64)">
}

// -----

cute.kernel @of_floats(%t: !cute.fragment<f16, "(64,32)">) {
  // expected-error @+1 {{expected integers of 8 or 32 bits, got f16}}
  %u = cute.unpack %t {mode = 1 : i64, order = #cute.layout<"2:1">} : !cute.fragment<f16, "(64,32)"> -> !cute.fragment<ui8, "(64,64)">
}
