//! A case as an energy file.

use crate::case::{At, Case, Expr, Group, Kind, Loss, Op, Rho, Source};
use std::fmt::Write;

impl Case {
    /// The energy file.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.declarations(&mut out).expect("a String takes every text");
        self.statements(&mut out).expect("a String takes every text");
        out
    }

    fn declarations(&self, out: &mut String) -> std::fmt::Result {
        for d in 0..self.extents.len() {
            writeln!(out, "local D{d} = Dim(\"D{d}\", {d})")?;
        }
        for (f, field) in self.fields.iter().enumerate() {
            let (name, dims) = (self.name(Source::Field(f)), self.dims(field.space));
            let width = if field.channels == 1 { String::new() } else { field.channels.to_string() };
            let (function, ty, position) = match field.kind {
                Kind::Unknown(ty) => ("Unknown", ty, f),
                Kind::Array(ty) => ("Array", ty, f),
                Kind::View(of) => ("Array", self.type_of(of), of),
            };
            writeln!(out, "local {name} = {function}(\"{name}\", {ty}{width}, {dims}, {position})")?;
        }
        let mut position = self.fields.len();
        for (p, values) in self.params.iter().enumerate() {
            let width = if values.len() == 1 { String::new() } else { values.len().to_string() };
            writeln!(out, "local p{p} = Param(\"p{p}\", opt_float{width}, {position})")?;
            position += 1;
        }
        for (g, graph) in self.graphs.iter().enumerate() {
            write!(out, "local G{g} = Graph(\"G{g}\", {position}")?;
            position += 1;
            for (v, &space) in graph.spaces.iter().enumerate() {
                write!(out, ", \"v{v}\", {}, {position}", self.dims(space))?;
                position += 1;
            }
            writeln!(out, ")")?;
        }
        Ok(())
    }

    fn statements(&self, out: &mut String) -> std::fmt::Result {
        for (c, computed) in self.computed.iter().enumerate() {
            let (dims, value) = (self.dims(computed.space), self.expression(&computed.value));
            writeln!(out, "local C{c} = ComputedArray(\"C{c}\", {dims}, {value})")?;
        }
        for (_, condition) in &self.excludes {
            writeln!(out, "Exclude({})", self.expression(condition))?;
        }
        for (f, lower, upper) in &self.bounds {
            let (lower, upper) = (self.expression(lower), self.expression(upper));
            writeln!(out, "Bounds({}, {lower}, {upper})", self.name(Source::Field(*f)))?;
        }
        for (f, displacement) in &self.near_nulls {
            let (name, displacement) = (self.name(Source::Field(*f)), self.expression(displacement));
            writeln!(out, "NearNull({name}, {displacement})")?;
        }
        self.groups.iter().try_for_each(|g| self.group(out, g))
    }

    fn group(&self, out: &mut String, group: &Group) -> std::fmt::Result {
        let mut entries: Vec<String> = Vec::new();
        entries.extend(group.name.iter().map(|n| format!("name=\"{n}\"")));
        entries.extend(group.loss.iter().map(|l| format!("loss={}", self.loss(l))));
        let plain = entries.is_empty();
        entries.extend(group.values.iter().map(|v| self.expression(v)));
        let all = entries.join(", ");
        if plain { writeln!(out, "Energy({all})") } else { writeln!(out, "Residual{{{all}}}") }
    }

    fn loss(&self, loss: &Loss) -> String {
        let parts: Vec<String> = loss.parts().into_iter().map(|e| self.expression(e)).collect();
        let all = parts.join(", ");
        let first = match &loss.rho {
            Rho::Scaled(kind, _) => format!("{kind:?}({all})"),
            Rho::Power(..) => format!("Power({all})"),
            Rho::Formula(_) => format!("Loss(function(q) return {all} end)"),
        };
        if loss.second_order { format!("SecondOrder({first})") } else { first }
    }

    /// The name of what is read.
    pub fn name(&self, source: Source) -> String {
        match source {
            Source::Computed(c) => format!("C{c}"),
            Source::Field(f) => match self.fields[f].kind {
                Kind::Unknown(_) => format!("X{f}"),
                Kind::Array(_) => format!("A{f}"),
                Kind::View(_) => format!("V{f}"),
            },
        }
    }

    fn type_of(&self, field: usize) -> &'static str {
        match self.fields[field].kind {
            Kind::Unknown(ty) | Kind::Array(ty) => ty,
            Kind::View(of) => self.type_of(of),
        }
    }

    fn dims(&self, space: usize) -> String {
        let dims: Vec<String> = self.spaces[space].iter().map(|d| format!("D{d}")).collect();
        format!("{{{}}}", dims.join(","))
    }

    /// The text of an expression.
    pub fn expression(&self, e: &Expr) -> String {
        let number = |v: f64| if v < 0.0 { format!("({v:?})") } else { format!("{v:?}") };
        match e {
            Expr::Number(v) => number(*v),
            Expr::Param(p, None) => format!("p{p}"),
            Expr::Param(p, Some(c)) if self.params[*p].len() == 1 && *c == 0 => format!("p{p}"),
            Expr::Param(p, Some(c)) => format!("p{p}({c})"),
            Expr::Read(source, at, channels) => self.read(*source, at, *channels),
            Expr::Squared => "q".into(),
            Expr::Index(d) => format!("Index({d})"),
            Expr::InBounds(offset, None) => format!("InBounds({})", list(offset)),
            Expr::InBounds(offset, Some(k)) => format!("InBoundsExpanded({}, {k})", list(offset)),
            Expr::Call(op, operands) => {
                let texts: Vec<String> = operands.iter().map(|o| self.expression(o)).collect();
                self.call(op, &texts)
            }
        }
    }

    fn read(&self, source: Source, at: &At, [first, end]: [usize; 2]) -> String {
        let name = self.name(source);
        let place = match at {
            At::Offset(offset) => list(offset),
            At::Vertex(g, v) => format!("G{g}.v{v}"),
            At::Global => String::new(),
        };
        let channels = self.channels(source);
        if (first, end) == (0, channels) {
            return format!("{name}({place})");
        }
        if end == first + 1 {
            let comma = if place.is_empty() { "" } else { "," };
            return format!("{name}({place}{comma}{first})");
        }
        format!("Slice({name}, {first}, {end})({place})")
    }

    fn call(&self, op: &Op, texts: &[String]) -> String {
        let all = texts.join(", ");
        let infix = |symbol: &str| format!("({})", texts.join(symbol));
        match op {
            Op::Neg => format!("(-{all})"),
            Op::Unary(name) | Op::Compare(name) => format!("{name}({all})"),
            Op::Add => infix(" + "),
            Op::Sub => infix(" - "),
            Op::Mul => infix(" * "),
            Op::Div => infix(" / "),
            Op::Power => infix(" ^ "),
            Op::Pow => format!("pow({all})"),
            Op::Atan2 => format!("atan2({all})"),
            Op::And => format!("And({all})"),
            Op::Or => format!("or_({all})"),
            Op::Not => format!("Not({all})"),
            Op::Select => format!("Select({all})"),
            Op::Vector => format!("Vector({all})"),
            Op::Channel(c) => format!("({all})({c})"),
            Op::Sum => format!("({all}):sum()"),
            Op::Norm => format!("L_2_norm({all})"),
            Op::Normalize => format!("normalize({all})"),
            Op::Length => format!("length({all})"),
            Op::Dot => format!("({}):dot({})", texts[0], texts[1]),
            Op::All => format!("All({all})"),
            Op::Any => format!("Any({all})"),
            Op::Matrix3x3Mul => format!("Matrix3x3Mul({all})"),
            Op::Rotate2D => format!("Rotate2D({all})"),
            Op::Rotate3D => format!("Rotate3D({all})"),
            Op::Sample(image, partials, channel) => {
                let fields: Vec<String> =
                    [image].into_iter().chain(partials).map(|&f| self.name(Source::Field(f))).collect();
                let channel = channel.map_or_else(String::new, |c| format!(", {c}"));
                format!("SampledImage({})({all}{channel})", fields.join(", "))
            }
            Op::LP(p, space) => format!("L_p({all}, {p:?}, {})", self.dims(*space)),
            Op::Gone => format!("(0*{all})"),
        }
    }
}

fn list(offset: &[i64]) -> String {
    offset.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}
