//! The routines of a layer: its output, the slopes of its output, and the slopes of these; each a pipeline of its own, with a schedule that
//! suits any sizes.
//!
//! With J the derivatives of the output by the inputs x, w weights of the output and v directions of the inputs:
//!
//! | routine | arguments | results |
//! |---|---|---|
//! | forward | x | output |
//! | backward | w, x | J^T w, one for each input |
//! | double backward | v, w, x | J v, the slopes of <v, J^T w> by w; then those by each input |
//!
//! Since <v, J^T w> = <J v, w>, the last is the adjoint of the tangent: one forward and one reverse pass, and its sums gather and scatter as
//! those of the first derivatives do.

use super::application::{Application, Planes};
use super::gradient::{Gradient, output_over};
use super::run::PipelineError;
use super::setup::{FLOATS, Parameter, Setup, SetupError};
use super::{bicubic_warp, bilateral_slice, bilateral_slice_3d, flow_warp, spatial_transformer, tensor};
use sumsq::codegen::gradient::{propagate_adjoints, propagate_tangents, schedule};
use sumsq::codegen::{Name, Pipeline, Schedule};

/// An application whose inputs are all arrays of one type of floats, whose only output is called `output`, and which is derived for all inputs.
pub struct Layer {
    /// The application.
    pub application: &'static Application,
    /// The axes of each input, in the order of the slots, as NumPy has them.
    pub axes: &'static [&'static [&'static str]],
    /// The parameter that is the extent of an axis of a slot, if there is one.
    pub derived: Option<(&'static str, usize, usize)>,
    /// Extents of each input and of the output, x first, for which schedules are made where there is none by hand.
    usual: &'static [&'static [i32]],
}

/// All layers.
pub const LAYERS: [Layer; 5] = [
    Layer {
        application: &bilateral_slice::APPLICATION,
        axes: &[&["N", "CO (CI + 1)", "D", "H / cell", "W / cell"], &["N", "H", "W"], &["N", "CI", "H", "W"]],
        derived: Some(("channels", 2, 1)),
        usual: &[&[16, 16, 8, 12, 4], &[256, 256, 4], &[256, 256, 3, 4], &[256, 256, 3, 4]],
    },
    Layer {
        application: &bilateral_slice_3d::APPLICATION,
        axes: &[
            &["N", "CO (CI + 1)", "D", "Z / cell", "H / cell", "W / cell"],
            &["N", "Z", "H", "W"],
            &["N", "CI", "Z", "H", "W"],
        ],
        derived: Some(("channels", 2, 1)),
        usual: &[&[8, 8, 8, 8, 12, 1], &[64, 64, 64, 1], &[64, 64, 64, 3, 1], &[64, 64, 64, 3, 1]],
    },
    Layer {
        application: &spatial_transformer::APPLICATION,
        axes: &[&["N", "C", "H", "W"], &["N", "2", "3"]],
        derived: None,
        usual: &[&[256, 256, 16, 4], &[3, 2, 4], &[256, 256, 16, 4]],
    },
    Layer {
        application: &flow_warp::APPLICATION,
        axes: &[&["N", "C", "H", "W"], &["N", "2", "H", "W"]],
        derived: None,
        usual: &[&[256, 256, 16, 4], &[256, 256, 2, 4], &[256, 256, 16, 4]],
    },
    Layer {
        application: &bicubic_warp::APPLICATION,
        axes: &[&["N", "C", "H", "W"], &["N", "2", "H", "W"]],
        derived: None,
        usual: &[&[256, 256, 16, 4], &[256, 256, 2, 4], &[256, 256, 16, 4]],
    },
];

/// The routines of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pass {
    /// The output.
    Forward,
    /// J^T w.
    Backward,
    /// The slopes of <v, J^T w>.
    DoubleBackward,
}

