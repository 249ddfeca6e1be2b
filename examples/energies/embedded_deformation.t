-- Embedded deformation: every node of a graph carries an affine map, which should be a rotation, and neighbours agree on where
-- the other one goes.
local N = Dim("N", 0)
local Offset = Unknown("Offset", opt_float3, {N}, 0)         -- where the node goes
local RotMatrix = Unknown("RotMatrix", opt_float9, {N}, 1)   -- row by row
local UrShape = Array("UrShape", opt_float3, {N}, 2)         -- positions before the deformation
local Constraints = Array("Constraints", opt_float3, {N}, 3) -- where handles go; -inf: no handle
local w_fitSqrt = Param("w_fitSqrt", float, 4)
local w_regSqrt = Param("w_regSqrt", float, 5)
local w_rotSqrt = Param("w_rotSqrt", float, 6)
local G = Graph("G", 7, "v0", {N}, 8, "v1", {N}, 9)

-- Handles go where they are dragged.
local dragged = greatereq(Constraints(0, 0), -999999.9)
Energy(Select(dragged, w_fitSqrt * (Offset(0) - Constraints(0)), 0))

-- The map of a node takes its neighbours to where they go.
local edge = Offset(G.v1) - Offset(G.v0)
local rest = UrShape(G.v1) - UrShape(G.v0)
Energy(w_regSqrt * (edge - Matrix3x3Mul(RotMatrix(G.v0), rest)))

-- Columns are orthonormal.
local R = RotMatrix(0)
local a, b, c = Vector(R(0), R(3), R(6)), Vector(R(1), R(4), R(7)), Vector(R(2), R(5), R(8))
Energy(w_rotSqrt * Vector(a:dot(b), a:dot(c), b:dot(c)))
Energy(w_rotSqrt * Vector(a:dot(a) - 1, b:dot(b) - 1, c:dot(c) - 1))
