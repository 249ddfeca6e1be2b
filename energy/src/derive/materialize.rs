//! Choice of derived quantities that are stored; others are computed wherever they are needed.
//!
//! Nothing stored is Opt's in-place method. A residual group may store its partials (once per linearisation), its products J p (once
//! per direction: the two passes of J^T (J p)), or its share of the diagonal blocks of J^T J, so that only what couples elements
//! is computed in place. A computed array is stored with its partials, or recomputed wherever it is read. Results differ by rounding alone;
//! what is fastest depends on how costly the partials are against the memory they take (DeVito et al.,
//! "Opt", 2017, section 7, figure 14).

use super::template::Template;
use super::{Kind, Routine, Site, robust};
use crate::dag::{Access, At, Dag, ExprId, Source};
use crate::model::{Computed, Domain, Energy};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Choice of what a residual group stores.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Choice {
    /// Its partials that are not constants.
    pub jacobian: bool,
    /// Its products J p.
    pub product: bool,
    /// Its share of the diagonal blocks of J^T J. Not together with `product`, which holds the elements' own share already.
    pub blocks: bool,
}

/// Choices by residual group and computed array. Read from text such as `jp`, `fit=in_place,reg=j+jp,B=recomputed`: one
/// choice without a name is that of all groups not named.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Materialize {
    /// The choice of groups that are not named.
    pub others: Choice,
    /// Groups by name.
    pub groups: BTreeMap<String, Choice>,
    /// Computed arrays by name: whether they are recomputed.
    pub computed: BTreeMap<String, bool>,
}

impl Materialize {
    /// The choice of a residual group.
    pub fn of(&self, group: &str) -> Choice {
        self.groups.get(group).copied().unwrap_or(self.others)
    }

    /// The energy with the computed arrays inlined that are recomputed. Every name must be that of one of its groups or computed arrays.
    pub fn apply(&self, energy: Energy) -> Result<Energy, String> {
        let groups: Vec<&str> = energy.groups.iter().map(String::as_str).collect();
        let arrays: Vec<&str> = energy.computed.iter().map(|c| c.name.as_str()).collect();
        if let Some(name) = self.groups.keys().find(|n| !groups.contains(&n.as_str())) {
            return Err(format!("there is no residual group `{name}`: {}", list(&groups)));
        }
        if let Some(name) = self.computed.keys().find(|n| !arrays.contains(&n.as_str())) {
            return Err(format!("there is no computed array `{name}`: {}", list(&arrays)));
        }
        let recomputed = |c: &Computed| self.computed.get(&c.name).copied().unwrap_or(false);
        Ok(if energy.computed.iter().any(recomputed) { energy.inlined_where(recomputed) } else { energy })
    }
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "the energy has none".into() } else { names.join(", ") }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let mut choice = Choice::default();
        if text == "in_place" {
            return Ok(choice);
        }
        for part in text.split('+') {
            match part {
                "j" => choice.jacobian = true,
                "jp" => choice.product = true,
                "blocks" => choice.blocks = true,
                _ => return Err(format!("`{text}` is not in_place, or j, jp, blocks joined by +")),
            }
        }
        if choice.product && choice.blocks {
            return Err("jp holds the elements' own share already: store jp or blocks".into());
        }
        Ok(choice)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [(self.jacobian, "j"), (self.product, "jp"), (self.blocks, "blocks")];
        let names: Vec<&str> = all.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect();
        f.write_str(&if names.is_empty() { "in_place".into() } else { names.join("+") })
    }
}

impl FromStr for Materialize {
    type Err = String;

    fn from_str(text: &str) -> Result<Materialize, String> {
        let mut all = Materialize::default();
        for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            match entry.split_once('=') {
                None => all.others = entry.parse()?,
                Some((name, "stored")) => drop(all.computed.insert(name.into(), false)),
                Some((name, "recomputed")) => drop(all.computed.insert(name.into(), true)),
                Some((name, choice)) => drop(all.groups.insert(name.into(), choice.parse()?)),
            }
        }
        Ok(all)
    }
}

