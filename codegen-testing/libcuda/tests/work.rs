//! Work of streams and graphs: done late, in order, and counted.

mod common;

use common::{INVALID_VALUE, NOT_READY, Program, add_kernel, add_while, alone, cu};
use std::ptr::{null, null_mut};

#[test]
fn work_waits_for_somebody_who_waits() {
    let (_alone, control) = alone();
    let p = Program::start().unwrap();
    let x = p.upload(&[1]).unwrap();
    p.launch("store", p.stream, 1, &mut [x, 5]).unwrap();
    // A copy on the default stream does not wait for this stream: it sees what was there.
    assert_eq!(p.download(x), Ok(1));
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), Ok(()));
    assert_eq!(p.download(x), Ok(5));
    // A pinned destination is written when somebody waits; a pageable one as well.
    let mut pinned = null_mut();
    cu!(cuMemHostAlloc(&mut pinned, 4, 0)).unwrap();
    let mut pageable = 0u32;
    // A reference would promise that nobody writes.
    let pageable = &raw mut pageable;
    // SAFETY: four bytes were allocated.
    unsafe { pinned.cast::<u32>().write(0) };
    for to in [pinned, pageable.cast()] {
        cu!(cuMemcpyDtoHAsync_v2(to, x, 4, p.stream)).unwrap();
    }
    // SAFETY: both live.
    let both = || unsafe { [pinned.cast::<u32>().read(), pageable.read()] };
    assert_eq!(both(), [0, 0]);
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!(both(), [5, 5]);
    // Pinned memory is read late too; a pageable source is free as soon as the call returns.
    let mut source = 7u32;
    cu!(cuMemcpyHtoDAsync_v2(x, (&raw const source).cast(), 4, p.stream)).unwrap();
    source = 8;
    cu!(cuMemcpyHtoDAsync_v2(x, (&raw const source).cast(), 4, p.stream)).unwrap();
    cu!(cuMemcpyHtoDAsync_v2(x, pinned, 4, p.stream)).unwrap();
    // SAFETY: as above.
    unsafe { pinned.cast::<u32>().write(9) };
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!(p.download(x), Ok(9));
    assert_eq!(source, 8);
    cu!(cuMemFreeHost(pinned)).unwrap();
    cu!(cuMemFree_v2(x)).unwrap();
    p.end();
    let counters = control.counters();
    assert_eq!((counters.allocations, counters.objects, counters.leaked), (0, 0, 0));
    assert_eq!((counters.launches, counters.bytes_loaded, counters.bytes_stored), (1, 0, 4));
}

#[test]
fn blocking_streams_wait_for_the_default_one() {
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let mut blocking = null_mut();
    cu!(cuStreamCreate(&mut blocking, 0)).unwrap();
    let x = p.upload(&[1]).unwrap();
    p.launch("store", blocking, 1, &mut [x, 5]).unwrap();
    p.launch("store", null_mut(), 1, &mut [x, 6]).unwrap();
    p.launch("double_until", blocking, 1, &mut [x, 0, 0]).map(drop).unwrap();
    // The handle of no condition ends the last kernel badly, behind the other two.
    assert_eq!(cu!(cuStreamSynchronize(blocking)), common::LAUNCH_FAILED);
    p.end();
}

#[test]
fn events_are_reached_with_the_work_before_them() {
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let mut events = [null_mut(); 2];
    for e in &mut events {
        cu!(cuEventCreate(e, 0)).unwrap();
    }
    let x = p.upload(&[1]).unwrap();
    cu!(cuEventRecord(events[0], p.stream)).unwrap();
    p.launch("store", p.stream, 1, &mut [x, 5]).unwrap();
    cu!(cuEventRecord(events[1], p.stream)).unwrap();
    p.launch("store", p.stream, 1, &mut [x, 6]).unwrap();
    assert_eq!(cu!(cuEventQuery(events[1])), NOT_READY);
    assert_eq!(cu!(cuStreamQuery(p.stream)), NOT_READY);
    let mut milliseconds = 0.0;
    assert_eq!(cu!(cuEventElapsedTime(&mut milliseconds, events[0], events[1])), NOT_READY);
    assert_eq!(cu!(cuEventSynchronize(events[1])), Ok(()));
    assert_eq!(p.download(x), Ok(5));
    cu!(cuEventElapsedTime(&mut milliseconds, events[0], events[1])).unwrap();
    assert!(milliseconds > 0.0);
    // Another stream that waits for the event gets the work done; who asks often enough does too.
    let mut other = null_mut();
    cu!(cuStreamCreate(&mut other, 1)).unwrap();
    cu!(cuEventRecord(events[0], p.stream)).unwrap();
    cu!(cuStreamWaitEvent(other, events[0], 0)).unwrap();
    cu!(cuStreamSynchronize(other)).unwrap();
    assert_eq!(p.download(x), Ok(6));
    p.launch("store", p.stream, 1, &mut [x, 7]).unwrap();
    while cu!(cuStreamQuery(p.stream)) == NOT_READY {}
    assert_eq!(p.download(x), Ok(7));
    p.end();
}

