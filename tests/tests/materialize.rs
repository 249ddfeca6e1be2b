//! Storage changes no result: every choice is certified against the assembled path, on every construct.

use sumsq::energy::Energy;
use sumsq::{
    CompileOptions, Options, Overrides, Precision, Preconditioner, ProblemData, SolveError, SolveOptions,
    Solver, Value,
};
use sumsq_tests::{Random, bind, doubles, small};

const CHOICES: [&str; 7] = ["in_place", "r", "r+j", "jp", "r+j+jp", "blocks", "r+j+blocks"];

/// Certifies a problem under every choice, and holds one solve against that in place.
#[track_caller]
fn choices(energy: &Energy, data: &ProblemData, choices: &[&str]) {
    let mut random = Random::new(11);
    let x: Vec<f64> = data.x().iter().map(|x| x + 0.1 * random.number()).collect();
    let v = random.numbers(x.len());
    let mut first: Option<f64> = None;
    for (i, choice) in choices.iter().enumerate() {
        let options = Options {
            compile: CompileOptions {
                choices: Overrides::short(choice).unwrap(),
                preconditioner: [Preconditioner::BlockJacobi, Preconditioner::Jacobi][i % 2],
                precision: Precision::F64,
                ..CompileOptions::default()
            },
            solve: SolveOptions {
                linear_tolerance: Some(1e-12),
                iterations: Some(3),
                ..SolveOptions::default()
            },
        };
        let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
        let mut plan = solver.plan(data).unwrap();
        let certificate = plan.certify(data, &x, &v).unwrap();
        assert!(certificate.passed(), "{choice}: {:?}", certificate.failures());
        let report = plan.solve(&mut data.clone(), &options.solve).unwrap();
        let e = *first.get_or_insert(report.energy_final);
        assert!(
            (report.energy_final - e).abs() <= 1e-9 * e.abs(),
            "{choice}: E = {} and {e}",
            report.energy_final
        );
    }
}

#[test]
fn grids() {
    let (energy, data) = small::grid();
    choices(&energy, &data, &CHOICES);
    choices(&energy, &data, &["fit=blocks,reg=j+jp,plain=jp", "j,plain=in_place,box=blocks"]);
}

#[test]
fn volumes_under_losses() {
    let (energy, data) = small::volume_under_losses();
    choices(&energy, &data, &CHOICES);
}

#[test]
fn graphs() {
    let (energy, data) = small::graph();
    choices(&energy, &data, &CHOICES);
}

/// Computed arrays stored or recomputed, wherever they are read.
#[test]
fn computed_arrays() {
    let (energy, data) = small::computed_arrays();
    choices(&energy, &data, &CHOICES);
    let recomputed = ["in_place", "B=recomputed", "C=recomputed,one=jp", "j,B=recomputed,C=recomputed"];
    choices(&energy, &data, &recomputed);
}

#[test]
fn computed_arrays_at_vertices() {
    let (energy, data) = small::computed_arrays_at_vertices();
    let recomputed = ["B=recomputed", "C=recomputed,edge=jp", "j,B=recomputed,C=recomputed"];
    choices(&energy, &data, &[&CHOICES[..], &recomputed[..]].concat());
}

/// Stored values are 0 where a stencil has no instance, also where the elements that it would read there exist: behind the last ones that
/// `one` reads, before the first ones that `other` does.
#[test]
fn one_sided_stencils() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", double, {W,H}, 0)
        local A = Array("A", double, {W,H}, 1)
        Residual{name="one", 0.5*X(1,0) + 2*X(3,2) + 0.3*X(0,0) - A(0,0)}
        Residual{name="other", A(0,0)*X(-2,-1) - 0.7*X(0,0) - A(0,-1)}
        Energy(0.1*(X(0,0) - A(0,0)))
    "#;
    let (mut random, w, h) = (Random::new(4), 19, 7);
    let arrays = ["X", "A"].map(|name| doubles(name, &[h, w], random.numbers(w * h)));
    let (energy, data) = bind(text, &arrays);
    choices(&energy, &data, &CHOICES);
    let x = random.numbers(w * h);
    for direction in [Value::Ring, Value::Root] {
        let compile = CompileOptions {
            choices: Overrides::short("r+jp").unwrap().with("direction {W,H}".into(), direction),
            precision: Precision::F64,
            ..CompileOptions::default()
        };
        let mut plan = Solver::compile(energy.clone(), &compile).unwrap().plan(&data).unwrap();
        let certificate = plan.certify(&data, &x, &random.numbers(w * h)).unwrap();
        assert!(certificate.passed(), "{direction:?}: {:?}", certificate.failures());
    }
}

#[test]
fn names_are_checked() {
    let text = r#"
        local W = Dim("W", 0)
        local X = Unknown("X", opt_float, {W}, 0)
        Residual{name="fit", X(0) - 1}
    "#;
    let error = |choice: &str| {
        let energy = Energy::from_text("test.t", text).unwrap();
        let options = Options {
            compile: CompileOptions {
                choices: Overrides::short(choice).unwrap(),
                ..CompileOptions::default()
            },
            ..Options::default()
        };
        match Solver::compile(energy, &options.compile) {
            Err(SolveError::Option(message)) => message.to_string(),
            _ => panic!("{choice} was taken"),
        }
    };
    assert_eq!(error("reg=jp"), "there is no residual group `reg`: fit");
    assert_eq!(error("B=recomputed"), "there is no computed array `B`: the energy has none");
}
