//! Settings from the environment, read by `cuInit`.

use crate::status::{Status, UNKNOWN, texts};
use sumsq_ptx::Order;

/// Things that differ between machines, and faults to rehearse.
#[derive(Clone, Debug)]
pub struct Settings {
    pub devices: usize,
    /// Major and minor compute capability.
    pub capability: (i32, i32),
    /// Bytes of each device.
    pub memory: u64,
    /// 12080 for a driver of CUDA 12.8.
    pub driver_version: i32,
    pub multiprocessors: i32,
    /// 0 for all, 2 for nobody, 3 for one process at a time.
    pub compute_mode: i32,
    pub order: Order,
    pub checks: bool,
    /// Instructions of a block, or turns of a graph's loop, after which it has timed out.
    pub endless: u64,
    pub fail: Option<Fail>,
    /// A defect to rehearse: this text of modules is replaced by that.
    pub edit: Option<(String, String)>,
    /// Another: this copy of a kind, counted from one on when it is asked for, is said to be made and is not.
    pub missed: Option<(Direction, u64)>,
    /// Another: a kernel that a graph has already is given the arguments that it has there, unless it is of one thread.
    pub stale: bool,
    /// File for the counters at the end of the process.
    pub report: Option<String>,
}

/// The way that bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToDevice,
    ToHost,
    WithinDevice,
}

/// A call that is made to fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Fail {
    pub which: Which,
    pub code: Status,
}

/// The call that fails.
#[derive(Clone, Debug, PartialEq)]
pub enum Which {
    /// By its number from one on, counted from the start or from when it was asked for.
    Number(u64),
    /// Every call of a function.
    Name(String),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            devices: 1,
            capability: (9, 0),
            memory: 2 << 30,
            driver_version: 12080,
            multiprocessors: 132,
            compute_mode: 0,
            order: Order::Ascending,
            checks: true,
            endless: 1 << 31,
            fail: None,
            edit: None,
            missed: None,
            stale: false,
            report: None,
        }
    }
}

/// Settings that have names.
const NAMES: [&str; 14] = [
    "DEVICES",
    "CAPABILITY",
    "MEMORY",
    "DRIVER_VERSION",
    "MULTIPROCESSORS",
    "COMPUTE_MODE",
    "ORDER",
    "CHECKS",
    "ENDLESS",
    "FAIL_CALL",
    "EDIT",
    "MISSED_COPY",
    "STALE_ARGUMENTS",
    "REPORT",
];

impl Settings {
    /// Settings of the environment: names behind `SUMSQ_LIBCUDA_`.
    ///
    /// # Errors
    /// Returns the name and value of the variable that is not understood.
    pub fn from_environment() -> Result<Settings, String> {
        let mut settings = Settings::default();
        for name in NAMES {
            let variable = format!("SUMSQ_LIBCUDA_{name}");
            if let Ok(value) = std::env::var(&variable) {
                let known = settings.set(name, &value).is_some();
                known.then_some(()).ok_or_else(|| format!("{variable}={value} is not understood"))?;
            }
        }
        Ok(settings)
    }

    /// Changes a setting; `None` where name or value is not understood.
    pub fn set(&mut self, name: &str, value: &str) -> Option<()> {
        match name {
            "DEVICES" => self.devices = value.parse().ok()?,
            "CAPABILITY" => {
                let (major, minor) = value.split_once('.')?;
                self.capability = (major.parse().ok()?, minor.parse().ok()?);
            }
            "MEMORY" => self.memory = value.parse().ok()?,
            "DRIVER_VERSION" => self.driver_version = value.parse().ok()?,
            "MULTIPROCESSORS" => self.multiprocessors = value.parse().ok()?,
            "COMPUTE_MODE" => self.compute_mode = value.parse().ok()?,
            "ORDER" => self.order = Order::of_seed(value.parse().ok()?),
            "CHECKS" => self.checks = on(value)?,
            "ENDLESS" => self.endless = value.parse().ok()?,
            "FAIL_CALL" if value.is_empty() => self.fail = None,
            "FAIL_CALL" => self.fail = Some(Fail::parse(value)?),
            "EDIT" if value.is_empty() => self.edit = None,
            "EDIT" => {
                self.edit = value.split_once(" => ").map(|(from, to)| Some((from.into(), to.into())))?
            }
            "MISSED_COPY" if value.is_empty() => self.missed = None,
            "MISSED_COPY" => {
                let (direction, n) = value.split_once(':')?;
                self.missed = Some((Direction::parse(direction)?, n.parse().ok()?));
            }
            "STALE_ARGUMENTS" => self.stale = on(value)?,
            "REPORT" => self.report = Some(value.to_string()),
            _ => return None,
        }
        Some(())
    }
}

/// `on` or `off`.
fn on(value: &str) -> Option<bool> {
    ["off", "on"].iter().position(|v| *v == value).map(|at| at == 1)
}

impl Direction {
    fn parse(text: &str) -> Option<Direction> {
        match text {
            "to_device" => Some(Direction::ToDevice),
            "to_host" => Some(Direction::ToHost),
            "within_device" => Some(Direction::WithinDevice),
            _ => None,
        }
    }
}

impl Fail {
    /// `17`, `17:2`, `cuMemAlloc_v2:2`; without a code it is that of an unknown error.
    pub fn parse(text: &str) -> Option<Fail> {
        let (which, code) = match text.split_once(':') {
            // A code that is none would not be one of cuda.h's enumeration either.
            Some((which, code)) => (which, code.parse().ok().filter(|c| texts(*c).is_some())?),
            None => (text, UNKNOWN),
        };
        let which = match which.parse() {
            Ok(number) => Which::Number(number),
            Err(_) if which.starts_with("cu") => Which::Name(which.to_string()),
            Err(_) => return None,
        };
        Some(Fail { which, code })
    }
}
