//! NIST's 27 certified problems of nonlinear regression from both starts, by the solver and by the assembled path, with default options.
//! `cargo test -p sumsq-tests --test nist -- --nocapture` prints the table of `docs/nist.md`.

use sumsq::assembled::{self, LinearSolver};
use sumsq::{CompileOptions, NamedArray, Options, Precision, ProblemData, Report, SolveOptions};
use sumsq_tests::{bind, doubles, solve, workspace_root};

/// A problem's name, and what it fits `y` by, in `x`, `z` and the parameters `b(0)`, `b(1)` ..
const MODELS: [(&str, &str); 27] = [
    ("Bennett5", "b(0) * pow(b(1) + x, -1 / b(2))"),
    ("BoxBOD", "b(0) * (1 - exp(-b(1) * x))"),
    ("Chwirut1", "exp(-b(0) * x) / (b(1) + b(2) * x)"),
    ("Chwirut2", "exp(-b(0) * x) / (b(1) + b(2) * x)"),
    ("DanWood", "b(0) * pow(x, b(1))"),
    (
        "ENSO",
        "b(0) + b(1) * cos(2*pi*x/12) + b(2) * sin(2*pi*x/12) + b(4) * cos(2*pi*x/b(3)) + b(5) * sin(2*pi*x/b(3)) \
         + b(7) * cos(2*pi*x/b(6)) + b(8) * sin(2*pi*x/b(6))",
    ),
    ("Eckerle4", "b(0) / b(1) * exp(-0.5 * ((x - b(2)) / b(1))^2)"),
    ("Gauss1", GAUSS),
    ("Gauss2", GAUSS),
    ("Gauss3", GAUSS),
    ("Hahn1", "(b(0) + b(1)*x + b(2)*x^2 + b(3)*x^3) / (1 + b(4)*x + b(5)*x^2 + b(6)*x^3)"),
    ("Kirby2", "(b(0) + b(1)*x + b(2)*x^2) / (1 + b(3)*x + b(4)*x^2)"),
    ("Lanczos1", LANCZOS),
    ("Lanczos2", LANCZOS),
    ("Lanczos3", LANCZOS),
    ("MGH09", "b(0) * (x^2 + x*b(1)) / (x^2 + x*b(2) + b(3))"),
    ("MGH10", "b(0) * exp(b(1) / (x + b(2)))"),
    ("MGH17", "b(0) + b(1) * exp(-x * b(3)) + b(2) * exp(-x * b(4))"),
    ("Misra1a", "b(0) * (1 - exp(-b(1) * x))"),
    ("Misra1b", "b(0) * (1 - 1 / (1 + b(1) * x / 2)^2)"),
    ("Misra1c", "b(0) * (1 - (1 + 2 * b(1) * x)^-0.5)"),
    ("Misra1d", "b(0) * b(1) * x / (1 + b(1) * x)"),
    ("Nelson", "exp(b(0) - b(1) * x * exp(-b(2) * z))"),
    ("Rat42", "b(0) / (1 + exp(b(1) - b(2) * x))"),
    ("Rat43", "b(0) / pow(1 + exp(b(1) - b(2) * x), 1 / b(3))"),
    ("Roszman1", "b(0) - b(1) * x - atan(b(2) / (x - b(3))) / pi"),
    ("Thurber", "(b(0) + b(1)*x + b(2)*x^2 + b(3)*x^3) / (1 + b(4)*x + b(5)*x^2 + b(6)*x^3)"),
];
const GAUSS: &str =
    "b(0) * exp(-b(1) * x) + b(2) * exp(-(x - b(3))^2 / b(4)^2) + b(5) * exp(-(x - b(6))^2 / b(7)^2)";
const LANCZOS: &str = "b(0) * exp(-b(1) * x) + b(2) * exp(-b(3) * x) + b(4) * exp(-b(5) * x)";

/// A file of NIST's.
struct Certified {
    starts: [Vec<f64>; 2],
    values: Vec<f64>,
    sum: f64,
    /// Rows of the data.
    rows: Vec<Vec<f64>>,
}

