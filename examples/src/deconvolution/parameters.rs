//! The numbers of a deconvolution: of each stage the weights of its priors, and what makes their targets of the stage before.

/// Weights of the priors of a stage: of first derivatives, second ones, and the mixed one.
pub type Weights = [f64; 3];

/// A stage whose priors have targets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stage {
    /// Of its priors.
    pub weights: Weights,
    /// Derivatives that count half, in the same order.
    pub thresholds: [f64; 3],
    /// Of the bilateral grid: the range of brightness of a cell, and the blur in cells.
    pub smooth: [f64; 2],
}

/// All of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    /// Of the first stage, whose targets are 0.
    pub first: Weights,
    /// The stages behind it.
    pub later: Vec<Stage>,
}

impl Parameters {
    /// Those of Fortunato and Oliveira (2014) for noise of 0.01, with this many stages behind the first; they have one. Their filter is another one with
    /// the same range of brightness and a reach of 20 pixels.
    pub fn published(later: usize) -> Parameters {
        let [first, weight] = [0.001f64, 0.05].map(|square| [square.sqrt(); 3]);
        let stage = Stage { weights: weight, thresholds: [0.065, 0.0325, 0.0325], smooth: [0.033, 2.0] };
        Parameters { first, later: vec![stage; later] }
    }

    /// Those of four stages that were trained.
    pub fn trained() -> Parameters {
        Parameters::parse(include_str!("../../../data/deconvolution/parameters.txt"))
            .unwrap_or_else(|| Parameters::published(3))
    }

    /// All numbers, stage after stage.
    pub fn list(&self) -> Vec<f64> {
        let later = self.later.iter().flat_map(|s| s.weights.into_iter().chain(s.thresholds).chain(s.smooth));
        self.first.into_iter().chain(later).collect()
    }

    /// From that list; none if it has another length than those of stages.
    pub fn from_list(all: &[f64]) -> Option<Parameters> {
        let (first, later) = all.split_first_chunk::<3>()?;
        let (stages, rest) = later.as_chunks::<8>();
        let stage = |&[a, b, c, d, e, f, g, h]: &[f64; 8]| Stage {
            weights: [a, b, c],
            thresholds: [d, e, f],
            smooth: [g, h],
        };
        rest.is_empty().then(|| Parameters { first: *first, later: stages.iter().map(stage).collect() })
    }

    /// As the text of a file: a line for each stage.
    pub fn text(&self) -> String {
        let line =
            |numbers: &[f64]| numbers.iter().map(|v| format!("{v:.5}")).collect::<Vec<_>>().join(" ") + "\n";
        let list = self.list();
        let (first, later) = list.split_at(3);
        line(first) + &later.chunks(8).map(line).collect::<String>()
    }

    /// From such a text.
    pub fn parse(text: &str) -> Option<Parameters> {
        let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        Parameters::from_list(&numbers.ok()?).filter(|p| p.list().iter().all(|v| *v > 0.0))
    }
}
