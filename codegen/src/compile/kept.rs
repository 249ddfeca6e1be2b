//! Compiled pipelines that are kept in the user's [`Cache`]: neither lowered nor compiled again.
//!
//! The key is all that the code follows from: pipeline and schedule to the last field, the effort, the target, and the build, which is
//! the hash of this crate's sources and LLVM's version. A block holds the object, or for a GPU the host's part with its objects and the kernels as
//! PTX, which the driver compiles and keeps in a folder of its own; how arguments follow from a signature; and the regions of inputs that are
//! required: whoever knows the key needs no pipeline.

use super::bind::Plan;
use super::device::UnloadedDevice;
use super::{Code, Compiled, Inner};
use crate::backend::llvm::{self, Relocatable};
use crate::cache::{Cache, Key};
use crate::error::Error;
use crate::expr::exact::exact_text;
use crate::expr::listed;
use crate::func::Pipeline;
use crate::ir::stmt::{LoweredFunction, Required};
use crate::limits::{Effort, Limits};
use crate::lower::LowerOptions;
use crate::nests::bounds_query::BoundsQuery;
use crate::schedule::Schedule;
use crate::stack::on_large_stack;
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::hash::Hash;
use std::sync::Arc;

/// The user's cache; none while `SUMSQ_DUMP` is set, since dumps are of what is compiled, nor with profiles: their code counts in slots that only
/// this process knows.
pub fn cache() -> Option<Cache> {
    let options = LowerOptions::default();
    if options.dump.is_none() && !options.profile { Cache::of_user() } else { None }
}

/// The key of what this build makes of `what` for a target.
pub fn key(what: &impl Hash, target: &Target) -> Key {
    // What is left for the host of a GPU is code for this machine.
    let host = target.gpu.map(|_| Target::host());
    Key::of(&(env!("SUMSQ_SOURCES"), llvm::version(), format!("{target:?} {host:?}"), what))
}

/// A compiled pipeline before its code is loaded.
#[derive(Serialize, Deserialize)]
pub(super) struct Unloaded {
    plan: Plan,
    required: Required,
    code: UnloadedCode,
}

#[derive(Serialize, Deserialize)]
enum UnloadedCode {
    Host(Relocatable),
    Device(UnloadedDevice),
}

impl Unloaded {
    /// Compiles a lowered function; what has a key is called by it, the same in every process: two that compile the same write the same bytes.
    pub(super) fn compile(
        f: &LoweredFunction,
        plan: Plan,
        target: &Target,
        limits: &Limits,
        key: Option<Key>,
    ) -> Result<Unloaded, Error> {
        let symbol = |name: &str| key.map(|key| format!("sumsq.{}.{name}", key.name()));
        let code = if target.gpu.is_some() {
            UnloadedCode::Device(UnloadedDevice::compile(f, &plan.signature, target, limits, &symbol)?)
        } else {
            UnloadedCode::Host(Relocatable::compile(f, symbol(&f.name), target, limits)?)
        };
        Ok(Unloaded { plan, required: f.required.clone(), code })
    }

    /// Loads the code, by the device that it is for if that is a GPU.
    pub(super) fn load(self, key: Option<Key>) -> Result<Compiled, Error> {
        let code = match self.code {
            UnloadedCode::Host(object) => Code::Host(object.load()?),
            UnloadedCode::Device(code) => Code::Device(Box::new(code.load()?)),
        };
        let required = BoundsQuery::new(&self.plan.pipeline, self.required);
        Ok(Compiled(Arc::new(Inner { code, required, plan: self.plan, key })))
    }

    /// Objects and PTX, which its text leaves out.
    fn pieces(&mut self) -> Vec<&mut Vec<u8>> {
        match &mut self.code {
            UnloadedCode::Host(object) => object.pieces().collect(),
            UnloadedCode::Device(code) => code.pieces(),
        }
    }

