//! The passes that make the routines: all of them, but for measurements of what each is worth (figure 15 of
//! DeVito et al., "Opt", 2017).

use std::fmt;
use std::str::FromStr;

/// Passes that can be left out. Results differ by rounding alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passes {
    /// Conditions: those decided by the guards around them go, and terms of a sum under one condition share it.
    pub bounds: bool,
    /// Sums are factored.
    pub polynomial: bool,
    /// Parts that several products or sums hold are computed once.
    pub sharing: bool,
    /// True if what depends on one element alone is stored once per linearisation. Off, computed arrays are stored all the same: the
    /// sweeps have no other way to them.
    pub hoisting: bool,
    /// Terms and factors are emitted in an order in which few values live at once.
    pub scheduling: bool,
}

impl Passes {
    /// Every pass.
    pub const ALL: Passes =
        Passes { bounds: true, polynomial: true, sharing: true, hoisting: true, scheduling: true };
    /// No pass: what differentiation gives, in the normal form of the constructors.
    pub const NONE: Passes =
        Passes { bounds: false, polynomial: false, sharing: false, hoisting: false, scheduling: false };
}

impl Default for Passes {
    fn default() -> Passes {
        Passes::ALL
    }
}

impl FromStr for Passes {
    type Err = String;

    /// `all`, `none`, or names separated by commas.
    fn from_str(text: &str) -> Result<Passes, String> {
        let mut passes = Passes::NONE;
        for name in text.split(',').map(str::trim) {
            match name {
                "all" => passes = Passes::ALL,
                "none" => passes = Passes::NONE,
                "bounds" => passes.bounds = true,
                "polynomial" => passes.polynomial = true,
                "sharing" => passes.sharing = true,
                "hoisting" => passes.hoisting = true,
                "scheduling" => passes.scheduling = true,
                _ => {
                    return Err(format!(
                        "there is no pass `{name}`: all, none, bounds, polynomial, sharing, hoisting, scheduling"
                    ));
                }
            }
        }
        Ok(passes)
    }
}

impl fmt::Display for Passes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.bounds, "bounds"),
            (self.polynomial, "polynomial"),
            (self.sharing, "sharing"),
            (self.hoisting, "hoisting"),
            (self.scheduling, "scheduling"),
        ];
        let names: Vec<&str> = all.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect();
        match names.len() {
            0 => f.write_str("none"),
            5 => f.write_str("all"),
            _ => f.write_str(&names.join(",")),
        }
    }
}
