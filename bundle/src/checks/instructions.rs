//! Every instruction that computes, against values computed on the host.

use super::Extent;
use std::panic::{AssertUnwindSafe, catch_unwind};
use sumsq::codegen::runtime::cuda::{CudaError, Device, Module, Shape};
use sumsq_ptx::instructions::{GROUPS, Runner, run_on};

/// A device as what runs modules.
struct OnDevice {
    device: Device,
    refused: Vec<String>,
}

impl Runner for OnDevice {
    fn run(&mut self, text: &str, blocks: u32, input: &[u8], output: usize) -> Option<Vec<u8>> {
        // Some instructions are those of newer devices than what the text says.
        let target = format!(".target sm_{}\n", self.device.info().sm);
        let text = text.replace(".version 7.0\n", ".version 8.0\n").replace(".target sm_80\n", &target);
        let done = self.done(&text, blocks, input, output);
        match done {
            Ok(bytes) => Some(bytes),
            Err(CudaError::Refused { log }) => {
                println!("refused: {log}");
                self.refused.push(log);
                assert!(self.refused.len() < 40, "too many are refused");
                None
            }
            Err(e) => panic!("{e}\n{text}"),
        }
    }
}

impl OnDevice {
    fn done(&self, text: &str, blocks: u32, input: &[u8], output: usize) -> Result<Vec<u8>, CudaError> {
        let function = Module::load(&self.device, text)?.function("k")?;
        let (a, b) = (self.device.allocate(input.len())?, self.device.zeroed(output)?);
        a.upload(0, input)?;
        let shape = Shape { grid: [blocks, 1, 1], block: 64 };
        // SAFETY: the kernel takes the addresses of two lists and keeps inside of them, and the download waits for it.
        unsafe { function.launch(shape, &[a.address(), b.address()]) }?;
        let mut bytes = vec![0; output];
        b.download(0, &mut bytes)?;
        Ok(bytes)
    }
}

pub fn instructions(extent: Extent) {
    let device = Device::open(0).unwrap_or_else(|e| panic!("{e}"));
    run_on(OnDevice { device, refused: vec![] });
    let groups = &GROUPS[..extent.of(GROUPS.len(), 3)];
    let wrong = |(name, group): &&(&str, fn())| {
        println!("{name}");
        catch_unwind(AssertUnwindSafe(group)).is_err()
    };
    let wrong: Vec<&str> = groups.iter().filter(wrong).map(|g| g.0).collect();
    assert!(wrong.is_empty(), "wrong: {}", wrong.join(", "));
}
