// RUN: cute-opt %s --split-input-file | cute-opt --split-input-file | filecheck %s
// RUN: cute-opt %s --split-input-file --mlir-print-op-generic | cute-opt --split-input-file | filecheck %s

// pipeline.create
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %p = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<3>
// CHECK-NEXT:   %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
// CHECK-NEXT: }
cute.kernel @k() {
  %p = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<3>
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
}

// -----

// pipeline.state
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
// CHECK-NEXT:   %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
// CHECK-NEXT: }
cute.kernel @k() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
  %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
}

// -----

// pipeline.index
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
// CHECK-NEXT:   %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
// CHECK-NEXT:   %i = pipeline.index %s : !pipeline.state<4>
// CHECK-NEXT: }
cute.kernel @k() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
  %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
  %i = pipeline.index %s : !pipeline.state<4>
}

// -----

// pipeline.advance
// CHECK: cute.kernel @k(%n: i32) {
// CHECK-NEXT:   %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
// CHECK-NEXT:   %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
// CHECK-NEXT:   pipeline.advance %s : !pipeline.state<4>
// CHECK-NEXT:   pipeline.advance %s by %n : !pipeline.state<4>
// CHECK-NEXT: }
cute.kernel @k(%n: i32) {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
  %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
  pipeline.advance %s : !pipeline.state<4>
  pipeline.advance %s by %n : !pipeline.state<4>
}

// -----

// pipeline.barrier
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
// CHECK-NEXT:   %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
// CHECK-NEXT:   %b = pipeline.barrier %q at %s : !pipeline.ring<4>, !pipeline.state<4>
// CHECK-NEXT: }
cute.kernel @k() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
  %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
  %b = pipeline.barrier %q at %s : !pipeline.ring<4>, !pipeline.state<4>
}

// -----

// pipeline.producer_acquire
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %p = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<3>
// CHECK-NEXT:   %s = pipeline.state "producer" %p : !pipeline.ring<3> -> !pipeline.state<3>
// CHECK-NEXT:   pipeline.producer_acquire %p at %s : !pipeline.ring<3>, !pipeline.state<3>
// CHECK-NEXT:   pipeline.producer_commit %p at %s : !pipeline.ring<3>, !pipeline.state<3>
// CHECK-NEXT: }
cute.kernel @k() {
  %p = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<3>
  %s = pipeline.state "producer" %p : !pipeline.ring<3> -> !pipeline.state<3>
  pipeline.producer_acquire %p at %s : !pipeline.ring<3>, !pipeline.state<3>
  pipeline.producer_commit %p at %s : !pipeline.ring<3>, !pipeline.state<3>
}

// -----

// pipeline.producer_commit
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %p = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<3>
// CHECK-NEXT:   %s = pipeline.state "producer" %p : !pipeline.ring<3> -> !pipeline.state<3>
// CHECK-NEXT:   pipeline.producer_acquire %p at %s : !pipeline.ring<3>, !pipeline.state<3>
// CHECK-NEXT:   pipeline.producer_commit %p at %s : !pipeline.ring<3>, !pipeline.state<3>
// CHECK-NEXT: }
cute.kernel @k() {
  %p = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<3>
  %s = pipeline.state "producer" %p : !pipeline.ring<3> -> !pipeline.state<3>
  pipeline.producer_acquire %p at %s : !pipeline.ring<3>, !pipeline.state<3>
  pipeline.producer_commit %p at %s : !pipeline.ring<3>, !pipeline.state<3>
}

// -----

// pipeline.consumer_wait
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %p = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<3>
// CHECK-NEXT:   %s = pipeline.state "consumer" %p : !pipeline.ring<3> -> !pipeline.state<3>
// CHECK-NEXT:   pipeline.consumer_wait %p at %s : !pipeline.ring<3>, !pipeline.state<3>
// CHECK-NEXT:   pipeline.consumer_release %p at %s : !pipeline.ring<3>, !pipeline.state<3>
// CHECK-NEXT: }
cute.kernel @k() {
  %p = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<3>
  %s = pipeline.state "consumer" %p : !pipeline.ring<3> -> !pipeline.state<3>
  pipeline.consumer_wait %p at %s : !pipeline.ring<3>, !pipeline.state<3>
  pipeline.consumer_release %p at %s : !pipeline.ring<3>, !pipeline.state<3>
}

