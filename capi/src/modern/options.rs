//! `sumsq_options`, and structs that carry their size.

use crate::failure::{Failure, Result};
use std::mem::size_of;
use std::ptr;
use std::time::Duration;
use sumsq::energy::Budgets;
use sumsq::{
    Backend, CompileLimits, CompileOptions, Level, LossOrder, MemoryLimit, Method, Options, Precision,
    Preconditioner, SolveOptions,
};

/// A struct that starts with its size in bytes, as the caller's header knew it, and grows at its end only.
///
/// # Safety
/// `repr(C)`, the first field is the `usize` size, and every bit pattern of the others is a value.
pub unsafe trait Growing: Copy {
    /// For messages.
    const NAME: &'static str;
}

/// Returns what the caller knows of `T`, over `defaults`.
///
/// # Safety
/// `from` is null or points to as many bytes as its size says.
pub unsafe fn read<T: Growing>(from: *const T, defaults: T) -> Result<T> {
    // SAFETY: by the contract.
    let size = unsafe { size_at(from) }?;
    let known = size_of::<T>().min(size);
    // SAFETY: by the contract there are `size` bytes.
    let beyond = unsafe { crate::element::view(from.cast::<u8>().wrapping_add(known), size - known) }?;
    if beyond.iter().any(|&b| b != 0) {
        let message = format!("{} sets fields that this version of sumsq does not know", T::NAME);
        return Err(Failure::argument(message));
    }
    let mut value = defaults;
    // SAFETY: both are `known` bytes long, the copy is ours, and whatever bytes come are values of `T`.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast::<u8>(), known) };
    Ok(value)
}

/// Writes what the caller knows of `value`, but for the size.
///
/// # Safety
/// As for [`read`]; the bytes can be written.
pub unsafe fn write<T: Growing>(value: &T, to: *mut T) -> Result<()> {
    // SAFETY: by the contract.
    let known = size_of::<T>().min(unsafe { size_at(to) }?) - size_of::<usize>();
    let from = ptr::from_ref(value).cast::<u8>().wrapping_add(size_of::<usize>());
    let to = to.cast::<u8>().wrapping_add(size_of::<usize>());
    // SAFETY: both hold `known` bytes after the size, and `value` is not the caller's.
    unsafe { ptr::copy_nonoverlapping(from, to, known) };
    Ok(())
}

/// # Safety
/// As for [`read`].
unsafe fn size_at<T: Growing>(from: *const T) -> Result<usize> {
    if from.is_null() {
        return Err(Failure::argument(format!("{} is a null pointer", T::NAME)));
    }
    // SAFETY: not null, and the size comes first by the contract of `Growing`.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    // No struct of ours is near this long: the size was not set.
    if !(size_of::<usize>()..=4096).contains(&size) {
        return Err(Failure::argument(format!("{}: its size was not set (it is {size})", T::NAME)));
    }
    Ok(size)
}

/// `sumsq_options` of the header.
#[allow(non_camel_case_types, missing_docs)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct sumsq_options {
    pub size: usize,
    pub method: i32,
    pub precision: i32,
    pub preconditioner: i32,
    pub threads: i32,
    pub iterations: i64,
    pub linear_iterations: i64,
    pub linear_tolerance: f64,
    pub forcing: f64,
    pub radius: f64,
    pub max_radius: f64,
    pub min_radius: f64,
    pub min_relative_decrease: f64,
    pub function_tolerance: f64,
    pub gradient_tolerance: f64,
    pub gradient_rtol: f64,
    pub max_seconds: f64,
    pub min_lm_diagonal: f64,
    pub max_lm_diagonal: f64,
    pub losses: i32,
    pub running_scales: i32,
    pub step_tolerance: f64,
    pub max_memory: i64,
    pub target: i32,
    pub max_depth: u32,
    pub max_entries: u32,
    pub max_residuals: u32,
    pub max_nodes: u64,
    pub max_steps: u64,
    pub max_lua_instructions: u64,
    pub max_lua_memory: u64,
    pub max_instructions: u64,
    pub max_compile_seconds: f64,
    pub backend: i32,
    pub device: i32,
    pub eta: f64,
}

