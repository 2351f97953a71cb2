// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// A layout as a type and as an attribute; spaces go, a missing stride is compact column-major
// CHECK: func.func private @layouts(!cute.layout<"(4,8):(8,1)">, !cute.layout<"(4,8):(1,4)">, !cute.layout<"((4,8),?):((16,1),?{i64 div=8})">, !cute.layout<"(4,8):(1@0,1@1)">)
func.func private @layouts(!cute.layout<"( 4, 8 ) : (8, 1)">, !cute.layout<"(4,8)">, !cute.layout<"((4,8),?):((16,1),?{i64 div=8})">, !cute.layout<"(4,8):(1@0,1@1)">)

// -----

// CHECK: func.func private @swizzles(!cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">, !cute.swizzle<"S<2,4,3>">)
func.func private @swizzles(!cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">, !cute.swizzle<"S<2,4,3>">)

// -----

// CHECK: func.func private @attributes() -> () attributes {l = #cute.layout<"(4,8):(8,1)">, o = #cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">, s = #cute.swizzle<"S<3,4,3>">}
func.func private @attributes() attributes {l = #cute.layout<"(4,8):(8,1)">, o = #cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">, s = #cute.swizzle<"S<3,4,3>">}

// -----

// A type attribute keeps its sigil
// CHECK: func.func private @sigils() -> () attributes {l = #cute.layout<"(4):(1)">, t = !cute.layout<"(4):(1)">}
func.func private @sigils() attributes {l = #cute.layout<"(4):(1)">, t = !cute.layout<"(4):(1)">}

// -----

// cute.get_layout
// CHECK: func.func @layout_of_a_tensor
// CHECK-NEXT: %l = cute.get_layout %t : !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)"> -> !cute.layout<"(?,8):(?{i64},1)">
func.func @layout_of_a_tensor(%t: !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)">) {
  %l = cute.get_layout %t : !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)"> -> !cute.layout<"(?,8):(?{i64},1)">
  func.return
}
