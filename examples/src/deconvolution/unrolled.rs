//! The same stages as one program: the conjugate gradients of each are a repetition, and the program runs backwards, through all their iterations.
//!
//! ```text
//! values     image, targets              -> r, the residuals
//! adjoint    r                           -> product = J^T r, by `propagate_adjoints`
//! begin      product                     -> residual = direction = -product, square = |residual|^2
//! repeated:
//! tangent    direction                   -> r = J direction, by `propagate_tangents`
//! adjoint    r                           -> product = J^T r
//! step       product, image, residual, direction, square -> the next ones
//! ```

use super::chain::{borrowed, estimates, targets_in};
use super::pipelines::{FILTERS, Filter, residuals};
use super::{Blurred, DeconvolutionError, Parameters, Result, buffer, filled, of_plane};
use sumsq::codegen::gradient::{propagate_adjoints, propagate_tangents, schedule};
use sumsq::codegen::program::{BufferId, PipelineId, ReverseProgram, Step, Table};
use sumsq::codegen::runtime::{Buffer, BufferSpec, Pool};
use sumsq::codegen::{
    Constraint, Expr, Func, Input, Layout, Limits, Name, Pipeline, RDom, ScalarType, Schedule, Source, Var,
};

/// The buffers that an iteration changes.
const STATE: [&str; 4] = ["image", "residual", "direction", "square"];

/// A deconvolution of one picture as a program, in float64.
pub struct Unrolled {
    table: Table,
    program: ReverseProgram,
    /// Weights, thresholds and smoothing of each stage, of the first its weights alone.
    numbers: Vec<Vec<BufferId>>,
    image: BufferId,
    start: BufferId,
    pool: Pool,
}

const TY: ScalarType = ScalarType::F64;

/// The names of the residuals.
fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once("apart").chain(FILTERS.iter().map(|f| f.prior))
}

/// The name of the buffer with the values, or the tangents, of a residual.
fn held(residual: &str) -> String {
    format!("r_{residual}")
}

/// The residuals.
fn values(side: usize) -> Pipeline {
    let (mut p, _) = residuals(side as i32, TY);
    names().for_each(|name| p.output_strided(&p.funcs[name].clone(), Constraint::defaults(2)));
    p
}

/// J times `direction`.
fn tangent(side: usize) -> Result<(Pipeline, Vec<Name>)> {
    let mut p = values(side);
    p.input(Input::strided("direction", &[TY], 2));
    let tangents = propagate_tangents(&mut p, &[("image", "direction")])?;
    p.outputs.clear();
    let mut outputs = vec![];
    for name in names() {
        let none = || DeconvolutionError::Given(format!("{name} does not depend on the image"));
        let t = tangents.of(name).ok_or_else(none)?;
        p.output_strided(t, Constraint::defaults(2));
        outputs.push(t.name.clone());
    }
    Ok((p, outputs))
}

/// J^T times what is held of the residuals.
fn adjoint(side: usize) -> Result<(Pipeline, Name)> {
    let mut p = values(side);
    let seeds: Vec<(&str, String)> = names().map(|name| (name, held(name))).collect();
    for (_, seed) in &seeds {
        p.input(Input::strided(seed.as_str(), &[TY], 2));
    }
    let seeds: Vec<(&str, &str)> = seeds.iter().map(|(f, s)| (*f, s.as_str())).collect();
    let adjoints = propagate_adjoints(&mut p, &seeds, &["image"])?;
    p.outputs.clear();
    let none = || DeconvolutionError::Given("residuals do not depend on the image".into());
    let d = adjoints.of("image").ok_or_else(none)?;
    p.output_strided(d, Constraint::defaults(2));
    Ok((p, d.name.clone()))
}

/// A pipeline with these inputs of two dimensions.
fn over(name: &str, inputs: &[&str]) -> Pipeline {
    let mut p = Pipeline::new(name);
    inputs.iter().for_each(|name| _ = p.input(Input::strided(*name, &[TY], 2)));
    p
}

/// The sum of a product over the image.
fn dot(p: &mut Pipeline, name: &str, a: &impl Source, b: &impl Source) -> Func {
    let extent = |d: usize| p.inputs["product"].extent(d);
    let r = RDom::new([("u", Expr::from(0), extent(0)), ("v", Expr::from(0), extent(1))]);
    let at = (r.var(0), r.var(1));
    let term = a.of(at.clone()) * b.of(at);
    p.func(Func::sum(name, &[], r, vec![term]))
}

fn begin() -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = over("begin", &["product"]);
    let product = p.inputs["product"].clone();
    let residual = p.define("residual", [x, y], -product.of((x, y)));
    let direction = p.define("direction", [x, y], residual.of((x, y)));
    let square = dot(&mut p, "square", &residual, &residual);
    [residual, direction].iter().for_each(|f| p.output_strided(f, Constraint::defaults(2)));
    p.output_strided(&square, vec![]);
    p
}

