use sumsq_energy::Energy;
#[test]
fn load() {
    for n in ["laplacian", "curveFitting", "image_warping", "arap_mesh_deformation", "volumetric_mesh_deformation", "poisson_image_editing"] {
        let e = Energy::from_file(format!("../examples/energies/{n}.t")).unwrap_or_else(|e| panic!("{:?}", miette::Report::new(e)));
        println!("== {n} {:?}", e.warnings);
        for r in &e.residuals { println!("{:?} {:?} {:?} line {:?} {}", r.domain, r.guard, r.group, r.line, e.dag.display_with(r.value, &e)); }
        for x in &e.excludes { println!("exclude {}", e.dag.display_with(x.1, &e)); }
    }
}
