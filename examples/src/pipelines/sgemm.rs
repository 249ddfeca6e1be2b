//! Products of matrices as in BLAS: output = a A B + b C, columns contiguous.

use super::application::{Application, Planes, Slot};
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Constraint, Expr, Input, Pipeline, RDom, Source, Var, boundary};

pub(super) const APPLICATION: Application = Application {
    name: "sgemm",
    about: "a A B + b C of matrices, the first dimension the row",
    slots: &[
        Slot::new("A", "M x K, in an archive of shape (K, M)", Planes::Array),
        Slot::new("B", "K x N, in an archive of shape (N, K)", Planes::Array),
        Slot::new("C", "M x N, in an archive of shape (N, M)", Planes::Array),
    ],
    parameters: &[
        Parameter::real("a", "factor of the product", 1.5, -1e6, 1e6),
        Parameter::real("b", "factor of C", 0.5, -1e6, 1e6),
    ],
    build,
    extents: |_, inputs| match inputs {
        [a, b, c] if a[1] == b[0] && c[0] == a[0] && c[1] == b[1] => Ok(vec![a[0], b[1]]),
        _ => Err(format!("sizes of A, B and C do not fit each other: {inputs:?}")),
    },
    schedules: schedules!("sgemm", narrow),
};

fn build(_: &Setup) -> Pipeline {
    let [i, j] = Var::all(["i", "j"]);
    let mut p = Pipeline::new("sgemm");
    let (factor, share) = (p.param("a", F32), p.param("b", F32));
    let a = p.input(Input::strided("A", &[F32], 2));
    let b = p.input(Input::strided("B", &[F32], 2));
    let c = p.input(Input::strided("C", &[F32], 2));
    let r = RDom::new([("k", Expr::from(0), a.extent(1))]);
    // Tiles of one size may then stick out of the matrices.
    let (rows, columns) = (vec![a.domain()[0].clone(), None], vec![None, b.domain()[1].clone()]);
    let a = p.func(boundary::repeat_edge("left", &a, &rows));
    let b = p.func(boundary::repeat_edge("right", &b, &columns));
    let k = r.var(0);
    let product = p.define("product", [i, j], 0.0f32);
    let product = p.add_to(&product, (i, j), a.of((i, &k)) * b.of((&k, j)), &r);
    let output = p.define("output", [i, j], factor * product.of((i, j)) + share * c.of((i, j)));
    p.output_strided(&output, Constraint::defaults(2));
    p
}
