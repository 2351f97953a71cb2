// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// cute_nvgpu.make_tma_descriptor
// CHECK: func.func @launch(%a: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
// CHECK-NEXT:   %t = cute_nvgpu.make_tma_descriptor %a : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
func.func @launch(%a: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
  %t = cute_nvgpu.make_tma_descriptor %a : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>
  func.return
}

// -----

// cute_nvgpu.make_tma_descriptor for slices, with a swizzle and without
// CHECK: func.func @launch(
// CHECK-NEXT:   %t = cute_nvgpu.make_tma_descriptor %a : {{.*}} -> !cute_nvgpu.tma_descriptor<f16, (1,128,64), S<3,4,3>, slice 1>
// CHECK-NEXT:   %u = cute_nvgpu.make_tma_descriptor %a : {{.*}} -> !cute_nvgpu.tma_descriptor<f16, (8,1,16), slice 0>
func.func @launch(%a: !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)">) {
  %t = cute_nvgpu.make_tma_descriptor %a : !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (1,128,64), S<3,4,3>, slice 1>
  %u = cute_nvgpu.make_tma_descriptor %a : !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (8,1,16), slice 0>
  func.return
}

// -----

// cute_nvgpu.tma_prefetch
// CHECK: cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) {
// CHECK-NEXT:   cute_nvgpu.tma_prefetch %a tma %t : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>
// CHECK-NEXT: }
cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) {
  cute_nvgpu.tma_prefetch %a tma %t : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>
}

// -----

// cute_nvgpu.tma_store_commit
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute_nvgpu.tma_store_commit
// CHECK-NEXT: }
cute.kernel @k() {
  cute_nvgpu.tma_store_commit
}

// -----

// cute_nvgpu.tma_store_wait
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute_nvgpu.tma_store_wait {pending = 1 : i32, read}
// CHECK-NEXT: }
cute.kernel @k() {
  cute_nvgpu.tma_store_wait {pending = 1 : i32, read}
}

// -----

// cute_nvgpu.fence_proxy_async
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute_nvgpu.fence_proxy_async
// CHECK-NEXT: }
cute.kernel @k() {
  cute_nvgpu.fence_proxy_async
}

// -----

// cute_nvgpu.wgmma_fence
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute_nvgpu.wgmma_fence
// CHECK-NEXT: }
cute.kernel @k() {
  cute_nvgpu.wgmma_fence
}

// -----

// cute_nvgpu.wgmma_commit
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute_nvgpu.wgmma_commit
// CHECK-NEXT: }
cute.kernel @k() {
  cute_nvgpu.wgmma_commit
}

// -----

// cute_nvgpu.wgmma_wait
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute_nvgpu.wgmma_wait {pending = 0 : i32}
// CHECK-NEXT: }
cute.kernel @k() {
  cute_nvgpu.wgmma_wait {pending = 0 : i32}
}

// -----

// cute_nvgpu.cp_async_commit, cute_nvgpu.cp_async_wait
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute_nvgpu.cp_async_commit
// CHECK-NEXT:   cute_nvgpu.cp_async_wait {pending = 2 : i32}
// CHECK-NEXT: }
cute.kernel @k() {
  cute_nvgpu.cp_async_commit
  cute_nvgpu.cp_async_wait {pending = 2 : i32}
}

// -----

// Atoms with all that they may say
// CHECK: func.func private @atoms(!cute_nvgpu.atom.tma_load<f16, multicast = 2:2, pair, cache = evict_last>, !cute_nvgpu.atom.tma_load<f16, cache = normal>, !cute_nvgpu.atom.tma_load<f16, rows, cache = normal>, !cute_nvgpu.atom.tma_store<f32, reduce = add, warps = 4, along = 1, cache = evict_first>, !cute_nvgpu.sm90.mma<64x16x16, elem_type = (f16, f16, f16), a = rmem, negate = ab, scale_d = 0>) -> ()
func.func private @atoms(!cute_nvgpu.atom.tma_load<f16, multicast = 2:2, pair, cache = evict_last>, !cute_nvgpu.atom.tma_load<f16, cache = normal>, !cute_nvgpu.atom.tma_load<f16, rows, cache = normal>, !cute_nvgpu.atom.tma_store<f32, reduce = add, warps = 4, along = 1, cache = evict_first>, !cute_nvgpu.sm90.mma<64x16x16, elem_type = (f16, f16, f16), a = rmem, negate = ab, scale_d = 0>) -> ()

