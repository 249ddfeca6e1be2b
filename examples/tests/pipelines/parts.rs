//! Outputs over domains that do not begin at zero, and against the reference evaluator.

use crate::cases::{Case, Domain, cases, numbers};
use crate::common::{Shared, Within};
use sumsq::codegen::compile::Compiled;
use sumsq::codegen::{Directive, Name, Schedule, Target};
use sumsq_codegen_testing::reference::evaluate_over;
use sumsq_examples::pipelines::ALL;

/// A part of the output from the inside of each dimension whose extent the schedule leaves open.
pub fn inside(case: &Case, schedule: &Schedule) -> Domain {
    let output = &case.pipeline.funcs[&case.pipeline.outputs[0].func];
    let own = schedule.stages.iter().filter(|(s, _)| s.func == output.name).flat_map(|(_, all)| all);
    let bound: Vec<&Name> =
        own.filter_map(|d| if let Directive::Bound { var, .. } = d { Some(var) } else { None }).collect();
    let part = |(d, &n): (usize, &i32)| {
        // Fewer channels than the tiles of conv_layer have are refused.
        let is_whole =
            bound.contains(&output.vars[d].name()) || case.application.name == "conv_layer" && d == 0;
        if is_whole { (0, n as usize) } else { (n / 3, (n / 2).max(1) as usize) }
    };
    case.extents.iter().enumerate().map(part).collect()
}

/// Pixels by a multiple of which pictures may be moved, and their outputs move with them. Not so
/// * where arrays begin at 0: the layers of networks, sgemm, fft;
/// * where the definitions count from the picture's first pixel as 0: iir_blur its rows, resize and guided_upsampling the places that they
///   sample, interpolate and lens_blur the domains of their coarse levels, and lens_blur the places that it draws.
fn period(application: &str) -> Option<i32> {
    match application {
        "blur" | "unsharp" | "harris" | "stencil_chain" | "hist" | "max_filter" | "nl_means"
        | "compositing" => Some(5),
        // The pattern of the sensor.
        "camera_pipe" | "demosaic_bilinear" | "demosaic_ahd" | "demosaic_learned" => Some(2),
        // Cells, pixels of the coarsest level.
        "bilateral_grid" => Some(8),
        "local_laplacian" => Some(128),
        _ => None,
    }
}

/// The schedules that every application has for the machine.
fn named(case: &Case) -> [&'static str; 2] {
    ["root", case.application.by_hand(&Target::host(), &case.setup)]
}

/// Code of a case under a schedule of its application.
fn named_code(case: &Case, name: &str) -> &'static Compiled {
    static KNOWN: Shared<Compiled> = Shared::new();
    let key = format!("{}, {:?}, {name}", case.application.name, case.setup);
    KNOWN.get(key, || case.must(name, case.compiled(&case.schedule(name))))
}

#[test]
fn every_application_is_listed() {
    let cases = cases();
    for application in ALL {
        assert!(cases.iter().any(|c| c.application.name == application.name), "{}", application.name);
    }
}

/// Each part of an output, wherever it begins, has the values of the whole; so has the output of pictures that begin elsewhere.
#[test]
fn shifted_domains() {
    let mut moved = 0;
    for mut case in cases() {
        for name in named(&case) {
            let schedule = case.schedule(name);
            let compiled = named_code(&case, name);
            // Relaxed, the last lanes of a row may round in another way than the others.
            let alike = if schedule.to_string().contains("relaxed") { case.within } else { Within::Exactly };
            let (whole, part) = (case.whole(), inside(&case, &schedule));
            let all = case.must(name, case.run(compiled, &whole, 1));
            case.compare(name, &all, &case.expected, &whole, case.within);
            for threads in [1, 3] {
                let what = format!("`{name}`, {threads} threads, over {part:?}");
                let came = case.must(&what, case.run(compiled, &part, threads));
                case.compare(&what, &came, &case.expected, &part, case.within);
                case.compare(&format!("{what}, of the whole"), &came, &all, &part, alike);
            }
            let Some(period) = period(case.application.name) else { continue };
            case.origin = [-3 * period, 2 * period];
            let beside = whole.iter().enumerate().map(|(d, &(_, n))| (*case.origin.get(d).unwrap_or(&0), n));
            let what = format!("`{name}`, from {:?}", case.origin);
            let came = case.must(&what, case.run(compiled, &beside.collect(), 3));
            case.compare(&what, &came, &case.expected, &whole, case.within);
            case.compare(&format!("{what}, of the same"), &came, &all, &whole, alike);
            case.origin = [0, 0];
            moved += 1;
        }
    }
    assert_eq!(moved, 2 * 14, "schedules of applications whose pictures may be moved");
}

/// The reference evaluator, plain loops and machine code agree.
#[test]
fn reference_evaluator() {
    for case in cases() {
        let domain = case.whole();
        let domains = vec![domain.clone(); case.pipeline.outputs.len()];
        let code = named(&case).map(|s| (s, named_code(&case, s)));
        let bindings = case.must("inputs", case.bindings(code[0].1, &domain));
        let outputs = case.must("the reference", evaluate_over(&case.pipeline, &bindings, &domains));
        let outputs: Vec<Vec<f64>> = outputs.iter().map(numbers).collect();
        case.compare("the reference", &outputs, &case.expected, &domain, case.within);
        for (schedule, compiled) in &code {
            let came = case.must(schedule, case.run(compiled, &domain, 3));
            case.compare(&format!("`{schedule}`, by the reference"), &came, &outputs, &domain, case.within);
        }
    }
}
