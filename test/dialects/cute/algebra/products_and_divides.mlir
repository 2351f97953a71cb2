// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// (block, repeats): copies of a block beside each other.
// CHECK-LABEL: func.func @logical_product(%a: !cute.layout<"(2,2):(4,1)">, %b: !cute.layout<"6:1">) {
// CHECK-NEXT: %r = cute.logical_product(%a, %b) : (!cute.layout<"(2,2):(4,1)">, !cute.layout<"6:1">) -> !cute.layout<"((2,2),(2,3)):((4,1),(2,8))">
func.func @logical_product(%a: !cute.layout<"(2,2):(4,1)">, %b: !cute.layout<"6:1">) {
  %r = cute.logical_product(%a, %b) : (!cute.layout<"(2,2):(4,1)">, !cute.layout<"6:1">) -> !cute.layout<"((2,2),(2,3)):((4,1),(2,8))">
  func.return
}

// -----

// ((blocks), (repeats)).
// CHECK-LABEL: func.func @zipped_product(%a: !cute.layout<"(2,2):(4,1)">, %b: !cute.layout<"6:1">) {
// CHECK-NEXT: %r = cute.zipped_product(%a, %b) : (!cute.layout<"(2,2):(4,1)">, !cute.layout<"6:1">) -> !cute.layout<"((2,2),(2,3)):((4,1),(2,8))">
func.func @zipped_product(%a: !cute.layout<"(2,2):(4,1)">, %b: !cute.layout<"6:1">) {
  %r = cute.zipped_product(%a, %b) : (!cute.layout<"(2,2):(4,1)">, !cute.layout<"6:1">) -> !cute.layout<"((2,2),(2,3)):((4,1),(2,8))">
  func.return
}

// -----

// ((blocks), repeat, repeat...).
// CHECK-LABEL: func.func @tiled_product(%a: !cute.layout<"(2,2):(4,1)">, %b: !cute.layout<"6:1">) {
// CHECK-NEXT: %r = cute.tiled_product(%a, %b) : (!cute.layout<"(2,2):(4,1)">, !cute.layout<"6:1">) -> !cute.layout<"((2,2),2,3):((4,1),2,8)">
func.func @tiled_product(%a: !cute.layout<"(2,2):(4,1)">, %b: !cute.layout<"6:1">) {
  %r = cute.tiled_product(%a, %b) : (!cute.layout<"(2,2):(4,1)">, !cute.layout<"6:1">) -> !cute.layout<"((2,2),2,3):((4,1),2,8)">
  func.return
}

// -----

// (block, block..., repeat, repeat...).
// CHECK-LABEL: func.func @flat_product(%a: !cute.layout<"(2,2):(4,1)">, %b: !cute.layout<"6:1">) {
// CHECK-NEXT: %r = cute.flat_product(%a, %b) : (!cute.layout<"(2,2):(4,1)">, !cute.layout<"6:1">) -> !cute.layout<"(2,2,2,3):(4,1,2,8)">
func.func @flat_product(%a: !cute.layout<"(2,2):(4,1)">, %b: !cute.layout<"6:1">) {
  %r = cute.flat_product(%a, %b) : (!cute.layout<"(2,2):(4,1)">, !cute.layout<"6:1">) -> !cute.layout<"(2,2,2,3):(4,1,2,8)">
  func.return
}

// -----

// Mode by mode (repeat, block).
// CHECK-LABEL: func.func @raked_product(%a: !cute.layout<"(3,4):(4,1)">, %b: !cute.layout<"(2,5):(1,2)">) {
// CHECK-NEXT: %r = cute.raked_product(%a, %b) : (!cute.layout<"(3,4):(4,1)">, !cute.layout<"(2,5):(1,2)">) -> !cute.layout<"((2,3),(5,4)):((12,4),(24,1))">
func.func @raked_product(%a: !cute.layout<"(3,4):(4,1)">, %b: !cute.layout<"(2,5):(1,2)">) {
  %r = cute.raked_product(%a, %b) : (!cute.layout<"(3,4):(4,1)">, !cute.layout<"(2,5):(1,2)">) -> !cute.layout<"((2,3),(5,4)):((12,4),(24,1))">
  func.return
}

// -----

// Mode by mode (block, repeat).
// CHECK-LABEL: func.func @blocked_product(%a: !cute.layout<"(3,4):(4,1)">, %b: !cute.layout<"(2,5):(1,2)">) {
// CHECK-NEXT: %r = cute.blocked_product(%a, %b) : (!cute.layout<"(3,4):(4,1)">, !cute.layout<"(2,5):(1,2)">) -> !cute.layout<"((3,2),(4,5)):((4,12),(1,24))">
func.func @blocked_product(%a: !cute.layout<"(3,4):(4,1)">, %b: !cute.layout<"(2,5):(1,2)">) {
  %r = cute.blocked_product(%a, %b) : (!cute.layout<"(3,4):(4,1)">, !cute.layout<"(2,5):(1,2)">) -> !cute.layout<"((3,2),(4,5)):((4,12),(1,24))">
  func.return
}

