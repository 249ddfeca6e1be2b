//! J^T w of an application, beside its outputs.

use super::algorithm::Algorithm;
use super::application::Planes;
use super::planar::{Planar, Values, shape};
use super::run::PipelineError;

use sumsq::codegen::gradient::{Adjoints, propagate_adjoints};
use sumsq::codegen::{Constraint, Error, Func, Input, Name, Pipeline, ScalarType, Schedule};
use sumsq::{ArrayData, NamedArray};

/// Reasons why there is no gradient.
#[derive(Debug, thiserror::Error)]
pub enum GradientError {
    /// All outputs are integers.
    #[error("{0} has no gradient: its outputs are of integers, whose slope is 0 wherever there is one")]
    NoOutput(String),
    /// There is nothing to derive for.
    #[error("{0} has no gradient: neither an input nor a parameter of it is of floats")]
    NoInput(String),
    /// An array `w.NAME` without output NAME.
    #[error("w.{name}: {application} has no output {name} of floats; it has {known}")]
    Unknown {
        /// The application.
        application: String,
        /// As it came.
        name: String,
        /// The outputs of floats.
        known: String,
    },
    /// Weights of another shape than the output's.
    #[error("w.{output}: expected the shape of {output}, {expected}, came {came}")]
    Shape {
        /// The output.
        output: Name,
        /// Its shape.
        expected: String,
        /// As it came.
        came: String,
    },
    /// Weights that are no floats.
    #[error("w.{output}: expected floats, came {came}")]
    Type {
        /// The output.
        output: Name,
        /// As it came.
        came: &'static str,
    },
    /// The engine does not derive the algorithm.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// J^T w: for weights w of the outputs, the slopes of the sum of weighted outputs by inputs and parameters.
pub struct Gradient {
    /// One for each output of floats, in their order.
    pub weights: Vec<Weight>,
    /// One for each input and parameter of floats, inputs first.
    pub slopes: Vec<Slope>,
    adjoints: Adjoints,
}

/// The weights of an output.
pub struct Weight {
    /// The output.
    pub output: Name,
    /// The input of the pipeline that has them.
    pub input: Name,
}

/// The slopes by an input or a parameter.
pub struct Slope {
    /// The input or parameter.
    pub of: Name,
    /// The output of the pipeline that has them.
    pub output: Name,
}

impl Gradient {
    /// Adds it to a pipeline: an input for the weights of each output of floats, an output for the slopes by each input and parameter of floats.
    ///
    /// # Errors
    /// A pipeline that lacks the one or the other.
    pub fn add_to(p: &mut Pipeline) -> Result<Gradient, GradientError> {
        let mut weights = vec![];
        for output in p.outputs.iter().map(|o| o.func.clone()).collect::<Vec<_>>() {
            let func = &p.funcs[&output];
            let (types, dims) = (func.types(), func.vars.len());
            if types.iter().all(|ty| ty.is_float()) {
                let input: Name = format!("w_{output}").into();
                // Outputs are computed from 0 on.
                let constraints = Constraint::defaults(dims).into_iter().map(|c| c.min(0)).enumerate();
                let strided = Input::strided(input.clone(), &types, dims);
                p.input(constraints.fold(strided, |input, (d, c)| input.constrain(d, c)));
                weights.push(Weight { output, input });
            }
        }
        if weights.is_empty() {
            return Err(GradientError::NoOutput(p.name.clone()));
        }
        let is_real = |types: &[ScalarType]| types.iter().all(|ty| ty.is_float());
        let inputs = p.inputs.iter().filter(|(_, input)| is_real(&input.types)).map(|(name, _)| name);
        let inputs = inputs.filter(|name| weights.iter().all(|w| w.input != **name));
        let params = p.params.iter().filter(|(_, ty)| ty.is_float()).map(|(name, _)| name);
        let wrt: Vec<Name> = inputs.chain(params).cloned().collect();
        if wrt.is_empty() {
            return Err(GradientError::NoInput(p.name.clone()));
        }
        let seeds: Vec<(&str, &str)> = weights.iter().map(|w| (&*w.output, &*w.input)).collect();
        let names: Vec<&str> = wrt.iter().map(|name| &**name).collect();
        let adjoints = propagate_adjoints(p, &seeds, &names)?;
        let mut slopes = vec![];
        for of in wrt {
            if let Some(func) = adjoints.of(&of) {
                output_over(p, func, &of);
                slopes.push(Slope { of, output: func.name.clone() });
            }
        }
        Ok(Gradient { weights, slopes, adjoints })
    }

