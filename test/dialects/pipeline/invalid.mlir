// Rings, states and verbs that contradict themselves or each other.
// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @kind() {
  // expected-error @+1 {{expected kind tma or cp_async or threads or tcgen05 or tmem, got 'attic'}}
  %q = pipeline.create {kind = "attic", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
}

// -----

cute.kernel @kinds_out_of_order() {
  // expected-error @+1 {{expected kinds once each in the order tma, cp_async, threads, tcgen05, tmem, got threads+tma}}
  %q = pipeline.create {kind = "threads+tma", producers = 2 : i32, consumers = 1 : i32, bytes = 64 : i32} : !pipeline.ring<2>
}

// -----

cute.kernel @tma_without_bytes() {
  // expected-error @+1 {{expected the bytes of a stage of a tma ring, got none}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32} : !pipeline.ring<2>
}

// -----

cute.kernel @no_producers() {
  // expected-error @+1 {{expected 1 to 1048575 producers, got 0}}
  %q = pipeline.create {kind = "threads", producers = 0 : i32, consumers = 4 : i32} : !pipeline.ring<2>
}

// -----

cute.kernel @too_many_consumers() {
  // expected-error @+1 {{expected 0 to 1048575 consumers, got 1048576}}
  %q = pipeline.create {kind = "threads", producers = 1 : i32, consumers = 1048576 : i32} : !pipeline.ring<2>
}

// -----

cute.kernel @too_many_bytes() {
  // expected-error @+1 {{expected 1 to 1048575 bytes for each stage, got 1048576}}
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 1048576 : i32} : !pipeline.ring<2>
}

// -----

cute.kernel @side() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  // expected-error @+1 {{expected producer or consumer, got 'attic'}}
  %s = pipeline.state "attic" %q : !pipeline.ring<2> -> !pipeline.state<2>
}

// -----

cute.kernel @state_of_other_stages() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  // expected-error @+1 {{expected a state of 2 stages, got 3}}
  %s = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<3>
}

// -----

cute.kernel @state_of_another_ring() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %r = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "consumer" %r : !pipeline.ring<2> -> !pipeline.state<2>
  // expected-error @+1 {{expected a state of this ring, got one of another ring}}
  pipeline.consumer_wait %q at %s : !pipeline.ring<2>, !pipeline.state<2>
  pipeline.consumer_release %q at %s : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @wait_by_the_producer() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  // expected-error @+1 {{expected a consumer's state, got a producer's}}
  pipeline.consumer_wait %q at %s : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @acquire_by_the_consumer() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  // expected-error @+1 {{expected a producer's state, got a consumer's}}
  pipeline.producer_acquire %q at %s : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @barrier_of_the_consumer() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  // expected-error @+1 {{expected a producer's state, got a consumer's}}
  %b = pipeline.barrier %q at %s : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @acquire_without_commit() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  // expected-error @+1 {{expected a producer_commit of the ring after the acquire, got none}}
  pipeline.producer_acquire %q at %s : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @acquire_twice() {
  %q = pipeline.create {kind = "cp_async", producers = 32 : i32, consumers = 4 : i32} : !pipeline.ring<2>
  %s = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  // expected-error @+1 {{expected a producer_commit of the ring after the acquire, got another acquire}}
  pipeline.producer_acquire %q at %s : !pipeline.ring<2>, !pipeline.state<2>
  pipeline.producer_acquire %q at %s : !pipeline.ring<2>, !pipeline.state<2>
  pipeline.producer_commit %q at %s : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @commit_without_acquire() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  // expected-error @+1 {{expected a producer_acquire before the commit, got none}}
  pipeline.producer_commit %q at %s : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @wait_without_release() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  // expected-error @+1 {{expected a consumer_release after the wait, got none}}
  pipeline.consumer_wait %q at %s : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @release_without_wait() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  // expected-error @+1 {{expected a consumer_wait before the release, got none}}
  pipeline.consumer_release %q at %s : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @back() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 4 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  pipeline.consumer_wait %q at %s : !pipeline.ring<2>, !pipeline.state<2>
  // expected-error @+1 {{expected a stage fewer than 2 back, got 2}}
  pipeline.consumer_release %q at %s {back = 2 : i32} : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @slots_of_floats(%x: i32, %i: i32) {
  %slots = cute.alloc_smem : !cute.memref<f32, smem, align<8>, "(2):(1)">
  // expected-error @+1 {{expected slots of i32 in smem, one for each stage, got !cute.memref<f32}}
  pipeline.send %x to %slots[%i] : !cute.memref<f32, smem, align<8>, "(2):(1)">
}

// -----

cute.kernel @commits_of_an_earlier_stage() {
  %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 1 : i32, bytes = 8192 : i32} : !pipeline.ring<2>
  %s = pipeline.state "consumer" %q : !pipeline.ring<2> -> !pipeline.state<2>
  pipeline.consumer_wait %q at %s : !pipeline.ring<2>, !pipeline.state<2>
  // expected-error @+1 {{expected no back with commits, got one}}
  pipeline.consumer_release %q at %s {back = 1 : i32, commits} : !pipeline.ring<2>, !pipeline.state<2>
}

