-- Shape from shading: a depth map is refined so that, lit by 9 spherical harmonics, it looks like the photograph.
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float, {W, H}, 0)             -- depth
local D_i = Array("D_i", opt_float, {W, H}, 1)           -- measured depth; 0 or less: none
local Im = Array("Im", opt_float, {W, H}, 2)             -- intensity
local edgeMaskR = Array("edgeMaskR", uint8, {W, H}, 3)   -- 1 where shading may be compared with the right neighbour
local edgeMaskC = Array("edgeMaskC", uint8, {W, H}, 4)   -- the same for the lower one
local w_p = Param("w_p", float, 5)                       -- weights: of the measurement,
local w_s = Param("w_s", float, 6)                       -- of smoothness,
local w_g = Param("w_g", float, 7)                       -- of shading
local f_x, f_y = Param("f_x", float, 8), Param("f_y", float, 9)
local u_x, u_y = Param("u_x", float, 10), Param("u_y", float, 11)
local L = {}
for k = 1, 9 do L[k] = Param("L_" .. k, float, 11 + k) end

local neighbours = { {-1, 0}, {0, -1}, {1, 0}, {0, 1} }
local inside = InBoundsExpanded(0, 0, 1)
local function measured(dx, dy) return greater(D_i(dx, dy), 0) end

Exclude(Not(measured(0, 0)))

-- The point that a pixel sees.
local function point(dx, dy)
    local x, y, d = Index(0) + dx, Index(1) + dy, X(dx, dy)
    return Vector((x - u_x) / f_x * d, (y - u_y) / f_y * d, d)
end

-- Shading at a pixel, by its normal from its left and upper neighbours, less the intensity of the three.
local function shading_error()
    local d, left, top = X(0, 0), X(-1, 0), X(0, -1)
    local nx = top * (d - left) / f_y
    local ny = left * (d - top) / f_x
    local nz = nx * (u_x - Index(0)) / f_x + ny * (u_y - Index(1)) / f_y - left * top / (f_x * f_y)
    local squared = nx * nx + ny * ny + nz * nz
    local scale = Select(greater(squared, 0), 1 / Sqrt(squared), 1)
    nx, ny, nz = scale * nx, scale * ny, scale * nz
    local B = L[1] + L[2] * ny + L[3] * nz + L[4] * nx + L[5] * nx * ny + L[6] * ny * nz
        + L[7] * (2 * nz * nz - nx * nx - ny * ny) + L[8] * nz * nx + L[9] * (nx * nx - ny * ny)
    return B - (0.5 * Im(0, 0) + 0.25 * (Im(-1, 0) + Im(0, -1)))
end
local shaded = And(inside, measured(-1, 0), measured(0, 0), measured(0, -1))
local B_I = ComputedArray("B_I", {W, H}, Select(shaded, shading_error(), 0))

-- Where the surface goes on to all neighbours.
local continuous = And(inside, measured(0, 0))
for _, n in ipairs(neighbours) do
    local dx, dy = unpack(n)
    continuous = And(continuous, measured(dx, dy), less(abs(X(0, 0) - X(dx, dy)), 0.01))
end
local valid = ComputedArray("valid", {W, H}, continuous)

Energy(Select(measured(0, 0), Sqrt(w_p) * (X(0, 0) - D_i(0, 0)), 0))
Energy(Select(inside, Sqrt(w_g) * (B_I(0, 0) - B_I(1, 0)) * edgeMaskR(0, 0), 0))
Energy(Select(inside, Sqrt(w_g) * (B_I(0, 0) - B_I(0, 1)) * edgeMaskC(0, 0), 0))

local bend = 4 * point(0, 0)
for _, n in ipairs(neighbours) do bend = bend - point(unpack(n)) end
Energy(Select(valid(0, 0), Sqrt(w_s) * bend, 0))
