-- Non-rigid alignment of a mesh to a scan: every vertex has a weight, which is solved for too and falls to 0 where the scan is
-- too far off to be believed (Li, Adams, Guibas and Pauly 2009).
local N = Dim("N", 0)
local Offset = Unknown("Offset", opt_float3, {N}, 0)
local Angle = Unknown("Angle", opt_float3, {N}, 1)
local RobustWeights = Unknown("RobustWeights", opt_float, {N}, 2)
local UrShape = Array("UrShape", opt_float3, {N}, 3)                     -- positions before the deformation
local Constraints = Array("Constraints", opt_float3, {N}, 4)             -- points of the scan; -inf: none
local ConstraintNormals = Array("ConstraintNormals", opt_float3, {N}, 5) -- its normals there
local w_fitSqrt = Param("w_fitSqrt", float, 6)
local w_confSqrt = Param("w_confSqrt", float, 7)
local w_regSqrt = Param("w_regSqrt", float, 8)
local G = Graph("G", 9, "v0", {N}, 10, "v1", {N}, 11)

-- Vertices go to the tangent plane of their point of the scan, as far as it is believed.
local matched = greatereq(Constraints(0, 0), -999999.9)
local distance = ConstraintNormals(0):dot(Offset(0) - Constraints(0))
Energy(Select(matched, w_fitSqrt * (RobustWeights(0) * distance), 0))

-- It is believed unless that costs too much.
Energy(Select(matched, w_confSqrt * (1 - RobustWeights(0) ^ 2), 0))

-- Edges keep their shape up to the rotation of their first vertex.
local edge = Offset(G.v0) - Offset(G.v1)
local rest = UrShape(G.v0) - UrShape(G.v1)
Energy(w_regSqrt * (edge - Rotate3D(Angle(G.v0), rest)))
