//! An application: its algorithm, schedules, inputs and parameters.

use super::planar::Planar;
use super::setup::{LAYOUT, Parameter, Setup, SetupError};
use super::{ALL, OF_DEMOS};
use sumsq::codegen::{Error, Pipeline, Schedule, Target};

/// An image pipeline by name.
pub struct Application {
    /// Its name.
    pub name: &'static str,
    /// Its purpose, in a line.
    pub about: &'static str,
    /// Its inputs, in the order in which pictures are given.
    pub slots: &'static [Slot],
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// The algorithm.
    pub build: fn(&Setup) -> Pipeline,
    /// The extents of the outputs, x first, from those of the inputs in the order of the slots; or why there are none.
    pub extents: Sizes,
    /// Schedules by name: the first is that of the CPU, `gpu` that of a GPU. Without any they are made from the sizes of inputs.
    pub schedules: &'static [(&'static str, &'static str)],
}

/// Extents of outputs by those of inputs.
pub type Sizes = fn(&Setup, &[Vec<i32>]) -> Result<Vec<i32>, String>;

/// An input of an application: its name is that of the pipeline's input.
pub struct Slot {
    /// Its name.
    pub name: &'static str,
    /// Its contents.
    pub about: &'static str,
    /// The way of pictures and arrays into it.
    pub planes: Planes,
    /// Its contents if none are given, unless they have to be.
    pub default: Option<fn(&Setup) -> Planar>,
}

impl Slot {
    /// The input `name`.
    pub const fn new(name: &'static str, about: &'static str, planes: Planes) -> Slot {
        Slot { name, about, planes, default: None }
    }

    /// The same input with a default.
    pub const fn or(self, default: fn(&Setup) -> Planar) -> Slot {
        Slot { default: Some(default), ..self }
    }
}

/// Ways of a picture's channels into an input. Arrays lie in memory as NumPy says, the last axis the fastest: those of pictures have
/// shape H x W x C, others the input's dimensions in reverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planes {
    /// The input has dimensions x, y: the pipeline runs for each channel.
    Each,
    /// The input has dimensions x, y, which are those of a picture in gray.
    One,
    /// Dimensions x, y, c with red, green, blue: gray is repeated, transparency passes by.
    Colour,
    /// Dimensions x, y, c with all the channels that there are.
    All,
    /// Dimensions x, y, c with red, green, blue and transparency.
    Transparent,
    /// No picture: an array that comes by name.
    Array,
}

impl Application {
    /// The application of this name.
    pub fn find(name: &str) -> Option<&'static Application> {
        ALL.into_iter().chain(OF_DEMOS).find(|application| application.name == name)
    }

    /// Sets it up with parameters as text, the others as by default, for pictures with samples of `bits` bits.
    ///
    /// # Errors
    /// Unknown parameters, and values that they do not take.
    pub fn setup(&self, given: &[(String, String)], bits: u32) -> Result<Setup, SetupError> {
        Setup::new(self.name, self.parameters, given, bits)
    }

    /// The names of the schedules, in words.
    pub fn schedule_names(&self) -> String {
        self.schedules.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// The name of the schedule by hand for a CPU: `packed` of pixels whose channels lie side by side; `narrow` where its vectors are shorter than 512 bits
    /// and there is one, else the first.
    pub fn by_hand(&self, target: &Target, setup: &Setup) -> &'static str {
        let is_packed = !["", "planar"].contains(&setup.word(LAYOUT));
        let wanted = |name: &str| match name {
            "packed" => is_packed,
            "narrow" => target.vector_bits() < 512,
            _ => false,
        };
        let own = self.schedules.iter().find(|(name, _)| wanted(name)).or(self.schedules.first());
        own.map_or("hand", |(name, _)| *name)
    }

    /// The schedule of this name, if there is one.
    ///
    /// # Errors
    /// A text that is none.
    pub fn schedule(&self, name: &str) -> Option<Result<Schedule, Error>> {
        self.schedules.iter().find(|(known, _)| *known == name).map(|(_, text)| Schedule::parse(text))
    }
}

/// Outputs of the size of the first input.
pub(super) fn as_first(_: &Setup, inputs: &[Vec<i32>]) -> Result<Vec<i32>, String> {
    inputs.first().cloned().ok_or_else(|| "there is no input".to_string())
}

/// Outputs of the width and height of the first input, and nothing else.
pub(super) fn flat(_: &Setup, inputs: &[Vec<i32>]) -> Result<Vec<i32>, String> {
    inputs.first().map(|n| n[..n.len().min(2)].to_vec()).ok_or_else(|| "there is no input".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_vectors_have_schedules_of_their_own() {
        let name = |application: &str, lanes| {
            let application = Application::find(application).expect("it is listed");
            let setup = application.setup(&[], 8).expect("defaults are taken");
            application.by_hand(&Target::host().with_lanes(lanes), &setup)
        };
        assert_eq!([4, 8, 16].map(|lanes| name("sgemm", lanes)), ["narrow", "narrow", "hand"]);
        assert_eq!([4, 8, 16].map(|lanes| name("blur", lanes)), ["hand"; 3]);
    }
}
