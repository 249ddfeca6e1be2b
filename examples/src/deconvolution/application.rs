//! A stage as an application: targets of the picture as it is, and some conjugate gradients towards the minimum with these, one Func after the other.

use super::pipelines::{FILTERS, add_targets};
use crate::pipelines::{Application, FLOATS, Parameter, Planes, Setup, Slot, tensor};
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::gradient::propagate_adjoints;
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, Source, Var, in_floats};

pub(crate) const APPLICATION: Application = Application {
    name: "deconvolution",
    about: "a stage of a deconvolution: targets by a bilateral grid, then conjugate gradients",
    slots: &[
        array("image", "as the last stage left it, of shape (H + K - 1, W + K - 1)"),
        array("blurred", "of shape (H, W)"),
        array("kernel", "of the blur, of shape (K, K)"),
        array("weight", "of first, second and mixed derivatives, of shape (3,)"),
        array("threshold", "below which derivatives count as 0, of shape (3,)"),
        array("smooth", "range of brightness of the grid's cells, and its blur in cells, of shape (2,)"),
    ],
    parameters: &[Parameter::whole("steps", "of conjugate gradients", 2, 1, 16), FLOATS],
    build,
    extents: |_, inputs| match inputs {
        [image, blurred, kernel, weight, threshold, smooth]
            if (0..2).all(|d| image[d] == blurred[d] + kernel[d] - 1)
                && [weight[0], threshold[0], smooth[0]] == [3, 3, 2] =>
        {
            Ok(image.clone())
        }
        _ => Err(format!("sizes of the arrays do not fit each other: {inputs:?}, x first")),
    },
    schedules: &[],
};

/// The arrays with their dimensions.
const ARRAYS: [(&str, usize); 6] =
    [("image", 2), ("blurred", 2), ("kernel", 2), ("weight", 1), ("threshold", 1), ("smooth", 1)];

const fn array(name: &'static str, about: &'static str) -> Slot {
    Slot::new(name, about, Planes::Array)
}

/// The least squares of a stage.
struct Stage {
    p: Pipeline,
    image: Input,
    blurred: Input,
    kernel: Input,
    weight: Input,
    targets: Vec<Func>,
}

impl Stage {
    fn new() -> Stage {
        let mut p = Pipeline::new("deconvolution");
        let [image, blurred, kernel, weight, threshold, smooth] =
            ARRAYS.map(|(name, dims)| tensor(&mut p, name, F32, dims));
        let targets = add_targets(&mut p, &image, &smooth, &threshold);
        Stage { p, image, blurred, kernel, weight, targets }
    }

    /// J^T (J u - what is given): of the normal equations the left side, with what is given the gradient. Named by `k`.
    fn normal(&mut self, u: &Func, k: &str, with_given: bool) -> Func {
        let [x, y] = Var::all(["x", "y"]);
        let Stage { p, image, blurred, kernel, weight, targets } = self;
        let r = RDom::new([("i", 0, kernel.extent(0)), ("j", 0, kernel.extent(1))]);
        let (i, j) = (r.var(0), r.var(1));
        let seen = p.sum(format!("seen{k}"), &r, kernel.of((&i, &j)) * u.of((x + &i, y + &j)));
        let given = |e: Expr, of: Expr| if with_given { e - of } else { e };
        let apart = p.define(format!("apart{k}"), [x, y], given(seen, blurred.of((x, y))));
        let over = |first: i32, extent: Expr| Constraint::new().min(first).extent(extent);
        p.output_strided(&apart, vec![over(0, blurred.extent(0)), over(0, blurred.extent(1))]);
        let mut residuals = vec![apart];
        for (f, target) in FILTERS.iter().zip(targets) {
            let prior = given(f.of(u, [x, y]), target.of((x, y))) * weight.of(f.kind);
            let prior = p.define(format!("{}{k}", f.prior), [x, y], prior);
            let [across, down] = f.inside();
            let part = |d: usize, (first, fewer): (i32, i32)| over(first, image.extent(d) - fewer);
            p.output_strided(&prior, vec![part(0, across), part(1, down)]);
            residuals.push(prior);
        }
        let seeds: Vec<(&str, &str)> = residuals.iter().map(|f| (&*f.name, &*f.name)).collect();
        let adjoints = propagate_adjoints(p, &seeds, &[&u.name]);
        p.outputs.clear();
        let slope = adjoints.ok().and_then(|d| d.of(&u.name).cloned());
        slope.unwrap_or_else(|| unreachable!("residuals depend on the image, at coordinates with bounds"))
    }

    /// The sum of a product over the image.
    fn dot(&mut self, name: String, a: &Func, b: &Func) -> Expr {
        let r = RDom::new([("u", 0, self.image.extent(0)), ("v", 0, self.image.extent(1))]);
        let at = (r.var(0), r.var(1));
        let term = a.of(at.clone()) * b.of(at);
        self.p.func(Func::sum(name, &[], r, vec![term])).of(())
    }
}

fn build(setup: &Setup) -> Pipeline {
    let at = Var::all(["x", "y"]);
    let [x, y] = at;
    let mut s = Stage::new();
    let start = s.image.of((x, y));
    let mut image = s.p.define("image0", at, start);
    let slope = s.normal(&image, "", true);
    let mut residual = s.p.define("residual0", at, -slope.of((x, y)));
    let mut direction = s.p.define("direction0", at, residual.of((x, y)));
    let mut square = s.dot("square0".into(), &residual, &residual);
    for k in 1..=setup.whole("steps") {
        let product = s.normal(&direction, &k.to_string(), false);
        let curvature = s.dot(format!("curvature{k}"), &direction, &product);
        let length = s.p.define(format!("length{k}"), [] as [Var; 0], &square / curvature).of(());
        let next = image.of((x, y)) + &length * direction.of((x, y));
        image = s.p.define(format!("image{k}"), at, next);
        let next = residual.of((x, y)) - length * product.of((x, y));
        residual = s.p.define(format!("residual{k}"), at, next);
        let next_square = s.dot(format!("square{k}"), &residual, &residual);
        let turned = residual.of((x, y)) + &next_square / square * direction.of((x, y));
        direction = s.p.define(format!("direction{k}"), at, turned);
        square = next_square;
    }
    let output = s.p.define("output", at, image.of((x, y)));
    s.p.output_strided(&output, Constraint::defaults(2));
    in_floats(&s.p, setup.floats(), &ARRAYS.map(|(name, _)| name))
}
