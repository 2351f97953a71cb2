// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// cute.kernel
// CHECK: cute.kernel @scale(%x: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %s: f32) attributes {threads = 128 : i32} {
// CHECK-NEXT:   %m = cute.dim %x, 0 : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
// CHECK-NEXT: }
cute.kernel @scale(%x: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">,
                   %s: f32) attributes {threads = 128 : i32} {
  %m = cute.dim %x, 0 : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
}

// -----

// cute.launch
// CHECK: func.func @launch(%x: !cute.memref<f32, gmem, align<4>, "(?):(1)">) {
// CHECK-NEXT:   %one = arith.constant 1 : i32
// CHECK-NEXT:   %n = cute.dim %x, 0 : !cute.memref<f32, gmem, align<4>, "(?):(1)">
// CHECK-NEXT:   cute.launch @k grid(%n, %one, %one) args(%x) {threads = 128 : i32} : !cute.memref<f32, gmem, align<4>, "(?):(1)">
// CHECK-NEXT:   cute.launch @pairs grid(%n, %one, %one) cluster(2, 1, 1) args() {threads = 128 : i32}
// CHECK-NEXT:   cute.launch @open grid() args(%x) : !cute.memref<f32, gmem, align<4>, "(?):(1)">
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
func.func @launch(%x: !cute.memref<f32, gmem, align<4>, "(?):(1)">) {
  %one = arith.constant 1 : i32
  %n = cute.dim %x, 0 : !cute.memref<f32, gmem, align<4>, "(?):(1)">
  cute.launch @k grid(%n, %one, %one) args(%x) {threads = 128 : i32} : !cute.memref<f32, gmem, align<4>, "(?):(1)">
  cute.launch @pairs grid(%n, %one, %one) cluster(2, 1, 1) args() {threads = 128 : i32}
  cute.launch @open grid() args(%x) : !cute.memref<f32, gmem, align<4>, "(?):(1)">
  func.return
}

// -----

// cute.sm_count
// CHECK: func.func @launch() {
// CHECK-NEXT:   %sms = cute.sm_count : i32
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
func.func @launch() {
  %sms = cute.sm_count : i32
  func.return
}

// -----

// cute.dim
// CHECK: func.func @f(%x: !cute.memref<f32, gmem, align<4>, "(?,8):(8,1)">) {
// CHECK-NEXT:   %m = cute.dim %x, 0 : !cute.memref<f32, gmem, align<4>, "(?,8):(8,1)">
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
func.func @f(%x: !cute.memref<f32, gmem, align<4>, "(?,8):(8,1)">) {
  %m = cute.dim %x, 0 : !cute.memref<f32, gmem, align<4>, "(?,8):(8,1)">
  func.return
}

// -----

// cute.stride
// CHECK: func.func @f(%x: !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)">) {
// CHECK-NEXT:   %ld = cute.stride %x, 0 : !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)">
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
func.func @f(%x: !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)">) {
  %ld = cute.stride %x, 0 : !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)">
  func.return
}

// -----

// cute.tile_index
// CHECK: cute.kernel @k(%c: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
// CHECK-NEXT:   %m, %n = cute.tile_index %c, [128, 128] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
// CHECK-NEXT: }
cute.kernel @k(%c: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
  %m, %n = cute.tile_index %c, [128, 128] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
}

// -----

// cute.extract
// CHECK: cute.kernel @k(%x: f32) {
// CHECK-NEXT:   %t = cute.alloc_fragment : !cute.fragment<f32, "(8,8)", "(8,8):(1,8)">
// CHECK-NEXT:   cute.fill %t, %x : !cute.fragment<f32, "(8,8)", "(8,8):(1,8)">
// CHECK-NEXT:   %u = cute.extract %t, (0, 4) : !cute.fragment<f32, "(8,8)", "(8,8):(1,8)"> -> !cute.fragment<f32, "(8,4)", "(8,4):(1,8)">
// CHECK-NEXT: }
cute.kernel @k(%x: f32) {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(8,8)", "(8,8):(1,8)">
  cute.fill %t, %x : !cute.fragment<f32, "(8,8)", "(8,8):(1,8)">
  %u = cute.extract %t, (0, 4) : !cute.fragment<f32, "(8,8)", "(8,8):(1,8)"> -> !cute.fragment<f32, "(8,4)", "(8,4):(1,8)">
}