// -----

// Bulk copies
// CHECK: func.func private @bulk(!cute_nvgpu.atom.bulk_load<f16>, !cute_nvgpu.atom.bulk_load<i8, cache = evict_first>, !cute_nvgpu.atom.bulk_store<bf16, reduce = add, cache = evict_last>, !cute_nvgpu.atom.bulk_store<i64, reduce = xor>) -> ()
func.func private @bulk(!cute_nvgpu.atom.bulk_load<f16>, !cute_nvgpu.atom.bulk_load<i8, cache = evict_first>, !cute_nvgpu.atom.bulk_store<bf16, reduce = add, cache = evict_last>, !cute_nvgpu.atom.bulk_store<i64, reduce = xor>) -> ()

// -----

// cute_nvgpu.atom.operand_copy
// CHECK: func.func private @formed(!cute_nvgpu.atom.operand_copy<transpose, f8E4M3FN>, !cute_nvgpu.atom.operand_copy<shift, tf32>, !cute_nvgpu.atom.operand_copy<shift, i8>, !cute_nvgpu.atom.operand_copy<convert, bf16>)
func.func private @formed(!cute_nvgpu.atom.operand_copy<transpose, f8E4M3FN>, !cute_nvgpu.atom.operand_copy<shift, tf32>, !cute_nvgpu.atom.operand_copy<shift, i8>, !cute_nvgpu.atom.operand_copy<convert, bf16>)

// -----

// cute_nvgpu.atom.aligned_store
// CHECK: func.func private @lines(!cute_nvgpu.atom.aligned_store<bf16>, !cute_nvgpu.atom.aligned_store<f32, groups = 2>)
func.func private @lines(!cute_nvgpu.atom.aligned_store<bf16, groups = 1>, !cute_nvgpu.atom.aligned_store<f32, groups = 2>)

// -----

// Atoms that agree in shape and types are told apart by their kind.

// CHECK: func.func private @kinds(!cute_nvgpu.sm80.mma<16x8x32, elem_type = (i8, ui8, i32), kind = satfinite>, !cute_nvgpu.sm80.mma<16x8x64, elem_type = (i4, ui4, i32)>, !cute_nvgpu.sm80.mma<8x8x128, elem_type = (i1, i1, i32), kind = xor>, !cute_nvgpu.sm80.mma<16x8x256, elem_type = (i1, i1, i32), kind = and>, !cute_nvgpu.sm90.mma<64x16x32, elem_type = (i8, i8, i32), a = smem, kind = satfinite>) -> ()
func.func private @kinds(!cute_nvgpu.sm80.mma<16x8x32, elem_type = (i8, ui8, i32), kind = satfinite>, !cute_nvgpu.sm80.mma<16x8x64, elem_type = (i4, ui4, i32)>, !cute_nvgpu.sm80.mma<8x8x128, elem_type = (i1, i1, i32), kind = xor>, !cute_nvgpu.sm80.mma<16x8x256, elem_type = (i1, i1, i32), kind = and>, !cute_nvgpu.sm90.mma<64x16x32, elem_type = (i8, i8, i32), a = smem, kind = satfinite>) -> ()

// -----

// CHECK: func.func private @scales_of_blocks(!cute_nvgpu.sm100.mma<128x256x32, elem_type = (f8E4M3FN, f8E5M2, f32), scaling = "ue8m0x32">) -> ()
func.func private @scales_of_blocks(!cute_nvgpu.sm100.mma<128x256x32, elem_type = (f8E4M3FN, f8E5M2, f32), scaling = "ue8m0x32">)

// -----

