//! Preconditioners beyond those that ship: what the trait promises, held by kinds of the tests' own.

use std::sync::Arc;
use sumsq::assembled::{Explicit, LinearSolver};
use sumsq::codegen::{Expr, Func, ScalarType};
use sumsq::energy::Energy;
use sumsq::energy::model::Domain;
use sumsq::matrix_free::draft::{Draft, coordinates, vars};
use sumsq::matrix_free::preconditioner::diagonal::Block;
use sumsq::matrix_free::preconditioner::kinds;
use sumsq::matrix_free::preconditioner::{At, M, Preconditioner as Kind};
use sumsq::matrix_free::schedule::Strip;
use sumsq::matrix_free::skeleton::{Field, Scheduled, Skeleton, Space, When};
use sumsq::matrix_free::stop::{Progress, Rule, number, rules};
use sumsq::matrix_free::vectors::{Extents, Initial, Role, What};
use sumsq::{
    CompileOptions, LinearStop, Method, Precision, Preconditioner, ProblemData, Report, SolveOptions, Solver,
    assembled,
};
use sumsq_tests::{assert_close, assert_vectors_close, hierarchies, small};

/// eta of the rule sqrt(r.z) <= eta sqrt(r0.z0).
const ETA: f64 = 0.05;

/// Jacobi, had in unusual ways: z is the share `pointwise` of M^-1 r where it is read, and the rest from a field of `level`
/// that a stage of every iteration makes.
struct Shared {
    name: &'static str,
    pointwise: f64,
    level: u8,
    /// Tells if PCG ends by [`ETA`].
    normed: bool,
}

/// z is stored.
const STORED: Shared = Shared { name: "stored", pointwise: 0.0, level: 0, normed: false };
/// z is a pointwise part and a vector of level 1.
const SPLIT: Shared = Shared { name: "split", pointwise: 0.375, level: 1, normed: false };
/// z is pointwise.
const NORMED: Shared = Shared { name: "normed", pointwise: 1.0, level: 0, normed: true };
const STORED_NORMED: Shared = Shared { name: "stored, normed", normed: true, ..STORED };

/// Jacobi's field 0.
fn inverse(of: &Block) -> Vec<Expr> {
    (0..of.active.len()).map(|i| of.where_active(i, of.number(1.0) / of.damped(i))).collect()
}

/// `factor` times field 0 times r.
fn scaled(factor: f64, at: &At, r: &[Expr]) -> Vec<Expr> {
    let product = |(m, r): (&Expr, &Expr)| Expr::float(r.ty().scalar, factor) * (m * r);
    at.inverse.iter().zip(r).map(product).collect()
}

fn field(space: &Space, linear: ScalarType, level: u8) -> Field {
    let points = Extents::Space(space.id);
    Field { level, points, width: space.components, ty: linear, initial: Initial::ZerosPerMask }
}

/// The values of a field at an element.
type Values<'v> = &'v dyn Fn(&Draft, &Space, &[Expr]) -> Vec<Expr>;

/// A pipeline that writes a field of every space; `values` gives it at an element.
fn writes(k: &Skeleton, kind: u8, number: u8, values: Values) -> Vec<Scheduled> {
    let mut d = Draft::new(k, format!("writes{number}"), Role::Linear);
    for space in &k.spaces {
        let vars = vars(space.dims);
        let at = coordinates(&vars);
        d.input(What::DR.of(space.id));
        if !space.inline_diagonal {
            d.input(k.field(kind, 0, space.id));
        }
        let id = k.field(kind, number, space.id);
        let values = values(&d, space, &at);
        let f = d.func(id, &vars, values);
        d.map(&f, Strip::Of(Domain::Space(space.id)));
        d.skip_unless(&f, k.live_at(space.id, &at));
        d.output(&f, id);
    }
    d.finish()
}

