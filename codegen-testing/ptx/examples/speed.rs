//! Prints how many instructions the interpreter executes in a second, with its checks and without:
//! `cargo run -p sumsq-ptx --example speed`.

use std::time::Instant;
use sumsq_ptx::{Geometry, Launch, Memory, Module, Order, Workspace};

const SAMPLES: &str = include_str!("../tests/samples/sm_75.ptx");

fn main() {
    for (name, arrays) in [("dot", 3), ("blur", 2), ("histogram", 2)] {
        for checks in [true, false] {
            let mut memory = Memory::new(0x1_0000, 1 << 30);
            let module = Module::load(SAMPLES, &mut memory).expect("the samples load");
            let mut params = vec![];
            let mut workspace = Workspace::default();
            for _ in 0..arrays {
                let array = memory.allocate(16 << 20).expect("there is room");
                memory.fill(array, &1.0f32.to_le_bytes(), 16 << 20).expect("it is all its own");
                params.extend(array.to_le_bytes());
            }
            let kernel = module.kernel(name).expect("the samples hold it");
            let geometry = Geometry { grid: [4096, 1, 1], block: [256, 1, 1] };
            let launch = Launch {
                module: &module,
                kernel,
                geometry,
                dynamic_shared: 0,
                params: &params,
                order: Order::Ascending,
                checks,
                cooperative: false,
                endless: 1 << 32,
            };
            let start = Instant::now();
            let instructions =
                launch.run(&mut memory, &mut workspace).expect("the samples have no faults").instructions;
            let rate = instructions as f64 / start.elapsed().as_secs_f64() / 1e6;
            println!("{name}, checks {checks}: {instructions} instructions, {rate:.0} million a second");
        }
    }
}
