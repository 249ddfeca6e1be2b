//! Programs reach the library through cudarc, as the engine does.

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::sync::Mutex;

/// Settings and counts are those of the process.
static ALONE: Mutex<()> = Mutex::new(());

const KERNELS: &str = include_str!("kernels/kernels.ptx");

#[test]
fn a_kernel_runs() {
    let _alone = ALONE.lock();
    let control = sumsq_libcuda::preload().unwrap();
    let device = CudaContext::new(0).unwrap();
    assert_eq!(device.compute_capability().unwrap(), (9, 0));
    control.reset_counters();
    let stream = device.new_stream().unwrap();
    let x: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let x = stream.clone_htod(&x).unwrap();
    let mut y = stream.clone_htod(&[1f32; 100]).unwrap();
    let module = device.load_module(Ptx::from_src(KERNELS)).unwrap();
    let axpy = module.load_function("axpy").unwrap();
    let config = LaunchConfig { grid_dim: (2, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0 };
    let mut launch = stream.launch_builder(&axpy);
    launch.arg(&x).arg(&mut y).arg(&100i32).arg(&2f32);
    // SAFETY: the arguments are those of the kernel.
    unsafe { launch.launch(config) }.unwrap();
    assert_eq!(control.counters().launches, 0, "work waits until somebody waits for it");
    let y = stream.clone_dtoh(&y).unwrap();
    stream.synchronize().unwrap();
    assert!(y.iter().enumerate().all(|(i, y)| *y == 2.0 * i as f32 + 1.0), "{y:?}");
    let counters = control.counters();
    assert_eq!((counters.launches, counters.bytes_to_device, counters.bytes_to_host), (1, 800, 400));
}
