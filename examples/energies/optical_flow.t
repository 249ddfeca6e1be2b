-- Optical flow of Horn and Schunck: where every pixel of I has gone in I_hat.
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float2, {W, H}, 0)
local I = Array("I", opt_float, {W, H}, 1)
local I_hat = Array("I_hat", opt_float, {W, H}, 2)
local I_hat_dx = Array("I_hat_dx", opt_float, {W, H}, 3)
local I_hat_dy = Array("I_hat_dy", opt_float, {W, H}, 4)
local w_fit = Param("w_fit", float, 5)
local w_reg = Param("w_reg", float, 6)

-- Pixels keep their brightness.
local S = SampledImage(I_hat, I_hat_dx, I_hat_dy)
Energy(w_fit * (I(0, 0) - S(Index(0) + X(0, 0, 0), Index(1) + X(0, 0, 1))))

-- Neighbours go alike.
for dx, dy in Stencil { {1, 0}, {-1, 0}, {0, 1}, {0, -1} } do
    Energy(Select(InBounds(dx, dy), w_reg * (X(0, 0) - X(dx, dy)), 0))
end
