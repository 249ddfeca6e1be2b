//! Layers: their arguments checked, their routines compiled once and run where Python's lock is not held.

use crate::error::{Refused, engine, guarded, pipeline};
use crate::pools::pool;
use crate::tensor::{Floats, Place, Tensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use sumsq::codegen::compile::Compiled;
use sumsq::codegen::runtime::{Buffer, BufferError, Element, Pool, View};
use sumsq::codegen::{Name, Target};
use sumsq_examples::pipelines::{self, Argument, LAYERS, Lines, Pass, Setup};

/// An object of Python where there is one.
type Given<'py> = Option<Bound<'py, PyAny>>;

/// Every layer with its inputs and parameters.
pub fn layers() -> Vec<(&'static str, Vec<&'static str>, Vec<&'static str>)> {
    let parameters = |layer: &pipelines::Layer| layer.parameters().map(|p| p.name).collect();
    LAYERS.iter().map(|layer| (layer.application.name, layer.inputs().collect(), parameters(layer))).collect()
}

/// `run(layer, pass, arguments, results, parameters, threads)`: runs a pass on arrays in the order of its arguments, into arrays in the order of its
/// results, which are returned: those that are None are made, or all where there is no list. In place of a direction v there may be None, for zeros.
pub fn run(args: &Bound<'_, PyTuple>) -> PyResult<Vec<Py<PyAny>>> {
    type Arguments<'py> =
        (String, String, Vec<Given<'py>>, Option<Vec<Given<'py>>>, Vec<(String, String)>, Option<i64>);
    let py = args.py();
    let (layer, pass, arguments, results, parameters, threads): Arguments = args.extract()?;
    let known = || LAYERS.iter().map(|l| l.application.name).collect::<Vec<_>>().join(", ");
    let unknown = || Refused::Layer { came: layer.clone(), known: known() };
    let layer = pipelines::Layer::find(&layer).ok_or_else(unknown)?;
    let pass = Pass::ALL.iter().find(|(_, name)| *name == pass).map(|(pass, _)| *pass);
    let pass = pass.ok_or_else(|| PyValueError::new_err("there is no such pass"))?;
    let pool = pool(threads)?;
    let call = Call::new(layer, pass, &arguments, parameters)?;
    let (results, into) = call.results(py, results)?;
    let lines = if call.is_dense(&into) { Lines::Dense } else { Lines::Strided };
    let places = |of: &[Tensor]| of.iter().map(Tensor::place).collect::<Vec<Place>>();
    let (from, to) = (places(&call.tensors), places(&into));
    let asked = &call.asked;
    py.detach(|| {
        guarded(|| {
            let kernel = kernel(asked, lines)?;
            // SAFETY: the tensors are alive until this function ends, and have elements of this type; no result shares memory with another or
            // with an argument. Python code that writes to them meanwhile races as it does with any function that lets go of the lock.
            unsafe {
                match asked.floats {
                    Floats::F32 => kernel.run::<f32>(asked, &pool, &from, &to),
                    Floats::F64 => kernel.run::<f64>(asked, &pool, &from, &to),
                }
            }
        })
    })?;
    Ok(results.into_iter().map(Bound::unbind).collect())
}

/// The purpose of a routine.
struct Asked {
    layer: &'static pipelines::Layer,
    pass: Pass,
    setup: Setup,
    parameters: Vec<(String, String)>,
    floats: Floats,
}

/// A call whose arguments were checked.
struct Call {
    asked: Asked,
    /// In the order of the arguments.
    tensors: Vec<Tensor>,
    arguments: Vec<Argument>,
    /// As NumPy has it.
    output: Vec<usize>,
    /// The row of zeros that stands for directions that are not given.
    _zeros: Vec<u64>,
}

impl Call {
    fn new(
        layer: &'static pipelines::Layer,
        pass: Pass,
        given: &[Given],
        parameters: Vec<(String, String)>,
    ) -> PyResult<Call> {
        let arguments = layer.arguments(pass);
        let name = layer.application.name;
        if given.len() != arguments.len() {
            let names = arguments.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
            let (expected, came) = (arguments.len(), given.len());
            return Err(Refused::Count { layer: name, expected, names, came }.into());
        }
        let count = layer.inputs().count();
        let of_inputs = arguments.len() - count;
        let mut inputs = vec![];
        for (argument, given) in arguments.iter().zip(given).skip(of_inputs) {
            inputs.push(borrow(argument, given.as_ref())?);
        }
        let floats = inputs[0].floats;
        let like = &arguments[of_inputs].name;
        for (argument, tensor) in arguments[of_inputs..].iter().zip(&inputs) {
            same_type(argument, tensor, floats, like)?;
            fits_axes(layer, argument, tensor)?;
        }
        let mut all = parameters.clone();
        if let Some((parameter, slot, axis)) = layer.derived {
            all.push((parameter.to_string(), inputs[slot].shape[axis].to_string()));
        }
        let setup = layer.setup(&all, floats == Floats::F64);
        let setup = setup.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let output = output(layer, &setup, &inputs)?;
        let shape_of = |a: &Argument| a.slot.map_or(&output, |slot| &inputs[slot].shape).clone();
        let zeros = vec![0; arguments.iter().filter_map(|a| shape_of(a).last().copied()).max().unwrap_or(0)];
        let mut tensors = vec![];
        for (argument, given) in arguments.iter().zip(given).take(of_inputs) {
            let expected = shape_of(argument);
            let tensor = match (given, argument.name.starts_with("v.")) {
                (None, true) => Tensor::zeros(&expected, floats, &zeros),
                (given, _) => borrow(argument, given.as_ref())?,
            };
            same_type(argument, &tensor, floats, like)?;
            same_shape(layer, argument, &tensor, &expected)?;
            tensors.push(tensor);
        }
        tensors.extend(inputs);
        let asked = Asked { layer, pass, setup, parameters: all, floats };
        Ok(Call { asked, tensors, arguments, output, _zeros: zeros })
    }

    /// The arrays for the results, those made that are not given, and their memory.
    fn results<'py>(
        &self,
        py: Python<'py>,
        given: Option<Vec<Given<'py>>>,
    ) -> PyResult<(Vec<Bound<'py, PyAny>>, Vec<Tensor>)> {
        let Asked { layer, pass, floats, .. } = &self.asked;
        let results = layer.results(*pass);
        let given = given.unwrap_or_else(|| vec![None; results.len()]);
        if given.len() != results.len() {
            let names = results.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
            let (layer, expected, came) = (layer.application.name, results.len(), given.len());
            return Err(Refused::Count { layer, expected, names, came }.into());
        }
        let (mut objects, mut tensors): (Vec<_>, Vec<Tensor>) = (vec![], vec![]);
        let inputs = &self.tensors[self.tensors.len() - layer.inputs().count()..];
        for (k, (result, given)) in results.iter().zip(given).enumerate() {
            let expected = result.slot.map_or(&self.output, |slot| &inputs[slot].shape);
            let object = match given {
                Some(object) => object,
                None => {
                    let shape = PyTuple::new(py, expected)?;
                    py.import("numpy")?.call_method1("empty", (shape, floats.name()))?
                }
            };
            let tensor = Tensor::borrow(&result.name, &object)?;
            let like = &self.arguments[self.arguments.len() - inputs.len()].name;
            same_type(result, &tensor, *floats, like)?;
            same_shape(layer, result, &tensor, expected)?;
            if !tensor.writable {
                return Err(Refused::ReadOnly(result.name.clone()).into());
            }
            let earlier = results[..k].iter().zip(&tensors);
            let others = self.arguments.iter().zip(&self.tensors).chain(earlier);
            if let Some((other, _)) = others.into_iter().find(|(_, other)| tensor.meets(other)) {
                let (name, other) = (result.name.clone(), other.name.clone());
                return Err(Refused::Overlap { name, other }.into());
            }
            objects.push(object);
            tensors.push(tensor);
        }
        Ok((objects, tensors))
    }

    /// Do neighbours of the last axis lie next to each other, in all arrays?
    fn is_dense(&self, results: &[Tensor]) -> bool {
        self.tensors.iter().chain(results).all(Tensor::is_dense)
    }
}

