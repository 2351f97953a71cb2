// RUN: cute-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected ints and '?', got _}}
func.func private @slice_in_ints(!cute.int_tuple<"(1,_)">)

// -----

// expected-error @+1 {{expected ints, '?' and '_', got 1@0}}
func.func private @basis_in_coord(!cute.coord<"(1@0,2)">)

// -----

// expected-error @+1 {{expected an int, '?' or a scaled basis}}
func.func private @slice_in_strides(!cute.stride<"(_,1)">)

// -----

// expected-error @+1 {{expected strides that are all ints or all scaled basis vectors (0 aside), got (1,1@0)}}
func.func private @mixed_strides(!cute.stride<"(1,1@0)">)

// -----

// expected-error @+1 {{expected basis vectors of coordinates of one nesting, got (1@1@0,1@0)}}
func.func private @nested_basis(!cute.layout<"(2,3):(1@1@0,1@0)">)

// -----

// expected-error @+1 {{expected positive extents, got (0,3):(1,2)}}
func.func private @no_extent(!cute.layout<"(0,3):(1,2)">)

// -----

// expected-error @+1 {{expected a swizzle that moves bits, or an offset, got S<0,4,3> o 0 o (8,4):(1,8), which is the layout (8,4):(1,8)}}
func.func private @plain(!cute.composed_layout<"S<0,4,3> o 0 o (8,4):(1,8)">)

// -----

// expected-error @+1 {{expected int offsets below S<3,4,3>, got (0,0) of}}
func.func private @coordinates(!cute.composed_layout<"S<3,4,3> o 0 o (4,2):(1@0,1@1)">)

// -----

// expected-error @+1 {{expected a swizzle of at most 32 bits, got 39 of S<5,29,5>}}
func.func private @wide_swizzle(!cute.swizzle<"S<5,29,5>">)

// -----

func.func @type_of_result(%a: !cute.layout<"(2,(1,6)):(1,(6,2))">) {
  // expected-error @+1 {{expected the result types !cute.layout<"12:1">, got !cute.layout<"12:2">}}
  %r = cute.coalesce(%a) : (!cute.layout<"(2,(1,6)):(1,(6,2))">) -> !cute.layout<"12:2">
  func.return
}

// -----

func.func @kind_of_operand(%a: !cute.shape<"4">) {
  // expected-error @+1 {{operand}}
  %r = cute.coalesce(%a) : (!cute.shape<"4">) -> !cute.layout<"4:1">
  func.return
}

// -----

func.func @number_of_leaves(%n: i32) {
  // expected-error @+1 {{expected 2 operands for !cute.shape<"(?,?)">, got 1}}
  %r = cute.make_shape(%n) : (i32) -> !cute.shape<"(?,?)">
  func.return
}

// -----

func.func @width_of_a_leaf(%n: i64) {
  // expected-error @+1 {{expected operand 0 of 32 bits, got 64}}
  %r = cute.make_shape(%n) : (i64) -> !cute.shape<"?">
  func.return
}

// -----

func.func @static_value() {
  // expected-error @+1 {{expected a static type, got !cute.shape<"?">}}
  %r = cute.static : !cute.shape<"?">
  func.return
}

// -----

func.func @path(%a: !cute.shape<"(4,2)">) {
  // expected-error @+1 {{expected a path that ends at a leaf, got (0, 0): mode 0 of 4}}
  %r = cute.get<[0, 0]> (%a) : !cute.shape<"(4,2)"> -> !cute.shape<"4">
  func.return
}

// -----

func.func @inferred(%a: !cute.shape<"(4,2)">, %b: !cute.coord<"(_,0,0)">) {
  // expected-error @+1 {{expected a coordinate of (4,2), got (_,0,0)}}
  %r = cute.slice(%a, %b) : !cute.shape<"(4,2)">, !cute.coord<"(_,0,0)">
  func.return
}

// -----

func.func @uneven(%a: !cute.layout<"(4,6,8):(2,3,5)">, %b: !cute.layout<"6:1">) {
  // expected-error @+1 {{no layout is (4,6,8):(2,3,5) o 6:1}}
  %r = cute.composition(%a, %b) : (!cute.layout<"(4,6,8):(2,3,5)">, !cute.layout<"6:1">) -> !cute.layout<"6:2">
  func.return
}

// -----

func.func @kinds(%a: !cute.shape<"4">, %b: !cute.int_tuple<"4">) {
  // expected-error @+1 {{expected operands of one kind, got !cute.shape<"4"> and !cute.int_tuple<"4">}}
  %r = cute.tuple_add(%a, %b) : (!cute.shape<"4">, !cute.int_tuple<"4">) -> !cute.shape<"8">
  func.return
}

// -----

func.func @repeated_at_run_time(%a: !cute.layout<"?:1">, %b: !cute.layout<"4:1">) {
  // expected-error @+1 {{expected a static block to repeat, got ?:1}}
  %r = cute.logical_product(%a, %b) : (!cute.layout<"?:1">, !cute.layout<"4:1">) -> !cute.layout<"(?,4):(1,?)">
  func.return
}

// -----

// expected-error @+1 {{expected non-negative int extents, got _}}
func.func private @slice_in_layout(!cute.layout<"(_,8)">)

// -----

// expected-error @+1 {{expected a mode below 1000}}
func.func private @many_modes(!cute.stride<"(1@0,1@99999)">)

// -----

// expected-error @+1 {{expected ints as offset, got 1@0}}
func.func private @offset(!cute.composed_layout<"S<3,4,3> o 1@0 o (8,4):(1,8)">)

// -----

func.func @slices(%c: !cute.coord<"(_,0)">, %s: !cute.shape<"(3,3)">) {
  // expected-error @+1 {{expected a coordinate without slices, got (_,0)}}
  %r = cute.increment_coord(%c, %s) : (!cute.coord<"(_,0)">, !cute.shape<"(3,3)">) -> !cute.coord<"(1,0)">
  func.return
}

// -----

func.func @overlap(%l: !cute.layout<"(2,2,2,16384,128):(16,128,2,256,1)">) {
  // expected-error @+1 {{expected modes that divide, or at most 2097152 elements to try}}
  %r = cute.left_inverse(%l) : (!cute.layout<"(2,2,2,16384,128):(16,128,2,256,1)">) -> !cute.layout<"128:1">
  func.return
}