// -----

// (tile, rest) of each mode, or of the whole by a layout.
// CHECK-LABEL: func.func @logical_divide(%a: !cute.layout<"(6,8):(8,1)">, %b: !cute.shape<"(3,4)">) {
// CHECK-NEXT: %r = cute.logical_divide(%a, %b) : (!cute.layout<"(6,8):(8,1)">, !cute.shape<"(3,4)">) -> !cute.layout<"((3,2),(4,2)):((8,24),(1,4))">
func.func @logical_divide(%a: !cute.layout<"(6,8):(8,1)">, %b: !cute.shape<"(3,4)">) {
  %r = cute.logical_divide(%a, %b) : (!cute.layout<"(6,8):(8,1)">, !cute.shape<"(3,4)">) -> !cute.layout<"((3,2),(4,2)):((8,24),(1,4))">
  func.return
}

// -----

// ((tiles), (rests)).
// CHECK-LABEL: func.func @zipped_divide(%a: !cute.layout<"(6,8):(8,1)">, %b: !cute.shape<"(3,4)">) {
// CHECK-NEXT: %r = cute.zipped_divide(%a, %b) : (!cute.layout<"(6,8):(8,1)">, !cute.shape<"(3,4)">) -> !cute.layout<"((3,4),(2,2)):((8,1),(24,4))">
func.func @zipped_divide(%a: !cute.layout<"(6,8):(8,1)">, %b: !cute.shape<"(3,4)">) {
  %r = cute.zipped_divide(%a, %b) : (!cute.layout<"(6,8):(8,1)">, !cute.shape<"(3,4)">) -> !cute.layout<"((3,4),(2,2)):((8,1),(24,4))">
  func.return
}

// -----

// ((tiles), rest, rest...).
// CHECK-LABEL: func.func @tiled_divide(%a: !cute.layout<"(6,8):(8,1)">, %b: !cute.shape<"(3,4)">) {
// CHECK-NEXT: %r = cute.tiled_divide(%a, %b) : (!cute.layout<"(6,8):(8,1)">, !cute.shape<"(3,4)">) -> !cute.layout<"((3,4),2,2):((8,1),24,4)">
func.func @tiled_divide(%a: !cute.layout<"(6,8):(8,1)">, %b: !cute.shape<"(3,4)">) {
  %r = cute.tiled_divide(%a, %b) : (!cute.layout<"(6,8):(8,1)">, !cute.shape<"(3,4)">) -> !cute.layout<"((3,4),2,2):((8,1),24,4)">
  func.return
}

// -----

// (tile, tile..., rest, rest...).
// CHECK-LABEL: func.func @flat_divide(%a: !cute.layout<"(6,8):(8,1)">, %b: !cute.shape<"(3,4)">) {
// CHECK-NEXT: %r = cute.flat_divide(%a, %b) : (!cute.layout<"(6,8):(8,1)">, !cute.shape<"(3,4)">) -> !cute.layout<"(3,4,2,2):(8,1,24,4)">
func.func @flat_divide(%a: !cute.layout<"(6,8):(8,1)">, %b: !cute.shape<"(3,4)">) {
  %r = cute.flat_divide(%a, %b) : (!cute.layout<"(6,8):(8,1)">, !cute.shape<"(3,4)">) -> !cute.layout<"(3,4,2,2):(8,1,24,4)">
  func.return
}

// -----

// A block repeated until it covers a shape.
// CHECK-LABEL: func.func @tile_to_shape(%a: !cute.layout<"(8,64):(64,1)">, %b: !cute.shape<"(64,128)">) {
// CHECK-NEXT: %r = cute.tile_to_shape(%a, %b) : (!cute.layout<"(8,64):(64,1)">, !cute.shape<"(64,128)">) -> !cute.layout<"((8,8),(64,2)):((64,512),(1,4096))">
func.func @tile_to_shape(%a: !cute.layout<"(8,64):(64,1)">, %b: !cute.shape<"(64,128)">) {
  %r = cute.tile_to_shape(%a, %b) : (!cute.layout<"(8,64):(64,1)">, !cute.shape<"(64,128)">) -> !cute.layout<"((8,8),(64,2)):((64,512),(1,4096))">
  func.return
}