// -----

// cute.grid_dim
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %n = cute.grid_dim x
// CHECK-NEXT: }
cute.kernel @k() {
  %n = cute.grid_dim x
}

// -----

// cute.block_idx
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %b = cute.block_idx x
// CHECK-NEXT: }
cute.kernel @k() {
  %b = cute.block_idx x
}

// -----

// cute.printf
// CHECK: cute.kernel @k(%n: i32) {
// CHECK-NEXT:   cute.printf "n = %d\0A", %n : i32
// CHECK-NEXT: }
cute.kernel @k(%n: i32) {
  cute.printf "n = %d\n", %n : i32
}

// -----

// cute.assert
// CHECK: cute.kernel @k(%c: i1) {
// CHECK-NEXT:   cute.assert %c, "expected one row or more"
// CHECK-NEXT: }
cute.kernel @k(%c: i1) {
  cute.assert %c, "expected one row or more"
}

// -----

// cute.local_tile
// CHECK: cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)">, %b: i32, %m: i32, %k: i32) {
// CHECK-NEXT:   %t = cute.local_tile %a, [*, 128, 32], (%b, %m, %k) : !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,32):(?{i64 div=8},1)">
// CHECK-NEXT: }
cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)">, %b: i32, %m: i32, %k: i32) {
  %t = cute.local_tile %a, [*, 128, 32], (%b, %m, %k) : !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,32):(?{i64 div=8},1)">
}

// -----

// An extent of 1 stays a mode; `_` keeps a nested mode whole.
// CHECK: cute.kernel @extent_of_one(%a: !cute.memref<f16, gmem, align<2>, "((4,8),64):((8,32),?{i64})">, %n: i32) {
// CHECK-NEXT:   %t = cute.local_tile %a, [_, 1], (%n, %n) : !cute.memref<f16, gmem, align<2>, "((4,8),64):((8,32),?{i64})"> -> !cute.memref<f16, gmem, align<2>, "((4,8),1):((8,32),?{i64})">
// CHECK-NEXT: }
cute.kernel @extent_of_one(%a: !cute.memref<f16, gmem, align<2>, "((4,8),64):((8,32),?{i64})">, %n: i32) {
  %t = cute.local_tile %a, [_, 1], (%n, %n) : !cute.memref<f16, gmem, align<2>, "((4,8),64):((8,32),?{i64})"> -> !cute.memref<f16, gmem, align<2>, "((4,8),1):((8,32),?{i64})">
}

// -----

// cute.transpose
// CHECK: cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">) {
// CHECK-NEXT:   %t = cute.transpose %a : !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(1,32)">
// CHECK-NEXT: }
cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">) {
  %t = cute.transpose %a : !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(1,32)">
}

// -----

// cute.subview
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %s = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
// CHECK-NEXT:   %v = cute.subview %s, (0, 16) : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)"> -> !cute.memref<f16, smem, align<128>, "(64,16):(32,1)">
// CHECK-NEXT: }
cute.kernel @k() {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
  %v = cute.subview %s, (0, 16) : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)"> -> !cute.memref<f16, smem, align<128>, "(64,16):(32,1)">
}

// -----

// cute.subview of a nested mode: whole factors, and a part of the next
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %s = cute.alloc_smem : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))">
// CHECK-NEXT:   %v = cute.subview %s, (0, 448) : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,2)):(64,(1,4096))">
// CHECK-NEXT:   %w = cute.subview %s, (0, 64) : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
// CHECK-NEXT: }
cute.kernel @k() {
  %s = cute.alloc_smem : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))">
  %v = cute.subview %s, (0, 448) : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,2)):(64,(1,4096))">
  %w = cute.subview %s, (0, 64) : !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,(64,9)):(64,(1,4096))"> -> !cute.memref<bf16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
}

// -----

