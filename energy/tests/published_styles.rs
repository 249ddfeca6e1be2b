//! Energy files in the ways of writing that published ones use load unchanged.

use sumsq_energy::Energy;
use sumsq_energy::model::Domain;

fn load(text: &str) -> Energy {
    Energy::from_text("e.t", text).unwrap_or_else(|e| panic!("{:?}", miette::Report::new(e)))
}

#[test]
fn several_dims_in_one_local_and_an_iterator_without_parentheses() {
    let e = load(
        r#"local W,H = Dim("W",0), Dim("H",1)
local X = Unknown("X", opt_float4,{W,H},0)
local T = Array("T", opt_float4,{W,H},1)
local M = Array("M", opt_float, {W,H},2)
UsePreconditioner(false)
Exclude(Not(eq(M(0,0),0)))
for x,y in Stencil { {1,0},{-1,0},{0,1},{0,-1} } do
    local temp = X(0,0) - X(x,y) - (T(0,0) - T(x,y))
    Energy(Select(InBounds(x,y),temp,0))
end"#,
    );
    assert_eq!(e.residuals.len(), 16);
    assert_eq!(e.use_preconditioner, Some(false));
    assert_eq!(e.excludes.len(), 1);
}

#[test]
fn globals_gaps_in_positions_and_a_graph() {
    let e = load(
        r#"N = opt.Dim("N",0)
w_fitSqrt = Param("w_fitSqrt", float, 0)
w_regSqrt = Param("w_regSqrt", float, 1)
Offset = Unknown("Offset", opt_float3,{N},2)
Angle = Unknown("Angle",opt_float3,{N},3)
UrShape = Image("UrShape", opt_float3,{N},4)
Constraints = Image("Constraints", opt_float3,{N},5)
local G = Graph("G", 6, "v0", {N}, 7, "v1", {N}, 9)
UsePreconditioner(true)
local e_fit = Offset(0) - Constraints(0)
local valid = greatereq(Constraints(0,0), -999999.9)
Energy(Select(valid,w_fitSqrt*e_fit,0))
local ARAPCost = (Offset(G.v0) - Offset(G.v1)) - Rotate3D(Angle(G.v0),UrShape(G.v0) - UrShape(G.v1))
Energy(w_regSqrt*ARAPCost)"#,
    );
    assert_eq!(e.residuals.len(), 6);
    assert_eq!(e.graphs[0].vertices[1].position, 9);
    assert!(matches!(e.residuals[5].domain, Domain::Graph(_)));
}

#[test]
fn products_of_booleans_and_all() {
    let e = load(
        r#"local W,H = Dim("W",0), Dim("H",1)
local Offset = Unknown("Offset",float2,{W,H},0)
local Angle = Unknown("Angle",float,{W,H},1)
local UrShape = Image("UrShape", float2,{W,H},2)
local Constraints = Image("Constraints", float2,{W,H},3)
local Mask = Image("Mask", uint8, {W,H},4)
local w_fitSqrt = Param("w_fitSqrt", float, 5)
local w_regSqrt = Param("w_regSqrt", float, 6)
for x,y in Stencil { {1,0}, {-1,0}, {0,1}, {0, -1} } do
    local ARAPCost = (Offset(0,0) - Offset(x,y)) - Rotate2D(Angle(0,0),(UrShape(0,0) - UrShape(x,y)))
    local valid = InBounds(x,y) * eq(Mask(x,y),0) * eq(Mask(0,0),0)
    Energy(Select(valid, w_regSqrt*ARAPCost, 0))
end
local e_fit = Offset(0,0)- Constraints(0,0)
local m = Select(greatereq(Constraints(0,0,0),-999999.9),1,0)
Energy(w_fitSqrt*m*e_fit)
Energy(w_fitSqrt*Select(All(greatereq(Constraints(0,0),0)), e_fit, 0.0))"#,
    );
    assert_eq!(e.residuals.len(), 12);
    assert!(e.residuals[..8].iter().all(|r| r.guard.is_none()));
    assert!(e.residuals[8..].iter().all(|r| r.guard.is_some()));
}

#[test]
fn volumes_helper_functions_and_offsets_from_tables() {
    let e = load(
        r#"local W,H,D = Dim("W",0), Dim("H",1), Dim("D",2)
local Offset = Unknown("Offset",opt_float3,{W,H,D},0)
local function neighbours(f)
    local offsets = { {1,0,0}, {0,1,0}, {0,0,1} }
    for i = 1, #offsets do f(unpack(offsets[i])) end
end
neighbours(function(i, j, k)
    for c = 0, 2 do Energy(Offset(0,0,0,c) - Offset(i,j,k)(c)) end
end)
for i = -1, 1, 2 do Energy(Offset(i/2 + 0.5, 0, 0) - Offset(0,0,0)) end"#,
    );
    assert_eq!(e.residuals.len(), 9 + 3);
    assert_eq!(e.warnings.len(), 3, "{:?}", e.warnings);
}