// -----

// pipeline.consumer_release
// CHECK: cute.kernel @k(%later: i1) {
// CHECK-NEXT:   %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
// CHECK-NEXT:   %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
// CHECK-NEXT:   pipeline.consumer_wait %q at %s : !pipeline.ring<4>, !pipeline.state<4>
// CHECK-NEXT:   pipeline.consumer_release %q at %s if %later {back = 1 : i32} : !pipeline.ring<4>, !pipeline.state<4>
// CHECK-NEXT: }
cute.kernel @k(%later: i1) {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
  %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
  pipeline.consumer_wait %q at %s : !pipeline.ring<4>, !pipeline.state<4>
  pipeline.consumer_release %q at %s if %later {back = 1 : i32} : !pipeline.ring<4>, !pipeline.state<4>
}

// -----

// pipeline.role
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, registers = 40 : i32, elect} {
// CHECK-NEXT:     cute_nvgpu.tma_store_commit
// CHECK-NEXT:   }
// CHECK-NEXT:   pipeline.role "mma" attributes {first = 4 : i32, warps = 8 : i32, registers = 232 : i32} {
// CHECK-NEXT:     cute.barrier
// CHECK-NEXT:   }
// CHECK-NEXT: }
cute.kernel @k() {
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, registers = 40 : i32, elect} {
    cute_nvgpu.tma_store_commit
  }
  pipeline.role "mma" attributes {first = 4 : i32, warps = 8 : i32, registers = 232 : i32} {
    cute.barrier
  }
}

// -----

// pipeline.instance, pipeline.turn_wait, pipeline.turn_pass
// CHECK: cute.kernel @teams(%more: i1) {
// CHECK-NEXT:   pipeline.role "mma" attributes {first = 4 : i32, warps = 8 : i32, instances = 2 : i32} {
// CHECK-NEXT:     %i = pipeline.instance
// CHECK-NEXT:     pipeline.turn_wait
// CHECK-NEXT:     pipeline.turn_pass if %more
// CHECK-NEXT:   }
// CHECK-NEXT: }
cute.kernel @teams(%more: i1) {
  pipeline.role "mma" attributes {first = 4 : i32, warps = 8 : i32, instances = 2 : i32} {
    %i = pipeline.instance
    pipeline.turn_wait
    pipeline.turn_pass if %more
  }
}

// -----

// turns of warpgroups
// CHECK: cute.kernel @groups() {
// CHECK-NEXT:   pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32} {
// CHECK-NEXT:     pipeline.turn_pass {warps = 4 : i32, outside}
// CHECK-NEXT:     pipeline.turn_wait {warps = 4 : i32}
// CHECK-NEXT:     pipeline.turn_pass {warps = 4 : i32}
// CHECK-NEXT:     pipeline.turn_wait {warps = 4 : i32, outside}
// CHECK-NEXT:   }
// CHECK-NEXT: }
cute.kernel @groups() {
  pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32} {
    pipeline.turn_pass {warps = 4 : i32, outside}
    pipeline.turn_wait {warps = 4 : i32}
    pipeline.turn_pass {warps = 4 : i32}
    pipeline.turn_wait {warps = 4 : i32, outside}
  }
}

// -----

// pipeline.send, pipeline.receive
// CHECK: cute.kernel @messages(%x: i32, %i: i32) {
// CHECK-NEXT:   %slots = cute.alloc_smem : !cute.memref<i32, smem, align<8>, "(2):(1)">
// CHECK-NEXT:   pipeline.send %x to %slots[%i] : !cute.memref<i32, smem, align<8>, "(2):(1)">
// CHECK-NEXT:   %y = pipeline.receive %slots[%i] : !cute.memref<i32, smem, align<8>, "(2):(1)">
// CHECK-NEXT: }
cute.kernel @messages(%x: i32, %i: i32) {
  %slots = cute.alloc_smem : !cute.memref<i32, smem, align<8>, "(2):(1)">
  pipeline.send %x to %slots[%i] : !cute.memref<i32, smem, align<8>, "(2):(1)">
  %y = pipeline.receive %slots[%i] : !cute.memref<i32, smem, align<8>, "(2):(1)">
}

