//! NVIDIA's assembler on kernels written by hand (`cargo xtask setup` gets it).

use crate::graphs::COUNT;
use crate::kernels::ADD;
use sumsq_codegen::ptxas::{assemble, sass};

#[test]
fn kernels_assemble_for_every_capability() {
    for sm in [75, 80, 90, 100] {
        let usages = assemble(ADD, sm).unwrap();
        let [add] = &usages[..] else { panic!("{usages:?}") };
        assert_eq!((add.kernel.as_str(), add.stack, add.spills, add.shared), ("add", 0, 0, 1024));
        assert!((4..=32).contains(&add.registers), "{add:?}");
        assert!(sass(ADD, sm).unwrap().contains("EXIT"));
    }
}

#[test]
fn errors_hold_the_words() {
    let error = assemble(&ADD.replace("add.rn.f32", "bogus.rn.f32"), 75).unwrap_err().to_string();
    assert!(error.starts_with("ptxas refuses the code: ") && error.contains("'bogus'"), "{error}");
    assert!(assemble(ADD, 13).is_err());
}

#[test]
fn kernels_of_loops_assemble() {
    let usages = assemble(COUNT, 90).unwrap();
    assert_eq!(usages.iter().map(|u| u.kernel.as_str()).collect::<Vec<_>>(), ["count"]);
}