impl fmt::Display for Materialize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.others)?;
        for (name, choice) in &self.groups {
            write!(f, ",{name}={choice}")?;
        }
        for (name, &again) in &self.computed {
            write!(f, ",{name}={}", if again { "recomputed" } else { "stored" })?;
        }
        Ok(())
    }
}

/// The channel of what is stored over `domain` that holds `value`, added if it is new. `kind` is [`Kind::Stored`] or [`Kind::Product`].
pub(super) fn channel(table: &mut Vec<Routine>, kind: Kind, domain: Domain, value: ExprId) -> u16 {
    let site = Site::Instance(domain);
    let at = table.iter().position(|r| (r.kind, r.site) == (kind, site)).unwrap_or_else(|| {
        table.push(Routine { kind, site, roots: Vec::new() });
        table.len() - 1
    });
    let roots = &mut table[at].roots;
    let channel = roots.iter().position(|&v| v == value).unwrap_or_else(|| {
        roots.push(value);
        roots.len() - 1
    });
    channel as u16
}

/// The routines of what the groups of `templates` store: first per linearisation, then per direction. Puts its reads into what their J^T J p is
/// made of.
pub(super) fn materialize(
    energy: &Energy,
    dag: &mut Dag,
    templates: &mut [Template],
    choices: &Materialize,
) -> Vec<Routine> {
    let mut table = Vec::new();
    for t in templates {
        let group = energy.residuals[t.residual].group;
        let choice = choices.of(&energy.groups[group.index()]);
        if choice.jacobian {
            store_partials(energy, dag, t, &mut table);
        }
        if choice.product {
            let zero = dag.constant(0.0);
            let value = dag.select(t.boundary, t.applied.jp, zero);
            let channel = channel(&mut table, Kind::Product, t.domain, value);
            t.applied.jp = read(energy, dag, Source::Product(t.domain), t.domain, channel);
        }
        t.applied.blocks = choice.blocks;
    }
    table.sort_by_key(|r| r.kind);
    table
}

/// Replaces the partials of a template by what is stored: sqrt(rho') J under a loss.
fn store_partials(energy: &Energy, dag: &mut Dag, t: &mut Template, table: &mut Vec<Routine>) {
    let root = t.weight.map(|w| robust::root(dag, w));
    for (_, partial) in &mut t.applied.partials {
        let value = root.map_or(*partial, |root| dag.mul(root, *partial));
        if dag.is_uniform(value) {
            continue;
        }
        let channel = channel(table, Kind::Stored, t.domain, value);
        *partial = read(energy, dag, Source::Hoisted(t.domain), t.domain, channel);
    }
    t.applied.jp = super::template::directional(dag, &t.applied.partials);
    t.applied.weight = None;
}

/// Returns what is stored for the instance itself.
fn read(energy: &Energy, dag: &mut Dag, source: Source, domain: Domain, channel: u16) -> ExprId {
    let at = match domain {
        Domain::Space(s) if energy.is_global(s) => At::Global,
        Domain::Space(s) => At::Offset(energy.spaces[s.index()].iter().map(|_| 0).collect()),
        Domain::Graph(g) => At::Edge(g),
    };
    dag.access(Access { source, channel, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in ["in_place", "j+jp", "jp,fit=in_place,reg=j+blocks,B=recomputed"] {
            assert_eq!(text.parse::<Materialize>().unwrap().to_string(), text);
        }
        assert_eq!("fit=j".parse::<Materialize>().unwrap().of("fit").to_string(), "j");
        assert_eq!("fit=j".parse::<Materialize>().unwrap().of("other"), Choice::default());
        assert!("jtj".parse::<Materialize>().unwrap_err().contains("`jtj` is not in_place"));
        assert!("jp+blocks".parse::<Choice>().is_err());
    }
}