// SAFETY: repr(C), the size first, then integers and floats.
unsafe impl Growing for sumsq_options {
    const NAME: &'static str = "sumsq_options";
}

impl Default for sumsq_options {
    fn default() -> sumsq_options {
        let (o, budgets, limits) = (SolveOptions::default(), Budgets::default(), CompileLimits::default());
        sumsq_options {
            size: size_of::<sumsq_options>(),
            method: 0,
            precision: 0,
            preconditioner: 0,
            threads: 0,
            iterations: -1,
            linear_iterations: 0,
            linear_tolerance: 0.0,
            forcing: o.forcing,
            radius: 0.0,
            max_radius: o.max_radius,
            min_radius: o.min_radius,
            min_relative_decrease: o.min_relative_decrease,
            function_tolerance: -1.0,
            gradient_tolerance: o.gradient_tolerance,
            gradient_rtol: o.gradient_rtol,
            max_seconds: 0.0,
            min_lm_diagonal: o.min_lm_diagonal,
            max_lm_diagonal: o.max_lm_diagonal,
            losses: 0,
            running_scales: -1,
            step_tolerance: o.step_tolerance,
            max_memory: 0,
            target: 0,
            max_depth: budgets.depth,
            max_entries: budgets.entries,
            max_residuals: budgets.residuals,
            max_nodes: budgets.nodes,
            max_steps: budgets.steps,
            max_lua_instructions: budgets.lua_instructions,
            max_lua_memory: budgets.lua_memory,
            max_instructions: limits.instructions,
            max_compile_seconds: limits.seconds,
            backend: 0,
            device: 0,
            eta: 0.0,
        }
    }
}

impl sumsq_options {
    /// Budgets of an energy that is read with them.
    pub fn budgets(&self) -> Budgets {
        Budgets {
            nodes: self.max_nodes,
            steps: self.max_steps,
            depth: self.max_depth,
            entries: self.max_entries,
            residuals: self.max_residuals,
            lua_instructions: self.max_lua_instructions,
            lua_memory: self.max_lua_memory,
        }
    }

    /// As the solver takes them.
    pub fn options(&self) -> Result<Options> {
        let compile = CompileOptions {
            precision: choice(
                "precision",
                self.precision,
                &[Precision::Mixed, Precision::F32, Precision::F64],
            )?,
            preconditioner: choice("preconditioner", self.preconditioner, Preconditioner::ALL)?.0,
            threads: Some(count("threads", self.threads.into())?).filter(|&n| n > 0),
            max_memory: Some(count("max_memory", self.max_memory)? as u64)
                .filter(|&n| n > 0)
                .map(MemoryLimit::Bytes),
            losses: choice(
                "losses",
                self.losses,
                &[LossOrder::Declared, LossOrder::First, LossOrder::Second],
            )?,
            backend: choice("backend", self.backend, &[Backend::Auto, Backend::Cpu, Backend::Cuda])?,
            device: count("device", self.device.into())?,
            target: choice("target", self.target, Level::ALL)?.0,
            limits: CompileLimits {
                instructions: self.max_instructions,
                seconds: self.max_compile_seconds,
                ..CompileLimits::default()
            },
            ..CompileOptions::default()
        };
        let solve = SolveOptions {
            method: choice("method", self.method, &[Method::LevenbergMarquardt, Method::GaussNewton])?,
            iterations: given(self.iterations, -1).map(|n| count("iterations", n)).transpose()?,
            linear_iterations: Some(count("linear_iterations", self.linear_iterations)?).filter(|&n| n > 0),
            linear_tolerance: Some(self.linear_tolerance).filter(|&t| t != 0.0),
            forcing: self.forcing,
            eta: given(self.eta, 0.0),
            radius: given(self.radius, 0.0),
            max_radius: self.max_radius,
            min_radius: self.min_radius,
            min_relative_decrease: self.min_relative_decrease,
            function_tolerance: given(self.function_tolerance, -1.0),
            gradient_tolerance: self.gradient_tolerance,
            gradient_rtol: self.gradient_rtol,
            max_time: limit(self.max_seconds)?,
            min_lm_diagonal: self.min_lm_diagonal,
            max_lm_diagonal: self.max_lm_diagonal,
            running_scales: given(self.running_scales, -1)
                .map(|code| choice("running_scales", code, &[false, true]))
                .transpose()?,
            step_tolerance: self.step_tolerance,
            ..SolveOptions::default()
        };
        let options = Options { compile, solve };
        options.check()?;
        Ok(options)
    }
}

