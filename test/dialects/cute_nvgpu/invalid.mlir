// RUN: cute-opt %s --split-input-file --verify-diagnostics

// A shape that no mma has
// expected-error @+1 {{expected an mma of f16 x f16 into f32}}
func.func private @no_such_shape(!cute_nvgpu.sm80.mma<16x8x99, elem_type = (f16, f16, f32)>)

// -----

// expected-error @+1 {{expected 1, 2 or 4 matrices, got 3}}
func.func private @three_matrices(!cute_nvgpu.atom.ldsm<val_type = f16, num_matrices = 3, n>)

// -----

// expected-error @+1 {{expected 128 bits with cache = global, got 32}}
func.func private @narrow_global(!cute_nvgpu.atom.simt_async_copy<f16, cache = global, 32 b>)

// -----

// An atom that the module's target lacks
module attributes {cute.arch = "sm_75"} {
  cute.kernel @too_new() {
    %a = cute.alloc_fragment : !cute.fragment<f16, "(16,16)", "((4,8),((2,2,2),1,1)):((32,1),((16,8,128),0,0))">
    %b = cute.alloc_fragment : !cute.fragment<f16, "(8,16)", "((4,8),((2,2),1,1)):((16,1),((8,64),0,0))">
    %c = cute.alloc_fragment : !cute.fragment<f32, "(16,8)", "((4,8),((2,2),1,1)):((32,1),((16,8),0,0))">
    // expected-error @+1 {{expected an mma that sm_75 has}}
    cute.gemm %a, %b, %c {atom = !cute_nvgpu.sm80.mma<16x8x16, elem_type = (f16, f16, f32)>} : !cute.fragment<f16, "(16,16)", "((4,8),((2,2,2),1,1)):((32,1),((16,8,128),0,0))">, !cute.fragment<f16, "(8,16)", "((4,8),((2,2),1,1)):((16,1),((8,64),0,0))">, !cute.fragment<f32, "(16,8)", "((4,8),((2,2),1,1)):((32,1),((16,8),0,0))">
  }
}

// -----

// Copy atoms that the module's target lacks: the message says what it has instead
module attributes {cute.arch = "sm_80"} {
  cute.kernel @tma_load_too_new(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) {
    %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    // expected-error @+1 {{expected a copy from gmem to smem that sm_80 has (cp.async, ld and st), got tma_load_2d, which needs sm_90+}}
    cute.copy %a, %s tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
  }
}

// -----

module attributes {cute.arch = "sm_89"} {
  cute.kernel @tma_reduction_too_new(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">, %t: !cute_nvgpu.tma_descriptor<f32, (64,32), S<3,4,3>>) {
    %s = cute.alloc_smem : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)">
    // expected-error @+1 {{expected a copy from smem to gmem that sm_89 has (ld and st), got tma_reduce_add_2d, which needs sm_90+}}
    cute.copy %s, %a tma %t : !cute_nvgpu.tma_descriptor<f32, (64,32), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_store<f32, reduce = add>} : !cute.memref<f32, smem, align<1024>, S<3,4,3>, "(64,32):(32,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">
  }
}

// -----

