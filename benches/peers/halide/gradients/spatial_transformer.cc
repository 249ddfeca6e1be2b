#include "warps.h"

using namespace Halide;

void SpatialTransformer(Recipe& recipe) {
  const std::vector<int> size{512, 512, 16, 4}, maps{3, 2, 4};
  ImageParam input = Array(recipe, "input", size), theta = Array(recipe, "theta", maps);
  Var x("x"), y("y"), c("c"), n("n");
  const Expr extents[] = {input.dim(0).extent(), input.dim(1).extent()};
  const Expr u = cast<float>(2 * x + 1) / extents[0] - 1, v = cast<float>(2 * y + 1) / extents[1] - 1;
  std::vector<Expr> places;
  for (int d = 0; d < 2; d++) {
    const Expr from = theta(0, d, n) * u + theta(1, d, n) * v + theta(2, d, n) + 1;
    places.push_back(clamp((from * extents[d] - 1) * 0.5f, -1.0f, cast<float>(extents[d])));
  }
  Func place("place"), sampled("sampled"), output("output");
  place(x, y, n) = Tuple(places);
  RDom r(0, 2, 0, 2);
  const RVar taps[] = {r.x, r.y};
  Expr inside, weight, at[2];
  for (int d = 0; d < 2; d++) {
    const Expr whole = floor(place(x, y, n)[d]), share = place(x, y, n)[d] - whole, tap = cast<int>(whole) + taps[d];
    const Expr in = tap >= 0 && tap < extents[d], by = select(taps[d] == 0, 1 - share, share);
    inside = d == 0 ? in : inside && in;
    weight = d == 0 ? by : weight * by;
    at[d] = clamp(tap, 0, extents[d] - 1);
  }
  sampled(x, y, c, n) += select(inside, input(at[0], at[1], c, n), 0.0f) * weight;
  output(x, y, c, n) = sampled(x, y, c, n);
  recipe.Output(output, size);
  Slopes slopes(recipe, output, size);
  Slope d_input = slopes.Of(recipe, input, size, true), d_theta = slopes.Of(recipe, theta, maps);
  if (!recipe.hand) return;

  ScheduleWarp(recipe, {place, sampled, output, slopes, d_input.sum, r});
  d_theta.stored.bound(d_theta.stored.args()[0], 0, maps[0]).bound(d_theta.stored.args()[1], 0, maps[1]);
  for (int k = 0; k < d_theta.sum.num_update_definitions(); k++) SumByStrips(recipe, d_theta.sum, k, 16);
}
