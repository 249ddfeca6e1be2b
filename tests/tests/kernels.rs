//! Kernels of the example energies.

use std::path::Path;
use sumsq::{CompileOptions, Precision};

#[test]
fn every_energy_has_kernels() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/energies");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the folder").map(|f| f.expect("a file").path()).collect();
    files.sort();
    assert_eq!(files.len(), 12);
    for file in files {
        let energy = sumsq_tests::example_energy(file.file_stem().unwrap().to_str().unwrap());
        for precision in [Precision::Mixed, Precision::F32] {
            let options = CompileOptions { precision, capability: Some(90), ..CompileOptions::default() };
            let all = sumsq::ptx(&energy, &options).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            for (name, text) in all {
                assert!(text.contains(".entry"), "{name}");
                let name = format!(
                    "/tmp/ptx/{}_{name}_{precision:?}.ptx",
                    file.file_stem().unwrap().to_str().unwrap()
                );
                std::fs::create_dir_all("/tmp/ptx").unwrap();
                std::fs::write(name, text).unwrap();
            }
        }
    }
}
