//! Training of the numbers of a deconvolution.

use super::{Blurred, Deconvolver, Derivative, Parameters, Result};
use crate::demosaicking::decibels;

/// Decays of the mean of slopes and of that of their squares (Kingma and Ba, "Adam: a method for stochastic optimization", 2015, algorithm 1).
const DECAYS: [f64; 2] = [0.9, 0.99];

/// A training by Adam: steps in the logarithms of all numbers, up the mean PSNR of a few pictures at a time.
pub struct Training {
    /// The numbers that it has come to.
    pub parameters: Parameters,
    /// Mean of slopes and of their squares, and the number of steps.
    mean: Vec<f64>,
    square: Vec<f64>,
    steps: i32,
}

impl Training {
    /// From these numbers on.
    pub fn new(parameters: Parameters) -> Training {
        let zeros = vec![0.0; parameters.list().len()];
        Training { parameters, mean: zeros.clone(), square: zeros, steps: 0 }
    }

    /// The mean PSNR of some pictures, in decibels, and its slope by the logarithm of each number.
    pub fn psnr(
        &self,
        by: (&Deconvolver, &Derivative<'_>),
        pictures: &[&Blurred],
    ) -> Result<(f64, Vec<f64>)> {
        let numbers = self.parameters.list();
        let (mut mean, mut slope) = (0.0, vec![0.0; numbers.len()]);
        let share = 1.0 / pictures.len().max(1) as f64;
        for of in pictures {
            let solution = by.0.run(of, &self.parameters)?;
            let (error, adjoint) = of.error(&solution.image());
            mean += share * decibels(error);
            let slopes = by.1.slopes(of, &self.parameters, &solution, &adjoint)?.list();
            let scale = -10.0 / std::f64::consts::LN_10 / error * share;
            for ((sum, d), v) in slope.iter_mut().zip(slopes).zip(&numbers) {
                *sum += scale * d * v;
            }
        }
        Ok((mean, slope))
    }

    /// A step by these pictures, in which each logarithm moves by `rate` about. Returns their mean PSNR before.
    pub fn step(
        &mut self,
        by: (&Deconvolver, &Derivative<'_>),
        pictures: &[&Blurred],
        rate: f64,
    ) -> Result<f64> {
        let (psnr, slope) = self.psnr(by, pictures)?;
        self.steps += 1;
        let mut numbers = self.parameters.list();
        let [bias, bias_square] = DECAYS.map(|decay| 1.0 - decay.powi(self.steps));
        for (k, d) in slope.iter().enumerate() {
            self.mean[k] += (1.0 - DECAYS[0]) * (d - self.mean[k]);
            self.square[k] += (1.0 - DECAYS[1]) * (d * d - self.square[k]);
            let root = (self.square[k] / bias_square).sqrt() + 1e-12;
            numbers[k] *= (rate * self.mean[k] / bias / root).exp();
        }
        if let Some(next) = Parameters::from_list(&numbers) {
            self.parameters = next;
        }
        Ok(psnr)
    }
}
