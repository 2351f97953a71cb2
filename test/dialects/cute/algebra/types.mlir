// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// Tuples of numbers: leaves may be run-time values of 32 or 64 bits
// CHECK: func.func private @tuples(!cute.int_tuple<"(1,(2,?))">, !cute.shape<"(?{i64},4)">, !cute.coord<"(_,?)">, !cute.int_tuple<"?{i64 div=8}">)
func.func private @tuples(!cute.int_tuple<"( 1, (2,?) )">, !cute.shape<"(?{i64},4)">, !cute.coord<"(_,?)">, !cute.int_tuple<"?{i64 div=8}">)

// -----

// Strides are ints or basis vectors of coordinates
// CHECK: func.func private @strides(!cute.stride<"(16,?)">, !cute.stride<"(0,?@0)">, !cute.stride<"(1@0@0,1@1@0)">, !cute.stride<"4@0">)
func.func private @strides(!cute.stride<"(16,?)">, !cute.stride<"(0,?@0)">, !cute.stride<"(1@0@0,1@1@0)">, !cute.stride<"4@0">)

// -----

// A tile is a layout or `_` for each mode, or one of them
// CHECK: func.func private @tiles(!cute.tile<"[4:1;_;[8:2;2:1]]">, !cute.tile<"(4,8):(1,4)">, !cute.tile<"_">)
func.func private @tiles(!cute.tile<"[4:1;_;[8:2;2:1]]">, !cute.tile<"(4,8):(1,4)">, !cute.tile<"_">)

// -----

// CHECK: func.func private @attributes() -> () attributes {i = #cute.int_tuple<"1">, s = #cute.shape<"(?,4)">, d = #cute.stride<"(1@0,1@1)">, c = #cute.coord<"(_,3)">, t = #cute.tile<"[4:1;_]">}
func.func private @attributes() attributes {i = #cute.int_tuple<"1">, s = #cute.shape<"(?,4)">, d = #cute.stride<"(1@0,1@1)">, c = #cute.coord<"(_,3)">, t = #cute.tile<"[4:1;_]">}

// -----

// Where one kind of type can stand, its name may be left out
// CHECK: %o = cute.composed_get_outer(%a) : <"(4,8):(1,4) o 0 o (2,4):(1,2)"> -> <"(2,4):(1,2)">
func.func @short(%a: !cute.composed_layout<"(4,8):(1,4) o 0 o (2,4):(1,2)">) {
  %o = cute.composed_get_outer(%a) : <"(4,8):(1,4) o 0 o (2,4):(1,2)"> -> <"(2,4):(1,2)">
  func.return
}

// -----

// A tensor and a layout are cut by ops of one name
// CHECK: cute.slice %{{.*}}, 0, (%{{.*}}, %{{.*}}) : !cute.memref
// CHECK: cute.slice(%{{.*}}, %{{.*}}) : !cute.layout<"(4,8):(8,1)">, !cute.coord<"(_,?)">
cute.kernel @slices(%t: !cute.memref<f16, gmem, align<16>, "(?,64):(64,1)">, %i: i32) {
  %part = cute.slice %t, 0, (%i, %i) : !cute.memref<f16, gmem, align<16>, "(?,64):(64,1)"> -> !cute.memref<f16, gmem, align<16>, "(?,64):(64,1)">
  %layout = cute.static : !cute.layout<"(4,8):(8,1)">
  %coord = cute.make_coord(%i) : (i32) -> !cute.coord<"(_,?)">
  %column = cute.slice(%layout, %coord) : !cute.layout<"(4,8):(8,1)">, !cute.coord<"(_,?)">
}
