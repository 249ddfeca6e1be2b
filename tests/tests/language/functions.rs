//! Every function of the table, in value and slope.

use super::agrees;
use std::fmt::Write;
use sumsq::energy::dag::Function;
use sumsq_tests::{Random, doubles};

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
