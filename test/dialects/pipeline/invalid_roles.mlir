// Roles, their registers and barriers, and the turns of instances.
// RUN: cute-opt %s --split-input-file --verify-diagnostics

cute.kernel @warps() {
  // expected-error @+1 {{expected warps in 0..31, got 30..33}}
  pipeline.role "main" attributes {first = 30 : i32, warps = 4 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @no_warps() {
  // expected-error @+1 {{expected warps in 0..31, got 4..3}}
  pipeline.role "main" attributes {first = 4 : i32, warps = 0 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @warps_beyond_the_block() attributes {threads = 256 : i32} {
  // expected-error @+1 {{expected warps among the 8 of 256 threads, got 4..11}}
  pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @elect_of_several_warps() {
  // expected-error @+1 {{expected one warp for a role with elect, got 4}}
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32, elect} {
    cute.barrier
  }
}

// -----

cute.kernel @instances() {
  // expected-error @+1 {{expected a number of instances that divides 8 warps, got 3}}
  pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32, instances = 3 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @overlap() {
  // expected-error @+1 {{expected warps of its own for role 'load', got some of 'main'}}
  pipeline.role "load" attributes {first = 0 : i32, warps = 5 : i32} {
    cute.barrier
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @registers_below() {
  // expected-error @+1 {{expected a multiple of 8 registers in 24..256, got 16}}
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32, registers = 16 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @registers_in_between() {
  // expected-error @+1 {{expected a multiple of 8 registers in 24..256, got 100}}
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32, registers = 100 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @registers_above() {
  // expected-error @+1 {{expected a multiple of 8 registers in 24..256, got 264}}
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32, registers = 264 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @registers_of_one_warpgroup() {
  // expected-error @+1 {{expected one number of registers for the roles 'load' and 'store' of one warpgroup, got two}}
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, registers = 40 : i32} {
    cute.barrier
  }
  pipeline.role "store" attributes {first = 1 : i32, warps = 1 : i32, registers = 48 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @registers_in_all() attributes {threads = 384 : i32} {
  // expected-error @+1 {{expected at most 504 registers of a thread over all warpgroups, with 168 of which each starts, got 536 (40 + 248 + 248)}}
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32, registers = 40 : i32} {
    cute.barrier
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32, registers = 248 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @registers_beside_those_of_the_start() attributes {threads = 384 : i32} {
  // expected-error @+1 {{expected at most 504 registers of a thread over all warpgroups, with 168 of which each starts, got 576 (168 + 168 + 240)}}
  pipeline.role "main" attributes {first = 8 : i32, warps = 4 : i32, registers = 240 : i32} {
    cute.barrier
  }
}

// -----

cute.kernel @barriers() {
  // expected-error @+1 {{expected at most 16 named barriers in a CTA, got 17 up to role 'main'}}
  pipeline.role "main" attributes {first = 0 : i32, warps = 15 : i32} {
    cute.barrier {warps = 1 : i32}
  }
}

// -----

cute.kernel @barriers_of_instances() {
  pipeline.role "load" attributes {first = 0 : i32, warps = 1 : i32} {
    cute.barrier
  }
  pipeline.role "main" attributes {first = 4 : i32, warps = 12 : i32, instances = 3 : i32} {
    cute.barrier {warps = 2 : i32}
    cute.barrier {warps = 4 : i32}
    pipeline.turn_wait
    pipeline.turn_pass
  }
  pipeline.role "store" attributes {first = 16 : i32, warps = 1 : i32} {
    cute.barrier
  }
  // expected-error @+1 {{expected at most 16 named barriers in a CTA, got 18 up to role 'help'}}
  pipeline.role "help" attributes {first = 17 : i32, warps = 6 : i32} {
    cute.barrier {warps = 3 : i32}
  }
}

// -----

cute.kernel @barrier_of_warps() {
  // expected-error @+1 {{expected barriers of warps that divide the 4 of role 'main', got 3}}
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    cute.barrier {warps = 3 : i32}
  }
}

// -----

cute.kernel @instance_outside() {
  // expected-error @+1 {{expected a pipeline.role around, got none}}
  %i = pipeline.instance
}

// -----

cute.kernel @turn_outside() {
  // expected-error @+1 {{expected a pipeline.role around, got none}}
  pipeline.turn_wait
}

// -----

cute.kernel @turn_of_one() {
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    // expected-error @+1 {{expected a role with several instances, got 1}}
    pipeline.turn_pass
  }
}

// -----

cute.kernel @turns_of_all_warps() {
  pipeline.role "main" attributes {first = 4 : i32, warps = 4 : i32} {
    // expected-error @+1 {{expected a part of the 4 warps to take turns, got 4}}
    pipeline.turn_wait {warps = 4 : i32}
  }
}

// -----

cute.kernel @turn_outside_of_no_group() {
  pipeline.role "main" attributes {first = 4 : i32, warps = 8 : i32, instances = 2 : i32} {
    // expected-error @+1 {{expected the warps of a group with 'outside', got none}}
    pipeline.turn_pass {outside}
  }
}

// -----

cute.kernel @turns_of_a_role_without_warps() {
  // expected-error @+1 {{property 'warps' expected in operation 'pipeline.role'}}
  pipeline.role "main" attributes {first = 4 : i32} {
    pipeline.turn_pass {warps = 4 : i32, outside}
  }
}

// -----

// expected-error @+1 {{expected 1 to 64 stages, got 65}}
func.func private @stages(!pipeline.ring<65>)

// -----

// expected-error @+1 {{expected 1 to 64 stages, got 0}}
func.func private @no_stage(!pipeline.state<0>)
