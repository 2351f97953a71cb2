// RUN: cute-opt %s --verify-diagnostics --split-input-file

cute.kernel @reaches(%a: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">) {
  // expected-error @+1 {{expected a layout of the tensor's 64 elements, got (8,9):(8,1), which reaches element 64}}
  %v = cute.make_view %a() : !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)"> -> !cute.memref<f32, gmem, align<16>, "(8,9):(8,1)">
}

// -----

cute.kernel @offset(%a: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">) {
  %at = arith.constant 16 : i32
  // expected-error @+1 {{expected a layout of the tensor's 64 elements, got (7,8):(8,1) at 16, which reaches element 71}}
  %v = cute.make_view %a() at %at : !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, i32 -> !cute.memref<f32, gmem, align<16>, "(7,8):(8,1)">
}

// -----

cute.kernel @alignment(%a: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, %at: i32) {
  // expected-error @+1 {{expected the view's type !cute.memref<f32, gmem, align<8>, "(4):(1)">, got !cute.memref<f32, gmem, align<16>, "(4):(1)">}}
  %v = cute.make_view %a() at %at div 2 : !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, i32 -> !cute.memref<f32, gmem, align<16>, "(4):(1)">
}

// -----

cute.kernel @numbers(%a: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, %n: i32) {
  // expected-error @+1 {{expected the run-time numbers of (?,8):(?{i64},1) (i32, i64), got 1}}
  %v = cute.make_view %a(%n) : !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)"> -> !cute.memref<f32, gmem, align<16>, "(?,8):(?{i64},1)">
}

// -----

cute.kernel @element(%a: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">) {
  // expected-error @+1 {{expected the view's type !cute.memref<f32, gmem, align<16>, "(4,4):(4,1)">, got !cute.memref<i32, gmem, align<16>, "(4,4):(4,1)">}}
  %v = cute.make_view %a() : !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)"> -> !cute.memref<i32, gmem, align<16>, "(4,4):(4,1)">
}

// -----

cute.kernel @coordinates(%a: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">) {
  %l = cute.static : !cute.layout<"(8,8):(1@0,1@1)">
  // expected-error @+1 {{expected strides in elements to view memory through, got the coordinates of (8,8):(1@0,1@1)}}
  %v = cute.make_view %a, %l : !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, !cute.layout<"(8,8):(1@0,1@1)"> -> !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">
}

// -----

cute.kernel @backward(%a: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">) {
  %l = cute.static : !cute.layout<"(8):(-1)">
  // expected-error @+1 {{expected strides of 0 and more, got (8):(-1)}}
  %v = cute.make_view %a, %l : !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, !cute.layout<"(8):(-1)"> -> !cute.memref<f32, gmem, align<16>, "(8):(1)">
}

// -----

cute.kernel @part(%a: !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)">, %i: i32) {
  %t = cute.local_tile %a, [4, 8], (%i, %i) : !cute.memref<f32, gmem, align<16>, "(8,8):(8,1)"> -> !cute.memref<f32, gmem, align<16>, "(4,8):(8,1)">
  // expected-error @+1 {{expected a whole tensor to view through a layout, got a part of one; view the tensor, and take the part of the view}}
  %v = cute.make_view %t() : !cute.memref<f32, gmem, align<16>, "(4,8):(8,1)"> -> !cute.memref<f32, gmem, align<16>, "(32):(1)">
}

// -----

cute.kernel @swizzled() {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(8,64):(64,1)">
  // expected-error @+1 {{expected a tensor in gmem or smem without a swizzle}}
  %v = cute.make_view %s() : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(8,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(512):(1)">
}

// -----

cute.kernel @wide(%a: !cute.memref<f32, gmem, align<16>, "(?):(1)">, %n: i64) {
  %s = cute.make_shape(%n) : (i64) -> !cute.shape<"?{i64}">
  %d = cute.static : !cute.stride<"1">
  %l = cute.make_layout(%s, %d) : (!cute.shape<"?{i64}">, !cute.stride<"1">) -> !cute.layout<"?{i64}:1">
  // expected-error @+1 {{expected extents of 32 bits, got ?{i64}:1; truncate them}}
  %v = cute.make_view %a, %l : !cute.memref<f32, gmem, align<16>, "(?):(1)">, !cute.layout<"?{i64}:1"> -> !cute.memref<f32, gmem, align<16>, "(?):(1)">
}

// -----

cute.kernel @threads(%n: i32) {
  %s = cute.make_shape(%n) : (i32) -> !cute.shape<"(?{div=4},8)">
  %d = cute.static : !cute.stride<"(8,1)">
  %t = cute.make_layout(%s, %d) : (!cute.shape<"(?{div=4},8)">, !cute.stride<"(8,1)">) -> !cute.layout<"(?{div=4},8):(8,1)">
  %v = cute.static : !cute.layout<"(1,4):(4,1)">
  // expected-error @+1 {{expected a static layout of threads, since a kernel names the registers of each thread, got (?{div=4},8):(8,1); take numbers, such as (4,8):(8,1), and leave what is known at run time to the tensor (cute.make_view, cute.local_tile)}}
  %c = cute.make_tiled_copy %t, %v : !cute.layout<"(?{div=4},8):(8,1)">, !cute.layout<"(1,4):(4,1)"> -> !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
}

// -----

cute.kernel @warps(%n: i32) {
  %s = cute.make_shape(%n) : (i32) -> !cute.shape<"(2,?,1)">
  %d = cute.static : !cute.stride<"(1,2,0)">
  %w = cute.make_layout(%s, %d) : (!cute.shape<"(2,?,1)">, !cute.stride<"(1,2,0)">) -> !cute.layout<"(2,?,1):(1,2,0)">
  // expected-error @+1 {{expected a static layout of warps, since a kernel names the registers of each thread, got (2,?,1):(1,2,0); take numbers, such as (2,1,1):(1,2,0)}}
  %m = cute.make_tiled_mma %w {atom = "mma_m16n8k16_f32_f16"} : !cute.layout<"(2,?,1):(1,2,0)"> -> !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))">
}