    /// It as a block: its text and the pieces, each behind its length. None if some part of it has no text.
    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        let this = &*self;
        let text = on_large_stack(|| listed::write(this))?;
        let mut block = vec![];
        let pieces = self.pieces();
        for piece in std::iter::once(text.as_bytes()).chain(pieces.iter().map(|p| p.as_slice())) {
            block.extend((piece.len() as u64).to_le_bytes());
            block.extend(piece);
        }
        Some(block)
    }

    /// The inverse of [`Unloaded::bytes`].
    fn of_bytes(block: &[u8]) -> Option<Unloaded> {
        let (text, mut rest) = split(block)?;
        let mut all: Unloaded = listed::read(str::from_utf8(text).ok()?)?;
        for piece in all.pieces() {
            let (bytes, behind) = split(rest)?;
            *piece = bytes.to_vec();
            rest = behind;
        }
        rest.is_empty().then_some(all)
    }
}

/// The bytes behind their length, and the rest.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

/// The place of one pipeline in a cache.
pub(super) struct Place<'a> {
    cache: &'a Cache,
    pub(super) key: Key,
}

impl<'a> Place<'a> {
    /// That of a pipeline under a schedule, by code of this effort.
    pub(super) fn new(
        cache: &'a Cache,
        job: (&Pipeline, &Schedule),
        effort: Effort,
        target: &Target,
    ) -> Place<'a> {
        Place::of(cache, key(&(exact_text(&job), effort), target))
    }

    /// That of a key.
    pub(super) fn of(cache: &'a Cache, key: Key) -> Place<'a> {
        Place { cache, key }
    }

    /// The pipeline as it was kept, if it is there and can be loaded.
    pub(super) fn load(&self) -> Option<Compiled> {
        let block = self.cache.get(&self.key)?;
        on_large_stack(|| Unloaded::of_bytes(&block))?.load(Some(self.key)).ok()
    }

    /// Keeps a block.
    pub(super) fn keep(&self, block: &[u8]) {
        self.cache.put(&self.key, block);
    }
}

#[cfg(test)]
mod tests {
    use super::super::signature::Signature;
    use super::*;
    use crate::backend::llvm::tests::chain;
    use crate::expr::Expr;
    use crate::func::{Func, Input, Var};
    use crate::runtime::{Buffer, BufferSpec, Pool, Scalar};
    use crate::types::ScalarType;
    use std::fs;

