// RUN: cute-opt %s -p 'cute-tile{arch=sm_120a},cute-partition{arch=sm_120a}' --remarks --verify-diagnostics

// A multiply for whose target there is no path of its own says so, where it stands.

cute.kernel @gemm(
  %A: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">,
  %B: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">,
  %D: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
) attributes {schedule = #cute.schedule<"tile = (64,64,32)">} {
  // expected-remark @+1 {{[cute-partition] sm_120a has no path of its own: mma_m16n8k16_f32_f16 takes the way of sm_80}}
  cute.gemm %A, %B, %D : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
}
