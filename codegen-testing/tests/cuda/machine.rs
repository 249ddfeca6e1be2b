//! The stand-in driver of this process: one machine, which tests have one after the other.

use std::sync::{Mutex, MutexGuard, PoisonError};
use sumsq_libcuda::{Control, Counters, preload};

/// The machine, for one test. What it finds there is what the stand-in has by default, with a device of 64 MiB.
pub struct Machine {
    control: Control,
    _turn: MutexGuard<'static, ()>,
}

impl Machine {
    pub fn new() -> Machine {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let machine = Machine { control: preload().unwrap(), _turn: turn };
        machine.control.fail_none();
        for (name, value) in
            [("DEVICES", "1"), ("CAPABILITY", "9.0"), ("DRIVER_VERSION", "12080"), ("MEMORY", "67108864")]
        {
            machine.set(name, value);
        }
        machine.control.reset_counters();
        machine
    }

    pub fn set(&self, name: &str, value: &str) {
        self.control.set(name, value);
    }

    /// Runs something while the `n`-th call from now on fails. Returns the calls that were made, too.
    pub fn failing<R>(&self, n: u64, code: u32, f: impl FnOnce() -> R) -> (R, u64) {
        self.control.reset_counters();
        self.control.fail_call(n, code);
        let result = f();
        let calls = self.counters().calls;
        self.control.fail_none();
        (result, calls)
    }

    /// See [`Control::mend`].
    pub fn mend(&self) {
        self.control.mend();
    }

    pub fn counters(&self) -> Counters {
        self.control.counters()
    }

    /// Nothing is left on the device, and nothing was left to the end of a context.
    pub fn is_clean(&self) -> bool {
        let Counters { allocations, objects, leaked, .. } = self.counters();
        (allocations, objects, leaked) == (0, 0, 0)
    }
}