fn step() -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let names = ["product", "image", "residual", "direction"];
    let mut p = over("step", &names);
    let [product, image, residual, direction] = names.map(|name| p.inputs[name].clone());
    let square = p.input(Input::strided("square", &[TY], 0));
    let curvature = dot(&mut p, "curvature", &direction, &product);
    let length = p.define("length", [], square.of(()) / curvature.of(()));
    let (at, length) = ((x, y), length.of(()));
    let next = |name: &str| format!("next_{name}");
    let image = p.define(next("image"), [x, y], image.of(at) + &length * direction.of(at));
    let residual = p.define(next("residual"), [x, y], residual.of(at) - length * product.of(at));
    let next_square = dot(&mut p, &next("square"), &residual, &residual);
    let turned = residual.of(at) + next_square.of(()) / square.of(()) * direction.of(at);
    let direction = p.define(next("direction"), [x, y], turned);
    [image, residual, direction].iter().for_each(|f| p.output_strided(f, Constraint::defaults(2)));
    p.output_strided(&next_square, vec![]);
    p
}

/// The pipelines and, for some of their outputs, the buffers that these go to.
struct Pipelines {
    all: Vec<(Pipeline, Schedule)>,
    renamed: Vec<(Name, String)>,
}

/// Places in [`Pipelines::all`].
const VALUES: usize = 0;
const ADJOINT: usize = 1;
const BEGIN: usize = 2;
const TANGENT: usize = 3;
const STEP: usize = 4;
const TARGETS: usize = 5;

impl Pipelines {
    fn new(side: usize, size: [usize; 2]) -> Result<Pipelines> {
        let (tangent, outputs) = tangent(side)?;
        let (adjoint, product) = adjoint(side)?;
        let values = values(side);
        let mut renamed: Vec<(Name, String)> = outputs.into_iter().zip(names().map(held)).collect();
        renamed.extend(names().map(|name| (name.into(), held(name))));
        renamed.push((product, "product".into()));
        let mut sizes = estimates(size, side);
        let whole = size.map(|n| n as i32).to_vec();
        let more = ["product", "residual", "direction", "next_image", "next_residual", "next_direction"];
        sizes.extend(more.map(|name| (name.to_string(), whole.clone())));
        sizes
            .extend(renamed.iter().flat_map(|(f, b)| [f.to_string(), b.clone()]).map(|n| (n, whole.clone())));
        let sizes = borrowed(&sizes);
        let scheduled = |p: Pipeline| {
            let first = schedule(&p, &sizes, &[], &[])?;
            Ok((p, first))
        };
        let all = [values, adjoint, begin(), tangent, step(), targets_in(TY)].into_iter().map(scheduled);
        Ok(Pipelines { all: all.collect::<Result<_>>()?, renamed })
    }

    /// A run of one of them: each name gets its buffer of `own`, else of `named`.
    fn run(&self, k: usize, named: &[(String, BufferId)], own: &[(&str, BufferId)]) -> Step {
        let p = &self.all[k].0;
        let names = p.inputs.keys().chain(p.outputs.iter().map(|o| &o.func));
        let binding = |name: &Name| {
            let renamed = self.renamed.iter().find(|(n, _)| n == name).map_or(&**name, |(_, b)| b.as_str());
            let own = own.iter().find(|(n, _)| *n == renamed).map(|(_, id)| *id);
            let id = own.or_else(|| named.iter().find(|(n, _)| n == renamed).map(|(_, id)| *id));
            Some((name.clone(), id?))
        };
        Step::Run { pipeline: PipelineId(k), bindings: names.filter_map(binding).collect(), params: vec![] }
    }
}

/// A buffer for the values of a prior.
fn of_prior(f: &Filter, size: [usize; 2]) -> Result<Buffer> {
    let inside = f.inside();
    let extents = [0, 1].map(|d| size[d] as i32 - inside[d].1);
    let spec = BufferSpec::new(TY, &extents).starting_at(&inside.map(|(first, _)| first));
    Ok(Buffer::new(spec.layout(Layout::Strided))?)
}

/// The buffers of all stages, by name.
fn buffers(of: &Blurred, size: [usize; 2]) -> Result<(Table, Vec<(String, BufferId)>)> {
    let (mut table, mut named) = (Table::new(), vec![]);
    let mut add = |name: &str, b: Buffer, is_read: bool| {
        named.push((name.to_string(), table.add(name, b, is_read)));
    };
    add("blurred", of_plane(TY, &of.blurred)?, true);
    add("kernel", of_plane(TY, &of.kernel)?, true);
    add(&held("apart"), buffer(TY, &[of.blurred.width, of.blurred.height])?, false);
    for f in &FILTERS {
        // Zeros in the first stage.
        add(f.target, buffer(TY, &size)?, true);
        add(&held(f.prior), of_prior(f, size)?, false);
    }
    add("product", buffer(TY, &size)?, false);
    for name in STATE {
        let extents = if name == "square" { &[][..] } else { &size[..] };
        add(name, buffer(TY, extents)?, name == "image");
        add(&format!("next_{name}"), buffer(TY, extents)?, false);
    }
    Ok((table, named))
}

