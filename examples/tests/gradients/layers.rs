//! The layers against golden vectors.

use crate::golden::{arrays, assert_near, values};
use sumsq::codegen::Target;
use sumsq::codegen::runtime::Pool;
use sumsq_examples::pipelines::{Algorithm, Application, Planar, Prepared, Values};

fn check(name: &'static str, params: &[(&str, &str)]) {
    let application = Application::find(name).expect("the layer is listed");
    let arrays = arrays("layers", name);
    let given: Vec<(String, String)> =
        params.iter().chain(&[("type", "f64")]).map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let named = |name: &str| arrays.iter().find(|a| a.name == name).unwrap_or_else(|| panic!("no {name}"));
    let planar = |name: &str| Planar::of_array(named(name), false).expect("an array");
    let mut inputs: Vec<Planar> = application.slots.iter().map(|slot| planar(slot.name)).collect();
    inputs.push(planar("w"));
    for schedule in ["root", "gradient", ""] {
        let setup = application.setup(&given, 8).expect("parameters");
        let algorithm = Algorithm::with_gradient(application, setup).expect("floats");
        let schedule = match application.schedule(schedule) {
            Some(known) => known.expect("a schedule"),
            None => algorithm.first_schedule(&inputs[..application.slots.len()]).expect("sizes that fit"),
        };
        let prepared = Prepared::new(algorithm, &schedule, &Target::host()).unwrap_or_else(|e| panic!("{e}"));
        for threads in [1, 3] {
            let results = prepared.run(&Pool::new(threads), &inputs).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(results.len(), 1 + application.slots.len());
            for (result, came) in results {
                let Values::F64(came) = came.values else { panic!("{result} is not of float64") };
                let golden = if result == "output" { "out" } else { &result };
                assert_near(&format!("{name}, {result}\n{schedule}"), &came, values(named(golden)));
            }
        }
    }
}

#[test]
fn bilateral_slice() {
    check("bilateral_slice", &[("cell", "3"), ("channels", "2")]);
}

#[test]
fn spatial_transformer() {
    check("spatial_transformer", &[]);
}

#[test]
fn flow_warp() {
    check("flow_warp", &[]);
}