fn borrow(argument: &Argument, given: Option<&Bound<'_, PyAny>>) -> PyResult<Tensor> {
    let none = || Refused::NoTensor { name: argument.name.clone(), came: "None".into() };
    Tensor::borrow(&argument.name, given.ok_or_else(none)?)
}

fn same_type(argument: &Argument, tensor: &Tensor, floats: Floats, like: &str) -> Result<(), Refused> {
    if tensor.floats == floats {
        return Ok(());
    }
    let (name, like) = (argument.name.clone(), like.to_string());
    Err(Refused::Mixed { name, expected: floats.name(), like, came: tensor.floats.name() })
}

/// Checks the number of axes of an input, and that there is something along each.
fn fits_axes(layer: &pipelines::Layer, argument: &Argument, tensor: &Tensor) -> Result<(), Refused> {
    let axes = argument.slot.map_or(&[][..], |slot| layer.axes[slot]);
    let (name, came) = (argument.name.clone(), shape(&tensor.shape));
    if tensor.shape.len() != axes.len() {
        return Err(Refused::Rank { name, axes: axes.join(", "), came });
    }
    if tensor.is_empty() || tensor.shape.iter().any(|&n| i32::try_from(n).is_err()) {
        return Err(Refused::Extent { name, came });
    }
    Ok(())
}

