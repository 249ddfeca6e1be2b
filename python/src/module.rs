//! The entry point of the extension module, and all that is in it.

use crate::{error, layer, solve};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyModule};
use std::ffi::CStr;
use std::ptr;

/// The module, of which the interpreter takes no copy.
struct Definition(std::cell::UnsafeCell<ffi::PyModuleDef>);

// SAFETY: the interpreter alone touches it, with its lock held.
unsafe impl Sync for Definition {}

static DEFINITION: Definition = Definition(std::cell::UnsafeCell::new(ffi::PyModuleDef {
    m_base: ffi::PyModuleDef_HEAD_INIT,
    m_name: c"_native".as_ptr(),
    m_doc: ptr::null(),
    // Routines and threads belong to the process: the module has no state, and is not imported by several interpreters.
    m_size: -1,
    m_methods: ptr::null_mut(),
    m_slots: ptr::null_mut(),
    m_traverse: None,
    m_clear: None,
    m_free: None,
}));

/// The entry point that `import` looks for.
///
/// # Safety
/// Called by the interpreter, with its lock held.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PyInit__native() -> *mut ffi::PyObject {
    // SAFETY: as this function's; the module is a new reference, or null behind an exception.
    unsafe {
        let py = Python::assume_attached();
        let module = ffi::PyModule_Create(DEFINITION.0.get());
        match Bound::from_owned_ptr_or_err(py, module).and_then(filled) {
            Ok(module) => module.into_ptr(),
            Err(error) => {
                error.restore(py);
                ptr::null_mut()
            }
        }
    }
}

/// The module with all that is in it.
fn filled(module: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = module.py();
    let m = module.cast::<PyModule>()?;
    m.add("Error", py.get_type::<error::Error>())?;
    let named = |name: &'static CStr| (Some(name), None);
    let (name, doc) = named(c"layers");
    m.add("layers", PyCFunction::new_closure(py, name, doc, |_, _| layer::layers())?)?;
    let (name, doc) = named(c"compiled");
    m.add("compiled", PyCFunction::new_closure(py, name, doc, |_, _| layer::compiled())?)?;
    let (name, doc) = named(c"run");
    m.add(
        "run",
        PyCFunction::new_closure(py, name, doc, |args, _| -> PyResult<Vec<Py<PyAny>>> { layer::run(args) })?,
    )?;
    let (name, doc) = named(c"solve");
    m.add("solve", PyCFunction::new_closure(py, name, doc, |args, _| solve::solve(args))?)?;
    Ok(module)
}