#[test]
fn nodes_run_in_the_worst_order_that_is_allowed() {
    let (_alone, control) = alone();
    let p = Program::start().unwrap();
    let store = p.function("store").unwrap();
    let x = p.upload(&[0]).unwrap();
    let run = |ordered: bool| {
        let (mut graph, mut ready) = (null_mut(), null_mut());
        cu!(cuGraphCreate(&mut graph, 0)).unwrap();
        let first = add_kernel(graph, &[], store, &mut [x, 1]).unwrap();
        let after = if ordered { vec![first] } else { vec![] };
        add_kernel(graph, &after, store, &mut [x, 2]).unwrap();
        cu!(cuGraphInstantiateWithFlags(&mut ready, graph, 0)).unwrap();
        cu!(cuGraphDestroy(graph)).unwrap();
        cu!(cuGraphLaunch(ready, p.stream)).unwrap();
        cu!(cuStreamSynchronize(p.stream)).unwrap();
        cu!(cuGraphExecDestroy(ready)).unwrap();
        p.download(x).unwrap()
    };
    assert_eq!((run(true), run(false)), (2, 1));
    assert_eq!(control.counters().graphs, 2);
    cu!(cuMemFree_v2(x)).unwrap();
    p.end();
    assert_eq!(control.counters().leaked, 0);
}

#[test]
fn a_while_node_runs_until_its_condition_is_zero() {
    let (_alone, control) = alone();
    let p = Program::start().unwrap();
    let (double, store) = (p.function("double_until").unwrap(), p.function("store").unwrap());
    let (x, y) = (p.upload(&[3]).unwrap(), p.upload(&[0]).unwrap());
    let (mut graph, mut ready, mut condition) = (null_mut(), null_mut(), 0);
    cu!(cuGraphCreate(&mut graph, 0)).unwrap();
    cu!(cuGraphConditionalHandleCreate(&mut condition, graph, p.context, 1, 1)).unwrap();
    let (node, body) = add_while(graph, &[], condition, p.context).unwrap();
    add_kernel(body, &[], double, &mut [x, 1000, condition]).unwrap();
    add_kernel(graph, &[node], store, &mut [y, 1]).unwrap();
    cu!(cuGraphInstantiateWithFlags(&mut ready, graph, 0)).unwrap();
    cu!(cuGraphLaunch(ready, p.stream)).unwrap();
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!((p.download(x), p.download(y)), (Ok(3 << 9), Ok(1)));
    // Nine turns, one kernel behind them; a second launch starts with the first value again: one turn.
    assert_eq!(control.counters().launches, 10);
    cu!(cuGraphLaunch(ready, p.stream)).unwrap();
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!((p.download(x), control.counters().launches), (Ok(3 << 10), 12));
    // Arguments are those of when the node was added, until they are replaced.
    cu!(cuGraphExecDestroy(ready)).unwrap();
    cu!(cuGraphDestroy(graph)).unwrap();
    cu!(cuMemFree_v2(x)).unwrap();
    cu!(cuMemFree_v2(y)).unwrap();
    p.end();
    assert_eq!((control.counters().leaked, control.counters().objects), (0, 0));
}

