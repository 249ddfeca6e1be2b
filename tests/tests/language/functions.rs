//! Every function of the table, in value and slope.

use super::agrees;
use std::f64::consts::PI;
use std::fmt::Write;
use sumsq::assembled::Explicit;
use sumsq::energy::dag::Function;
use sumsq::{CompileOptions, Precision, Solver};
use sumsq_tests::{Random, assert_close, bind, doubles};

#[test]
fn every_function_agrees() {
    let n = 37;
    let mut text = String::from(
        "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {N}, 0)\n\
         local A = Array('A', opt_float, {N}, 1)\nEnergy(0.5 * (X(0) - A(0)))\n\
         local t = 0.5 + 0.3 * sin(X(0))\n",
    );
    for f in Function::ALL {
        let name = f.name();
        // All are defined between 0 and 1, but for one.
        let call = match (f, f.arity()) {
            (Function::Acosh, _) => format!("{name}(1 + t)"),
            (_, 1) => format!("{name}(t)"),
            _ => format!("{name}(t, 1 + 2 * t)"),
        };
        writeln!(text, "Residual{{name='{name}', 0.3 * ({call} - A(0))}}").unwrap();
    }
    let mut random = Random::new(57);
    agrees(&text, &[doubles("X", &[n], random.numbers(n)), doubles("A", &[n], random.numbers(n))]);
}

#[test]
fn zeros_have_no_sign() {
    let n = 19;
    // Expressions that are 0 by C's rules, or -0; B is negative.
    let zeros = ["X(0)", "-X(0)", "X(0) * B(0)", "X(0) - B(0) * X(0)", "X(1)", "-X(1)", "0 * X(0) - X(0)"];
    let mut text = String::from(
        "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {N}, 0)\n\
         local B = Array('B', opt_float, {N}, 1)\n",
    );
    for zero in zeros {
        let free = "InBounds(0) * X(0)";
        writeln!(text, "Residual{{name='{zero} left', atan2({zero}, B(0)) + {free}}}").unwrap();
        writeln!(text, "Residual{{name='{zero} origin', atan2({zero}, X(0) * B(0)) + {free}}}").unwrap();
    }
    let x = (0..n).map(|i| if i % 2 == 0 { 0.0 } else { -0.0 }).collect();
    let (energy, data) = bind(&text, &[doubles("X", &[n], x), doubles("B", &[n], vec![-0.5; n])]);
    let explicit = Explicit::new(&energy, &data).unwrap();
    let mut all = vec![("assembled".to_string(), explicit.energies(&explicit.initial()).by_group)];
    for precision in [Precision::F64, Precision::Mixed, Precision::F32] {
        let options = CompileOptions { precision, ..CompileOptions::default() };
        let solver = Solver::compile(energy.clone(), &options).unwrap();
        let came = solver.plan(&data).unwrap().evaluate(&data).unwrap();
        all.push((format!("{precision:?}"), came.energies.by_group));
    }
    for (path, came) in all {
        for (group, came) in came.iter().enumerate() {
            let expected = if group % 2 == 0 { n as f64 * PI * PI } else { 0.0 };
            assert_close(&format!("{path}, group {group}"), *came, expected, 1e-6);
        }
    }
}
