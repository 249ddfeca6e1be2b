//! Layers of convolutional networks.

use crate::common::{Plain, Within, assembles, check, same_bits_from_c, signed_input};
use sumsq::codegen::Target;
use sumsq::codegen::runtime::Pool;
use sumsq_examples::pipelines::{Algorithm, Application, Planar, Prepared};

pub fn inputs(co: i32, ci: i32, w: i32, h: i32, n: i32) -> [Planar; 3] {
    [signed_input(&[ci, w + 2, h + 2, n]), signed_input(&[co, 3, 3, ci]), signed_input(&[co])]
}

pub fn expected(inputs: &[Planar; 3]) -> Vec<f64> {
    let [input, filter, bias] = inputs.each_ref().map(Plain::of);
    let (co, channels) = (inputs[2].extents[0], inputs[0].extents[0]);
    let size = &inputs[0].extents;
    let value = |p: &Vec<i32>| {
        let mut sum = bias.at(&p[..1]);
        for ci in 0..channels {
            for k in 0..9 {
                let (i, j) = (k % 3, k / 3);
                sum += filter.at(&[p[0], i, j, ci]) * input.at(&[ci, p[1] + i, p[2] + j, p[3]]);
            }
        }
        sum.max(0.0)
    };
    Plain::points(&[co, size[1] - 2, size[2] - 2, size[3]]).iter().map(value).collect()
}

#[test]
fn convolves() {
    for [co, ci, w, h, n] in [[80, 5, 11, 7, 2], [67, 16, 5, 3, 1]] {
        let inputs = inputs(co, ci, w, h, n);
        check("conv_layer", &[], 8, &inputs, &expected(&inputs), Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("conv_layer", &[]);
    same_bits_from_c("conv_layer", &[], 8, &inputs(70, 3, 9, 4, 2));
}

/// Layers that are smaller than the tiles of the schedule by hand are refused by it, and computed under another.
#[test]
fn small_layers() {
    let inputs = inputs(20, 3, 6, 3, 1);
    let application = Application::find("conv_layer").expect("it is listed");
    let run = |schedule: &str| {
        let text = application.schedule(schedule).expect("it is listed").expect("it is a schedule");
        let setup = application.setup(&[], 8).expect("there are no parameters");
        let prepared = Prepared::new(Algorithm::new(application, setup), &text, &Target::host())
            .expect("it is compiled");
        prepared.run(&Pool::new(1), &inputs).map(|outputs| Plain::of(&outputs[0].1).at(&[19, 5, 2, 0]))
    };
    let refused = run("hand").expect_err("64 channels").to_string();
    assert!(refused.contains("filter is read beyond dimension 0"), "{refused}");
    let last = expected(&inputs).last().copied();
    assert!((run("root").expect("any size") - last.expect("a value")).abs() < 1e-4);
}
