// Rings whose counts, bytes and peers do not add up over the roles of their kernel.
// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @never_filled(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected a role that fills the ring (producer_acquire), got none}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    cute.barrier
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @never_read(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected a role that reads the ring (consumer_wait), got none}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @producers_of_tma(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 1 producers (arrivals at a full stage: 1 for tma in 'load'), got 2}}
  %q = pipeline.create {kind = "tma", producers = 2 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @producers_of_threads(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 2 producers (arrivals at a full stage: 2 for threads in 'load'), got 1}}
  %q = pipeline.create {kind = "threads", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 2 : i32} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @producers_of_one_thread(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 1 producers (arrivals at a full stage: 1 for threads in 'load'), got 32}}
  %q = pipeline.create {kind = "threads", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @producers_of_several_ways(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 67 producers (arrivals at a full stage: 1 for tma in 'load', 64 for cp_async in 'load', 2 for threads in 'load'), got 3}}
  %q = pipeline.create {kind = "tma+cp_async+threads", producers = 3 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 2 : i32} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @copy_of_another_kind(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected a ring of a kind with cp_async, as one of its copies is, got 'tma'}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    cute.copy %a, %d {atom = !cute_nvgpu.atom.simt_async_copy<f16, cache = global, 128 b>, tiled = #cute.tiled_copy<"((8,4),(8,16)):((512,1),(64,4))", tiler = "(64,64)">} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @tma_by_two_roles(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected one role to fill a tma ring, got 'load' and 'help'}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
  pipeline.role "help" attributes {first = 1 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
}

// -----

cute.kernel @consumers(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 4 consumers (warps that release a stage: 4 for 'main'), got 128}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 128 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @consumers_of_two_roles(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 384 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 6 consumers (warps that release a stage: 4 for 'main', 2 for 'help'), got 4}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
  pipeline.role "help" attributes {first = 8 : i32, warps = 2 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @consumers_of_one_thread(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 1 consumers (warps that release a stage: 1 for 'main'), got 4}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 1 : i32, elect} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @consumers_of_side_by_side_instances(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 384 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 8 consumers (warps that release a stage: 8 for 'main'), got 4}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32, instances = 2 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @consumers_of_instances_in_turns(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 384 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 4 consumers (warps that release a stage: 4 for 'main'), got 8}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32, instances = 2 : i32} {
    %zero = arith.constant 0 : i32
    %two = arith.constant 2 : i32
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    scf.for %w = %zero to %two step %two : i32 {
      pipeline.turn_wait
      pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
      pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
      pipeline.turn_pass
    }
  }
}

// -----

