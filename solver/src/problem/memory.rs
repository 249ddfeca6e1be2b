//! Memory that a problem may take.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// A limit on the memory of a problem: the numbers that it is given, and the buffers of its plan.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MemoryLimit {
    /// So many bytes, even if there are fewer.
    Bytes(u64),
    /// This share of what there is, above 0 and at most 1.
    Share(f64),
}

impl MemoryLimit {
    /// The limit in bytes, of which the problem has taken `held` already; `None` where nobody knows what there is.
    pub fn bytes(limit: Option<MemoryLimit>, held: u64) -> Option<u64> {
        let available = || available().map(|bytes| bytes.saturating_add(held));
        match limit {
            Some(MemoryLimit::Bytes(bytes)) => Some(bytes),
            Some(MemoryLimit::Share(share)) => available().map(|bytes| (share * bytes as f64) as u64),
            None => available(),
        }
    }
}

/// Reads `1000000`, `1.5G` (powers of 1024: K, M, G, T) or `50%`.
impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryLimit, String> {
        let bad = || "expected bytes, as in 8000000 or 1.5G, or a share, as in 50%".to_string();
        let units = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];
        let unit = units.iter().find_map(|(name, power)| Some((text.strip_suffix(name)?, *power)));
        if let Some(percent) = text.strip_suffix('%') {
            let share = percent.parse::<f64>().map_err(|_| bad())? / 100.0;
            return if share > 0.0 && share <= 1.0 { Ok(MemoryLimit::Share(share)) } else { Err(bad()) };
        }
        let (number, power) = unit.unwrap_or((text, 0));
        let bytes = number.parse::<f64>().map_err(|_| bad())? * f64::from(power).exp2();
        if bytes >= 1.0 && bytes < 2f64.powi(63) { Ok(MemoryLimit::Bytes(bytes as u64)) } else { Err(bad()) }
    }
}

/// Memory of a problem, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Memory {
    /// Of the numbers that it was given, wherever they are.
    pub inputs: u64,
    /// Of its buffers.
    pub buffers: u64,
    /// The limit that both were compared with before any buffer was touched; `None` where nobody knows what there is.
    pub limit: Option<u64>,
}

impl Memory {
    /// Sums of bytes that stay within the limit; else the limit that they exceed.
    pub(crate) fn within(inputs: u64, buffers: u64, limit: Option<u64>) -> Result<Memory, u64> {
        let needed = inputs.saturating_add(buffers);
        limit.filter(|&limit| needed > limit).map_or(Ok(Memory { inputs, buffers, limit }), Err)
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of inputs, {} of buffers", Bytes(self.inputs), Bytes(self.buffers))?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", {} available", Bytes(limit)))
    }
}

/// Bytes with a unit, for people.
pub(crate) struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0 as f64, 0);
        while value >= 1000.0 && unit < 5 {
            (value, unit) = (value / 1024.0, unit + 1);
        }
        let name = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
        if unit == 0 { write!(f, "{value} {name}") } else { write!(f, "{value:.1} {name}") }
    }
}

/// Bytes that this process can have without swapping: what the machine has, and the limits of its control groups.
fn available() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemAvailable:"));
    let groups = control_groups().into_iter().filter_map(|group| free_in(Path::new(&group)));
    groups.chain(machine.map(|kib| kib.saturating_mul(1024))).min()
}

/// The folders of the control groups (version 2) that the process is in, from its own to the root's.
fn control_groups() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(own) = text.lines().find_map(|line| line.strip_prefix("0::")) else { return vec![] };
    let all = Path::new(own).ancestors();
    all.map(|group| format!("/sys/fs/cgroup{}", group.display())).collect()
}

/// The rest of a group's limit. Pages of files are given back when they are needed.
fn free_in(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let most: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let files = read("memory.stat").and_then(|text| field(&text, "file")).unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(files)))
}

/// The number behind a word at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| if words.next() == Some(name) { words.next()?.parse().ok() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        for (text, expected) in [
            ("1", MemoryLimit::Bytes(1)),
            ("8000000", MemoryLimit::Bytes(8_000_000)),
            ("1.5G", MemoryLimit::Bytes(3 << 29)),
            ("64K", MemoryLimit::Bytes(1 << 16)),
            ("50%", MemoryLimit::Share(0.5)),
            ("100%", MemoryLimit::Share(1.0)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "0", "-1", "nan", "inf", "1e300", "0%", "101%", "%", "nan%", "G", "1.5 G", "1X"] {
            assert!(text.parse::<MemoryLimit>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_there_is_is_known_and_groups_limit_it() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
        let group = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        write("memory.max", "1000000\n");
        write("memory.current", "700000\n");
        assert_eq!(free_in(group.path()), Some(300_000));
        write("memory.stat", "anon 500000\nfile 200000\nfile_mapped 7\n");
        assert_eq!(free_in(group.path()), Some(500_000));
        write("memory.max", "max\n");
        assert_eq!(free_in(group.path()), None);
    }

    #[test]
    fn what_is_held_already_is_part_of_what_there_is() {
        assert_eq!(MemoryLimit::bytes(Some(MemoryLimit::Bytes(7)), 100), Some(7));
        let (held, half) = (1 << 50, MemoryLimit::Share(0.5));
        assert!(MemoryLimit::bytes(None, held).is_some_and(|bytes| bytes > held));
        assert!(MemoryLimit::bytes(Some(half), held).is_some_and(|bytes| bytes > held / 2 && bytes < held));
    }

    #[test]
    fn bytes_have_a_unit() {
        let text = |bytes| Bytes(bytes).to_string();
        assert_eq!([text(12), text(1 << 20), text(1000)], ["12 B", "1.0 MiB", "1.0 KiB"]);
    }
}
