//! Long energies: many residuals, and residuals with many reads. Their code is cut into pieces, which changes no result.

use sumsq::codegen::limits::Effort;
use sumsq::energy::Energy;
use sumsq::{
    CompileLimits, CompileOptions, NamedArray, Precision, ProblemData, SolveError, SolveOptions, Solver,
};
use sumsq_tests::{Random, bind, doubles};

/// Certifies the routines of an energy at a random place, and that it is lowered.
#[track_caller]
fn certified(energy: &Energy, data: &ProblemData) {
    let mut random = Random::new(5);
    let compile = CompileOptions { precision: Precision::F64, ..CompileOptions::default() };
    let solver = Solver::compile(energy.clone(), &compile).unwrap();
    let mut plan = solver.plan(data).unwrap();
    let x: Vec<f64> = data.x().iter().map(|x| x + 0.1 * random.number()).collect();
    let v = random.numbers(x.len());
    let certificate = plan.certify(data, &x, &v).unwrap();
    assert!(certificate.passed(), "{:?}", certificate.failures());
    let solve = SolveOptions { iterations: Some(10), ..SolveOptions::default() };
    let report = plan.solve(&mut data.clone(), &solve).unwrap();
    assert!(report.energy_final < report.energy_initial);
}

/// More residual groups than one pipeline sums, and more operations in J^T r than one nest has.
#[test]
fn many_residuals() {
    let lines = (1..=60).map(|i| {
        let (a, b, c) = (i % 7, i % 5, i % 3);
        format!("Energy(X({a})*A({b})*A({i}) - sin({i}*X({b}))*X({c}) + exp(0.1*X({a})*A({c})), X({c}) - cos(A({i})*X({a})))\n")
    });
    let declared = "local N = Dim('N', 0)\nlocal X = Unknown('X', double, {N}, 0)\nlocal A = Array('A', double, {N}, 1)\n";
    let text = format!("{declared}{}", lines.collect::<String>());
    let (n, mut random) = (150, Random::new(3));
    let arrays: [NamedArray; 2] =
        [doubles("X", &[n], random.numbers(n)), doubles("A", &[n], random.numbers(n))];
    let (energy, data) = bind(&text, &arrays);
    let schedules = sumsq::schedules(&energy, &CompileOptions::default()).unwrap();
    for piece in ["cost_2", "gb0.update(0)"] {
        assert!(schedules.contains(piece), "{schedules}");
    }
    certified(&energy, &data);
    let choices = sumsq::choices(&energy, &CompileOptions::default()).unwrap().to_string();
    let split = choices.lines().find(|line| line.starts_with("nests {N}: split")).expect(&choices);
    assert!(split.contains("or whole; E in ") && split.contains(", J^T r in "), "{split}");
    let whole = CompileOptions { choices: "nests *: whole".parse().unwrap(), ..CompileOptions::default() };
    let schedules = sumsq::schedules(&energy, &whole).unwrap();
    assert!(!schedules.contains("gb0.update(0)"), "{schedules}");
}

/// The message of a refusal, unbroken, with the line that it is shown at.
fn rendered(error: SolveError) -> String {
    let SolveError::Energy(error) = error else { panic!("not of the energy: {error}") };
    error.rendered().replace("\n  | ", " ")
}

