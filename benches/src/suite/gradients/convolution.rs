//! The convolution of section 4.3: an image with one kernel, both of which are derived for.

use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Constraint, Input, Pipeline, RDom, Source, Var};
use sumsq_examples::pipelines::{Application, Planes, Setup, Slot};

/// 3 x 5 taps, wherever they fit.
pub const APPLICATION: Application = Application {
    name: "convolution",
    about: "an image with a kernel of 3 x 5 taps",
    slots: &[
        Slot::new("image", "of shape (H + 4, W + 2)", Planes::Array),
        Slot::new("kernel", "of shape (5, 3)", Planes::Array),
    ],
    parameters: &[],
    build,
    extents: |_, inputs| match inputs {
        [image, kernel] if kernel[..] == [3, 5] && image[0] > 2 && image[1] > 4 => {
            Ok(vec![image[0] - 2, image[1] - 4])
        }
        _ => Err("a kernel of 3 x 5 taps and an image that is larger".into()),
    },
    schedules: &[("hand", HAND)],
};

const HAND: &str = "output: split(x, xo, xi, 16, auto) vectorize(xi) parallel(y)
sum: compute_at(output, xo) vectorize(x, 16, auto)
sum.update(0): vectorize(x, 16, predicate) unroll(i) unroll(j)";

fn build(_: &Setup) -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("convolution");
    let image = p.input(Input::strided("image", &[F32], 2));
    let kernel = p.input(Input::strided("kernel", &[F32], 2));
    let r = RDom::new([("i", 0, 3), ("j", 0, 5)]);
    let (i, j) = (r.var(0), r.var(1));
    let sum = p.sum("sum", &r, image.of((x + &i, y + &j)) * kernel.of((&i, &j)));
    let output = p.define("output", [x, y], sum);
    p.output_strided(&output, Constraint::defaults(2));
    p
}