fn same_shape(
    layer: &pipelines::Layer,
    argument: &Argument,
    tensor: &Tensor,
    expected: &[usize],
) -> Result<(), Refused> {
    if tensor.shape == expected {
        return Ok(());
    }
    let like = argument.slot.and_then(|slot| layer.inputs().nth(slot)).unwrap_or("the output").to_string();
    let (name, expected, came) = (argument.name.clone(), shape(expected), shape(&tensor.shape));
    Err(Refused::Shape { name, like, expected, came })
}

/// The shape of the output.
fn output(layer: &pipelines::Layer, setup: &Setup, inputs: &[Tensor]) -> Result<Vec<usize>, Refused> {
    let extents = |t: &Tensor| t.shape.iter().rev().map(|&n| n as i32).collect::<Vec<i32>>();
    let inputs_extents: Vec<Vec<i32>> = inputs.iter().map(extents).collect();
    let of = (layer.application.extents)(setup, &inputs_extents);
    of.map(|extents| extents.iter().rev().map(|&n| n.max(0) as usize).collect()).map_err(|_| {
        let came = layer.inputs().zip(inputs).map(|(name, t)| format!("{name} {}", shape(&t.shape)));
        let expected =
            layer.inputs().zip(layer.axes).map(|(name, axes)| format!("{name} ({})", axes.join(", ")));
        let list = |of: Vec<String>| of.join(", ");
        let layer = layer.application.name;
        Refused::Shapes { layer, came: list(came.collect()), expected: list(expected.collect()) }
    })
}

/// A shape as Python writes it.
fn shape(of: &[usize]) -> String {
    let list = of.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if of.len() == 1 { format!("({list},)") } else { format!("({list})") }
}

/// A routine as machine code.
struct Kernel {
    compiled: Compiled,
    arguments: Vec<Name>,
    results: Vec<Name>,
}

/// The key that a routine is compiled for: layer, parameters with the type, pass, lines.
type Key = (&'static str, Vec<(String, String)>, Floats, Pass, Lines);

/// A place that whoever compiles the routine holds.
type Kept = Arc<Mutex<Option<Arc<Kernel>>>>;

static KERNELS: LazyLock<Mutex<HashMap<Key, Kept>>> = LazyLock::new(Mutex::default);

/// The number of routines that were compiled, or loaded from the cache.
static COMPILED: AtomicUsize = AtomicUsize::new(0);

/// The number of routines that this process has made so far.
pub fn compiled() -> usize {
    COMPILED.load(Ordering::Relaxed)
}

/// The routine that is asked for: compiled when it is called for the first time, of several threads by the first.
fn kernel(call: &Asked, lines: Lines) -> PyResult<Arc<Kernel>> {
    let mut parameters = call.parameters.clone();
    parameters.sort();
    let key = (call.layer.application.name, parameters, call.floats, call.pass, lines);
    let kept = KERNELS.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
    let mut place = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kernel) = &*place {
        return Ok(kernel.clone());
    }
    let routine = call.layer.routine(&call.setup, call.pass, lines).map_err(|e| pipeline(&e))?;
    let compiled = Compiled::new(&routine.pipeline, &routine.schedule, &Target::host());
    let compiled = compiled.map_err(|e| engine(&e))?;
    COMPILED.fetch_add(1, Ordering::Relaxed);
    let kernel = Kernel { compiled, arguments: routine.arguments, results: routine.results };
    Ok(place.insert(Arc::new(kernel)).clone())
}

impl Kernel {
    /// Runs it.
    ///
    /// # Safety
    /// As of [`Place::view`], for all places, of which the second ones are written to.
    unsafe fn run<T: Element>(
        &self,
        call: &Asked,
        pool: &Pool,
        from: &[Place],
        to: &[Place],
    ) -> PyResult<()> {
        let mut views: Vec<(&str, View)> = vec![];
        for (buffer, place) in self.arguments.iter().zip(from) {
            // SAFETY: promised by whoever calls.
            let view = unsafe { place.view::<T>(false) };
            views.push((buffer, view.map_err(|e| unfit(buffer, &e))?));
        }
        for (buffer, (place, result)) in self.results.iter().zip(to.iter().zip(call.layer.results(call.pass)))
        {
            // SAFETY: promised by whoever calls.
            let view = unsafe { place.view::<T>(true) };
            views.push((buffer, view.map_err(|e| unfit(&result.name, &e))?));
        }
        let buffers: Vec<(&str, &Buffer)> = views.iter().map(|(name, view)| (*name, &**view)).collect();
        self.compiled.run(pool, &buffers, &[]).map_err(|e| engine(&e))
    }
}

/// Memory that is no buffer of the engine.
fn unfit(name: &str, error: &BufferError) -> PyErr {
    match error {
        BufferError::Overlap { .. } => Refused::Shared(name.to_string()).into(),
        other => PyValueError::new_err(format!("{name}: {other}")),
    }
}
