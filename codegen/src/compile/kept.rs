//! Compiled pipelines that are kept in the user's [`Cache`]: neither lowered nor compiled again.
//!
//! The key is all that the code follows from: pipeline and schedule to the last field, the target, what profiles add, and the build, which is
//! the hash of this crate's sources and LLVM's version. A block holds the object and how its arguments follow from a signature.

use super::bind::{Plan, Source};
use super::signature::Signature;
use super::{Code, Compiled, Inner, Requirement};
use crate::backend::llvm::{self, Kernel};
use crate::cache::{Cache, Key};
use crate::error::Error;
use crate::expr::exact::exact_text;
use crate::func::Pipeline;
use crate::ir::stmt::LoweredFunction;
use crate::limits::Limits;
use crate::lower::LowerOptions;
use crate::schedule::Schedule;
use crate::stack::on_large_stack;
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Everything but the object.
#[derive(Serialize, Deserialize)]
struct Header {
    assertions: Vec<String>,
    pointers: Vec<(usize, usize)>,
    scalars: Vec<Source>,
}

/// The place of one pipeline in a cache.
pub(super) struct Place<'a> {
    cache: &'a Cache,
    key: Key,
}

impl<'a> Place<'a> {
    /// That of a pipeline under a schedule.
    pub(super) fn new(
        cache: &'a Cache,
        pipeline: &Pipeline,
        schedule: &Schedule,
        target: &Target,
        options: &LowerOptions,
    ) -> Place<'a> {
        let what = exact_text(&(pipeline, schedule));
        let (target, profile) = (format!("{target:?}"), options.profile.to_string());
        let key = Key::of(&[env!("SUMSQ_SOURCES"), &llvm::version(), &target, &profile, &what]);
        Place { cache, key }
    }

    /// The pipeline as it was kept, if it is there.
    pub(super) fn load(
        &self,
        pipeline: &Pipeline,
        schedule: &Schedule,
        signature: &Signature,
    ) -> Option<Compiled> {
        let bytes = self.cache.get(&self.key)?;
        let (header, object) = split(&bytes)?;
        let Header { assertions, pointers, scalars } = serde_json::from_slice(header).ok()?;
        let plan = Plan { pipeline: pipeline.name.clone(), signature: signature.clone(), pointers, scalars };
        let kernel = Kernel::load(&pipeline.name, object, &self.symbol(&pipeline.name), assertions).ok()?;
        let required = Requirement::Of(Box::new((pipeline.clone(), schedule.clone())));
        Some(Compiled(Arc::new(Inner {
            code: Code::Host(kernel),
            required,
            signature: signature.clone(),
            plan,
        })))
    }

    /// The kernel of a lowered pipeline, compiled and kept.
    pub(super) fn compile(
        &self,
        f: &LoweredFunction,
        plan: &Plan,
        target: &Target,
        limits: &Limits,
    ) -> Result<Kernel, Error> {
        let symbol = self.symbol(&f.name);
        let (object, assertions) = on_large_stack(|| llvm::object(f, &symbol, target, limits))?;
        let header = Header {
            assertions: assertions.clone(),
            pointers: plan.pointers().to_vec(),
            scalars: plan.scalars().to_vec(),
        };
        if let Ok(header) = serde_json::to_vec(&header) {
            let length = (header.len() as u64).to_le_bytes();
            self.cache.put(&self.key, &[&length[..], &header, &object].concat());
        }
        Kernel::load(&f.name, &object, &symbol, assertions)
    }

    /// The same in every process: two that compile the same write the same bytes.
    fn symbol(&self, name: &str) -> String {
        format!("sumsq.{}.{name}", self.key.name())
    }
}

/// The header and the object of a block.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Expr;
    use crate::func::{Func, Var};
    use crate::runtime::{Buffer, BufferSpec, Pool};
    use crate::types::ScalarType;

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
        let regions = third.required_regions(&[("f", &[5])], &[]).unwrap();
        assert!(regions.is_empty());
        assert_eq!((run(&compiled(2, &host)), files()), (vec![2, 3, 4, 5, 6], 2));
        let lanes = if host.lanes == 4 { 8 } else { 4 };
        assert_eq!((run(&compiled(2, &host.with_lanes(lanes))), files()), (vec![2, 3, 4, 5, 6], 3));
    }
}
