-- Smoothing: stay near A, have small differences between neighbours.
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float, {W, H}, 0)
local A = Array("A", opt_float, {W, H}, 1)

Energy(0.2 * (X(0, 0) - A(0, 0)))
for dx, dy in Stencil { {1, 0}, {0, 1} } do
    Energy(X(0, 0) - X(dx, dy))
end