impl Pass {
    /// Every pass with its name.
    pub const ALL: [(Pass, &'static str); 3] =
        [(Pass::Forward, "forward"), (Pass::Backward, "backward"), (Pass::DoubleBackward, "double_backward")];
}

/// The way in which neighbours of the last axis lie in memory, of all buffers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lines {
    /// Next to each other: vectors are loaded and stored as such.
    Dense,
    /// At any distance, which may be negative: vectors are loaded and stored element by element.
    Strided,
}

/// A routine of a layer.
pub struct Routine {
    /// It.
    pub pipeline: Pipeline,
    /// Its schedule.
    pub schedule: Schedule,
    /// The inputs of the pipeline, in the order of [`Layer::arguments`].
    pub arguments: Vec<Name>,
    /// Its outputs, in the order of [`Layer::results`].
    pub results: Vec<Name>,
}

/// An array that a routine takes or gives.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// Its name: of an input the input's own; `v.INPUT`, `d.INPUT`; `output`, `w`, `d.w`.
    pub name: String,
    /// The input whose shape it has, by its number; none for that of the output.
    pub slot: Option<usize>,
}

impl Layer {
    /// The layer of this name.
    pub fn find(name: &str) -> Option<&'static Layer> {
        LAYERS.iter().find(|layer| layer.application.name == name)
    }

    /// Sets it up: parameters as text, for arrays of this type.
    ///
    /// # Errors
    /// Unknown parameters, and values that they do not take.
    pub fn setup(&self, given: &[(String, String)], f64: bool) -> Result<Setup, SetupError> {
        let ty = ("type".to_string(), if f64 { "f64" } else { "f32" }.to_string());
        self.application.setup(&[given, &[ty]].concat(), 8)
    }

    /// A routine of it.
    ///
    /// # Errors
    /// What the engine refuses: none of the layers here.
    pub fn routine(&self, setup: &Setup, pass: Pass, lines: Lines) -> Result<Routine, PipelineError> {
        let mut routine = match pass {
            Pass::Forward => self.forward(setup)?,
            Pass::Backward => self.backward(setup)?,
            Pass::DoubleBackward => self.double_backward(setup)?,
        };
        if lines == Lines::Strided {
            let inputs = routine.pipeline.inputs.values_mut().map(|input| &mut input.constraints);
            let outputs = routine.pipeline.outputs.iter_mut().map(|output| &mut output.constraints);
            inputs.chain(outputs).filter_map(|all| all.first_mut()).for_each(|c| c.stride = None);
        }
        Ok(routine)
    }

    /// The names of the inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &'static str> {
        self.application.slots.iter().filter(|slot| slot.planes == Planes::Array).map(|slot| slot.name)
    }

    /// The parameters that the shapes of arrays do not say, nor their type.
    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        let derived = self.derived.map(|(name, ..)| name);
        let said = move |p: &&Parameter| p.name != FLOATS.name && Some(p.name) != derived;
        self.application.parameters.iter().filter(said)
    }

    /// The arrays that a pass takes.
    pub fn arguments(&self, pass: Pass) -> Vec<Argument> {
        let w = Argument { name: "w".into(), slot: None };
        match pass {
            Pass::Forward => self.each(""),
            Pass::Backward => [vec![w], self.each("")].concat(),
            Pass::DoubleBackward => [self.each("v."), vec![w], self.each("")].concat(),
        }
    }

    /// The arrays that a pass gives.
    pub fn results(&self, pass: Pass) -> Vec<Argument> {
        let of_output = |name: &str| Argument { name: name.into(), slot: None };
        match pass {
            Pass::Forward => vec![of_output("output")],
            Pass::Backward => self.each("d."),
            Pass::DoubleBackward => [vec![of_output("d.w")], self.each("d.")].concat(),
        }
    }

    /// One array for each input.
    fn each(&self, before: &str) -> Vec<Argument> {
        let one = |(k, of)| Argument { name: format!("{before}{of}"), slot: Some(k) };
        self.inputs().enumerate().map(one).collect()
    }

    /// The buffers of the inputs.
    fn own(&self) -> impl Iterator<Item = Name> {
        self.inputs().map(Name::from)
    }

    fn forward(&self, setup: &Setup) -> Result<Routine, PipelineError> {
        let pipeline = (self.application.build)(setup);
        let schedule = self.schedule(self.by_hand("hand")?, &pipeline)?;
        Ok(Routine { pipeline, schedule, arguments: self.own().collect(), results: vec!["output".into()] })
    }

    fn backward(&self, setup: &Setup) -> Result<Routine, PipelineError> {
        let mut whole = (self.application.build)(setup);
        let gradient = Gradient::add_to(&mut whole)?;
        let own = self.by_hand("gradient")?;
        let [_, (pipeline, half)] = gradient.halves(&whole, own.as_ref().unwrap_or(&Schedule::new()))?;
        let schedule = self.schedule(own.map(|_| half), &pipeline)?;
        let weights = gradient.weights.iter().map(|w| w.input.clone());
        let arguments = weights.chain(self.own()).collect();
        let results = gradient.slopes.iter().map(|slope| slope.output.clone()).collect();
        Ok(Routine { pipeline, schedule, arguments, results })
    }

    fn double_backward(&self, setup: &Setup) -> Result<Routine, PipelineError> {
        let mut p = (self.application.build)(setup);
        p.name = format!("{}_double_backward", p.name);
        let ty = setup.floats();
        let directions: Vec<(&str, String)> = self.inputs().map(|of| (of, format!("v_{of}"))).collect();
        for (of, by) in &directions {
            let dims = p.inputs[*of].dims;
            tensor(&mut p, by, ty, dims);
        }
        let dims = p.funcs["output"].vars.len();
        tensor(&mut p, "w", ty, dims);
        let named: Vec<(&str, &str)> = directions.iter().map(|(of, by)| (*of, by.as_str())).collect();
        let tangents = propagate_tangents(&mut p, &named)?;
        let tangent = tangents.of("output").cloned().ok_or_else(|| no_slope("output", &p))?;
        p.outputs.clear();
        output_over(&mut p, &tangent, &"w".into());
        let wrt: Vec<&str> = self.inputs().collect();
        let adjoints = propagate_adjoints(&mut p, &[(&*tangent.name, "w")], &wrt)?;
        let mut results = vec![tangent.name];
        for of in wrt {
            let slope = adjoints.of(of).cloned().ok_or_else(|| no_slope(of, &p))?;
            output_over(&mut p, &slope, &of.into());
            results.push(slope.name);
        }
        let schedule = self.schedule(None, &p)?;
        let directions = directions.into_iter().map(|(_, by)| Name::from(by));
        let arguments = directions.chain(["w".into()]).chain(self.own()).collect();
        Ok(Routine { pipeline: p, schedule, arguments, results })
    }

    /// The schedule of this name, if there is one.
    fn by_hand(&self, name: &str) -> Result<Option<Schedule>, PipelineError> {
        Ok(self.application.schedule(name).transpose()?)
    }

    /// A schedule by hand, or one of `p` for usual sizes.
    fn schedule(&self, by_hand: Option<Schedule>, p: &Pipeline) -> Result<Schedule, PipelineError> {
        if let Some(by_hand) = by_hand {
            return Ok(by_hand);
        }
        // Buffers are called as what they are shaped like, or so behind a letter.
        let output = self.usual[self.usual.len() - 1];
        let inputs: Vec<(&str, &[i32])> = self.inputs().zip(self.usual.iter().copied()).collect();
        let like = |name: &str| {
            let of = inputs.iter().find(|(of, _)| name.trim_end_matches('_').ends_with(of));
            of.map_or(output, |(_, extents)| *extents)
        };
        let names = p.inputs.keys().chain(p.outputs.iter().map(|o| &o.func));
        let estimates: Vec<(&str, &[i32])> = names.map(|name| (&**name, like(name))).collect();
        Ok(schedule(p, &estimates, &[], &[])?)
    }
}

/// A result that does not depend on what it is derived for.
fn no_slope(of: &str, p: &Pipeline) -> PipelineError {
    PipelineError::Given(format!("{}: {of} has no second derivative", p.name))
}
