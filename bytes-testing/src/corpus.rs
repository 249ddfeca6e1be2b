//! Texts and files that are right, to be mutated.

use crate::{Kind, archive, mutate};
use std::fmt;
use sumsq_codegen_testing::rng::Rng;
use sumsq_tests::workspace_root;

/// Something to be read.
#[derive(Clone)]
pub struct Input {
    pub kind: Kind,
    pub bytes: Vec<u8>,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => write!(f, "{:?}:\n{text}", self.kind),
            Err(_) => write!(f, "{:?}: {}", self.kind, self.bytes.escape_ascii()),
        }
    }
}

const PLY: &str = "ply\nformat ascii 1.0\ncomment c\nelement vertex 4\nproperty float x\nproperty float y\nproperty double z\n\
    property uchar red\nelement face 2\nproperty list uchar int vertex_indices\nend_header\n0 0 0 1\n1 0 0 2\n1 1 0.5 3\n\
    0 1 -1e3 4\n3 0 1 2\n4 0 1 2 3\n";

const OBJ: &str = "# c\nmtllib a.mtl\no thing\nv 0 0 0\nv 1 0 0\nv 1 1 0.5\nv 0 1 -1e3 1\nvn 0 0 1\nvt 0 1\nusemtl m\ns off\n\
    f 1/1/1 2//1 3\nf 1 2 3 4\nf -1 -2 -3\n";

const SCHEDULE: &str = "pq.update(0): split(y, yo, yi, 32, guard) rfactor(yo as strip, into pq_s)\n\
    pq_s.update(0): parallel(strip) split(x, xo, xi, 16, predicate) vectorize(xi)\n\
    p: store_at(pq_s.update(0), strip) compute_at(pq_s.update(0), yi) fold_storage(y, 4) sink\n";

const CHOICES: &str = "J reg: root  # or inline\nJp *: inline\nhoisted {W,H}.0: inline\nlayout x {N}: record\n\
    direction {W,H}: ring\nq {N}: root\n";

/// Loops, calls and texts of Lua that the energies have not.
const LUA: &str = "for i = 1, 3 do for j, k in ipairs({1,2}) do Energy(i * X(0,0) + k) end end\n\
    local f = function(a, ...) return a and -a or select(1, ...) end\nrepeat local s = string.rep('x', 3) .. tostring(X) until true\n\
    while false do end goto = {[1] = 2, x = [[long]], unpack({1, 2})}\nsetmetatable({}, {__index = function(t, k) return t[k] end})\n\
    local t = {} t.t = t table.insert(t, string.format('%5.2f %s %q', 1, 'a', 'b')) math.floor(1.5)\n\
    if X == nil then error('no') elseif 1 < 2 then return end\n";

/// Files that are right.
pub struct Corpus {
    energies: Vec<String>,
    ply: Vec<Vec<u8>>,
}

impl Corpus {
    /// The energy files of the examples, and what is written here.
    pub fn of_examples() -> Corpus {
        let folder = workspace_root().join("examples/energies");
        let mut paths: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
            .map(|entry| entry.expect("a readable folder").path())
            .filter(|path| path.extension().is_some_and(|e| e == "t"))
            .collect();
        // The same on every machine.
        paths.sort();
        let mut energies: Vec<String> = paths
            .iter()
            .map(|p| std::fs::read_to_string(p).unwrap_or_else(|e| panic!("{}: {e}", p.display())))
            .collect();
        assert!(!energies.is_empty(), "no energies in {}", folder.display());
        energies.push(archive::ENERGY.into());
        energies.push(archive::ENERGY.to_string() + LUA);
        Corpus { energies, ply: vec![PLY.into(), binary_ply()] }
    }

    /// All that is right of a kind.
    pub fn right(&self, kind: Kind) -> Vec<Vec<u8>> {
        match kind {
            Kind::Energy | Kind::Derived => self.energies.iter().map(|e| e.clone().into()).collect(),
            Kind::Archive => vec![archive::zip(&archive::members())],
            Kind::Ply => self.ply.clone(),
            Kind::Obj => vec![OBJ.into()],
            Kind::Schedule => vec![SCHEDULE.into()],
            Kind::Choices => vec![CHOICES.into()],
        }
    }

    /// A mutation of something that is right, of any kind.
    pub fn input(&self, rng: &mut Rng) -> Input {
        let other = rng.pick(&self.energies);
        let kind = match rng.below(20) {
            0..=3 => Kind::Archive,
            4 | 5 => Kind::Ply,
            6 | 7 => Kind::Obj,
            8 => Kind::Schedule,
            9 => Kind::Choices,
            _ => {
                let from = rng.pick(&self.energies);
                let kind = if rng.percent(10) { Kind::Derived } else { Kind::Energy };
                return Input { kind, bytes: changed(rng, from.as_bytes(), &other) };
            }
        };
        Input { kind, bytes: self.mutation(rng, kind) }
    }

    /// A mutation of something that is right, of one kind.
    pub fn mutation(&self, rng: &mut Rng, kind: Kind) -> Vec<u8> {
        if kind == Kind::Archive {
            return archive::archive(rng);
        }
        let (from, other) = (rng.pick(&self.right(kind)), self.other(rng, kind));
        changed(rng, &from, &other)
    }

    /// A text that pieces are taken from, for mutations of a kind.
    pub fn other(&self, rng: &mut Rng, kind: Kind) -> String {
        match kind {
            Kind::Energy | Kind::Derived => rng.pick(&self.energies),
            Kind::Archive => String::new(),
            Kind::Ply | Kind::Obj => PLY.into(),
            Kind::Schedule => CHOICES.into(),
            Kind::Choices => SCHEDULE.into(),
        }
    }
}

/// Changes of words where it is text, else of bytes.
pub fn changed(rng: &mut Rng, from: &[u8], other: &str) -> Vec<u8> {
    match std::str::from_utf8(from) {
        Ok(from) if rng.percent(75) => mutate::text(rng, from, other).into_bytes(),
        _ => mutate::bytes(rng, from, other.as_bytes()),
    }
}

fn binary_ply() -> Vec<u8> {
    let mut out = b"ply\nformat binary_little_endian 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n\
        element face 1\nproperty list uchar int vertex_indices\nend_header\n"
        .to_vec();
    out.extend([0.0f32, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0].iter().flat_map(|v| v.to_le_bytes()));
    out.push(3);
    out.extend([0i32, 1, 2].iter().flat_map(|v| v.to_le_bytes()));
    out
}
