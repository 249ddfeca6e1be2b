//! Numbers that were measured, as JSON between processes and as a table at the end.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Its name: what was measured, of which size.
    pub name: String,
    /// The median.
    pub value: f64,
    /// First and third quartile.
    pub quartiles: (f64, f64),
    /// Its unit.
    pub unit: String,
}

/// The numbers of a piece, and remarks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Numbers in the order measured.
    pub all: Vec<Fact>,
    /// Remarks, a line each.
    pub notes: Vec<String>,
    /// File that has all of them at any time.
    file: Option<PathBuf>,
}

/// First quartile, median and third quartile of some numbers, at least one.
pub fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|k| {
        let at = k as f64 / 4.0 * (values.len() - 1) as f64;
        let (below, above) = (values[at.floor() as usize], values[at.ceil() as usize]);
        below + (above - below) * at.fract()
    })
}

impl Facts {
    /// None yet; whatever is added is written to a file at once, since the process may be ended.
    pub fn kept(file: PathBuf) -> Facts {
        Facts { file: Some(file), ..Facts::default() }
    }

    fn keep(&self) {
        let Some(file) = &self.file else { return };
        std::fs::write(file, self.json().to_string()).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }

    /// Adds a number, printed at once.
    pub fn add(&mut self, name: impl Into<String>, value: f64, unit: &str) {
        self.add_many(name, vec![value], unit);
    }

    /// Adds the median of numbers, at least one.
    pub fn add_many(&mut self, name: impl Into<String>, values: Vec<f64>, unit: &str) {
        let [low, value, high] = quartiles(values);
        let fact = Fact { name: name.into(), value, quartiles: (low, high), unit: unit.into() };
        println!("{}", fact.line());
        self.all.push(fact);
        self.keep();
    }

    /// Adds the median of times in a unit of so many seconds.
    pub fn times(&mut self, name: impl Into<String>, times: &[Duration], (unit, seconds): (&str, f64)) {
        self.add_many(name, times.iter().map(|t| t.as_secs_f64() / seconds).collect(), unit);
    }

    /// Adds a remark, printed at once.
    pub fn note(&mut self, line: impl Into<String>) {
        let line = line.into();
        println!("{line}");
        self.notes.push(line);
        self.keep();
    }

    /// The number of a name.
    pub fn find(&self, name: &str) -> Option<f64> {
        self.all.iter().find(|f| f.name == name).map(|f| f.value)
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let fact =
            |f: &Fact| json!({"name": f.name, "value": f.value, "quartiles": f.quartiles, "unit": f.unit});
        json!({"facts": self.all.iter().map(fact).collect::<Vec<_>>(), "notes": self.notes})
    }

    /// Of JSON; what is not understood is left out.
    pub fn of_json(v: &Value) -> Facts {
        let list = |key: &str| v[key].as_array().cloned().unwrap_or_default();
        let fact = |v: Value| {
            let value = v["value"].as_f64()?;
            let quartile = |k: usize| v["quartiles"][k].as_f64().unwrap_or(value);
            Some(Fact {
                name: v["name"].as_str()?.into(),
                value,
                quartiles: (quartile(0), quartile(1)),
                unit: v["unit"].as_str().unwrap_or_default().into(),
            })
        };
        Facts {
            all: list("facts").into_iter().filter_map(fact).collect(),
            notes: list("notes").iter().filter_map(|n| n.as_str().map(String::from)).collect(),
            file: None,
        }
    }
}

impl Fact {
    /// As a line of the table.
    pub fn line(&self) -> String {
        let (low, high) = self.quartiles;
        let text = |v: f64| if v != 0.0 && v.abs() < 1e-2 { format!("{v:.2e}") } else { format!("{v:.3}") };
        let spread = if low < high { format!("[{}, {}]", text(low), text(high)) } else { String::new() };
        let line = format!("{:<88} {:>12} {:<6} {spread}", self.name, text(self.value), self.unit);
        line.trim_end().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_back() {
        let mut facts = Facts::default();
        facts.add_many("a", vec![3.0, 1.0, 2.0, 9.0, 4.0], "us");
        facts.add("b", 0.5, "");
        facts.note("c");
        assert_eq!(facts.all[0].quartiles, (2.0, 4.0));
        assert_eq!(facts.find("a"), Some(3.0));
        assert_eq!(Facts::of_json(&facts.json()), facts);
    }
}