impl Unrolled {
    /// For one picture, with so many iterations in each of so many stages, whose states are kept every `every`-th time: the square root of
    /// their number where this is none.
    ///
    /// # Errors
    /// What the engine refuses.
    pub fn new(of: &Blurred, stages: usize, iterations: usize, every: Option<usize>) -> Result<Unrolled> {
        let (side, size) = (of.kernel.width, [of.truth.width, of.truth.height]);
        let pipelines = Pipelines::new(side, size)?;
        let (mut table, named) = buffers(of, size)?;
        let never = table.add("never", filled(ScalarType::I32, &[], &[0.0])?, true);
        let id = |name: &str| named.iter().find(|(n, _)| n == name).map(|(_, id)| *id);
        let (mut steps, mut numbers) = (vec![], vec![]);
        for k in 0..stages {
            let lengths = [("weight", 3), ("threshold", 3), ("smooth", 2)];
            let lengths = &lengths[..if k == 0 { 1 } else { 3 }];
            let of_stage = lengths
                .iter()
                .map(|(name, n)| Ok((*name, table.add(format!("{name}_{k}"), buffer(TY, &[*n])?, true))));
            let of_stage: Vec<(&str, BufferId)> = of_stage.collect::<Result<_>>()?;
            let run = |pipeline: usize| pipelines.run(pipeline, &named, &of_stage);
            steps.extend((k > 0).then(|| run(TARGETS)));
            steps.extend([VALUES, ADJOINT, BEGIN].map(run));
            let mut body = [TANGENT, ADJOINT, STEP].map(run).to_vec();
            let pairs = STATE.iter().filter_map(|name| Some((id(name)?, id(&format!("next_{name}"))?)));
            body.extend(pairs.map(|(old, new)| Step::Swap(old, new)));
            steps.push(Step::Repeat { max: iterations, until: never, body });
            numbers.push(of_stage.iter().map(|(_, id)| *id).collect::<Vec<_>>());
        }
        let none = || DeconvolutionError::Given("the program has no image".into());
        let image = id("image").ok_or_else(none)?;
        let wrt: Vec<BufferId> = numbers.iter().flatten().copied().collect();
        let program =
            ReverseProgram::new(&pipelines.all, &mut table, &steps, &wrt, every, Limits::default())?;
        let start = table.add("start", of_plane(TY, &of.start())?, true);
        Ok(Unrolled { table, program, numbers, image, start, pool: Pool::new(1) })
    }

    /// The image of the last stage.
    pub fn run(&mut self, by: &Parameters) -> Result<Vec<f64>> {
        let start: Vec<f64> = self.table.buffer(self.start).to_vec();
        self.table.buffer(self.image).copy_from(&start)?;
        let later = by.later.iter().map(|s| vec![&s.weights[..], &s.thresholds, &s.smooth]);
        let values = std::iter::once(vec![&by.first[..]]).chain(later);
        for (ids, values) in self.numbers.iter().zip(values) {
            for (id, values) in ids.iter().zip(values) {
                self.table.buffer(*id).copy_from(values)?;
            }
        }
        for f in self.numbers.iter().flatten() {
            if let Some(d) = self.program.adjoint(*f) {
                self.table.buffer(d).clear();
            }
        }
        self.program.forward(&mut self.table, &self.pool)?;
        Ok(self.table.buffer(self.image).to_vec())
    }

    /// Bytes that are kept for the way back.
    pub fn held(&self) -> usize {
        self.program.held()
    }

    /// From the adjoint of the image of the last run to those of all numbers, in the order of [`Parameters::list`].
    pub fn slopes(&mut self, image: &[f64]) -> Result<Vec<f64>> {
        let none = || DeconvolutionError::Given("the image does not depend on the numbers".into());
        let d = self.program.adjoint(self.image).ok_or_else(none)?;
        self.table.buffer(d).copy_from(image)?;
        self.program.backward(&mut self.table, &self.pool)?;
        let slope = |id: &BufferId| match self.program.adjoint(*id) {
            Some(d) => self.table.buffer(d).to_vec(),
            None => vec![0.0; self.table.buffer(*id).to_vec::<f64>().len()],
        };
        Ok(self.numbers.iter().flatten().flat_map(slope).collect())
    }
}
