#include "warps.h"

using namespace Halide;

void ScheduleWarp(Recipe& recipe, Warp warp) {
  const int lanes = recipe.FloatLanes();
  Var xo("xo"), xi("xi"), co("co"), ci("ci");
  // Vectors of pixels of four channels share places and weights.
  const std::vector<Var> at = warp.output.args();
  const Var x = at[0], y = at[1], c = at[2], n = at[3];
  warp.output.split(x, xo, xi, lanes).split(c, co, ci, 4).reorder(xi, ci, xo, y, co, n).vectorize(xi).unroll(ci);
  warp.output.parallel(co).parallel(n);
  warp.sampled.compute_at(warp.output, xo).vectorize(x).unroll(c);
  warp.sampled.update().reorder(x, c, warp.taps.x, warp.taps.y).vectorize(x).unroll(c).unroll(warp.taps.x).unroll(warp.taps.y);
  warp.place.compute_root().vectorize(warp.place.args()[0], lanes).parallel(warp.place.args()[1]);
  // Slopes by places: sums over the channels in vectors of pixels.
  Func d_place = warp.slopes.Of(warp.place);
  const Var px = d_place.args()[0], py = d_place.args()[1];
  const std::vector<RVar> over = d_place.rvars();
  d_place.compute_root().vectorize(px, lanes).parallel(py);
  d_place.update().split(px, xo, xi, lanes).reorder(xi, over[1], over[2], xo, over[0], py).vectorize(xi).parallel(py);
  d_place.update().unroll(over[1]).unroll(over[2]);
  // Slopes by the input are added where they belong, some planes for each task.
  const std::vector<Var> to = warp.d_input.args();
  const std::vector<RVar> from = warp.d_input.rvars();
  warp.d_input.vectorize(to[0], lanes).parallel(to[2]);
  warp.d_input.update().split(to[2], co, ci, 4).reorder(from[2], from[3], ci, from[0], from[1], co, to[3]);
  warp.d_input.update().unroll(from[2]).unroll(from[3]).unroll(ci).parallel(co);
}