module attributes {cute.arch = "sm_75"} {
  cute.kernel @cp_async_too_new(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
    %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
    // expected-error @+1 {{expected a copy from gmem to smem that sm_75 has (ld and st), got cp_async_cg_128, which needs sm_80+}}
    cute.copy %a, %s {atom = !cute_nvgpu.atom.simt_async_copy<f32, cache = global, 128 b>, tiled = #cute.tiled_copy<"((8,16),(4,4)):((256,1),(64,16))", tiler = "(64,32)">} : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
  }
}

// -----

module attributes {cute.arch = "sm_80"} {
  cute.kernel @stmatrix_too_new() {
    %c = cute.alloc_fragment : !cute.fragment<f16, "(16,8)", "((4,8),((2,2),1,1)):((32,1),((16,8),0,0))">
    %s = cute.alloc_smem : !cute.memref<f16, smem, align<16>, "(16,8):(8,1)">
    // expected-error @+1 {{expected a copy from rmem to smem that sm_80 has (st), got stmatrix_x2, which needs sm_90+}}
    cute.copy %c, %s {atom = !cute_nvgpu.atom.stsm<val_type = f16, num_matrices = 2, n>} : !cute.fragment<f16, "(16,8)", "((4,8),((2,2),1,1)):((32,1),((16,8),0,0))"> -> !cute.memref<f16, smem, align<16>, "(16,8):(8,1)">
  }
}

// -----

// A copy between spaces that its atom does not connect
cute.kernel @backwards(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
  %s = cute.alloc_smem : !cute.memref<f32, smem, align<16>, "(64,32):(32,1)">
  // expected-error @+1 {{expected a copy from gmem to smem with cute_nvgpu.atom.simt_async_copy, got one from smem to gmem}}
  cute.copy %s, %a {atom = !cute_nvgpu.atom.simt_async_copy<f32, cache = global, 128 b>, tiled = #cute.tiled_copy<"((8,16),(4,4)):((256,1),(64,16))", tiler = "(64,32)">} : !cute.memref<f32, smem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">
}

// -----

// Only what lies in global memory can be brought to L2
cute.kernel @prefetch_of_smem(%t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(64,64):(64,1)">
  // expected-error @+1 {{expected a tile in gmem, got !cute.memref<f16, smem, align<128>, "(64,64):(64,1)">}}
  cute_nvgpu.tma_prefetch %s tma %t : !cute.memref<f16, smem, align<128>, "(64,64):(64,1)">, !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>
}

// -----

// Rows that are numbered, which each CTA copies for itself, where a target copies four at a time
// expected-error @+1 {{expected rows to be gathered by each CTA for itself, got a multicast or a pair}}
func.func private @shared_rows(!cute_nvgpu.atom.tma_load<f16, multicast = 2:1, rows>)

// -----

module attributes {cute.arch = "sm_90a"} {
  cute.kernel @rows_too_new(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (1,64), S<3,4,3>>) {
    %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    // expected-error @+1 {{got tma_gather4, which needs sm_100f sm_110f}}
    cute.copy %a, %s tma %t : !cute_nvgpu.tma_descriptor<f16, (1,64), S<3,4,3>> {atom = !cute_nvgpu.atom.tma_load<f16, rows>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
  }
}

// -----

// A hint that L2 does not know
// expected-error @+1 {{expected a cache hint evict_first, evict_last, normal, got streaming}}
func.func private @unknown_hint(!cute_nvgpu.atom.tma_load<f16, cache = streaming>)

// -----

// expected-error @+1 {{expected a cache hint evict_first, evict_last, normal, got ever}}
func.func private @unknown_store_hint(!cute_nvgpu.atom.tma_store<f16, cache = ever>)

// -----

// A reduction that assembles, and that hardware does not carry out
// expected-error @+1 {{expected a type that a tensor copy can min: u32, b32, s32, u64, b64, s64, f16, bf16; got f32}}
func.func private @min_of_f32(!cute_nvgpu.atom.tma_store<f32, reduce = min>)

// -----

// Integers have no signs to change
// expected-error @+1 {{expected no negation with integer types, got wgmma_m64n16k32_s32_s8_s8}}
func.func private @negated_integers(!cute_nvgpu.sm90.mma<64x16x32, elem_type = (i8, i8, i32), a = smem, negate = a>)

// -----

// expected-error @+1 {{expected negate = a or b or ab, got c}}
func.func private @negated_accumulator(!cute_nvgpu.sm90.mma<64x16x16, elem_type = (f16, f16, f32), a = smem, negate = c>)

// -----

// expected-error @+1 {{expected scale_d = 0 or 1, got 2}}
func.func private @doubled(!cute_nvgpu.sm90.mma<64x16x16, elem_type = (f16, f16, f32), a = smem, scale_d = 2>)

// -----

// expected-error @+1 {{expected a reduction add, min, max, inc, dec, and, or, xor, got mul}}
func.func private @bulk_product(!cute_nvgpu.atom.bulk_store<f32, reduce = mul>)

// -----

// expected-error @+1 {{expected a type that a bulk copy can min: u32, s32, u64, s64, f16, bf16; got f32}}
func.func private @bulk_min_of_f32(!cute_nvgpu.atom.bulk_store<f32, reduce = min>)

// -----

// expected-error @+1 {{expected a cache hint evict_first, evict_last, normal, got soon}}
func.func private @bulk_hint(!cute_nvgpu.atom.bulk_load<f32, cache = soon>)

// -----

// A bulk copy counts addresses, not coordinates
cute.kernel @bulk_with_map(%a: !cute.memref<f32, gmem, align<16>, "(64):(1)">, %t: !cute_nvgpu.tma_descriptor<f32, (64)>) {
  %s = cute.alloc_smem : !cute.memref<f32, smem, align<128>, "(64):(1)">
  // expected-error @+1 {{expected no tensor map with a bulk copy (TMA atoms take one), got one}}
  cute.copy %a, %s tma %t : !cute_nvgpu.tma_descriptor<f32, (64)> {atom = !cute_nvgpu.atom.bulk_load<f32>} : !cute.memref<f32, gmem, align<16>, "(64):(1)"> -> !cute.memref<f32, smem, align<128>, "(64):(1)">
}

// -----

module attributes {cute.arch = "sm_80"} {
  cute.kernel @bulk_too_new(%a: !cute.memref<f32, gmem, align<16>, "(64):(1)">) {
    %s = cute.alloc_smem : !cute.memref<f32, smem, align<128>, "(64):(1)">
    // expected-error @+1 {{expected a copy from gmem to smem that sm_80 has (cp.async, ld and st), got bulk_load, which needs sm_90+}}
    cute.copy %a, %s {atom = !cute_nvgpu.atom.bulk_load<f32>} : !cute.memref<f32, gmem, align<16>, "(64):(1)"> -> !cute.memref<f32, smem, align<128>, "(64):(1)">
  }
}

// -----

func.func @slice_across(%a: !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)">) {
  // expected-error @+1 {{expected boxes of rows of slices, along the contiguous mode 2 and mode 0, got (1,128,64)}}
  %t = cute_nvgpu.make_tma_descriptor %a : !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (1,128,64), S<3,4,3>, slice 0>
  func.return
}

// -----

// expected-error @+1 {{expected a slice along one of 2 modes, got 2}}
func.func @slice_of_no_mode(%t: !cute_nvgpu.tma_descriptor<f16, (128,64), slice 2>)

// -----

// expected-error @+1 {{expected elements of 8, 32 bits to transpose, got f16}}
func.func private @transposed_halves(!cute_nvgpu.atom.operand_copy<transpose, f16>)

// -----

// expected-error @+1 {{expected elements of 8, 16, 32 bits to shift, got f64}}
func.func private @shifted_doubles(!cute_nvgpu.atom.operand_copy<shift, f64>)

// -----

// expected-error @+1 {{expected elements of 8, 16 or 32 bits to shift, got f64}}
func.func private @lines_of_doubles(!cute_nvgpu.atom.aligned_store<f64>)

// -----

// expected-error @+1 {{expected a number of groups above 0, got 0}}
func.func private @no_groups(!cute_nvgpu.atom.aligned_store<f16, groups = 0>)

// -----

// expected-error @+1 {{expected elements of 16 bits to convert, got f32}}
func.func private @widened_halves(!cute_nvgpu.atom.operand_copy<convert, f32>)

// -----

// expected-error @+1 {{expected a form (convert, shift, transpose), got widen}}
func.func private @another_form(!cute_nvgpu.atom.operand_copy<widen, f16>)

// -----

cute.kernel @widened_to_another(%a: !cute.memref<f8E4M3FN, gmem, align<16>, "(64):(1)">) {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(64):(1)">
  // expected-error @+1 {{expected floats of 8 bits to convert to bf16, got tiles of (f8E4M3FN, f16)}}
  cute.copy %a, %s {atom = !cute_nvgpu.atom.operand_copy<convert, bf16>} : !cute.memref<f8E4M3FN, gmem, align<16>, "(64):(1)"> -> !cute.memref<f16, smem, align<128>, "(64):(1)">
}

// -----

cute.kernel @cp_async_wait_pending() {
  // expected-error @+1 {{expected 0 or more groups at work, got -1}}
  cute_nvgpu.cp_async_wait {pending = -1 : i32}
}

// -----

// expected-error @+1 {{expected and or xor for mma_m8n8k128_s32_b1_xor, got no kind}}
func.func private @bits_without_a_kind(!cute_nvgpu.sm80.mma<8x8x128, elem_type = (i1, i1, i32)>)

// -----

// expected-error @+1 {{expected no kind for mma_m16n8k16_f32_f16, got satfinite}}
func.func private @clamped_floats(!cute_nvgpu.sm80.mma<16x8x16, elem_type = (f16, f16, f32), kind = satfinite>)

// -----

// expected-error @+1 {{expected cta_group = 1 or 2, got 3}}
func.func private @groups(!cute_nvgpu.sm100.mma<128x256x16, elem_type = (f16, f16, f32), cta_group = 3>)

// -----

// expected-error @+1 {{expected a tcgen05.mma of f16 x f16 into f32 (64xNx16, 128xNx16), got 96x256x16 with cta_group 1}}
func.func private @rows(!cute_nvgpu.sm100.mma<96x256x16, elem_type = (f16, f16, f32)>)

// -----

// expected-error @+1 {{expected a mode, 0 or 1, that some warps divide, got 1}}
func.func private @columns_of_all_warps(!cute_nvgpu.atom.tma_store<f16, along = 1>)

// -----

// expected-error @+1 {{expected majors TN for 16x8x16 of f16 x f16 into f32, got NT}}
func.func private @majors_of_others(!cute_nvgpu.sm80.mma<16x8x16, elem_type = (f16, f16, f32), majors = NT>)

// -----

// expected-error @+1 {{expected majors TN or TT or NN or NT for 8x8x4 of f16 x f16 into f32, got KM}}
func.func private @no_majors(!cute_nvgpu.sm80.mma<8x8x4, elem_type = (f16, f16, f32), majors = KM>)

// -----

// expected-error @+1 {{expected a shape of 32x32b, 16x64b, 16x128b, 16x256b, got 16x32bx2}}
func.func private @two_addresses(!cute_nvgpu.atom.tmem_load<f32, 16x32bx2>)

// -----

// expected-error @+1 {{expected elements of 16 or 32 bits in registers, got f64}}
func.func private @wide_elements(!cute_nvgpu.atom.tmem_store<f64, 32x32b>)

// -----

cute.kernel @odd_columns() {
  // expected-error @+1 {{expected a number of columns of 32, 64, 128, 256, 512, got 96}}
  cute_nvgpu.tmem_alloc {columns = 96 : i32}
}

// -----

cute.kernel @ones_in_global_memory(%a: !cute.memref<f16, gmem, align<128>, "(1024):(1)">) {
  // expected-error @+1 {{expected a tile of shared memory, got !cute.memref<f16, gmem}}
  cute_nvgpu.write_ones %a : !cute.memref<f16, gmem, align<128>, "(1024):(1)">
}

// -----

cute.kernel @round_halves(%x: f16) {
  %a = cute.alloc_fragment : !cute.fragment<f16, "(64,8)">
  cute.fill %a, %x : !cute.fragment<f16, "(64,8)">
  // expected-error @+1 {{expected a register tile of f32, got !cute.fragment<f16, "(64,8)">}}
  %r = cute_nvgpu.round_to_tf32 %a : !cute.fragment<f16, "(64,8)"> -> !cute.fragment<f16, "(64,8)">
}
