// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// pipeline.create
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
// CHECK-NEXT: }
cute.kernel @k() {
  %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
}

// -----

// pipeline.producer_acquire
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
// CHECK-NEXT:   pipeline.producer_acquire %p : !pipeline.ring<3>
// CHECK-NEXT: }
cute.kernel @k() {
  %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
  pipeline.producer_acquire %p : !pipeline.ring<3>
}

// -----

// pipeline.producer_commit
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
// CHECK-NEXT:   pipeline.producer_commit %p : !pipeline.ring<3>
// CHECK-NEXT: }
cute.kernel @k() {
  %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
  pipeline.producer_commit %p : !pipeline.ring<3>
}

// -----

// pipeline.consumer_wait
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
// CHECK-NEXT:   pipeline.consumer_wait %p {pending = 1 : i32} : !pipeline.ring<3>
// CHECK-NEXT: }
cute.kernel @k() {
  %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
  pipeline.consumer_wait %p {pending = 1 : i32} : !pipeline.ring<3>
}

// -----

// pipeline.consumer_release
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
// CHECK-NEXT:   pipeline.consumer_release %p : !pipeline.ring<3>
// CHECK-NEXT: }
cute.kernel @k() {
  %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
  pipeline.consumer_release %p : !pipeline.ring<3>
}
