// A kernel that does nothing is one, on every target.
// RUN: cute-opt %s -p 'cute-to-ptx{arch=sm_75}' -t ptx | filecheck %s
// RUN: cute-opt %s -p 'cute-to-ptx{arch=sm_80}' -t ptx | filecheck %s
// RUN: cute-opt %s -p 'cute-to-ptx{arch=sm_90a}' -t ptx | filecheck %s
// RUN: cute-opt %s -p 'cute-to-ptx{arch=sm_100a}' -t ptx | filecheck %s

// CHECK: .entry k(
// CHECK: ret;

cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(8):(1)">) {
}
