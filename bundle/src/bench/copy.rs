//! Bandwidth of copies within the device: bytes read and written.

use super::facts::Facts;
use super::{Done, Extent};
use sumsq::codegen::runtime::cuda::{Device, Module, Shape};

/// Copies vectors of four words: blocks of 256 threads, each thread `TURNS` of them, as far apart as the grid is wide.
const COPY: &str = include_str!("copy.ptx");
const TURNS: usize = 4;

const TIMES: usize = 15;

/// Measures, and returns the better of the driver's copy and the kernel's, in GB/s.
pub fn copy(facts: &mut Facts, extent: Extent) -> Done<()> {
    let device = Device::shared(0)?;
    let kernel = Module::load(&device, COPY)?.function("copy")?;
    let mut best: f64 = 0.0;
    for bytes in extent.of(vec![1usize << 32, 1 << 28, 1 << 24, 1 << 20], vec![1 << 16]) {
        let (from, to) = (device.zeroed(bytes)?, device.zeroed(bytes)?);
        let grid = (bytes / 16 / 256 / TURNS) as u32;
        let mut measure = |name: &str, copy: &dyn Fn() -> Done<()>| -> Done<()> {
            let mut rates = vec![];
            copy()?;
            for _ in 0..TIMES {
                let start = device.mark()?;
                copy()?;
                let seconds = device.mark()?.since(&start)?.as_secs_f64();
                rates.push(2.0 * bytes as f64 / seconds.max(1e-9) / 1e9);
            }
            facts.add_many(format!("copy of {} MB by {name}", bytes >> 20), rates, "GB/s");
            best = best.max(facts.all.last().map_or(0.0, |f| f.value));
            Ok(())
        };
        measure("the driver", &|| Ok(to.copy_from(&from)?))?;
        measure("a kernel", &|| {
            let arguments = [from.address(), to.address(), grid as u64 * 256];
            // SAFETY: the kernel moves `TURNS` vectors of 16 bytes per thread, which is as much as both blocks have.
            Ok(unsafe { kernel.launch(Shape { grid: [grid, 1, 1], block: 256 }, &arguments) }?)
        })?;
        if bytes == 1 << 32 || extent == Extent::Quick {
            // What large problems are compared with; small blocks lie in the cache.
            facts.add(super::COPY_RATE, best, "GB/s");
        }
    }
    Ok(())
}