// CHECK: func.func private @tensor_memory(!cute_nvgpu.sm100.mma<128x256x16, elem_type = (f16, f16, f32)>, !cute_nvgpu.sm100.mma<256x128x32, elem_type = (f8E4M3FN, f8E5M2, f32), cta_group = 2>, !cute_nvgpu.atom.tmem_load<i32, 16x256b>, !cute_nvgpu.atom.tmem_store<f16, 16x128b>) -> ()
func.func private @tensor_memory(!cute_nvgpu.sm100.mma<128x256x16, elem_type = (f16, f16, f32)>, !cute_nvgpu.sm100.mma<256x128x32, elem_type = (f8E4M3FN, f8E5M2, f32), cta_group = 2>, !cute_nvgpu.atom.tmem_load<i32, 16x256b>, !cute_nvgpu.atom.tmem_store<f16, 16x128b>)

// -----

// Majors of a product that has them all, and the shapes between registers and tensor memory
// CHECK: func.func private @majors(!cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, f32)>, !cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, f32), majors = NT>, !cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, f16), majors = TT>, !cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, f16), majors = NN>, !cute_nvgpu.sm80.mma<16x8x64, elem_type = (i4, i4, i32), kind = satfinite>) -> ()
func.func private @majors(!cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, f32), majors = TN>, !cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, f32), majors = NT>, !cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, f16), majors = TT>, !cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, f16), majors = NN>, !cute_nvgpu.sm80.mma<16x8x64, elem_type = (i4, i4, i32), majors = TN, kind = satfinite>)

// CHECK: func.func private @tensor_memory_shapes(!cute_nvgpu.atom.tmem_load<f32, 32x32b>, !cute_nvgpu.atom.tmem_load<f16, 16x64b>, !cute_nvgpu.atom.tmem_store<bf16, 16x128b>, !cute_nvgpu.atom.tmem_store<i32, 16x256b>) -> ()
func.func private @tensor_memory_shapes(!cute_nvgpu.atom.tmem_load<f32, 32x32b>, !cute_nvgpu.atom.tmem_load<f16, 16x64b>, !cute_nvgpu.atom.tmem_store<bf16, 16x128b>, !cute_nvgpu.atom.tmem_store<i32, 16x256b>)

// -----

// cute_nvgpu.tcgen05_fence
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute_nvgpu.tcgen05_fence "before"
// CHECK-NEXT:   cute_nvgpu.tcgen05_fence "after"
// CHECK-NEXT: }
cute.kernel @k() {
  cute_nvgpu.tcgen05_fence "before"
  cute_nvgpu.tcgen05_fence "after"
}

// -----

// cute_nvgpu.write_ones
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %ones = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(1024):(1)">
// CHECK-NEXT:   cute_nvgpu.write_ones %ones : !cute.memref<f16, smem, align<128>, "(1024):(1)">
// CHECK-NEXT: }
cute.kernel @k() {
  %ones = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(1024):(1)">
  cute_nvgpu.write_ones %ones : !cute.memref<f16, smem, align<128>, "(1024):(1)">
}

// -----

// cute_nvgpu.tmem_alloc, cute_nvgpu.tmem_address, cute_nvgpu.tmem_dealloc
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   cute_nvgpu.tmem_alloc {columns = 256 : i32}
// CHECK-NEXT:   cute_nvgpu.tmem_address
// CHECK-NEXT:   cute_nvgpu.tmem_dealloc {columns = 256 : i32, pair}
// CHECK-NEXT: }
cute.kernel @k() {
  cute_nvgpu.tmem_alloc {columns = 256 : i32}
  cute_nvgpu.tmem_address
  cute_nvgpu.tmem_dealloc {columns = 256 : i32, pair}
}

// -----

// cute_nvgpu.round_to_tf32
// CHECK: %r = cute_nvgpu.round_to_tf32 %a : !cute.fragment<f32, "(64,8)"> -> !cute.fragment<f32, "(64,8)">
cute.kernel @k(%x: f32) {
  %a = cute.alloc_fragment : !cute.fragment<f32, "(64,8)">
  cute.fill %a, %x : !cute.fragment<f32, "(64,8)">
  %r = cute_nvgpu.round_to_tf32 %a : !cute.fragment<f32, "(64,8)"> -> !cute.fragment<f32, "(64,8)">
}
