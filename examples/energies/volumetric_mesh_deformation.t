-- As-rigid-as-possible deformation of a lattice around a shape.
local W, H, D = Dim("W", 0), Dim("H", 1), Dim("D", 2)
local Offset = Unknown("Offset", opt_float3, {W, H, D}, 0)
local Angle = Unknown("Angle", opt_float3, {W, H, D}, 1)
local UrShape = Array("UrShape", opt_float3, {W, H, D}, 2)         -- positions before the deformation
local Constraints = Array("Constraints", opt_float3, {W, H, D}, 3) -- where handles go; -inf: no handle
local w_fitSqrt = Param("w_fitSqrt", float, 4)
local w_regSqrt = Param("w_regSqrt", float, 5)

-- Handles go where they are dragged.
local dragged = greatereq(Constraints(0, 0, 0, 0), -999999.9)
Energy(Select(dragged, w_fitSqrt * (Offset(0, 0, 0) - Constraints(0, 0, 0)), 0))

-- Edges keep their shape up to the lattice point's rotation.
for i, j, k in Stencil { {1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1} } do
    local edge = Offset(0, 0, 0) - Offset(i, j, k)
    local rest = UrShape(0, 0, 0) - UrShape(i, j, k)
    Energy(Select(InBounds(i, j, k), w_regSqrt * (edge - Rotate3D(Angle(0, 0, 0), rest)), 0))
end
