// RUN: cute-opt %s -t ptx --split-input-file --verify-diagnostics

// An instruction that the kernel's target has not is an error at its op.

ptx.kernel @copies(%s: b32, %a: b64) attributes {target = "sm_75", threads = 32 : i32} {
  // expected-error @+1 {{expected an instruction that sm_75 has for ptx.cp.async, got 'cp.async.cg.shared.global [%r0], [%rd0], 16;': cp.async.cg.shared.global needs sm_80+, got sm_75}}
  ptx.cp.async "cg.shared.global", 16, [%s] [%a] {dst_base = array<i64: 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0>, src_offset = array<i64: 0>} : !ptx.reg<b64> -> !ptx.reg<b32>
}

// -----

ptx.kernel @inside(%n: b32) attributes {target = "sm_75", threads = 32 : i32} {
  %zero = ptx.imm 0 : b32
  ptx.for %i = %zero to %n step 1 {
    ptx.bar.sync 0
    // expected-error @+1 {{expected an instruction that sm_75 has for cute.copy, got 'cp.async.commit_group;'}}
    ptx.cp.async.commit_group {from = "cute.copy"}
    ptx.bar.sync 0
  }
}

// -----

ptx.kernel @conversion() attributes {target = "sm_75", threads = 32 : i32} {
  %x = ptx.imm 1.0 : f32
  // expected-error @+1 {{cvt.rn.f16x2.f32 needs sm_80+, got sm_75}}
  %h = ptx.cvt "rn.f16x2.f32" %x, %x : (f32, f32) -> b32
}