impl Kind for Shared {
    fn name(&self) -> &'static str {
        self.name
    }

    fn inverse(&self, of: &Block, _: &mut Vec<Func>) -> Vec<Expr> {
        inverse(of)
    }

    fn fields(&self, space: &Space, linear: ScalarType) -> Vec<Field> {
        vec![field(space, linear, self.level)]
    }

    fn stages(&self, when: When) -> u8 {
        u8::from(self.pointwise < 1.0 && when == When::Iteration)
    }

    fn pipelines(&self, k: &Skeleton, kind: u8, _: When, _: u8) -> Vec<Scheduled> {
        let m = M { kind, of: self };
        writes(k, kind, 1, &|d, space, at| {
            let r = d.all(What::DR.of(space.id), at).split_off(space.components);
            scaled(1.0 - self.pointwise, &m.at(d, space, at), &r)
        })
    }

    fn apply(&self, at: &At, r: &[Expr]) -> Vec<Expr> {
        match self.pointwise {
            0.0 => at.field(1),
            1.0 => scaled(1.0, at, r),
            w => scaled(w, at, r).into_iter().zip(at.field(1)).map(|(z, e)| z + e).collect(),
        }
    }

    fn rules(&self, of: &Progress) -> Vec<Rule> {
        let small = of.rz.le(number(ETA * ETA) * of.first_rz.clone());
        let own = self.normed.then(|| Rule::new(small, LinearStop::PreconditionedNorm));
        own.into_iter().chain(rules(of)).collect()
    }
}

/// Jacobi as the product of what a stage per linearisation stores, 2, and of what one per damping does, half of field 0.
struct Prepared;

impl Kind for Prepared {
    fn name(&self) -> &'static str {
        "prepared"
    }

    fn inverse(&self, of: &Block, _: &mut Vec<Func>) -> Vec<Expr> {
        inverse(of)
    }

    fn fields(&self, space: &Space, linear: ScalarType) -> Vec<Field> {
        vec![field(space, linear, 0), field(space, linear, 0)]
    }

    fn stages(&self, when: When) -> u8 {
        u8::from(when != When::Iteration)
    }

    fn pipelines(&self, k: &Skeleton, kind: u8, when: When, _: u8) -> Vec<Scheduled> {
        let m = M { kind, of: self };
        match when {
            When::Linearised => {
                writes(k, kind, 1, &|_, space, _| vec![Expr::float(k.linear, 2.0); space.components])
            }
            _ => writes(k, kind, 2, &|d, space, at| {
                let half = |m: &Expr| m * &Expr::float(k.linear, 0.5);
                m.at(d, space, at).inverse.iter().map(half).collect()
            }),
        }
    }

    fn apply(&self, at: &At, r: &[Expr]) -> Vec<Expr> {
        let m = at.field(1).into_iter().zip(at.field(2)).map(|(a, b)| a * b);
        m.zip(r).map(|(m, r)| m * r).collect()
    }
}

fn of(choice: Preconditioner, energy: &Energy) -> Arc<dyn Kind> {
    kinds::chosen(choice, energy).unwrap()
}

fn compiled(precision: Precision) -> CompileOptions {
    CompileOptions { precision, threads: Some(2), ..CompileOptions::default() }
}

