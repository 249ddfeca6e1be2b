//! Every instruction that computes, on the interpreter.

mod common;

use common::{Arg, Machine};
use sumsq_ptx::Order;
use sumsq_ptx::instructions::{GROUPS, Runner, run_on};

struct Interpreter;

impl Runner for Interpreter {
    fn run(&mut self, text: &str, blocks: u32, input: &[u8], output: usize) -> Option<Vec<u8>> {
        let mut m = Machine::new(text);
        let (a, b) = (m.upload(input), m.unwritten(output));
        let done = m.launch("k", blocks, 64, &[Arg::Pointer(a), Arg::Pointer(b)], Order::Shuffled(3));
        done.unwrap_or_else(|e| panic!("{e}\n{text}"));
        Some(m.download(b, output))
    }
}

#[test]
fn instructions_compute_what_they_should() {
    run_on(Interpreter);
    for (name, group) in GROUPS {
        println!("{name}");
        group();
    }
}