fn choice<T: Copy>(name: &str, code: i32, of: &[T]) -> Result<T> {
    let found = usize::try_from(code).ok().and_then(|i| of.get(i));
    found
        .copied()
        .ok_or_else(|| Failure::argument(format!("option {name}: {code} is none of its enumerators")))
}

fn count(name: &str, value: i64) -> Result<usize> {
    let bad = |_| Failure::argument(format!("option {name}: expected a count, came {value}"));
    usize::try_from(value).map_err(bad)
}

/// A field, unless it has the value that leaves it open.
fn given<T: PartialEq>(field: T, open: T) -> Option<T> {
    Some(field).filter(|v| *v != open)
}

/// 0 is no limit.
fn limit(seconds: f64) -> Result<Option<Duration>> {
    let bad = |e| Failure::argument(format!("option max_seconds: {seconds}: {e}"));
    if seconds == 0.0 { Ok(None) } else { Duration::try_from_secs_f64(seconds).map(Some).map_err(bad) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    const OWN: usize = size_of::<sumsq_options>();

    /// Memory of a caller whose struct has so many bytes, none beyond, from an address that is aligned to nothing.
    fn memory(size: usize, fill: u8) -> Vec<u8> {
        let mut bytes = vec![fill; 1 + size];
        bytes[1..=size_of::<usize>()].copy_from_slice(&size.to_ne_bytes());
        bytes
    }

    #[test]
    fn structs_of_other_versions_are_read_and_written_within_their_size() {
        let value = sumsq_options { threads: 7, device: 3, ..sumsq_options::default() };
        let (threads, device) =
            (offset_of!(sumsq_options, threads) + 4, offset_of!(sumsq_options, device) + 4);
        for size in [8, threads - 1, threads, 100, device - 1, device, OWN, OWN + 1, OWN + 24] {
            let mut bytes = memory(size, 0);
            let at = bytes[1..].as_mut_ptr().cast::<sumsq_options>();
            // SAFETY: as many bytes as their size says.
            let read =
                unsafe { write(&value, at).and_then(|()| read(at, sumsq_options::default())) }.unwrap();
            let known = |end: usize, value: i32| if size >= end { value } else { 0 };
            // What ends in the middle of a field is less than any version knows; it is not read beyond.
            assert_eq!(
                (read.threads & 0xff, read.device & 0xff),
                (known(threads - 1, 7), known(device - 1, 3))
            );
            assert_eq!(bytes[1..9], size.to_ne_bytes());
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for size in [0, 7, 4097, usize::MAX] {
            let mut bytes = memory(8, 0);
            bytes[1..].copy_from_slice(&size.to_ne_bytes());
            // SAFETY: its size is all that is read.
            let read = unsafe { read(bytes[1..].as_ptr().cast(), sumsq_options::default()) };
            assert!(read.unwrap_err().message.contains("its size was not set"));
        }
        let newer = memory(OWN + 1, 1);
        // SAFETY: as many bytes as their size says, or null.
        let [newer, null] =
            [newer[1..].as_ptr(), ptr::null()].map(|at| unsafe { read(at.cast(), sumsq_options::default()) });
        assert!(newer.unwrap_err().message.contains("sets fields that this version"));
        assert_eq!(null.unwrap_err().message, "sumsq_options is a null pointer");
    }
}