cute.kernel @consumers_in_a_cluster(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32, cluster = 2 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 8 consumers (warps that release a stage: 4 for 'main' in 2 CTAs), got 4}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32, peers = array<i64: 2, 1>} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16, multicast = 2:1>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @release_by_one_thread_in_a_cluster(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32, cluster = 2 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected whole warps to release the stages of other CTAs, got one thread of role 'main'}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 2 : i32, bytes = 8192 : i32, peers = array<i64: 2, 1>} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16, multicast = 2:1>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 1 : i32, elect} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @bytes(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 8192 bytes for each stage, as 1 copies by TMA bring, got 16384}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 16384 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @bytes_of_a_part_for_each_cta(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32, cluster = 2 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 8192 bytes for each stage, as 1 copies by TMA bring, got 4096}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 4096 : i32, peers = array<i64: 2, 1>} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16, multicast = 2:1>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @bytes_of_no_copy(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 0 bytes for each stage, as 0 copies by TMA bring, got 8192}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @copy_outside_of_a_round(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected every copy that signals the ring between an acquire and its commit, got one elsewhere}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @peers_without_a_cluster(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected peers that divide the cluster of 1 CTAs, got 2 CTAs 1 apart}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 8192 : i32, peers = array<i64: 2, 1>} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @peers_too_far_apart(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32, cluster = 4 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected peers that divide the cluster of 4 CTAs, got 2 CTAs 4 apart}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 8192 : i32, peers = array<i64: 2, 4>} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @peers_in_pairs(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32, cluster = 4 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected peers in pairs of CTAs and their distance, got 3 numbers}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 8192 : i32, peers = array<i64: 2, 1, 2>} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @peers_without_multicast(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32, cluster = 2 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected the peers to which the copies multicast, none, got 2:1}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 8192 : i32, peers = array<i64: 2, 1>} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @peers_inside_of_others(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (16,64), S<3,4,3>>, %u: !cute_nvgpu.tma_descriptor<f16, (32,64), S<3,4,3>>) attributes {threads = 256 : i32, cluster = 4 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  %r = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected the peers to which the copies multicast, 4:1, got 4:1, 2:1}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 20 : i32, bytes = 16384 : i32, peers = array<i64: 4, 1, 2, 1>} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    %e = cute.stage %r[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (16,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16, multicast = 4:1>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %e tma %u : !cute_nvgpu.tma_descriptor<f16, (32,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16, multicast = 2:1>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @multicast_without_peers(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32, cluster = 2 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected the peers to which the copies multicast, 2:1, got none}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16, multicast = 2:1>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @buffer_of_other_stages(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,3):(64,1,4096)">
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    // expected-error @+1 {{expected a buffer of 2 stages as the ring has, got 3}}
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,3):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @a_pair_without_a_cluster(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected a cluster of CTA pairs, got 1 CTAs}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 16384 : i32, pair} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @bytes_of_one_cta_of_a_pair(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) attributes {threads = 256 : i32, cluster = 2 : i32} {
  %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)">
  // expected-error @+1 {{expected 16384 bytes for each stage, as 1 copies by TMA bring, got 8192}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32, pair} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    %d = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64,2):(64,1,4096)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    cute.copy %a, %d tma %t : !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>> signal %b : !pipeline.barrier {atom = !cute_nvgpu.atom.tma_load<f16>} : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)"> -> !cute.memref<f16, smem, align<1024>, S<3,4,3>, "(64,64):(64,1)">
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @asynchronous_copies_fill_for_a_pair() {
  // expected-error @+1 {{expected kind tma or tcgen05, or what threads write, of a ring of a CTA pair, got cp_async}}
  %q = pipeline.create {kind = "cp_async", producers = 1 : i32, consumers = 4 : i32, pair} : !pipeline.ring<2>
}

// -----

cute.kernel @threads_of_one_cta_of_a_pair() attributes {threads = 256 : i32, cluster = 2 : i32} {
  // expected-error @+1 {{expected 8 producers (arrivals at a full stage: 4 for threads in 'main' in 2 CTAs), got 4}}
  %q = pipeline.create {kind = "threads", producers = 4 : i32, consumers = 1 : i32, pair} : !pipeline.ring<2>
  pipeline.role "mma" attributes {first = 0 : i32, warps = 1 : i32, elect, pair} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c {commits} : !pipeline.ring<2>, !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
  }
}

// -----

cute.kernel @a_release_of_one_cta_says_whether_it_multiplied(%some: i1) {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 1 : i32, bytes = 16384 : i32} : !pipeline.ring<2>
  %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
  // expected-error @+1 {{expected whether a pair has multiplied only where a commit releases a stage in both of its CTAs, got it elsewhere}}
  pipeline.consumer_release %q at %c multiplied %some {commits} : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @response_of_8_bytes(%n: i32) attributes {threads = 256 : i32} {
  %slots = cute.alloc_smem : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">
  // expected-error @+1 {{expected 16 bytes for each stage, as 0 copies by TMA and 1 requests bring, got 8}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, elect} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %b = pipeline.barrier %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    %i = pipeline.index %p : !pipeline.state<2>
    pipeline.request %slots[%i] signal %b : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">, !pipeline.barrier
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

cute.kernel @acquired_but_never_released() attributes {threads = 256 : i32} {
  // expected-error @+1 {{expected no producer_acquire of a ring without consumers, got one}}
  %q = pipeline.create {kind = "tmem", producers = 4 : i32, consumers = 0 : i32} : !pipeline.ring<2>
  pipeline.role "load" attributes {first = 0 : i32, warps = 4 : i32} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}

// -----

// A warp arrives once for what its threads store to shared and to tensor memory.
cute.kernel @arrives_twice() attributes {threads = 256 : i32} {
  // expected-error @+1 {{expected 4 producers (arrivals at a full stage: 4 for threads in 'store'), got 8}}
  %q = pipeline.create {kind = "threads+tmem", producers = 8 : i32, consumers = 4 : i32} : !pipeline.ring<2>
  pipeline.role "store" attributes {first = 0 : i32, warps = 4 : i32} {
    %p = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.producer_acquire %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.producer_commit %q at %p : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %p : !pipeline.state<2>
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    %c = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
    pipeline.consumer_wait %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.consumer_release %q at %c : !pipeline.ring<2>, !pipeline.state<2>
    pipeline.advance %c : !pipeline.state<2>
  }
}