// cute.stage
// CHECK: cute.kernel @k(%i: i32) {
// CHECK-NEXT:   %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(64,32,3):(32,1,2048)">
// CHECK-NEXT:   %v = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(64,32,3):(32,1,2048)"> -> !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(64,32):(32,1)">
// CHECK-NEXT: }
cute.kernel @k(%i: i32) {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(64,32,3):(32,1,2048)">
  %v = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(64,32,3):(32,1,2048)"> -> !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(64,32):(32,1)">
}

// -----

// cute.alloc_fragment
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
// CHECK-NEXT: }
cute.kernel @k() {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
}

// -----

// cute.alloc_smem
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(128,32,3):(32,1,4096)">
// CHECK-NEXT:   %a = cute.alloc_smem {offset = 4096 : i64} : !cute.memref<f32, smem, align<128>, "(64,32):(32,1)">
// CHECK-NEXT: }
cute.kernel @k() {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(128,32,3):(32,1,4096)">
  %a = cute.alloc_smem {offset = 4096 : i64} : !cute.memref<f32, smem, align<128>, "(64,32):(32,1)">
}

// -----

// cute.fill
// CHECK: cute.kernel @k(%x: f32) {
// CHECK-NEXT:   %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
// CHECK-NEXT:   cute.fill %acc, %x : !cute.fragment<f32, "(64,64)">
// CHECK-NEXT: }
cute.kernel @k(%x: f32) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  cute.fill %acc, %x : !cute.fragment<f32, "(64,64)">
}

// -----

// cute.load
// CHECK: cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
// CHECK-NEXT:   %x = cute.load %a : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)">
// CHECK-NEXT: }
cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  %x = cute.load %a : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)">
}

// -----

// cute.copy
// CHECK: cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
// CHECK-NEXT:   %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
// CHECK-NEXT:   cute.copy %a, %s {tiled = #cute.tiled_copy<"((8,16),(4,4)):((256,1),(64,16))", tiler = "(64,32)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
// CHECK-NEXT: }
cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
  cute.copy %a, %s {tiled = #cute.tiled_copy<"((8,16),(4,4)):((256,1),(64,16))", tiler = "(64,32)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
}

// -----

// cute.copy with a mask
// CHECK:       cute.copy %r, %a mask %c : !cute.fragment<i1, "(32,16)"> : !cute.fragment<f32, "(32,16)"> -> !cute.memref<f32, gmem, align<16>, "(32,16):(16,1)">
cute.kernel @masked(%a: !cute.memref<f32, gmem, align<16>, "(32,16):(16,1)">) {
  %r = cute.alloc_fragment : !cute.fragment<f32, "(32,16)">
  %c = cute.alloc_fragment : !cute.fragment<i1, "(32,16)">
  cute.copy %r, %a mask %c : !cute.fragment<i1, "(32,16)"> : !cute.fragment<f32, "(32,16)"> -> !cute.memref<f32, gmem, align<16>, "(32,16):(16,1)">
}

// -----

// cute.convert
// CHECK: cute.kernel @k(%x: f32) {
// CHECK-NEXT:   %t = cute.alloc_fragment : !cute.fragment<f32, "(8,4)", "(8,(2,2)):(1,(8,16))">
// CHECK-NEXT:   %u = cute.convert %t : !cute.fragment<f32, "(8,4)", "(8,(2,2)):(1,(8,16))"> -> !cute.fragment<f32, "(8,4)", "(8,(2,2)):(1,(16,8))">
// CHECK-NEXT: }
cute.kernel @k(%x: f32) {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(8,4)", "(8,(2,2)):(1,(8,16))">
  %u = cute.convert %t : !cute.fragment<f32, "(8,4)", "(8,(2,2)):(1,(8,16))"> -> !cute.fragment<f32, "(8,4)", "(8,(2,2)):(1,(16,8))">
}

// -----