impl Certified {
    fn read(name: &str) -> Certified {
        let path = workspace_root().join("data/nist").join(format!("{name}.dat"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let numbers = |line: &str| line.split_whitespace().map(|w| w.parse().unwrap()).collect::<Vec<f64>>();
        let mut of = Certified { starts: [vec![], vec![]], values: vec![], sum: 0.0, rows: vec![] };
        let mut lines = text.lines();
        for line in &mut lines {
            if line.starts_with("Data:") && of.sum > 0.0 {
                break;
            }
            let words = line.trim();
            if let Some((left, right)) = words.split_once('=')
                && left.trim().strip_prefix('b').is_some_and(|n| n.parse::<u8>().is_ok())
            {
                let n = numbers(right);
                of.starts[0].push(n[0]);
                of.starts[1].push(n[1]);
                of.values.push(n[2]);
            } else if let Some(sum) = words.strip_prefix("Residual Sum of Squares:") {
                of.sum = sum.trim().parse().unwrap();
            }
        }
        of.rows = lines.map(numbers).filter(|row| !row.is_empty()).collect();
        assert!(!of.values.is_empty() && !of.rows.is_empty(), "{name}");
        of
    }

    fn arrays(&self, start: usize) -> Vec<NamedArray> {
        let mut rows: Vec<f64> = vec![];
        self.rows.iter().for_each(|row| rows.extend((0..3).map(|i| row.get(i).copied().unwrap_or(0.0))));
        vec![
            doubles("b", &[self.values.len()], self.starts[start].clone()),
            doubles("D", &[self.rows.len(), 3], rows),
        ]
    }

    /// Digits of the certified values that all parameters have, at most 11.
    fn digits(&self, b: &[f64]) -> f64 {
        let off = |(b, c): (&f64, &f64)| -((b - c).abs() / c.abs()).log10();
        b.iter().zip(&self.values).map(off).fold(11.0, |least, d| if d < least { d } else { least })
    }
}

fn text(name: &str, model: &str, parameters: usize) -> String {
    let y = if name == "Nelson" { "log(D(0,0))" } else { "D(0,0)" };
    let model = if name == "Nelson" { "b(0) - b(1) * x * exp(-b(2) * z)" } else { model };
    format!(
        "local N = Dim(\"N\", 0)\nlocal p = Unknown(\"b\", opt_float{parameters}, {{}}, 0)\n\
         local D = Array(\"D\", opt_float3, {{N}}, 1)\nlocal pi = math.pi\n\
         local function b(i) return p(i) end\nlocal x, z = D(0,1), D(0,2)\nEnergy({y} - ({model}))"
    )
}

#[test]
fn certified_digits() {
    let options = Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions::default(),
    };
    println!("| problem | start | digits | steps | ended | assembled: digits | steps | ended |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut reached = [0; 2];
    for (name, model) in MODELS {
        let certified = Certified::read(name);
        for start in 0..2 {
            let (energy, data) = bind(&text(name, model, certified.values.len()), &certified.arrays(start));
            let by_solver = |data: &mut ProblemData| solve(&energy, data, &options);
            let by_assembled = |data: &mut ProblemData| {
                let linear = LinearSolver::Cholesky;
                assembled::solve(&energy, data, &options.compile, &options.solve, linear).unwrap()
            };
            let paths: [&dyn Fn(&mut ProblemData) -> Report; 2] = [&by_solver, &by_assembled];
            let mut row = format!("| {name} | {} |", start + 1);
            for (path, reached) in paths.iter().zip(&mut reached) {
                let mut data = data.clone();
                let report = path(&mut data);
                let digits = certified.digits(&data.x());
                *reached += usize::from(digits >= 5.0);
                row +=
                    &format!(" {digits:.1} | {} | {} |", report.iterations.len(), report.termination.name());
            }
            println!("{row}");
        }
    }
    println!("\n5 digits: {} of 54 runs, {} by the assembled path", reached[0], reached[1]);
}
