-- Smoothing of a mesh with cotangent weights, which follow the mesh while it is smoothed: they are computed from the unknowns,
-- and so take part in the derivatives.
local N = Dim("N", 0)
local X = Unknown("X", opt_float3, {N}, 0)
local A = Array("A", opt_float3, {N}, 1) -- positions before
local w_fitSqrt = Param("w_fitSqrt", float, 2)
local w_regSqrt = Param("w_regSqrt", float, 3)
-- An edge from v0 to v1; v2 and v3 are opposite to it in its two triangles.
local G = Graph("G", 4, "v0", {N}, 5, "v1", {N}, 6, "v2", {N}, 7, "v3", {N}, 8)

-- Of the angle at `apex` under which the edge is seen.
local function cotangent(apex)
    local a, b = X(G.v0) - X(apex), X(G.v1) - X(apex)
    local along = a:dot(b)
    local across = a:dot(a) * b:dot(b) - along * along -- (2 area)^2
    return along / Sqrt(Select(greater(across, 1e-20), across, 1e-20))
end

-- Vertices stay near where they were.
Energy(w_fitSqrt * (X(0) - A(0)))

-- Edges shorten, the more the more area lies beside them.
local weight = 0.5 * (cotangent(G.v2) + cotangent(G.v3))
weight = Select(greater(weight, 0.01), weight, 0.01) -- obtuse angles
Energy(w_regSqrt * (Sqrt(weight) * (X(G.v0) - X(G.v1))))