// cute.gemm
// CHECK: cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(128,32):(32,1)">, %b: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">) {
// CHECK-NEXT:   %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,64)">
// CHECK-NEXT:   cute.gemm %a, %b, %acc : !cute.memref<f16, gmem, align<16>, "(128,32):(32,1)">, !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.fragment<f32, "(128,64)">
// CHECK-NEXT: }
cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(128,32):(32,1)">,
               %b: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">) {
  %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,64)">
  cute.gemm %a, %b, %acc : !cute.memref<f16, gmem, align<16>, "(128,32):(32,1)">,
    !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.fragment<f32, "(128,64)">
}

// -----

// cute.map
// CHECK: cute.kernel @k(%s: f32) {
// CHECK-NEXT:   %x = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
// CHECK-NEXT:   cute.fill %x, %s : !cute.fragment<f32, "(64,64)">
// CHECK-NEXT:   %y = cute.map (%v = %x : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f32, "(64,64)"> {
// CHECK-NEXT:     %p = arith.mulf %v, %s : f32
// CHECK-NEXT:     cute.yield %p : f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
cute.kernel @k(%s: f32) {
  %x = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
  cute.fill %x, %s : !cute.fragment<f32, "(64,64)">
  %y = cute.map (%v = %x : !cute.fragment<f32, "(64,64)">) -> !cute.fragment<f32, "(64,64)"> {
    %p = arith.mulf %v, %s : f32
    cute.yield %p : f32
  }
}

// -----

// cute.yield
// CHECK: cute.kernel @k(%x: f32) {
// CHECK-NEXT:   %r = cute.map () -> !cute.fragment<f32, "(8,8)"> {
// CHECK-NEXT:     cute.yield %x : f32
// CHECK-NEXT:   }
// CHECK-NEXT: }
cute.kernel @k(%x: f32) {
  %r = cute.map () -> !cute.fragment<f32, "(8,8)"> {
    cute.yield %x : f32
  }
}

// -----

// cute.coord
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %i = cute.map () -> !cute.fragment<i32, "(8,8)"> {
// CHECK-NEXT:     %c = cute.coord 1
// CHECK-NEXT:     cute.yield %c : i32
// CHECK-NEXT:   }
// CHECK-NEXT: }
cute.kernel @k() {
  %i = cute.map () -> !cute.fragment<i32, "(8,8)"> {
    %c = cute.coord 1
    cute.yield %c : i32
  }
}

// -----

// cute.reduce
// CHECK: cute.kernel @k(%x: f32) {
// CHECK-NEXT:   %t = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
// CHECK-NEXT:   cute.fill %t, %x : !cute.fragment<f32, "(64,32)">
// CHECK-NEXT:   %m = cute.reduce "max", %t {mode = 1 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
// CHECK-NEXT:   %p = cute.reduce "add", %t {mode = 1 : i64, local} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,4)">
// CHECK-NEXT:   %g = cute.reduce "fold", %t {mode = 1 : i64, extent = 27 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)"> {
// CHECK:   %h = cute.alloc_fragment : !cute.fragment<bf16, "(64,32)">
// CHECK-NEXT:   %s = cute.reduce "add", %h {mode = 1 : i64, packed = 4 : i64} : !cute.fragment<bf16, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
// CHECK-NEXT: }
cute.kernel @k(%x: f32) {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
  cute.fill %t, %x : !cute.fragment<f32, "(64,32)">
  %m = cute.reduce "max", %t {mode = 1 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
  %p = cute.reduce "add", %t {mode = 1 : i64, local} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,4)">
  %g = cute.reduce "fold", %t {mode = 1 : i64, extent = 27 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)"> {
  ^bb0(%a: f32, %b: f32):
    cute.yield %a : f32
  }
  %h = cute.alloc_fragment : !cute.fragment<bf16, "(64,32)">
  %s = cute.reduce "add", %h {mode = 1 : i64, packed = 4 : i64} : !cute.fragment<bf16, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
}

// -----