    /// Cuts `p`, which it was added to, in two: the outputs, called `NAME_forward`, and the slopes, called `NAME_backward`, which take nothing from the
    /// first but compute what they need of it again. Each has the directives of `schedule`, one of `p`, that are of its Funcs.
    ///
    /// # Errors
    /// Slopes that need the size of an output without weights.
    pub fn halves(&self, p: &Pipeline, schedule: &Schedule) -> Result<[(Pipeline, Schedule); 2], Error> {
        let (forward, backward) = self.adjoints.split(p, &[])?;
        Ok([forward, backward].map(|half| {
            let mut own = schedule.clone();
            // Funcs that a directive made are in no pipeline.
            let is_gone = |func: &Name| p.funcs.contains_key(func) && !half.funcs.contains_key(func);
            own.stages.retain(|stage, _| !is_gone(&stage.func));
            (half, own)
        }))
    }

    /// The slope that an output of the pipeline has, if it has one.
    pub fn slope(&self, output: &str) -> Option<&Slope> {
        self.slopes.iter().find(|slope| &*slope.output == output)
    }

    /// Sizes of inputs and outputs by those of the algorithm's own; `extents` are those of its outputs.
    pub(super) fn estimates<'a>(
        &'a self,
        own: Vec<(&'a str, &'a [i32])>,
        extents: &'a [i32],
    ) -> Vec<(&'a str, &'a [i32])> {
        let weights = self.weights.iter().map(|w| (&*w.input, extents));
        let slopes = self.slopes.iter().filter_map(|s| {
            let of = own.iter().find(|(name, _)| *name == &*s.of)?;
            Some((&*s.output, of.1))
        });
        let more: Vec<(&str, &[i32])> = weights.chain(slopes).collect();
        own.into_iter().chain(more).collect()
    }
}

/// Makes `func` an output over the domain of the input `of`, if that is one: so that slopes are summed in place.
pub(super) fn output_over(p: &mut Pipeline, func: &Func, of: &Name) {
    let mut constraints = Constraint::defaults(func.vars.len());
    for (d, c) in constraints.iter_mut().enumerate() {
        if let Some(input) = p.inputs.get(of) {
            *c = c.clone().min(input.min(d)).extent(input.extent(d));
        }
    }
    p.output_strided(func, constraints);
}

impl Algorithm {
    /// The weights of the outputs, for inputs in the order of the slots: the array `w.NAME` for output NAME, else ones. None without a gradient.
    ///
    /// # Errors
    /// Weights of another shape or type than the output; weights of what is no output of floats; inputs for which there is no output.
    pub fn weights(&self, arrays: &[NamedArray], inputs: &[Planar]) -> Result<Vec<Planar>, PipelineError> {
        let Some(gradient) = &self.gradient else { return Ok(vec![]) };
        let weights = arrays.iter().filter_map(|a| Some((a.name.strip_prefix("w.")?, a)));
        for (name, _) in weights {
            if gradient.weights.iter().all(|w| &*w.output != name) {
                let known = gradient.weights.iter().map(|w| &*w.output).collect::<Vec<_>>().join(", ");
                let application = self.pipeline.name.clone();
                return Err(GradientError::Unknown { application, name: name.to_string(), known }.into());
            }
        }
        let mut extents = self.extents(inputs)?;
        extents.extend(self.planes(inputs));
        let of = |w: &Weight| match arrays.iter().find(|a| a.name.strip_prefix("w.") == Some(&w.output)) {
            Some(array) => self.weight(&w.output, array, &extents),
            None => {
                let count = extents.iter().map(|&n| n.max(0) as usize).product();
                Ok(Planar { extents: extents.clone(), values: Values::F32(vec![1.0; count]) })
            }
        };
        gradient.weights.iter().map(of).collect()
    }

    /// An array as the weights of an output of these extents.
    fn weight(&self, output: &Name, array: &NamedArray, extents: &[i32]) -> Result<Planar, PipelineError> {
        if !matches!(array.data, ArrayData::F32(_) | ArrayData::F64(_)) {
            let (output, came) = (output.clone(), array.data.dtype());
            return Err(GradientError::Type { output, came }.into());
        }
        let pictures = self.has_pictures();
        let weight = Planar::of_array(array, pictures)?;
        if weight.extents != extents {
            let (expected, came) = (in_words(&shape(extents, pictures)), in_words(&array.shape));
            return Err(GradientError::Shape { output: output.clone(), expected, came }.into());
        }
        Ok(weight)
    }

    /// Is an input a picture? Then outputs are, whose arrays have channels last.
    fn has_pictures(&self) -> bool {
        self.application.slots.iter().any(|slot| slot.planes != Planes::Array)
    }

    /// True if a result is a picture: a slope `d.NAME` where the input NAME is one.
    pub fn is_picture(&self, result: &str) -> bool {
        let slots = self.application.slots;
        let of = result.strip_prefix("d.").and_then(|of| slots.iter().find(|slot| slot.name == of));
        of.map_or_else(|| self.has_pictures(), |slot| slot.planes != Planes::Array)
    }
}

/// A shape as NumPy writes it.
fn in_words(shape: &[usize]) -> String {
    let list = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if shape.len() == 1 { format!("({list},)") } else { format!("({list})") }
}
