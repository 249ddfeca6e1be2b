-- Fits y = a cos(b x) + b sin(a x) to points: one hyperedge per point joins it to the curve's parameters.
local N, U = Dim("N", 0), Dim("U", 1)
local funcParams = Unknown("funcParams", opt_float2, {U}, 0)
local data = Array("data", opt_float2, {N}, 1)
local G = Graph("G", 2, "d", {N}, 3, "p", {U}, 4)

local point, params = data(G.d), funcParams(G.p)
local x, y = point(0), point(1)
local a, b = params(0), params(1)
Energy(y - (a * cos(b * x) + b * sin(a * x)))
