#include "warps.h"

using namespace Halide;

void FlowWarp(Recipe& recipe) {
  const std::vector<int> size{512, 512, 64, 4}, flows{512, 512, 2, 4};
  ImageParam input = Array(recipe, "input", size), flow = Array(recipe, "flow", flows);
  Var x("x"), y("y"), c("c"), n("n");
  const Expr last[] = {input.dim(0).extent() - 1, input.dim(1).extent() - 1};
  Func place("place"), sampled("sampled"), output("output");
  place(x, y, n) = Tuple(clamp(x + flow(x, y, 0, n), 0.0f, cast<float>(last[0])),
                         clamp(y + flow(x, y, 1, n), 0.0f, cast<float>(last[1])));
  RDom r(0, 2, 0, 2);
  const RVar taps[] = {r.x, r.y};
  Expr weight, at[2];
  for (int d = 0; d < 2; d++) {
    const Expr whole = floor(place(x, y, n)[d]), share = place(x, y, n)[d] - whole;
    const Expr by = select(taps[d] == 0, 1 - share, share);
    weight = d == 0 ? by : weight * by;
    at[d] = clamp(cast<int>(whole) + taps[d], 0, last[d]);
  }
  sampled(x, y, c, n) += input(at[0], at[1], c, n) * weight;
  output(x, y, c, n) = sampled(x, y, c, n);
  recipe.Output(output, size);
  Slopes slopes(recipe, output, size);
  Slope d_input = slopes.Of(recipe, input, size, true), d_flow = slopes.Of(recipe, flow, flows);
  if (!recipe.hand) return;

  ScheduleWarp(recipe, {place, sampled, output, slopes, d_input.sum, r});
  const int lanes = recipe.FloatLanes();
  const std::vector<Var> to = d_flow.stored.args();
  d_flow.stored.bound(to[2], 0, 2).reorder(to[0], to[2], to[1], to[3]).vectorize(to[0], lanes).unroll(to[2]).parallel(to[1]);
  d_flow.sum.compute_at(d_flow.stored, to[1]).vectorize(to[0], lanes);
  for (int k = 0; k < 2; k++) d_flow.sum.update(k).vectorize(to[0], lanes);
}
