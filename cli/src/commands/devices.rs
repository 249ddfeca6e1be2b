//! `sumsq devices`.

use crate::engine;
use crate::failure::Failure;
use crate::output::say;
use std::fmt::Write;
use std::process::ExitCode;
use sumsq::codegen::runtime::cuda::DeviceInfo;

/// State of the code for GPUs, in the words of the README: results of a device lie in `benches/results`.
const PROOF: &str = "assembles for sm_75 to sm_100; checked and measured on an H200";

/// Lists the GPUs, or says why there is none.
pub fn run() -> Result<ExitCode, Failure> {
    let listed = match engine::devices() {
        Ok(devices) => table(&devices),
        Err(none) => format!("{none}\n"),
    };
    say(&format!("{listed}generated code {PROOF}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// A line for each device, then one for each that cannot be used.
fn table(devices: &[DeviceInfo]) -> String {
    let width = devices.iter().map(|d| d.name.chars().count()).chain([4]).max().unwrap_or(4);
    let mut text =
        format!("device  {:width$}  compute capability  multiprocessors      memory  driver\n", "name");
    for d in devices {
        let (capability, memory) =
            (format!("{}.{}", d.sm / 10, d.sm % 10), d.memory as f64 / f64::from(1 << 30));
        let _ = writeln!(
            text,
            "{:<6}  {:width$}  {capability:<18}  {:<15}  {memory:>6.1} GiB  CUDA {}",
            d.ordinal, d.name, d.multiprocessors, d.driver
        );
    }
    for obstacle in devices.iter().filter_map(DeviceInfo::obstacle) {
        let _ = writeln!(text, "not used: {obstacle}");
    }
    text
}

#[cfg(test)]
mod tests {
    /// The sentence is that of the README, and true: results of a device lie in a folder of its own.
    #[test]
    fn nobody_claims_what_was_not_run() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
        let words: Vec<&str> = readme.split_whitespace().collect();
        assert!(words.join(" ").contains(super::PROOF), "the README has other words");
        let results = std::fs::read_dir(root.join("benches/results")).unwrap();
        let measured = results.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count() > 0;
        assert_eq!(measured, !super::PROOF.contains("not yet run"), "{}", super::PROOF);
    }

    use super::*;
    use sumsq::codegen::runtime::cuda::Version;

    #[test]
    fn devices_stand_in_columns() {
        let device = |ordinal, name: &str, sm, memory| DeviceInfo {
            ordinal,
            name: name.into(),
            sm,
            memory,
            multiprocessors: 132,
            driver: Version(12080),
        };
        let text = table(&[device(0, "Large", 90, 150_000_000_000), device(1, "Old", 70, 1 << 34)]);
        let expected = "\
device  name   compute capability  multiprocessors      memory  driver
0       Large  9.0                 132               139.7 GiB  CUDA 12.8
1       Old    7.0                 132                16.0 GiB  CUDA 12.8
not used: device 1 (Old) has compute capability 7.0, at least 7.5 is needed
";
        assert_eq!(text, expected);
    }
}
