#include "gradients.h"

using namespace Halide;

void BilateralSlice(Recipe& recipe) {
  constexpr int kCell = 16, kChannels = 3;
  // The grid's channels are two dimensions here: for channels c * 4 + ci Halide 21 adds the slopes of every ci to each.
  const std::vector<int> grids{64, 64, 8, kChannels + 1, 3, 4}, guides{1024, 1024, 4}, size{1024, 1024, 3, 4};
  ImageParam grid = Array(recipe, "grid", grids), guide = Array(recipe, "guide", guides), input = Array(recipe, "input", size);
  Var x("x"), y("y"), z("z"), k("k"), c("c"), n("n");
  // Along an axis: the cell whose centre lies at or before that of the pixel, and the share of the next one.
  const auto cell = [](const Expr& v) { return (v - kCell / 2) / kCell; };
  const auto share = [](const Expr& v) {
    return cast<float>((v - kCell / 2) % kCell * 2 + 1 - kCell % 2) / static_cast<float>(2 * kCell);
  };
  const auto near = [&](const Expr& v, int d) { return clamp(v, 0, grid.dim(d).extent() - 1); };
  Func rows("rows"), mapped("mapped"), output("output");
  const auto row = [&](int next) { return grid(x, near(cell(y) + next, 1), z, k, c, n); };
  rows(x, z, k, c, y, n) = lerp(row(0), row(1), share(y));
  const Expr depths = cast<float>(grid.dim(2).extent());
  const Expr depth = clamp(guide(x, y, n) * depths - 0.5f, -1.0f, depths);
  const Expr bin = cast<int>(floor(depth)), deeper = depth - floor(depth);
  RDom r(0, 2, 0, 2, 0, kChannels + 1);
  const auto part = [](const RVar& tap, const Expr& next) { return select(tap == 0, 1 - next, next); };
  const Expr factor = rows(near(cell(x) + r.x, 0), near(bin + r.y, 2), r.z, c, y, n);
  const Expr colour = select(r.z == kChannels, 1.0f, input(x, y, min(r.z, kChannels - 1), n));
  mapped(x, y, c, n) += factor * part(r.x, share(x)) * part(r.y, deeper) * colour;
  output(x, y, c, n) = mapped(x, y, c, n);
  recipe.Output(output, size);
  Slopes slopes(recipe, output, size);
  Slope d_grid = slopes.Of(recipe, grid, grids), d_guide = slopes.Of(recipe, guide, guides);
  Slope d_input = slopes.Of(recipe, input, size);
  if (!recipe.hand) return;

  // Each reader has a row of the grid, between two of its cells, by itself.
  const int lanes = recipe.FloatLanes();
  Var xo("xo"), xi("xi");
  output.split(x, xo, xi, lanes).reorder(xi, c, xo, y, n).vectorize(xi).parallel(y);
  mapped.compute_at(output, c).vectorize(x);
  mapped.update().reorder(x, r.x, r.y, r.z).vectorize(x).unroll(r.x).unroll(r.y).unroll(r.z);
  rows.in(mapped).compute_at(output, y).vectorize(x, lanes);
  // Slopes by guide and input: sums in vectors of pixels.
  for (Slope slope : {d_guide, d_input}) {
    const std::vector<Var> at = slope.sum.args();
    const std::vector<RVar> over = slope.sum.rvars();
    slope.stored.split(at[0], xo, xi, lanes).vectorize(xi).parallel(at[1]);
    if (at.size() == 4) slope.stored.bound(at[2], 0, kChannels).reorder(xi, at[2], xo, at[1], at[3]).unroll(at[2]);
    slope.sum.compute_at(slope.stored, xo).vectorize(at[0]);
    slope.sum.update().reorder(at[0], over[1], over[2], over[3], over[0]).vectorize(at[0]);
    for (const RVar& v : over) slope.sum.update().unroll(v);
    if (at.size() == 4) slope.sum.unroll(at[2]);
    rows.in(slope.sum).compute_at(slope.stored, at[1]).vectorize(x, lanes);
  }
  // Slopes by a row: each pixel adds to its four cells, in vectors of channels; then those of a cell are sums over its rows.
  Func d_rows = slopes.Of(rows);
  const std::vector<Var> at = d_rows.args(), to = d_grid.sum.args();
  const std::vector<RVar> over = d_rows.rvars();
  d_rows.compute_root().reorder_storage(at[2], at[3], at[0], at[1], at[4], at[5]).bound(at[2], 0, kChannels + 1);
  d_rows.vectorize(at[2]).parallel(at[4]);
  d_rows.update().reorder(at[2], over[1], over[2], at[3], over[0], at[4], at[5]).vectorize(at[2]).parallel(at[4]);
  d_rows.update().unroll(over[1]).unroll(over[2]);
  d_grid.stored.vectorize(to[0], lanes).parallel(to[4]);
  d_grid.sum.compute_at(d_grid.stored, to[4]).vectorize(to[0], lanes);
  for (int k = 0; k < d_grid.sum.num_update_definitions(); k++) d_grid.sum.update(k).vectorize(to[0], lanes);
}