/// The problems: a grid of two dims with an excluded part, a volume, graphs over two spaces and a global, elements of more scalars than a
/// block has, and unknowns of nine beside unknowns of three.
fn problems() -> [(&'static str, small::Small); 6] {
    [
        ("grid", small::grid()),
        ("volume", small::volume_under_losses()),
        ("graph", small::graph()),
        ("plain", plain()),
        ("wide", small::wide_elements()),
        ("bundle", small::bundle_adjustment()),
    ]
}

/// A grid whose D and M^-1 the sweeps compute.
fn plain() -> small::Small {
    let (w, h) = (29, 18);
    let mut random = sumsq_tests::Random::new(8);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        Energy(0.1 * (X(0,0) - A(0,0)), X(0,0) - X(1,0), X(0,0) - X(0,1))
    "#;
    let arrays = ["X", "A"].map(|name| sumsq_tests::doubles(name, &[h, w], random.numbers(w * h)));
    sumsq_tests::bind(text, &arrays)
}

/// A solver in float64 with one preconditioner.
fn solver(energy: &Energy, of: Arc<dyn Kind>) -> Solver {
    Solver::compile_with(energy.clone(), &compiled(Precision::F64), vec![of]).unwrap()
}

fn solve(solver: &Solver, data: &ProblemData<'static>, options: &SolveOptions) -> (Report, Vec<f64>) {
    let mut data = data.clone();
    let report = solver.plan(&data).unwrap().solve(&mut data, options).unwrap();
    (report, data.x())
}

/// The same steps, up to the rounding of sums.
fn assert_same_trace(what: &str, came: &Report, expected: &Report, tolerance: f64) {
    assert_eq!(came.iterations.len(), expected.iterations.len(), "{what}: steps");
    for (a, b) in came.iterations.iter().zip(&expected.iterations) {
        let what = format!("{what}, step {}", b.iteration);
        assert_eq!(a.linear_iterations, b.linear_iterations, "{what}: PCG iterations");
        assert_eq!((a.linear_stop, a.accepted), (b.linear_stop, b.accepted), "{what}");
        assert_close(&format!("{what}: E"), a.energy, b.energy, tolerance);
        let off = (a.linear_residual - b.linear_residual).abs();
        assert!(off <= tolerance, "{what}: |r|/|b| is off by {off:e}");
    }
}

#[test]
fn jacobi_from_stages_takes_jacobis_steps() {
    let options = SolveOptions { iterations: Some(4), ..SolveOptions::default() };
    let tight = SolveOptions { linear_tolerance: Some(1e-8), ..options.clone() };
    for (name, (energy, data)) in [("grid", small::grid()), ("graph", small::graph()), ("plain", plain())] {
        let jacobi = solver(&energy, of(Preconditioner::Jacobi, &energy));
        let kinds: [Arc<dyn Kind>; 3] = [Arc::new(STORED), Arc::new(SPLIT), Arc::new(Prepared)];
        for kind in kinds {
            let what = format!("{name}, {}", kind.name());
            let solver = solver(&energy, kind);
            for options in [&options, &tight] {
                let [(came, _), (expected, _)] = [&solver, &jacobi].map(|s| solve(s, &data, options));
                assert_same_trace(&what, &came, &expected, 1e-9);
            }
        }
    }
}

/// The table of choices follows the enum, and the header of the C interface the table.
#[test]
fn choices_have_names_and_numbers() {
    let header = include_str!("../../capi/include/sumsq.h");
    for (i, &(choice, name)) in Preconditioner::ALL.iter().enumerate() {
        assert_eq!((choice as usize, choice.name()), (i, name));
        assert_eq!(Preconditioner::named(name), Some(choice));
        let number = format!("SUMSQ_PRECONDITIONER_{} = {i}", name.to_uppercase());
        assert!(header.contains(&number), "the header has no {number}");
    }
    assert_eq!(Preconditioner::named("jacobian"), None);
}

/// The steps of a choice are those of the assembled path, after so few iterations that x depends on M. Both refuse the same.
fn assert_assembled_steps(name: &str, (energy, data): &small::Small, choice: Preconditioner) {
    let options = SolveOptions { iterations: Some(2), linear_iterations: Some(4), ..SolveOptions::default() };
    let compiled = CompileOptions { preconditioner: choice, ..compiled(Precision::F64) };
    if let Err(e) = kinds::chosen(choice, energy) {
        let mut data = data.clone();
        let refused = assembled::solve(energy, &mut data, &compiled, &options, LinearSolver::Cg).unwrap_err();
        assert!(["graph", "wide", "bundle"].contains(&name), "{name}");
        assert_eq!(e.to_string(), refused.to_string());
        return;
    }
    let (came, x) = solve(&Solver::compile(energy.clone(), &compiled).unwrap(), data, &options);
    let mut data = data.clone();
    let expected = assembled::solve(energy, &mut data, &compiled, &options, LinearSolver::Cg).unwrap();
    let what = format!("{name}, {}", choice.name());
    assert_eq!(came.preconditioner, expected.preconditioner, "{what}");
    assert_same_trace(&what, &came, &expected, 1e-9);
    assert_vectors_close(&what, &x, &data.x(), 1e-9);
}

#[test]
fn every_choice_takes_the_steps_of_the_assembled_path() {
    for (name, problem) in &problems() {
        Preconditioner::ALL.iter().for_each(|(choice, _)| assert_assembled_steps(name, problem, *choice));
    }
}

/// A camera's nine parameters are one block, and cost the points theirs no longer: fewer than half of the iterations that Jacobi takes.
#[test]
fn blocks_solve_bundle_adjustment_sooner() {
    let (energy, data) = small::bundle_adjustment();
    let options =
        SolveOptions { linear_tolerance: Some(1e-6), iterations: Some(5), ..SolveOptions::default() };
    let iterations = [Preconditioner::Auto, Preconditioner::Jacobi].map(|choice| {
        let (report, _) = solve(&solver(&energy, of(choice, &energy)), &data, &options);
        let iterations: usize = report.iterations.iter().map(|step| step.linear_iterations).sum();
        println!("{}: {iterations} iterations, E {}", choice.name(), report.energy_final);
        iterations
    });
    assert!(2 * iterations[0] < iterations[1], "{iterations:?}");
}

/// Numbers from stages are as much the same for any number of threads as all others.
#[test]
fn stages_do_not_depend_on_threads() {
    let (energy, data) = small::graph();
    let bits = |threads| {
        let options = CompileOptions { threads: Some(threads), ..CompileOptions::default() };
        let solver = Solver::compile_with(energy.clone(), &options, vec![Arc::new(SPLIT)]).unwrap();
        let mut data = data.clone();
        solver.plan(&data).unwrap().solve(&mut data, &SolveOptions::default()).unwrap();
        sumsq_tests::bits(&data)
    };
    assert_eq!(bits(1), bits(3));
}

/// A certificate asks M^-1 of the kind that the plan has.
#[test]
fn stored_kinds_are_certified() {
    for (name, (energy, data)) in [("graph", small::graph()), ("plain", plain())] {
        for kind in [Arc::new(STORED) as Arc<dyn Kind>, Arc::new(SPLIT)] {
            let solver = solver(&energy, kind);
            let x = data.x();
            let v = sumsq_tests::Random::new(5).numbers(x.len());
            let certificate = solver.plan(&data).unwrap().certify(&data, &x, &v).unwrap();
            assert!(certificate.failures().is_empty(), "{name}: {:?}", certificate.failures());
        }
    }
}

/// Every kind that an energy can have is symmetric and positive, under random masks and with any radius.
#[test]
fn every_kind_is_certified() {
    for (name, problem) in problems() {
        for &(choice, _) in Preconditioner::ALL {
            if kinds::chosen(choice, &problem.0).is_ok() {
                hierarchies::assert_certified(choice, vec![(name.to_string(), problem.clone())]);
            }
        }
    }
}

/// Steps of Gauss-Newton depend on x alone, so that those of the assembled path can be taken one at a time, each with a
/// preconditioner.
#[test]
fn a_plan_of_two_kinds_changes_in_the_middle() {
    let choices = [Preconditioner::Jacobi, Preconditioner::None, Preconditioner::BlockJacobi];
    // So few iterations that x depends on M, and so little on rounding.
    let options = SolveOptions {
        method: Method::GaussNewton,
        iterations: Some(6),
        linear_iterations: Some(4),
        forcing: 0.0,
        ..SolveOptions::default()
    };
    let step = SolveOptions { iterations: Some(1), ..options.clone() };
    for (name, (energy, data)) in [("graph", small::graph()), ("plain", plain())] {
        let kinds: Vec<Arc<dyn Kind>> =
            choices.iter().map(|&c| of(c, &energy)).chain([Arc::new(STORED) as Arc<dyn Kind>]).collect();
        let solver = Solver::compile_with(energy.clone(), &compiled(Precision::F64), kinds).unwrap();
        let mut problem = solver.plan(&data).unwrap();
        let mut session = problem.init(&data, &options).unwrap();
        assert!(!session.change_to(4));
        let mut expected = data.clone();
        for (i, kind) in [2, 0, 3, 1, 2].into_iter().enumerate() {
            assert!(session.change_to(kind));
            session.step().unwrap();
            let came = session.iterations().last().unwrap().clone();
            let preconditioner = choices.get(usize::from(kind)).copied().unwrap_or(Preconditioner::Jacobi);
            let compiled = CompileOptions { preconditioner, ..CompileOptions::default() };
            let report =
                assembled::solve(&energy, &mut expected, &compiled, &step, LinearSolver::Cg).unwrap();
            let what = format!("{name}, step {i}");
            assert_eq!(came.linear_iterations, report.iterations[0].linear_iterations, "{what}");
            assert_eq!(came.linear_stop, report.iterations[0].linear_stop, "{what}");
            assert_close(&format!("{what}: E"), came.energy, report.energy_final, 1e-9);
            let mut here = data.clone();
            session.unknowns(&mut here).unwrap();
            assert_vectors_close(&what, &here.x(), &expected.x(), 1e-9);
        }
    }
}

/// PCG with M = diag(J^T J) on J^T J d = b from sparse matrices: after how many iterations sqrt(r.z) <= eta sqrt(r0.z0).
fn iterations_to_norm(energy: &Energy, data: &ProblemData<'_>) -> usize {
    let problem = Explicit::new(energy, data).unwrap();
    let (residuals, jacobian) = problem.linearise(&problem.initial());
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let m: Vec<f64> = jacobian.diag().into_iter().map(|d| if d > 0.0 { 1.0 / d } else { 0.0 }).collect();
    let mut r: Vec<f64> = jacobian.apply_transpose(&residuals).into_iter().map(|g| -g).collect();
    let precondition = |r: &[f64]| -> Vec<f64> { m.iter().zip(r).map(|(m, r)| m * r).collect() };
    let mut p = precondition(&r);
    let first = dot(&r, &p);
    let mut rz = first;
    for k in 1.. {
        let q = jacobian.apply_transpose(&jacobian.apply(&p));
        let alpha = rz / dot(&p, &q);
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        let z = precondition(&r);
        let next = dot(&r, &z);
        if next <= ETA * ETA * first {
            return k;
        }
        p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + next / rz * *p);
        rz = next;
    }
    unreachable!("PCG ends")
}

#[test]
fn a_kinds_own_rule_stops_pcg() {
    let options = SolveOptions {
        method: Method::GaussNewton,
        iterations: Some(1),
        forcing: 0.0,
        ..SolveOptions::default()
    };
    for (name, (energy, data)) in [("grid", small::grid()), ("graph", small::graph()), ("plain", plain())] {
        let expected = iterations_to_norm(&energy, &data);
        assert!(expected >= 3, "{name}: {expected}");
        for kind in [Arc::new(NORMED) as Arc<dyn Kind>, Arc::new(STORED_NORMED)] {
            let what = format!("{name}, {}", kind.name());
            let (report, _) = solve(&solver(&energy, kind), &data, &options);
            let step = &report.iterations[0];
            assert_eq!(step.linear_stop, LinearStop::PreconditionedNorm, "{what}");
            assert_eq!(step.linear_iterations, expected, "{what}");
        }
    }
}
