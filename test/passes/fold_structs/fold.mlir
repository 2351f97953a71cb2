// RUN: cute-opt %s --split-input-file -p cute-fold-structs | cute-opt --split-input-file | filecheck %s

// What was put into a struct is taken from where it came, through structs in structs
// CHECK-LABEL: func.func @nested(%rows: i32, %columns: i32, %step: i64) -> (i32, i64)
// CHECK-NEXT: func.return %columns, %step : i32, i64
func.func @nested(%rows: i32, %columns: i32, %step: i64) -> (i32, i64) {
  %none = ub.poison : !llvm.struct<(i32, i32)>
  %one = llvm.insertvalue %rows, %none[0] : !llvm.struct<(i32, i32)>
  %both = llvm.insertvalue %columns, %one[1] : !llvm.struct<(i32, i32)>
  %open = ub.poison : !llvm.struct<(struct<(i32, i32)>, i64)>
  %shape = llvm.insertvalue %both, %open[0] : !llvm.struct<(struct<(i32, i32)>, i64)>
  %layout = llvm.insertvalue %step, %shape[1] : !llvm.struct<(struct<(i32, i32)>, i64)>
  %c = llvm.extractvalue %layout[0, 1] : !llvm.struct<(struct<(i32, i32)>, i64)>
  %s = llvm.extractvalue %layout[1] : !llvm.struct<(struct<(i32, i32)>, i64)>
  func.return %c, %s : i32, i64
}

// -----

// What comes from elsewhere stays, and so does a struct of which a part was replaced
// CHECK-LABEL: func.func @unknown
// CHECK-NEXT: %a = llvm.extractvalue %l[0]
// CHECK-NEXT: %part = llvm.insertvalue %n, %l[0, 1]
// CHECK-NEXT: %b = llvm.extractvalue %part[0]
// CHECK-NEXT: func.return %a, %b, %n
func.func @unknown(%l: !llvm.struct<(struct<(i32, i32)>, i64)>, %n: i32) -> (!llvm.struct<(i32, i32)>, !llvm.struct<(i32, i32)>, i32) {
  %a = llvm.extractvalue %l[0] : !llvm.struct<(struct<(i32, i32)>, i64)>
  %part = llvm.insertvalue %n, %l[0, 1] : !llvm.struct<(struct<(i32, i32)>, i64)>
  %b = llvm.extractvalue %part[0] : !llvm.struct<(struct<(i32, i32)>, i64)>
  %c = llvm.extractvalue %part[0, 1] : !llvm.struct<(struct<(i32, i32)>, i64)>
  func.return %a, %b, %c : !llvm.struct<(i32, i32)>, !llvm.struct<(i32, i32)>, i32
}
