// RUN: cute-opt %s --split-input-file --verify-diagnostics

// Unquoted text is refused: one spelling
// expected-error @+1 {{string literal expected}}
func.func private @unquoted(!cute.layout<(4,8):(8,1)>)

// -----

// expected-error @+1 {{shape (4,8) and stride (1) are not congruent}}
func.func private @incongruent(!cute.layout<"(4,8):(1)">)

// -----

// expected-error @+1 {{expected the end of the layout, got ','}}
func.func private @no_parentheses(!cute.layout<"4,8:8,1">)

// -----

// expected-error @+1 {{expected 'o', got the end}}
func.func private @no_swizzle(!cute.composed_layout<"(8,64):(64,1)">)

// -----

// expected-error @+1 {{expected a swizzle such as S<3,4,3>, got 'S'}}
func.func private @two_numbers(!cute.swizzle<"S<3,4>">)

// -----

// expected-error @+1 {{expected a swizzle of at most 64 bits (bits + base + |shift|), got S<3,4,9999999999999999999999999999999999999999>}}
func.func private @long_swizzle(!cute.memref<f16, smem, align<1024>, S<3,4,9999999999999999999999999999999999999999>, "(64,64):(64,1)">)

// -----

// expected-error @+1 {{expected a swizzle of at most 64 bits (bits + base + |shift|), got S<3,60,3>}}
func.func private @high_swizzle(!cute.swizzle<"S<3,60,3>">)
