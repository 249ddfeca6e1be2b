//! First schedules of gradients that are kept in the user's [`Cache`], as text: to find out which of their directives are legal takes half as
//! long as compiling.

use crate::cache::{Cache, Key};
use crate::compile::key;
use crate::error::Error;
use crate::expr::exact::exact_text;
use crate::func::Pipeline;
use crate::gradient;
use crate::schedule::Schedule;
use crate::target::Target;

/// [`gradient::schedule`] without wishes for single Funcs, made once where there is a cache.
///
/// # Errors
/// As of that.
pub fn first_schedule(
    p: &Pipeline,
    estimates: &[(&str, &[i32])],
    cache: Option<&Cache>,
) -> Result<Schedule, Error> {
    let place = cache.map(|cache| (cache, place(p, estimates)));
    let kept = place.as_ref().and_then(|(cache, key)| String::from_utf8(cache.get(key)?).ok());
    if let Some(kept) = kept.and_then(|text| Schedule::parse(&text).ok()) {
        return Ok(kept);
    }
    let made = gradient::schedule(p, estimates, &[], &[])?;
    let text = made.to_string();
    if let (Some((cache, key)), Ok(true)) = (place, Schedule::parse(&text).map(|read| read == made)) {
        cache.put(&key, text.as_bytes());
    }
    Ok(made)
}

/// The key of a first schedule, which follows from the algorithm, sizes and the build alone.
fn place(p: &Pipeline, estimates: &[(&str, &[i32])]) -> Key {
    key(&("first schedule", exact_text(&(p, estimates))), &Target::host())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::func::{Func, Var};
    use crate::types::ScalarType;

    #[test]
    fn a_first_schedule_is_made_once() {
        let (x, mut p) = (Var::new("x"), Pipeline::new("ramp"));
        let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![x.expr().cast(ScalarType::F32)]));
        p.output(&f);
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("c")).unwrap();
        let sizes: [(&str, &[i32]); 1] = [("f", &[1000])];
        let made = || first_schedule(&p, &sizes, Some(&cache)).unwrap();
        let expected = gradient::schedule(&p, &sizes, &[], &[]).unwrap();
        assert_eq!([made(), made()], [expected.clone(), expected.clone()]);
        // What lies there is believed; what is no schedule is not.
        cache.put(&place(&p, &sizes), b"f: parallel(x)");
        assert_eq!(made(), Schedule::parse("f: parallel(x)").unwrap());
        cache.put(&place(&p, &sizes), b"f: no such thing");
        assert_eq!(made(), expected);
        assert_eq!(first_schedule(&p, &sizes, None).unwrap(), expected);
        // Other sizes, other schedules.
        let small = first_schedule(&p, &[("f", &[3])], Some(&cache)).unwrap();
        assert_eq!(small, gradient::schedule(&p, &[("f", &[3])], &[], &[]).unwrap());
    }
}