// -----

cute.kernel @atom() {
  %w = cute.static : !cute.layout<"(2,2,1):(1,2,0)">
  // expected-error @+1 {{mma_m1n1k1}}
  %m = cute.make_tiled_mma %w {atom = "mma_m1n1k1"} : !cute.layout<"(2,2,1):(1,2,0)"> -> !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))">
}

// -----

cute.kernel @copies() {
  %t = cute.static : !cute.layout<"(4,8):(8,1)">
  %v = cute.static : !cute.layout<"(1,4):(4,1)">
  // expected-error @+1 {{expected the result type !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">, got !cute.tiled_copy<"(32,4):(4,1)", tiler = "(4,32)">}}
  %c = cute.make_tiled_copy %t, %v : !cute.layout<"(4,8):(8,1)">, !cute.layout<"(1,4):(4,1)"> -> !cute.tiled_copy<"(32,4):(4,1)", tiler = "(4,32)">
}

// -----

cute.kernel @threads_meet() {
  %t = cute.static : !cute.layout<"(4,8):(1,1)">
  %v = cute.static : !cute.layout<"(1,4):(4,1)">
  // expected-error @+1 {{expected a bijective layout of threads or values, got (4,8):(1,1)}}
  %c = cute.make_tiled_copy %t, %v : !cute.layout<"(4,8):(1,1)">, !cute.layout<"(1,4):(4,1)"> -> !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
}

// -----

cute.kernel @divides(%a: !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">, %i: i32) {
  %t = cute.static : !cute.layout<"(4,8):(8,1)">
  %v = cute.static : !cute.layout<"(1,4):(4,1)">
  %c = cute.make_tiled_copy %t, %v : !cute.layout<"(4,8):(8,1)">, !cute.layout<"(1,4):(4,1)"> -> !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
  %x = cute.local_tile %a, [16, 16], (%i, %i) : !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)"> -> !cute.memref<f32, gmem, align<16>, "(16,16):(64,1)">
  // expected-error @+1 {{expected a tile that (4,32) divides, got (16,16)}}
  %y = cute.tiled_tile %x by %c : !cute.memref<f32, gmem, align<16>, "(16,16):(64,1)">, !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)"> -> !cute.memref<f32, gmem, align<16>, "(16,16):(64,1)">
}

// -----

cute.kernel @sides(%a: !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">, %i: i32) {
  %t = cute.static : !cute.layout<"(4,8):(8,1)">
  %v = cute.static : !cute.layout<"(1,4):(4,1)">
  %c = cute.make_tiled_copy %t, %v : !cute.layout<"(4,8):(8,1)">, !cute.layout<"(1,4):(4,1)"> -> !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
  // expected-error @+1 {{expected the side S, D of !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">, got A}}
  %y = cute.partition %a, %i by %c {side = "A"} : !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">, !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)"> -> !cute.memref<f32, gmem, align<16>, "(4,4,2):(1,256,32)">
}

// -----

cute.kernel @partitions(%a: !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">, %i: i32) {
  %t = cute.static : !cute.layout<"(4,8):(8,1)">
  %v = cute.static : !cute.layout<"(1,4):(4,1)">
  %c = cute.make_tiled_copy %t, %v : !cute.layout<"(4,8):(8,1)">, !cute.layout<"(1,4):(4,1)"> -> !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
  // expected-error @+1 {{expected the partition's type !cute.memref<f32, gmem, align<16>, "(4,4,2):(1,256,32)">}}
  %y = cute.partition %a, %i by %c {side = "S"} : !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">, !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)"> -> !cute.memref<f32, gmem, align<16>, "(4,4,2):(1,128,32)">
}

// -----

cute.kernel @copy_atom(%a: !cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">, %i: i32) {
  %t = cute.static : !cute.layout<"(8,4):(4,1)">
  %v = cute.static : !cute.layout<"(1,2):(2,1)">
  %c = cute.make_tiled_copy %t, %v : !cute.layout<"(8,4):(4,1)">, !cute.layout<"(1,2):(2,1)"> -> !cute.tiled_copy<"((4,8),2):((16,1),8)", tiler = "(8,8)">
  // expected-error @+1 {{ldmatrix_x3}}
  %s = cute.partition %a, %i by %c {side = "S", atom = "ldmatrix_x3"} : !cute.memref<f16, gmem, align<16>, "(8,8):(8,1)">, !cute.tiled_copy<"((4,8),2):((16,1),8)", tiler = "(8,8)"> -> !cute.memref<f16, gmem, align<16>, "(8,1,1):(1,64,8)">
}

// -----

// expected-error @+1 {{expected}}
func.func private @text(!cute.tiled_mma<"mma_m16n8k16_f32_f16">)
