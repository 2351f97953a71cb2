// RUN: cute-opt %s --split-input-file --verify-diagnostics

func.func @this_line(%a: i32) {
  func.return %a : i32 // expected-error {{expected [], got [i32]}}
}

// -----

func.func @above(%a: i32) {
  func.return %a : i32
  // expected-error @above {{'func.return': Expected arguments}}
}

// -----

func.func @line_offset(%a: i32) {
  // expected-error @+2 {{expected [], got [i32]}}

  func.return %a : i32
}

// -----

func.func @pattern(%a: i32) {
  // expected-error-re @below {{expected [], got [{{i[0-9]+}}]}}
  func.return %a : i32
}