/// Code that would take LLVM too long is refused before it starts, and so is what takes more than its time: with the line of the largest residual.
#[test]
fn limits() {
    let text = "local N = Dim('N', 0)\nlocal X = Unknown('X', double, {N}, 0)\nEnergy(0.1*X(0))\n
        Energy(sin(X(0)) - X(1))\nEnergy(0.2*X(1))";
    let energy = Energy::from_text("short.t", text).unwrap();
    let error = |limits| {
        let options = CompileOptions { limits, ..CompileOptions::default() };
        rendered(Solver::compile(energy.clone(), &options).err().unwrap())
    };
    let shown = |limits| {
        let options = CompileOptions { limits, ..CompileOptions::default() };
        rendered(sumsq::lowered(&energy, &options).err().unwrap())
    };
    let late = shown(CompileLimits { seconds: 0.0, ..CompileLimits::default() });
    assert!(late.contains("compilation takes longer than 0 s"), "{late}");
    let few = error(CompileLimits { instructions: 400, ..CompileLimits::default() });
    assert!(few.contains("instructions without a branch, at most 33 may be compiled"), "{few}");
    assert!(few.contains("--max-instructions"), "{few}");
    for said in [&few, &late] {
        for part in ["in group energy_2", "short.t:5:9", "Energy(sin(X(0)) - X(1))\n"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    let soon = error(CompileLimits { seconds: 0.0, ..CompileLimits::default() });
    assert!(
        soon.contains("compilation takes longer than 0 s") && soon.contains("--max-compile-seconds"),
        "{soon}"
    );
}

/// Code follows the energy: neither 300 residuals of one read each nor the 841 products of a convolution of 15 x 15 with itself take a third of
/// the instructions that are admitted. (A block may have a twelfth of them.)
#[test]
fn code_is_in_proportion() {
    let many = "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {N}, 0)\nlocal A = Array('A', opt_float, {N}, 1)
        for i = 1, 300 do Energy(X(0)*A(i) - X(i%7)) end";
    let wide = "local W, H = Dim('W', 0), Dim('H', 1)\nlocal X = Unknown('X', opt_float, {W,H}, 0)\nlocal A = Array('A', opt_float, {W,H}, 1)
        local e = 0
        for i = -7, 7 do for j = -7, 7 do e = e + (0.1 + 0.01*i + 0.03*i*j)*X(i,j) end end
        Energy(e - A(0,0), 0.1*X(0,0))";
    let limits = CompileLimits { instructions: 130_000, effort: Effort::Least, ..CompileLimits::default() };
    for text in [many, wide] {
        let energy = Energy::from_text("energy.t", text).unwrap();
        let options = CompileOptions { limits, ..CompileOptions::default() };
        Solver::compile(energy, &options).map(drop).unwrap();
    }
}

/// A pipeline that is too long is refused before LLVM is given another that it would take long for.
#[test]
fn sums_of_long_products_are_refused() {
    let text = "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {N}, 0)\nlocal A = Array('A', opt_float, {N}, 1)
        local e = 0
        for s = 1, 60 do
            local p = 1
            for k = 1, 40 do p = p * (X(k) + A(s + k)) end
            e = e + p
        end
        Energy(e)";
    let energy = Energy::from_text("products.t", text).unwrap();
    let error = rendered(Solver::compile(energy, &CompileOptions::default()).err().unwrap());
    assert!(error.contains("instructions without a branch, at most 33333 may be compiled"), "{error}");
}

/// A residual of 81 reads stores r and J p; smaller ones compute them where they are read.
#[test]
fn wide_stencils() {
    let (mut random, w, h) = (Random::new(9), 37, 23);
    for (half, stored) in [(0, "inline"), (1, "root"), (4, "root")] {
        let reads = (-half..=half).flat_map(|y| (-half..=half).map(move |x| (x, y)));
        let terms: Vec<String> =
            reads.map(|(x, y)| format!("{}*X({x},{y})", 0.1 + 0.01 * f64::from(x + 2 * y))).collect();
        let text = format!(
            "local W, H = Dim('W', 0), Dim('H', 1)\nlocal X = Unknown('X', double, {{W,H}}, 0)\n\
             local A = Array('A', double, {{W,H}}, 1)\nEnergy({} - A(0,0)*X(0,0)^2)\nEnergy(0.1*(X(0,0) - A(0,0)))",
            terms.join(" + ")
        );
        let arrays =
            [doubles("X", &[h, w], random.numbers(w * h)), doubles("A", &[h, w], random.numbers(w * h))];
        let (energy, data) = bind(&text, &arrays);
        let choices = sumsq::choices(&energy, &CompileOptions::default()).unwrap().to_string();
        for (subject, value) in [("r energy_1", stored), ("Jp energy_1", stored), ("r energy_2", "inline")] {
            assert!(choices.contains(&format!("{subject}: {value} ")), "{choices}");
        }
        certified(&energy, &data);
    }
}
