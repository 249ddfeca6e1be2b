//! Texts and files that are right, to be mutated.

use crate::archive::archive;
use crate::mutate;
use std::fmt;
use sumsq_codegen_testing::rng::Rng;
use sumsq_tests::workspace_root;

/// Something to be read.
#[derive(Clone)]
pub enum Input {
    /// An energy file; true if it is to be differentiated when it is right.
    Energy(Vec<u8>, bool),
    Archive(Vec<u8>),
    Ply(Vec<u8>),
    Obj(Vec<u8>),
    Schedule(Vec<u8>),
    Choices(Vec<u8>),
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = match self {
            Input::Energy(b, _) => ("energy", b),
            Input::Archive(b) => ("archive", b),
            Input::Ply(b) => ("PLY", b),
            Input::Obj(b) => ("OBJ", b),
            Input::Schedule(b) => ("schedule", b),
            Input::Choices(b) => ("choices", b),
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => write!(f, "{kind}:\n{text}"),
            Err(_) => write!(f, "{kind}: {}", bytes.escape_ascii()),
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

pub struct Corpus {
    energies: Vec<String>,
    ply: Vec<Vec<u8>>,
}

impl Corpus {
    pub fn new() -> Corpus {
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
        energies.push(crate::archive::ENERGY.into());
        energies.push(crate::archive::ENERGY.to_string() + LUA);
        Corpus { energies, ply: vec![PLY.into(), binary_ply()] }
    }

    pub fn input(&self, rng: &mut Rng) -> Input {
        let other = rng.pick(&self.energies);
        match rng.below(20) {
            0..=3 => Input::Archive(archive(rng)),
            4 | 5 => {
                let from = rng.pick(&self.ply);
                Input::Ply(changed(rng, &from, PLY))
            }
            6 | 7 => Input::Obj(changed(rng, OBJ.as_bytes(), PLY)),
            8 => Input::Schedule(changed(rng, SCHEDULE.as_bytes(), CHOICES)),
            9 => Input::Choices(changed(rng, CHOICES.as_bytes(), SCHEDULE)),
            _ => {
                let from = rng.pick(&self.energies);
                let derive = rng.percent(10);
                Input::Energy(changed(rng, from.as_bytes(), &other), derive)
            }
        }
    }
}

/// Changes of words where it is text, else of bytes.
fn changed(rng: &mut Rng, from: &[u8], other: &str) -> Vec<u8> {
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