// cute.atomic
// CHECK: cute.kernel @k(%a: !cute.memref<f32, gmem, align<4>, "(64,1):(1,64)">, %x: f32) {
// CHECK-NEXT:   %t = cute.alloc_fragment : !cute.fragment<f32, "(64,1)">
// CHECK-NEXT:   cute.fill %t, %x : !cute.fragment<f32, "(64,1)">
// CHECK-NEXT:   cute.atomic "add", %t, %a : !cute.fragment<f32, "(64,1)">, !cute.memref<f32, gmem, align<4>, "(64,1):(1,64)">
// CHECK-NEXT:   cute.atomic "max", %t, %a {scope = "sys"} : !cute.fragment<f32, "(64,1)">, !cute.memref<f32, gmem, align<4>, "(64,1):(1,64)">
// CHECK-NEXT: }
cute.kernel @k(%a: !cute.memref<f32, gmem, align<4>, "(64,1):(1,64)">, %x: f32) {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(64,1)">
  cute.fill %t, %x : !cute.fragment<f32, "(64,1)">
  cute.atomic "add", %t, %a : !cute.fragment<f32, "(64,1)">, !cute.memref<f32, gmem, align<4>, "(64,1):(1,64)">
  cute.atomic "max", %t, %a {scope = "sys"} : !cute.fragment<f32, "(64,1)">, !cute.memref<f32, gmem, align<4>, "(64,1):(1,64)">
}

// -----

// cute.barrier
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute.barrier
// CHECK-NEXT:   cute.barrier {warps = 4 : i32}
// CHECK-NEXT:   cute.barrier {cluster}
// CHECK-NEXT:   cute.barrier {roles = ["main", "more"]}
// CHECK-NEXT: }
cute.kernel @k() {
  cute.barrier
  cute.barrier {warps = 4 : i32}
  cute.barrier {cluster}
  cute.barrier {roles = ["main", "more"]}
}

// -----

// cute.any
// CHECK: cute.kernel @k(%c: i1) {
// CHECK-NEXT:   %t = cute.alloc_fragment : !cute.fragment<i1, "(128,1)">
// CHECK-NEXT:   cute.fill %t, %c : !cute.fragment<i1, "(128,1)">
// CHECK-NEXT:   %a = cute.any %t : !cute.fragment<i1, "(128,1)">
// CHECK-NEXT:   %b = cute.any %t {local, warps = 4 : i32} : !cute.fragment<i1, "(128,1)">
// CHECK-NEXT: }
cute.kernel @k(%c: i1) {
  %t = cute.alloc_fragment : !cute.fragment<i1, "(128,1)">
  cute.fill %t, %c : !cute.fragment<i1, "(128,1)">
  %a = cute.any %t : !cute.fragment<i1, "(128,1)">
  %b = cute.any %t {local, warps = 4 : i32} : !cute.fragment<i1, "(128,1)">
}

// -----

// cute.cancel_launch
// CHECK: cute.kernel @canceling(%n: i32) {
// CHECK-NEXT:   %next = cute.cancel_launch of %n
// CHECK-NEXT: }
cute.kernel @canceling(%n: i32) {
  %next = cute.cancel_launch of %n
}

// -----

// cute.brev
// CHECK: cute.kernel @reversed(%n: i32, %m: ui8) {
// CHECK-NEXT:   %r = cute.brev %n : i32
// CHECK-NEXT:   %s = cute.brev %m : ui8
// CHECK-NEXT: }
cute.kernel @reversed(%n: i32, %m: ui8) {
  %r = cute.brev %n : i32
  %s = cute.brev %m : ui8
}

// -----

// cute.inline_ptx
// CHECK: cute.kernel @inline(%a: i32, %b: i32) {
// CHECK-NEXT:   %r = cute.inline_ptx "lop3.b32 $0, $1, $2, 0, 0x3C;"(%a, %b) : (i32, i32) -> i32
// CHECK-NEXT:   %s, %t = cute.inline_ptx "mov.b32 $0, $2; not.b32 $1, $0"(%a) : (i32) -> (i32, i32)
// CHECK-NEXT: }
cute.kernel @inline(%a: i32, %b: i32) {
  %r = cute.inline_ptx "lop3.b32 $0, $1, $2, 0, 0x3C;" (%a, %b) : (i32, i32) -> i32
  %s, %t = cute.inline_ptx "mov.b32 $0, $2; not.b32 $1, $0" (%a) : (i32) -> (i32, i32)
}