// -----

// pipeline.complete
// CHECK: cute.kernel @complete() {
// CHECK-NEXT:   %s = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
// CHECK-NEXT:   pipeline.complete %s : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
// CHECK-NEXT: }
cute.kernel @complete() {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
  pipeline.complete %s : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
}

// -----

// What the tensor core reads and writes: a stage of operands that a commit releases, and a stage of
// accumulators that a commit completes.
// CHECK: cute.kernel @tensor() {
// CHECK:        pipeline.consumer_release %q at %s {commits} : !pipeline.ring<2>, !pipeline.state<2>
// CHECK-NEXT:   %r = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
cute.kernel @tensor() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 1 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  pipeline.consumer_wait %q at %s : !pipeline.ring<2>, !pipeline.state<2>
  pipeline.consumer_release %q at %s {commits} : !pipeline.ring<2>, !pipeline.state<2>
  %r = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
}

// -----

// pipeline.request, pipeline.response
// CHECK: cute.kernel @requests(%i: i32, %n: i32) {
// CHECK:        %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 16 : i32, led} : !pipeline.ring<2>
// CHECK:        pipeline.request %slots[%i] signal %b : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">, !pipeline.barrier
// CHECK-NEXT:   %x = pipeline.response %slots[%i] else %n : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">
cute.kernel @requests(%i: i32, %n: i32) {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 16 : i32, led} : !pipeline.ring<2>
  %s = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  %slots = cute.alloc_smem : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">
  %b = pipeline.barrier %q at %s : !pipeline.ring<2>, !pipeline.state<2>
  pipeline.request %slots[%i] signal %b : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">, !pipeline.barrier
  %x = pipeline.response %slots[%i] else %n : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">
}

// -----

// pipeline.expect
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
// CHECK-NEXT:   %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
// CHECK-NEXT:   pipeline.producer_acquire %q at %s : !pipeline.ring<4>, !pipeline.state<4>
// CHECK-NEXT:   pipeline.expect %q at %s : !pipeline.ring<4>, !pipeline.state<4>
// CHECK-NEXT:   pipeline.producer_commit %q at %s : !pipeline.ring<4>, !pipeline.state<4>
// CHECK-NEXT: }
cute.kernel @k() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
  %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
  pipeline.producer_acquire %q at %s : !pipeline.ring<4>, !pipeline.state<4>
  pipeline.expect %q at %s : !pipeline.ring<4>, !pipeline.state<4>
  pipeline.producer_commit %q at %s : !pipeline.ring<4>, !pipeline.state<4>
}

// -----

// pipeline.drain
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
// CHECK-NEXT:   %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
// CHECK-NEXT:   pipeline.drain %q at %s : !pipeline.ring<4>, !pipeline.state<4>
// CHECK-NEXT: }
cute.kernel @k() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
  %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
  pipeline.drain %q at %s : !pipeline.ring<4>, !pipeline.state<4>
}

// -----

// pipeline.producer_commit of a pair
// CHECK: cute.kernel @k(%some: i1) {
// CHECK-NEXT:   %q = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 8 : i32, pair} : !pipeline.ring<4>
// CHECK-NEXT:   %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
// CHECK-NEXT:   pipeline.producer_acquire %q at %s : !pipeline.ring<4>, !pipeline.state<4>
// CHECK-NEXT:   pipeline.producer_commit %q at %s multiplied %some : !pipeline.ring<4>, !pipeline.state<4>
// CHECK-NEXT: }
cute.kernel @k(%some: i1) {
  %q = pipeline.create {kind = "tcgen05", producers = 1 : i32, consumers = 8 : i32, pair} : !pipeline.ring<4>
  %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
  pipeline.producer_acquire %q at %s : !pipeline.ring<4>, !pipeline.state<4>
  pipeline.producer_commit %q at %s multiplied %some : !pipeline.ring<4>, !pipeline.state<4>
}

// -----

