//! `sumsq check`.

use crate::args::CheckArgs;
use crate::failure::{Failure, NOT_COMPARED, NOT_GOOD};
use crate::{engine, inputs, report};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use sumsq::check::{Certificate, Disagreement, INVERSE_RADII, ResidualCounts, seeded_direction};
use sumsq::energy::Energy;
use sumsq::{ArrayData, NamedArray, Precision, ProblemData};
use sumsq_examples::io::{Outputs, check_target, npz};

/// Seed of the direction where none is given.
const SEED: u64 = 1;

/// Certifies the derivatives of an energy. The exit code says where something disagrees, and where nothing was compared of some unknown.
pub fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.output {
        check_target(path).map_err(Failure::output)?;
    }
    let energy = engine::load(&args.energy, args.code.budgets())?;
    let inputs = inputs::read(&args.inputs, &energy, None)?;
    let mut data = engine::bind(&energy, &inputs)?;
    if let Some(path) = &args.at {
        data = read_unknowns(path, &energy, &data)?;
    }
    let x = data.x();
    let v = match &args.direction {
        Some(path) => read_unknowns(path, &energy, &data)?.x(),
        None => seeded_direction(x.len(), SEED),
    };
    let options = args.code.options(Precision::F64);
    let certificate = engine::check(&energy, &data, &options, &x, &v)?;
    let mut files = Outputs::default();
    if let Some(path) = &args.output {
        let bytes = npz::encode(&outputs(&data, &certificate)).map_err(Failure::output)?;
        files.add(path, bytes).map_err(Failure::output)?;
    }
    report::finish(files, &table(&certificate))?;
    Ok(ExitCode::from(match (certificate.passed(), certificate.unjudged().next()) {
        (false, _) => NOT_GOOD,
        (true, Some(_)) => NOT_COMPARED,
        (true, None) => 0,
    }))
}

/// The problem with all its unknowns replaced by those of an archive.
fn read_unknowns<'a>(
    path: &Path,
    energy: &Energy,
    data: &ProblemData<'a>,
) -> Result<ProblemData<'a>, Failure> {
    let arrays = inputs::read_unknowns(path, energy)?;
    for unknown in &energy.unknowns {
        if !arrays.iter().any(|array| array.name == unknown.name) {
            let report = miette::miette!("{}: the unknown `{}` is missing", path.display(), unknown.name);
            return Err(Failure::Input(report));
        }
    }
    let mut replaced = data.clone();
    replaced.update(energy, &arrays).map_err(Failure::input)?;
    Ok(replaced)
}

/// `JTF.X`, `diag.X` and `JTJv.X` of each unknown X, in its shape.
fn outputs(data: &ProblemData<'_>, certificate: &Certificate) -> Vec<NamedArray> {
    let mut arrays = Vec::new();
    for (what, vector) in
        [("JTF", &certificate.jtf), ("diag", &certificate.diag), ("JTJv", &certificate.jtjv)]
    {
        let mut rest = vector.as_slice();
        for NamedArray { name, shape, data } in data.unknown_arrays(Precision::F64) {
            let (part, others) = rest.split_at(data.len());
            let data = ArrayData::F64(part.to_vec());
            arrays.push(NamedArray { name: format!("{what}.{name}"), shape, data });
            rest = others;
        }
    }
    arrays
}

fn table(certificate: &Certificate) -> String {
    let mut text = String::from(
        "largest relative disagreement   explicit path   finite differences   compared   skipped\n",
    );
    for unknown in &certificate.unknowns {
        for (what, Disagreement { explicit, differences }) in
            [("JTF", unknown.jtf), ("diag", unknown.diag), ("JTJv", unknown.jtjv)]
        {
            let name = format!("{what}.{}", unknown.name);
            let _ = writeln!(
                text,
                "{name:<30}  {explicit:>13.1e}   {differences:>18.1e}   {:>8}   {:>7}",
                unknown.compared, unknown.skipped
            );
        }
    }
    let ResidualCounts { compared, moved, skipped } = certificate.residuals;
    let _ = writeln!(
        text,
        "\nof the residuals, {compared} were compared with finite differences at these unknowns, {moved} beside a kink, {skipped} not \
         (kinks all around, or not finite)"
    );
    for image in &certificate.images {
        let _ = writeln!(
            text,
            "derivative image {} of {} by coordinate {}: off differences of the image by {:.2} of these, at {} places",
            named(&image.partial),
            named(&image.image),
            image.along,
            image.off,
            image.places
        );
    }
    let _ = writeln!(
        text,
        "\nunder the energy's Exclude and {} random masks:\n  J^T J           asymmetry {:.1e}, least v.Av {:.1e}\n  \
         preconditioner  asymmetry {:.1e}, least v.Mv {:.1e} (1/R from {:.0e} to {:.0e}, and 0)",
        certificate.masks,
        certificate.asymmetry,
        certificate.least_curvature,
        certificate.preconditioner_asymmetry,
        certificate.preconditioner_least,
        INVERSE_RADII[0],
        INVERSE_RADII[2]
    );
    let failures = certificate.failures();
    for failure in &failures {
        let _ = writeln!(text, "DISAGREES: {failure}");
    }
    for image in certificate.wrong_images() {
        let _ = writeln!(
            text,
            "DISAGREES: derivative image {} is farther from differences of {} by coordinate {} than zeros would be",
            named(&image.partial),
            named(&image.image),
            image.along
        );
    }
    for name in certificate.unjudged() {
        let _ =
            writeln!(text, "NOT COMPARED: no residual of `{name}` could be compared with finite differences");
    }
    if certificate.passed() {
        let all = certificate.unjudged().next().is_none();
        text.push_str(if all { "all agree\n" } else { "what was compared agrees\n" });
    }
    text
}

/// An array and its channel.
fn named((array, channel): &(String, u16)) -> String {
    format!("`{array}` channel {channel}")
}
