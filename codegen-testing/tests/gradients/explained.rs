//! Reasons of adjoints to be 0 or to scatter, in exact words.

use crate::line;
use sumsq_codegen::ScalarType::{F64, I32};
use sumsq_codegen::gradient::propagate_adjoints;
use sumsq_codegen::{Constraint, Expr, Func, Input, Pipeline, Source, Var};

/// The words on the adjoints of `f` and `g`.
fn words(make: impl Fn(&mut Pipeline, &Input, &Input, Var) -> Func) -> [String; 2] {
    let (mut p, f, g, x) = line();
    let out = make(&mut p, &f, &g, x);
    p.output_strided(&out, Constraint::defaults(out.vars.len()));
    p.input(Input::strided("w", &[F64], out.vars.len()));
    let d = propagate_adjoints(&mut p, &[(&out.name, "w")], &["f", "g"]).unwrap();
    assert_eq!(d.explain("nobody"), None);
    ["f", "g"].map(|n| d.explain(n).unwrap().to_string())
}

#[test]
fn zeros() {
    let table = words(|p, f, g, x| {
        let lut = p.define("lut", [x], (f.of(x) * 8.0).cast(I32));
        let scaled = p.define("scaled", [x], lut.of(x + 1) * 2);
        p.define("out", [x], scaled.of(x).cast(F64) * g.of(x))
    });
    assert_eq!(table[0], "d_f is 0: cast<i32> in lut has no slope (f -> lut -> scaled -> out)");
    assert_eq!(table[1], "d_g gathers");
    let chosen = words(|p, f, g, x| p.define("out", [x], Expr::select(f.of(x).lt(0.5), g.of(x), 1.0)));
    assert_eq!(chosen[0], "d_f is 0: < in out has no slope (f -> out)");
    let rounded = words(|p, f, g, x| {
        let h = p.define("h", [x], g.of(x));
        let h = p.add_to(&h, x, f.of(x).floor(), &Default::default());
        p.define("out", [x], h.of(x))
    });
    assert_eq!(rounded[0], "d_f is 0: floor in h.update(0) has no slope (f -> h -> out)");
    let unread = words(|p, _, g, x| p.define("out", [x], g.of(x)));
    assert_eq!(unread[0], "d_f is 0: no output with a seed depends on f");
}

#[test]
fn scatters() {
    let data = words(|p, f, g, x| {
        let at = (g.of(x) * 8.0).cast(I32).clamp(0, 7);
        p.define("out", [x], f.of(at))
    });
    assert_eq!(
        data[0],
        "d_f scatters along dimension 0: f is read at min(max(i32(g(x) * 8.0), 0), 7), and cast<i32> in out is data"
    );
    assert_eq!(data[1], "d_g is 0: cast<i32> in out has no slope (g -> out)");
    let table = words(|p, f, g, x| {
        let bin = p.define("bin", [x], (g.of(x) * 8.0).cast(I32).clamp(0, 7));
        let h = p.define("h", [x], g.of(x));
        let h = p.add_to(&h, x, f.of(bin.of(x)), &Default::default());
        p.define("out", [x], h.of(x))
    });
    assert_eq!(
        table[0],
        "d_f scatters along dimension 0: f is read at bin(x), and bin in h.update(0) is data"
    );
    assert_eq!(table[1], "d_g gathers");
    let square = words(|p, f, _, x| p.define("out", [x], f.of(x * x)));
    assert_eq!(
        square[0],
        "d_f scatters along dimension 0: f is read at x * x, and that is no sum of multiples of loops, or of too many pieces, in out"
    );
}