// pipeline.exchange, pipeline.exchange_drain, pipeline.start
// CHECK: cute.kernel @k() attributes {cluster = 2 : i32} {
// CHECK-NEXT:   %x = pipeline.exchange {readers = 2 : i32} : !pipeline.exchange
// CHECK-NEXT:   %y = pipeline.exchange {readers = 0 : i32, bytes = 32 : i32} : !pipeline.exchange
// CHECK-NEXT:   pipeline.start {cluster, publishes}
// CHECK-NEXT:   pipeline.exchange_drain %x : !pipeline.exchange
// CHECK-NEXT: }
cute.kernel @k() attributes {cluster = 2 : i32} {
  %x = pipeline.exchange {readers = 2 : i32} : !pipeline.exchange
  %y = pipeline.exchange {readers = 0 : i32, bytes = 32 : i32} : !pipeline.exchange
  pipeline.start {cluster, publishes}
  pipeline.exchange_drain %x : !pipeline.exchange
}

// -----

// pipeline.start_arrive, pipeline.start_wait
// CHECK: cute.kernel @k() {
// CHECK-NEXT:   pipeline.start_arrive
// CHECK-NEXT:   pipeline.start_wait
// CHECK-NEXT:   pipeline.start
// CHECK-NEXT: }
cute.kernel @k() {
  pipeline.start_arrive
  pipeline.start_wait
  pipeline.start
}

// -----

// pipeline.steps, pipeline.scratch_store, pipeline.scratch_load
// CHECK: cute.kernel @k(%x: f32, %p: i1) {
// CHECK:        pipeline.steps {
// CHECK-NEXT:     cute.barrier
// CHECK-NEXT:     pipeline.scratch_store
// CHECK-NEXT:     cute.barrier
// CHECK-NEXT:     pipeline.scratch_load
// CHECK-NEXT:   }
// CHECK:        pipeline.steps if %p {
// CHECK-NEXT:     cute.barrier
// CHECK-NEXT:   }
cute.kernel @k(%x: f32, %p: i1) {
  %t = cute.alloc_fragment : !cute.fragment<f32, "(64,8)">
  cute.fill %t, %x : !cute.fragment<f32, "(64,8)">
  pipeline.steps {
    cute.barrier
    pipeline.scratch_store
    cute.barrier
    pipeline.scratch_load
  }
  pipeline.steps if %p {
    cute.barrier
  }
}

// -----

// pipeline.steps, pipeline.exchange_expect, pipeline.exchange_send, pipeline.exchange_wait,
// pipeline.exchange_load, pipeline.exchange_tell
// CHECK: %x = pipeline.exchange {readers = 1 : i32} : !pipeline.exchange
// CHECK-NEXT:   pipeline.steps attributes {ranked} {
// CHECK-NEXT:     pipeline.exchange_expect %x {bytes = 4096 : i32} : !pipeline.exchange
// CHECK-NEXT:     pipeline.exchange_wait %x {side = "full"} : !pipeline.exchange
// CHECK-NEXT:     pipeline.exchange_load %x : !pipeline.exchange
// CHECK-NEXT:     cute.barrier
// CHECK-NEXT:     pipeline.exchange_tell %x {first = 1 : i32, count = 1 : i32} : !pipeline.exchange
// CHECK-NEXT:   } else {
// CHECK-NEXT:     pipeline.exchange_send %x {bytes = 4096 : i32} : !pipeline.exchange
// CHECK-NEXT:     pipeline.exchange_wait %x {side = "empty"} : !pipeline.exchange
// CHECK-NEXT:   }
cute.kernel @k() attributes {cluster = 2 : i32} {
  %x = pipeline.exchange {readers = 1 : i32} : !pipeline.exchange
  pipeline.steps attributes {ranked} {
    pipeline.exchange_expect %x {bytes = 4096 : i32} : !pipeline.exchange
    pipeline.exchange_wait %x {side = "full"} : !pipeline.exchange
    pipeline.exchange_load %x : !pipeline.exchange
    cute.barrier
    pipeline.exchange_tell %x {first = 1 : i32, count = 1 : i32} : !pipeline.exchange
  } else {
    pipeline.exchange_send %x {bytes = 4096 : i32} : !pipeline.exchange
    pipeline.exchange_wait %x {side = "empty"} : !pipeline.exchange
  }
}
