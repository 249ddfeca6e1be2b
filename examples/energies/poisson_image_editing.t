-- Seamless cloning: inside the mask the picture takes the gradients of T, outside it stays as it is.
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float4, {W, H}, 0)
local T = Array("T", opt_float4, {W, H}, 1)
local M = Array("M", opt_float, {W, H}, 2) -- 0 where the picture is to change

Exclude(Not(eq(M(0, 0), 0)))

for dx, dy in Stencil { {1, 0}, {-1, 0}, {0, 1}, {0, -1} } do
    local difference = (X(0, 0) - X(dx, dy)) - (T(0, 0) - T(dx, dy))
    Energy(Select(InBounds(dx, dy), difference, 0))
end