// -----

cute.kernel @responses_of_two_words(%i: i32, %n: i32) {
  %slots = cute.alloc_smem : !cute.memref<i32, smem, align<16>, "(2,2):(1,2)">
  // expected-error @+1 {{expected slots of 4 x i32 in smem, aligned to 16 bytes, one for each stage, got !cute.memref<i32}}
  %x = pipeline.response %slots[%i] else %n : !cute.memref<i32, smem, align<16>, "(2,2):(1,2)">
}

// -----

cute.kernel @led_by_threads() {
  // expected-error @+1 {{expected kind tma, no pair and no peers of a ring that is led}}
  %q = pipeline.create {kind = "threads", producers = 1 : i32, consumers = 8 : i32, led} : !pipeline.ring<2>
}

// -----

cute.kernel @fewer_than_no_readers() {
  // expected-error @+1 {{expected 0 readers or more, got -1}}
  %x = pipeline.exchange {readers = -1 : i32} : !pipeline.exchange
}

// -----

cute.kernel @drained_without_readers() {
  %x = pipeline.exchange {readers = 0 : i32, bytes = 32 : i32} : !pipeline.exchange
  // expected-error @+1 {{expected an exchange with readers, got one without}}
  pipeline.exchange_drain %x : !pipeline.exchange
}

// -----

cute.kernel @published_to_nobody() {
  // expected-error @+1 {{expected publishes with cluster, got it without}}
  pipeline.start {publishes}
}

// -----

cute.kernel @another_step() {
  // expected-error @+1 {{expected one of cute.barrier, pipeline.exchange_drain, pipeline.exchange_expect, pipeline.exchange_wait, pipeline.exchange_tell, pipeline.scratch_store, pipeline.scratch_load, pipeline.exchange_send, pipeline.exchange_load in pipeline.steps, got pipeline.start}}
  pipeline.steps {
    pipeline.start
  }
}

// -----

cute.kernel @ranked_alone() {
  // expected-error @+1 {{expected ranked and what the others do (else) together}}
  pipeline.steps attributes {ranked} {
    cute.barrier
  }
}

// -----

cute.kernel @another_side() {
  %x = pipeline.exchange {readers = 1 : i32} : !pipeline.exchange
  // expected-error @+1 {{expected side full or empty, got 'left'}}
  pipeline.exchange_wait %x {side = "left"} : !pipeline.exchange
}

// -----

cute.kernel @no_bytes() {
  %x = pipeline.exchange {readers = 1 : i32} : !pipeline.exchange
  // expected-error @+1 {{expected 1 byte or more, got 0}}
  pipeline.exchange_expect %x {bytes = 0 : i32} : !pipeline.exchange
}
