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
