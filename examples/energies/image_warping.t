-- As-rigid-as-possible deformation of an image: every pixel moves to Offset and turns by Angle.
local W, H = Dim("W", 0), Dim("H", 1)
local Offset = Unknown("Offset", opt_float2, {W, H}, 0)
local Angle = Unknown("Angle", opt_float, {W, H}, 1)
local UrShape = Array("UrShape", opt_float2, {W, H}, 2)         -- positions before the deformation
local Constraints = Array("Constraints", opt_float2, {W, H}, 3) -- where handles go; negative: no handle
local Mask = Array("Mask", opt_float, {W, H}, 4)                -- 0 inside the shape
local w_fitSqrt = Param("w_fitSqrt", float, 5)
local w_regSqrt = Param("w_regSqrt", float, 6)

Exclude(Not(eq(Mask(0, 0), 0)))

-- Edges keep their shape up to the pixel's rotation.
for dx, dy in Stencil { {1, 0}, {-1, 0}, {0, 1}, {0, -1} } do
    local edge = Offset(0, 0) - Offset(dx, dy)
    local rest = UrShape(0, 0) - UrShape(dx, dy)
    local valid = InBounds(dx, dy) * eq(Mask(dx, dy), 0) * eq(Mask(0, 0), 0)
    Energy(Select(valid, w_regSqrt * (edge - Rotate2D(Angle(0, 0), rest)), 0))
end

-- Handles go where they are dragged.
local dragged = All(greatereq(Constraints(0, 0), 0))
Energy(Select(dragged, w_fitSqrt * (Offset(0, 0) - Constraints(0, 0)), 0))
