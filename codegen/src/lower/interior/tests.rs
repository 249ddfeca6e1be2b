use super::interior;
use crate::analysis::algebra::Facts;
use crate::expr::Expr;
use crate::ir::stmt::Stmt;
use crate::lower::partition::tests::{for_, load, store, v};
use crate::schedule::ForKind;

fn under(cond: Expr, then: Stmt) -> Stmt {
    Stmt::If { cond, then: Box::new(then), otherwise: None }
}
fn bound(name: &str, value: Expr, body: Stmt) -> Stmt {
    Stmt::Let { name: name.into(), value, body: Box::new(body) }
}
/// A kernel of blocks of 32 threads over n elements.
fn kernel(thread: Stmt) -> String {
    let threads = for_("t", 32.into(), ForKind::GpuThread, thread);
    let block = bound("first", v("b") * 32, threads);
    interior(&for_("b", (v("n") + 31) / 32, ForKind::GpuBlock, block), &Facts::new()).to_string()
}

#[test]
fn a_block_without_borders_tests_once() {
    let x = || v("first") + v("t");
    let next = Expr::select(x().gt(0).likely(), load(x() - 1), Expr::from(0.0f32));
    let expected = "\
gpu_blocks for b in [0, (n + 31) / 32) {
  let first = b * 32
  if b * 32 - n + 32 <= 0 && 1 - b * 32 <= 0 {
    let first = b * 32
    gpu_threads for t in [0, 32) {
      g.0[i64(first) + i64(t)] = f.0[i64(first) + i64(t) - 1:i64]
    }
  } else {
    gpu_threads for t in [0, 32) {
      if first + t < n {
        g.0[i64(first + t)] = select(first + t > 0, f.0[i64(first + t - 1)], 0f)
      }
    }
  }
}
";
    assert_eq!(kernel(under(x().lt(v("n")).likely(), store(x(), next))), expected);
}

#[test]
fn conditions_on_data_and_on_threads_stay() {
    let x = || v("first") + v("t");
    let own = v("t").le(29).likely();
    let flag = load(x()).gt(Expr::from(0.0f32)).likely();
    let by_sizes = v("t").lt(v("m")).likely();
    let inside = under(own.clone(), under(flag.clone(), under(by_sizes.clone(), store(x(), 1.0f32.into()))));
    let text = kernel(inside.clone());
    assert!(!text.contains("else") && !text.contains("likely"), "{text}");
    let text = kernel(under(x().lt(v("n")).likely(), inside));
    let (tile, border) = text.split_once("else").unwrap();
    for cond in ["t <= 29", "> 0f", "t < m"] {
        assert!(tile.contains(cond) && border.contains(cond), "{cond} in {text}");
    }
    assert!(!tile.contains("first + t < n") && border.contains("first + t < n"), "{text}");
}

#[test]
fn a_loop_cut_at_a_border_has_its_full_length() {
    let last = (v("row") + 15).min(v("n") - 1);
    let row = || v("row") + v("k") * 8 + v("t");
    let rows = for_("k", (v("last") - v("row") - v("t")) / 8 + 1, ForKind::Serial, {
        under(row().lt(v("n")).likely(), store(row(), Expr::from(1.0f32)))
    });
    let tile = for_("t", 8.into(), ForKind::GpuThread, rows);
    let tiles = bound("row", v("tile") * 16, bound("last", last, tile));
    let tiles = for_("tile", (v("n") + 15) / 16, ForKind::Serial, tiles);
    let text = interior(&for_("b", 1.into(), ForKind::GpuBlock, tiles), &Facts::new()).to_string();
    let expected = "
    if tile * 16 - n + 16 <= 0 {
      let row = tile * 16
      gpu_threads for t in [0, 8) {
        g.0[i64(row) + i64(t)] = 1f
        g.0[i64(row) + i64(t) + 8:i64] = 1f
      }
    } else {
      gpu_threads for t in [0, 8) {
        for k in [0, (last - row - t) / 8 + 1) {
          if row + k * 8 + t < n {
";
    assert!(text.contains(expected), "{text}");
}
