//! Files that are nearly right: energies, archives, meshes, schedules, choices. Each is answered by a value or a typed error, in time and in
//! bounded memory; never by a panic.
//!
//! | module | |
//! |---|---|
//! | [`corpus`] | files that are right |
//! | [`mutate`] | mutations of bytes and of texts |
//! | [`archive`] | the same of archives, whose checksums stay right |
//! | [`answer`] | what reads them |
//!
//! `tests/random_bytes.rs` mutates without looking; `guided/`, a workspace of its own, is led by what a mutation reaches.

pub mod answer;
pub mod archive;
pub mod corpus;
pub mod mutate;

/// The reader that bytes are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An energy file.
    Energy,
    /// An energy file that is differentiated when it is right.
    Derived,
    /// An archive of arrays, which are bound to [`archive::ENERGY`].
    Archive,
    /// A mesh.
    Ply,
    /// A mesh.
    Obj,
    /// The text of a schedule.
    Schedule,
    /// The text of choices.
    Choices,
}

impl Kind {
    /// All of them, and their names.
    pub const ALL: [(Kind, &str); 7] = [
        (Kind::Energy, "energy"),
        (Kind::Derived, "derived"),
        (Kind::Archive, "archive"),
        (Kind::Ply, "ply"),
        (Kind::Obj, "obj"),
        (Kind::Schedule, "schedule"),
        (Kind::Choices, "choices"),
    ];

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(_, n)| *n == name).map(|(kind, _)| *kind)
    }
}