    /// f(x) = x + `more`.
    fn job(more: i32) -> (Pipeline, Schedule) {
        let (x, mut p) = (Var::new("x"), Pipeline::new("ramp"));
        let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![x.expr() + Expr::from(more)]));
        assert_eq!(f.types(), [ScalarType::I32]);
        p.output(&f);
        (p, Schedule::new())
    }

    fn run(compiled: &Compiled) -> Vec<i32> {
        let out = Buffer::new(BufferSpec::new(ScalarType::I32, &[5])).unwrap();
        compiled.run(&Pool::new(1), &[("f", &out)], &[]).unwrap();
        (0..5).map(|x| out.get(&[x], 0).unwrap()).collect()
    }

    #[test]
    fn what_is_kept_computes_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("c"));
        let compiled = |more, target: &Target| {
            let all = Compiled::all_kept(vec![job(more)], target, Limits::default(), cache.as_ref());
            all.unwrap().pop().unwrap()
        };
        let files = || folder.path().join("c").read_dir().unwrap().count();
        let host = Target::host();
        let first = compiled(1, &host);
        assert_eq!((run(&first), files()), (vec![1, 2, 3, 4, 5], 1));
        // While the first is alive, and when it is gone.
        let second = compiled(1, &host);
        assert_eq!((run(&second), files()), (vec![1, 2, 3, 4, 5], 1));
        drop((first, second));
        let third = compiled(1, &host);
        assert_eq!((run(&third), files()), (vec![1, 2, 3, 4, 5], 1));
        assert_eq!((run(&compiled(2, &host)), files()), (vec![2, 3, 4, 5, 6], 2));
        let lanes = if host.lanes == 4 { 8 } else { 4 };
        assert_eq!((run(&compiled(2, &host.with_lanes(lanes))), files()), (vec![2, 3, 4, 5, 6], 3));
        // Code of another effort is other code, and is kept as well.
        let least = Limits { effort: Effort::Least, ..Limits::default() };
        for _ in 0..2 {
            let quick = Compiled::all_kept(vec![job(1)], &Target::host(), least, cache.as_ref()).unwrap();
            assert_eq!((run(&quick[0]), files()), (vec![1, 2, 3, 4, 5], 4));
            assert_ne!(quick[0].key(), third.key());
        }
    }

    #[test]
    fn a_large_pipeline_is_kept_in_all_its_shares() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("c"));
        let shift: i32 = (0..60).map(|j| j * j).sum();
        // f(x) = a x + b: the next one is 60 a x + 60 b + a times all shifts; in 32 bits, as sums of integers wrap.
        let (mut a, mut b) = (1i32, 0i32);
        for _ in 0..6 {
            (a, b) = (a.wrapping_mul(60), b.wrapping_mul(60).wrapping_add(a.wrapping_mul(shift)));
        }
        let expected: Vec<i32> = (0..50).map(|x: i32| a.wrapping_mul(x).wrapping_add(b)).collect();
        for time in ["compiled", "kept"] {
            let all = Compiled::all_kept(vec![chain()], &Target::host(), Limits::default(), cache.as_ref());
            let out = Buffer::new(BufferSpec::new(ScalarType::I32, &[50])).unwrap();
            all.unwrap()[0].run(&Pool::new(2), &[("f6", &out)], &[]).unwrap();
            assert_eq!(out.to_vec::<i32>(), expected, "{time}");
        }
    }

    /// f(x) = in(x) + in(x + n), where in has values up to n.
    fn reading() -> (Pipeline, Schedule) {
        let (x, mut p) = (Var::new("x"), Pipeline::new("pairs"));
        let n = p.param("n", ScalarType::I32);
        let mut input = Input::new("in", &[ScalarType::I32], 1);
        input.value_range = Some((Expr::from(0), n.clone()));
        let input = p.input(input);
        let pair = input.at(&[x.expr()], 0) + input.at(&[x.expr() + n], 0);
        let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![pair]));
        p.output(&f);
        (p, Schedule::new())
    }

    #[test]
    fn a_key_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("c")).unwrap();
        let jobs = vec![job(1), reading()];
        let all = Compiled::all_kept(jobs, &Target::host(), Limits::default(), Some(&cache)).unwrap();
        let keys: Vec<Key> = all.iter().map(|c| c.key().unwrap()).collect();
        let input = Buffer::new(BufferSpec::new(ScalarType::I32, &[6])).unwrap();
        let out = Buffer::new(BufferSpec::new(ScalarType::I32, &[5])).unwrap();
        let answers = |of: &Compiled| {
            let n = [("n", Scalar::I32(2))];
            let regions = of.required_regions(&[("f", &[5])], &n).map(|r| r["in"].clone());
            input.fill(1);
            let short = of.run(&Pool::new(1), &[("in", &input), ("f", &out)], &n);
            input.fill(3);
            let outside = of.run(&Pool::new(1), &[("in", &input), ("f", &out)], &n);
            (regions.unwrap(), short.unwrap_err().to_string(), outside.unwrap_err().to_string())
        };
        let compiled = answers(&all[1]);
        assert_eq!(compiled.0, [(0, 6)]);
        drop(all);
        let kept = Compiled::kept(&keys, &cache).unwrap();
        assert_eq!((run(&kept[0]), kept[1].name()), (vec![1, 2, 3, 4, 5], "pairs"));
        assert_eq!(*kept[1].signature(), Signature::of(&reading().0, &reading().1).unwrap());
        assert_eq!(answers(&kept[1]), compiled);
        fs::remove_file(folder.path().join("c").join(keys[0].name())).unwrap();
        assert!(Compiled::kept(&keys, &cache).is_none());
        assert!(Compiled::kept(&keys[1..], &cache).is_some());
    }
}
