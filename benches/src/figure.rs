//! The figure of the README: how much longer Ceres takes to the same energy, from `results/ceres.json`.

use crate::report::results_folder;
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};
use sumsq_examples::io::picture::write_png;
use sumsq_examples::plot::{self, Ratio};

/// Linear solvers of Ceres, as the results call them and as the figure does.
const SOLVERS: [(&str, &str); 2] =
    [("cgnr", "Ceres, CGNR + block Jacobi"), ("cholesky", "Ceres, sparse Cholesky")];

/// Draws `data/pictures/ceres.png` and says where it is.
pub fn draw() -> Result<PathBuf, Box<dyn Error>> {
    let results: Value = serde_json::from_slice(&std::fs::read(results_folder().join("ceres.json"))?)?;
    let threads = results["machine"].as_str().unwrap_or_default();
    let title = format!("Time to the same energy, as a multiple of sumsq's ({threads})");
    let names = SOLVERS.map(|(_, name)| name);
    let picture = plot::ratios(&title, &names, &groups(&results))?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/pictures/ceres.png");
    write_png(&path, &picture)?;
    Ok(path)
}

/// The ratios of each problem, in the order of the results. A problem of several goals (`..., R0 = 1e4, E <= 200`) has a summary,
/// which stands for them.
fn groups(results: &Value) -> Vec<(String, Vec<Ratio>)> {
    let mut groups: Vec<(String, Vec<Ratio>)> = vec![];
    let number = |v: &Value| v.as_f64().unwrap_or(f64::NAN);
    for ratio in results["ratios"].as_array().into_iter().flatten() {
        let Some((problem, sides)) = ratio["name"].as_str().and_then(|name| name.split_once(": ")) else {
            continue;
        };
        let ours = SOLVERS.iter().any(|(solver, _)| sides == format!("Ceres {solver} / sumsq"));
        if !ours || problem.contains("R0 = ") {
            continue;
        }
        let of = Ratio {
            median: number(&ratio["median"]),
            quartiles: [number(&ratio["quartiles"][0]), number(&ratio["quartiles"][1])],
            at_least: ratio["at_least"] == Value::Bool(true),
        };
        match groups.iter_mut().find(|(name, _)| name == problem) {
            Some((_, all)) => all.push(of),
            None => groups.push((problem.to_string(), vec![of])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_has_both_solvers() {
        let text = std::fs::read(results_folder().join("ceres.json")).unwrap();
        let groups = groups(&serde_json::from_slice(&text).unwrap());
        assert!(groups.len() >= 4);
        assert!(groups.iter().all(|(_, all)| all.len() == SOLVERS.len()), "{groups:?}");
    }
}
