//! Tensors that come and go, and who frees them. Miri runs these, too: it sees what is read after it was freed, and what never is.

use super::*;
use std::cell::Cell;
use std::ptr;

thread_local! {
    /// Tensors that were deleted.
    static DELETED: Cell<usize> = const { Cell::new(0) };
}

/// A tensor of the caller's, over its numbers.
fn tensor(data: *mut c_void, shape: &mut [i64], strides: *mut i64) -> Tensor {
    Tensor {
        data,
        device_type: CPU,
        device_id: 0,
        ndim: shape.len() as i32,
        code: INT,
        bits: 16,
        lanes: 1,
        shape: shape.as_mut_ptr(),
        strides,
        byte_offset: 0,
    }
}

/// Reads a tensor as C does, by its pointers alone.
fn numbers<M: Managed>(made: *mut M) -> (Vec<i64>, Vec<i64>, Vec<f64>) {
    // SAFETY: made by `on_host`, and not freed yet.
    let t = unsafe { &*made }.tensor().unwrap();
    let dims = t.ndim as usize;
    assert_eq!(t.data as usize % ALIGN, 0);
    // SAFETY: as many as there are dims.
    let lists = unsafe { [t.shape, t.strides].map(|list| std::slice::from_raw_parts(list, dims).to_vec()) };
    let [shape, strides] = lists;
    let count: i64 = shape.iter().product();
    // SAFETY: so many floats, which are aligned.
    let values = unsafe { std::slice::from_raw_parts(t.data.cast::<f64>(), count as usize) };
    (shape, strides, values.to_vec())
}

fn goes_out<M: Managed>() {
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let [first, second] = [(); 2].map(|()| on_host::<M>(&values, Element::Float64, &[2, 3]).unwrap());
    for made in [first, second] {
        assert_eq!(numbers(made), (vec![2, 3], vec![3, 1], values.to_vec()));
    }
    // SAFETY: not used again; the other one is its own memory.
    unsafe { M::delete(first) };
    assert_eq!(numbers(second).2, values);
    // SAFETY: not used again.
    unsafe { M::delete(second) };
    // SAFETY: null is nothing to be freed.
    unsafe { free::<M>(ptr::null_mut()) };
}

#[test]
fn a_tensor_that_goes_out_is_freed_by_its_deleter() {
    goes_out::<DLManagedTensor>();
    goes_out::<DLManagedTensorVersioned>();
}

unsafe extern "C" fn delete(tensor: *mut DLManagedTensor) {
    DELETED.set(DELETED.get() + 1);
    // SAFETY: made below by `Box::into_raw`, and deleted once.
    drop(unsafe { Box::from_raw(tensor) });
}

#[test]
fn a_tensor_that_came_is_deleted_once() {
    let numbers = tensor(ptr::null_mut(), &mut [1], ptr::null_mut());
    let came = |deleter| {
        Box::into_raw(Box::new(DLManagedTensor { tensor: numbers, manager: ptr::null_mut(), deleter }))
    };
    let held = [Arc::new(Owned(came(Some(delete)))), Arc::new(Owned(came(Some(delete))))];
    let again = held[0].clone();
    drop(held);
    assert_eq!(DELETED.get(), 1);
    drop(again);
    assert_eq!(DELETED.get(), 2);
    // Memory that its maker keeps.
    let kept = came(None);
    drop(Owned(kept));
    // SAFETY: nobody has freed it.
    drop(unsafe { Box::from_raw(kept) });
    assert_eq!(DELETED.get(), 2);
}

/// Numbers that end where their memory ends, at an odd address.
#[test]
fn numbers_of_the_host_are_packed_from_where_they_lie() {
    let mut bytes = vec![0u8; 13];
    for (i, pair) in bytes[1..].chunks_exact_mut(2).enumerate() {
        pair.copy_from_slice(&(i as i16).to_ne_bytes());
    }
    let data = bytes.as_mut_ptr().cast::<c_void>();
    let packed = |byte_offset, shape: &mut [i64], strides: Option<&mut [i64]>| {
        let given = strides.map_or(ptr::null_mut(), |s| s.as_mut_ptr());
        let t = Tensor { byte_offset, ..tensor(data, shape, given) };
        // SAFETY: all elements lie within `bytes`.
        let packed = unsafe {
            let (shape, strides) = (super::shape(t.ndim, t.shape)?, super::strides(t.ndim, t.strides)?);
            t.packed(t.element()?, &shape, strides.as_deref())
        };
        packed.map(|p| p.chunks_exact(2).map(|c| i16::from_ne_bytes([c[0], c[1]])).collect::<Vec<_>>())
    };
    assert_eq!(packed(1, &mut [2, 3], None).unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(packed(1, &mut [3, 2], Some(&mut [1, 3])).unwrap(), [0, 3, 1, 4, 2, 5]);
    assert_eq!(packed(11, &mut [6], Some(&mut [-1])).unwrap(), [5, 4, 3, 2, 1, 0]);
    assert_eq!(packed(3, &mut [], None).unwrap(), [1]);
    assert!(packed(1, &mut [0, 3], None).is_err());
}
