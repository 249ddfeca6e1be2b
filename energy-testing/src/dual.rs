//! Numbers that carry their derivatives with respect to the unknowns.

/// A value with the derivatives by those unknown scalars that it depends on.
#[derive(Clone, Debug, Default)]
pub struct Dual {
    pub value: f64,
    /// Number of an unknown scalar and the derivative by it, ascending.
    pub slopes: Vec<(usize, f64)>,
    /// The size of what each slope was summed from, through all operations: terms may cancel, also in another order. Without one it is the
    /// slope's own.
    pub sizes: Vec<f64>,
    /// True of what a comparison, a logical function or a bounds test gives, and of products of such: multiplied, it selects.
    pub boolean: bool,
}

impl Dual {
    pub fn number(value: f64) -> Dual {
        Dual { value, ..Dual::default() }
    }

    pub fn truth(holds: bool) -> Dual {
        Dual { value: f64::from(u8::from(holds)), boolean: true, ..Dual::default() }
    }

    /// A truth that follows from NaN: a simplification may make a finite number of that, and so the other truth. All that is chosen by it is NaN.
    pub fn unknown() -> Dual {
        Dual { value: f64::NAN, boolean: true, ..Dual::default() }
    }

    /// A number of which nothing is said, nor of its derivatives by what these depend on.
    pub fn open<const N: usize>(of: [&Dual; N]) -> Dual {
        Dual::chain(f64::NAN, of.map(|operand| (f64::NAN, operand)))
    }

    pub fn holds(&self) -> bool {
        self.value != 0.0
    }

    /// A value whose derivative is the sum of factors times those of the operands.
    pub fn chain<const N: usize>(value: f64, terms: [(f64, &Dual); N]) -> Dual {
        let (mut slopes, mut sizes): (Vec<(usize, f64)>, Vec<f64>) = Default::default();
        for (factor, operand) in terms {
            for (k, &(scalar, slope)) in operand.slopes.iter().enumerate() {
                let size = operand.sizes.get(k).copied().unwrap_or(slope.abs());
                let (term, size) = (factor * slope, factor.abs() * size);
                match slopes.binary_search_by_key(&scalar, |s| s.0) {
                    Ok(k) => {
                        slopes[k].1 += term;
                        sizes[k] += size;
                    }
                    Err(k) => {
                        slopes.insert(k, (scalar, term));
                        sizes.insert(k, size);
                    }
                }
            }
        }
        Dual { value, slopes, sizes, boolean: false }
    }

    pub fn add(&self, other: &Dual) -> Dual {
        Dual::chain(self.value + other.value, [(1.0, self), (1.0, other)])
    }

    pub fn sub(&self, other: &Dual) -> Dual {
        Dual::chain(self.value - other.value, [(1.0, self), (-1.0, other)])
    }

    /// The product; where a factor is boolean, the other one or 0.
    pub fn mul(&self, other: &Dual) -> Dual {
        let select = |condition: &Dual, of: &Dual| match condition {
            c if c.value.is_nan() => Dual { boolean: of.boolean, ..Dual::open([of]) },
            c if c.holds() => of.clone(),
            _ => Dual { boolean: of.boolean, ..Dual::number(0.0) },
        };
        match (self.boolean, other.boolean) {
            (true, _) => select(self, other),
            (_, true) => select(other, self),
            _ => Dual::chain(self.value * other.value, [(other.value, self), (self.value, other)]),
        }
    }

    pub fn div(&self, by: &Dual) -> Dual {
        let quotient = self.value / by.value;
        Dual::chain(quotient, [(1.0 / by.value, self), (-quotient / by.value, by)])
    }

    /// x^y; the derivative by y is that of a positive x.
    pub fn pow(&self, exponent: &Dual) -> Dual {
        let (x, y) = (self.value, exponent.value);
        let whole = y.fract() == 0.0 && y.abs() < 1e6;
        let power = |y: f64| if whole { x.powi(y as i32) } else { x.powf(y) };
        let by_base = if y == 0.0 || (x == 0.0 && 0.0 < y && y < 1.0) {
            0.0
        } else if y == 1.0 {
            1.0
        } else {
            y * power(y - 1.0)
        };
        let value = power(y);
        Dual::chain(value, [(by_base, self), (value * x.ln(), exponent)])
    }

    /// The angle of (x, self); a zero has no sign.
    pub fn atan2(&self, x: &Dual) -> Dual {
        let norm = x.value * x.value + self.value * self.value;
        let by = |v: f64| if norm == 0.0 { 0.0 } else { v / norm };
        let angle = (self.value + 0.0).atan2(x.value + 0.0);
        Dual::chain(angle, [(by(x.value), self), (-by(self.value), x)])
    }

    pub fn sqrt(&self) -> Dual {
        self.unary("sqrt")
    }

    /// A function by its name in the language.
    pub fn unary(&self, name: &str) -> Dual {
        self.unary_rounded(name, |square| square)
    }

    /// The same, with the squares that slopes are made of rounded: 1 - x^2 may cancel.
    pub fn unary_rounded(&self, name: &str, rounded: impl Fn(f64) -> f64) -> Dual {
        let x = self.value;
        let square = |x: f64| rounded(x * x);
        let (value, slope) = match name {
            "abs" => (x.abs(), if x >= 0.0 { 1.0 } else { -1.0 }),
            "acos" => (x.acos(), -1.0 / (1.0 - square(x)).sqrt()),
            "acosh" => (x.acosh(), 1.0 / (square(x) - 1.0).sqrt()),
            "asin" => (x.asin(), 1.0 / (1.0 - square(x)).sqrt()),
            "asinh" => (x.asinh(), 1.0 / (x * x + 1.0).sqrt()),
            "atan" => (x.atan(), 1.0 / (1.0 + x * x)),
            "atanh" => (x.atanh(), 1.0 / (1.0 - square(x))),
            "cos" => (x.cos(), -x.sin()),
            "cosh" => (x.cosh(), x.sinh()),
            "exp" => (x.exp(), x.exp()),
            "log" => (x.ln(), 1.0 / x),
            "log10" => (x.log10(), 1.0 / (x * std::f64::consts::LN_10)),
            "sin" => (x.sin(), x.cos()),
            "sinh" => (x.sinh(), x.cosh()),
            "sqrt" | "Sqrt" => (x.sqrt(), if x == 0.0 { 0.0 } else { 0.5 / x.sqrt() }),
            "tan" => (x.tan(), 1.0 / x.cos().powi(2)),
            "tanh" => (x.tanh(), 1.0 - square(x.tanh())),
            _ => unreachable!("no function {name}"),
        };
        Dual::chain(value, [(slope, self)])
    }
}
