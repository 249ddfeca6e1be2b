//! Says of each file of PTX whether the interpreter takes it, and why not: `cargo run -p sumsq-ptx --example takes -- FILE...`.

use std::process::ExitCode;
use sumsq_ptx::{Memory, Module};

fn main() -> ExitCode {
    let mut all = true;
    for file in std::env::args().skip(1) {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) => {
                println!("{file}: {e}");
                all = false;
                continue;
            }
        };
        match Module::load(&text, &mut Memory::new(0x1000, 1 << 30)) {
            Ok(module) => println!("{file}: {} kernels", module.kernels().len()),
            Err(e) => {
                println!("{file}, {e}");
                all = false;
            }
        }
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
