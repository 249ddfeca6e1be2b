-- Intrinsic images: a photograph is the product of the colours of things and of the light on them. All are logarithms here, so
-- that the product is a sum.
local W, H = Dim("W", 0), Dim("H", 1)
local R = Unknown("R", opt_float3, {W, H}, 0)       -- reflectance
local S = Unknown("S", opt_float, {W, H}, 1)        -- shading, the same for all colours
local R_const = Array("R_const", opt_float3, {W, H}, 0) -- R as of the last step
local I = Array("I", opt_float3, {W, H}, 2)         -- the photograph
local w_fitSqrt = Param("w_fitSqrt", float, 3)
local w_reflectanceSqrt = Param("w_reflectanceSqrt", float, 4)
local w_shadingSqrt = Param("w_shadingSqrt", float, 5)
local w_greySqrt = Param("w_greySqrt", float, 6)
local p = Param("p", float, 7)

-- Both together are the photograph.
Energy(w_fitSqrt * (R(0, 0) + S(0, 0) - I(0, 0)))

for dx, dy in Stencil { {1, 0}, {0, 1} } do
    -- Things have few colours: their gradients are sparse.
    local step, step_const = R(0, 0) - R(dx, dy), R_const(0, 0) - R_const(dx, dy)
    Energy(w_reflectanceSqrt * L_p(step, step_const, p, {W, H}))
    -- Light changes slowly.
    Energy(w_shadingSqrt * (S(0, 0) - S(dx, dy)))
end

-- Where nothing else decides, light follows brightness.
Energy(w_greySqrt * (S(0, 0) - I(0, 0):sum() / 3))
