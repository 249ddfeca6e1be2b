-- As-rigid-as-possible deformation of a mesh: every vertex moves to Offset and turns by the Euler angles Angle.
local N = Dim("N", 0)
local Offset = Unknown("Offset", opt_float3, {N}, 0)
local Angle = Unknown("Angle", opt_float3, {N}, 1)
local UrShape = Array("UrShape", opt_float3, {N}, 2)         -- positions before the deformation
local Constraints = Array("Constraints", opt_float3, {N}, 3) -- where handles go; -inf: no handle
local w_fitSqrt = Param("w_fitSqrt", float, 4)
local w_regSqrt = Param("w_regSqrt", float, 5)
local G = Graph("G", 6, "v0", {N}, 7, "v1", {N}, 8)

-- Handles go where they are dragged.
local dragged = greatereq(Constraints(0, 0), -999999.9)
Energy(Select(dragged, w_fitSqrt * (Offset(0) - Constraints(0)), 0))

-- Edges keep their shape up to the rotation of their first vertex.
local edge = Offset(G.v0) - Offset(G.v1)
local rest = UrShape(G.v0) - UrShape(G.v1)
Energy(w_regSqrt * (edge - Rotate3D(Angle(G.v0), rest)))
