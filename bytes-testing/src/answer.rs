//! Readers of bytes.

use crate::{Kind, archive};
use sumsq::codegen::Schedule;
use sumsq::energy::{Budgets, Energy};
use sumsq::{CompileOptions, Overrides, ProblemData};
use sumsq_examples::io::Mesh;
use sumsq_examples::io::npz::Archive;

/// Less than the default budgets, but enough for the right energies: many inputs are read in a second, and some end there.
pub fn small() -> Budgets {
    let all = Budgets::default();
    Budgets {
        nodes: all.nodes / 20,
        steps: all.steps / 20,
        lua_instructions: all.lua_instructions / 100,
        lua_memory: all.lua_memory / 8,
        ..all
    }
}

/// Tells whether bytes are accepted. What is said of them is written out, too. `budgets` are those of energies.
pub fn answer(kind: Kind, bytes: &[u8], budgets: Budgets) -> bool {
    let text = || String::from_utf8_lossy(bytes);
    match kind {
        Kind::Energy => energy(&text(), budgets).is_some(),
        Kind::Derived => {
            let energy = energy(&text(), budgets);
            energy.and_then(|energy| said(CompileOptions::default().derive(energy))).is_some()
        }
        Kind::Archive => arrays(bytes),
        Kind::Ply => said(Mesh::from_ply(bytes)).is_some(),
        Kind::Obj => said(Mesh::from_obj(bytes)).is_some(),
        Kind::Schedule => said(Schedule::parse(&text())).is_some(),
        Kind::Choices => said(text().parse::<Overrides>()).is_some(),
    }
}

fn said<T, E: std::fmt::Display>(result: Result<T, E>) -> Option<T> {
    result.map_err(|e| e.to_string()).ok()
}

fn energy(text: &str, budgets: Budgets) -> Option<Energy> {
    said(Energy::from_text_within("input.t", text, budgets, |_| ()))
}

/// An archive whose arrays are read, then bound.
fn arrays(bytes: &[u8]) -> bool {
    let Some(archive) = said(Archive::of_bytes("input.npz".as_ref(), bytes.to_vec())) else { return false };
    for name in archive.names() {
        said(archive.shape(&name));
    }
    let Some(arrays) = said(archive.read_all()) else { return false };
    let energy = Energy::from_text("fixed.t", archive::ENERGY).expect("an energy that is right");
    said(ProblemData::bind(&energy, &arrays)).is_some()
}

#[test]
fn what_is_right_is_accepted() {
    let corpus = crate::corpus::Corpus::of_examples();
    for (kind, name) in Kind::ALL {
        for (at, bytes) in corpus.right(kind).iter().enumerate() {
            assert!(answer(kind, bytes, small()), "{name} {at}:\n{}", String::from_utf8_lossy(bytes));
        }
    }
}