#[test]
fn old_drivers_have_no_while_nodes() {
    let (_alone, control) = alone();
    control.set("DRIVER_VERSION", "12030");
    let p = Program::start().unwrap();
    let (mut graph, mut condition) = (null_mut(), 0);
    cu!(cuGraphCreate(&mut graph, 0)).unwrap();
    assert_eq!(cu!(cuGraphConditionalHandleCreate(&mut condition, graph, p.context, 1, 1)), Err(801));
    cu!(cuGraphDestroy(graph)).unwrap();
    p.end();
}

#[test]
fn a_captured_stream_is_a_graph() {
    let (_alone, control) = alone();
    let p = Program::start().unwrap();
    let x = p.upload(&[1]).unwrap();
    cu!(cuStreamBeginCapture_v2(
        p.stream,
        cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL
    ))
    .unwrap();
    p.launch("store", p.stream, 1, &mut [x, 5]).unwrap();
    cu!(cuMemsetD32Async(x, 6, 1, p.stream)).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), Err(900));
    let (mut graph, mut ready) = (null_mut(), null_mut());
    cu!(cuStreamEndCapture(p.stream, &mut graph)).unwrap();
    cu!(cuGraphInstantiateWithFlags(&mut ready, graph, 0)).unwrap();
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!((p.download(x), control.counters().launches), (Ok(1), 0));
    cu!(cuGraphLaunch(ready, p.stream)).unwrap();
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!(p.download(x), Ok(6));
    // Another kernel in the node's place, for launches from now on.
    let (mut nodes, mut count) = ([null_mut(); 2], 2);
    cu!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count)).unwrap();
    assert_eq!(count, 2);
    let (mut at, mut value) = (x + 4, 1u32);
    let mut pointers = [(&raw mut at).cast(), (&raw mut value).cast()];
    let params = common::kernel_node(p.function("store").unwrap(), &mut pointers);
    assert_eq!(cu!(cuGraphExecKernelNodeSetParams_v2(ready, nodes[0], &params)), Ok(()));
    assert_eq!(cu!(cuGraphExecKernelNodeSetParams_v2(ready, nodes[1], &params)), Ok(()));
    assert_eq!(cu!(cuGraphExecKernelNodeSetParams_v2(ready, null_mut(), &params)), INVALID_VALUE);
    cu!(cuGraphLaunch(ready, p.stream)).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), common::ILLEGAL_ADDRESS);
    p.end();
}

#[test]
fn a_copy_node_and_a_fill_node() {
    use cudarc::driver::sys::{CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUmemorytype};
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let (x, y) = (p.upload(&[1, 2]).unwrap(), p.upload(&[0, 0]).unwrap());
    let (mut graph, mut ready, mut copied, mut filled) = (null_mut(), null_mut(), null_mut(), null_mut());
    cu!(cuGraphCreate(&mut graph, 0)).unwrap();
    let mut copy = std::mem::MaybeUninit::<CUDA_MEMCPY3D>::zeroed();
    let at = copy.as_mut_ptr();
    // SAFETY: numbers and null pointers may be zero, the two kinds of memory are set.
    let copy = unsafe {
        (&raw mut (*at).srcMemoryType).write(CUmemorytype::CU_MEMORYTYPE_DEVICE);
        (&raw mut (*at).dstMemoryType).write(CUmemorytype::CU_MEMORYTYPE_DEVICE);
        CUDA_MEMCPY3D {
            srcDevice: x,
            srcXInBytes: 4,
            dstDevice: y,
            WidthInBytes: 4,
            Height: 1,
            Depth: 1,
            ..copy.assume_init()
        }
    };
    cu!(cuGraphAddMemcpyNode(&mut copied, graph, null(), 0, &copy, p.context)).unwrap();
    let fill = CUDA_MEMSET_NODE_PARAMS { dst: x, pitch: 0, value: 9, elementSize: 4, width: 2, height: 1 };
    cu!(cuGraphAddMemsetNode(&mut filled, graph, &copied, 1, &fill, p.context)).unwrap();
    cu!(cuGraphInstantiateWithFlags(&mut ready, graph, 0)).unwrap();
    cu!(cuGraphLaunch(ready, p.stream)).unwrap();
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!((p.download(y), p.download(x), p.download(x + 4)), (Ok(2), Ok(9), Ok(9)));
    p.end();
}
