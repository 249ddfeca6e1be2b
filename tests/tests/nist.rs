//! NIST's 27 certified problems of nonlinear regression from both starts, by the solver and by the assembled path, with default
//! options.
//! `cargo test -p sumsq-tests --test nist -- --nocapture` prints the table of `docs/nist.md`.

use sumsq::assembled::{self, Explicit, LinearSolver};
use sumsq::energy::model::Energy;
use sumsq::{CompileOptions, NamedArray, ProblemData, SolveOptions, Solver};
use sumsq_tests::{assert_close, bind, doubles, workspace_root};

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
        let path = workspace_root().join("data/nist/nonlinear_regression.txt");
        let all = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let of_name = |text: &&str| text.contains(&format!("({name}.dat)"));
        let text = all.split("NIST/ITL StRD").find(of_name).unwrap_or_else(|| panic!("{name} is not there"));
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
        if name == "Roszman1" {
            // The file's b1, "1.20196866396E-0", contradicts its own sum of squares; see the test below.
            of.values[0] = 0.20196866396;
        }
        of
    }

    fn arrays(&self, values: &[f64]) -> Vec<NamedArray> {
        let mut rows: Vec<f64> = vec![];
        self.rows.iter().for_each(|row| rows.extend((0..3).map(|i| row.get(i).copied().unwrap_or(0.0))));
        vec![doubles("b", &[self.values.len()], values.to_vec()), doubles("D", &[self.rows.len(), 3], rows)]
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

/// The page with the table.
fn page() -> String {
    let path = workspace_root().join("docs/nist.md");
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Digits that the page tells of a run.
fn told(page: &str, run: &str) -> f64 {
    let row = page.lines().find_map(|line| line.strip_prefix(run)).unwrap_or_else(|| panic!("no row {run}"));
    let digits = row.split('|').next().unwrap_or_default().trim();
    digits.parse().unwrap_or_else(|e| panic!("{run} {row}: {e}"))
}

/// Every problem from both starts with default options: a table of digits, and 5 of them wherever the page says so. (How many more there are
/// is a matter of rounding.) The assembled path goes as far.
#[test]
fn certified_digits() {
    let (compile, solve) = (CompileOptions::default(), SolveOptions::default());
    let page = page();
    println!("| problem | start | digits | steps | ended | assembled: digits | steps |");
    println!("|---|---|---|---|---|---|---|");
    let (mut reached, mut differing) = ([0; 2], vec![]);
    for (name, model) in MODELS {
        let certified = Certified::read(name);
        let text = text(name, model, certified.values.len());
        let solver = Solver::compile(Energy::from_text(name, &text).unwrap(), &compile).unwrap();
        for start in 1..=2 {
            let arrays = certified.arrays(&certified.starts[start - 1]);
            let mut data = ProblemData::bind(solver.energy(), &arrays).unwrap();
            let mut of_assembled = data.clone();
            let report = solver.plan(&data).unwrap().solve(&mut data, &solve).unwrap();
            let linear = LinearSolver::Cholesky;
            let assembled =
                assembled::solve(solver.energy(), &mut of_assembled, &compile, &solve, linear).unwrap();
            let digits = [&data, &of_assembled].map(|data| certified.digits(&data.x()));
            digits.iter().zip(&mut reached).for_each(|(&d, reached)| *reached += usize::from(d >= 5.0));
            let run = format!("| {name} | {start} |");
            let (steps, ended) = (report.iterations.len(), report.termination.name());
            let beside = format!("{:.1} | {} |", digits[1], assembled.iterations.len());
            println!("{run} {:.1} | {steps} | {ended} | {beside}", digits[0]);
            let told = told(&page, &run) >= 5.0;
            differing.extend(digits.iter().any(|&came| (came >= 5.0) != told).then_some(run));
        }
    }
    let [ours, theirs] = reached;
    println!("\n5 digits, of 54 runs: {ours}, {theirs} assembled");
    assert!(differing.is_empty(), "docs/nist.md says otherwise of {differing:?}");
    assert_eq!(ours, 54, "runs have 5 digits");
    assert!(page.contains("54 of 54 runs"));
}

/// The certified values have the certified sums of squares. As b1 of Roszman1 the file says 1.20196866396E-0, at which the sum is 75 thousand
/// times the certified one; it is that of 0.20196866396.
#[test]
fn certified_sums_are_those_of_the_certified_values() {
    for (name, model) in MODELS {
        let certified = Certified::read(name);
        let sum = |values: &[f64]| {
            let (energy, data) = bind(&text(name, model, values.len()), &certified.arrays(values));
            let explicit = Explicit::new(&energy, &data).unwrap();
            explicit.energies(&explicit.initial()).total
        };
        if name == "Lanczos1" {
            // All but 0: the values' last digits weigh more.
            assert!(sum(&certified.values) < 1e-19);
            continue;
        }
        assert_close(name, sum(&certified.values), certified.sum, 1e-7);
        if name == "Roszman1" {
            let mut of_file = certified.values.clone();
            of_file[0] += 1.0;
            assert!(sum(&of_file) > 1e4 * certified.sum);
        }
    }
}
