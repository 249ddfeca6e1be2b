#include "applications.h"

using namespace Halide;

void NlMeans(Recipe& recipe) {
  ImageParam input = recipe.Input("input", Float(32), {kWidth, kHeight, 3});
  Param<int> patch = recipe.Scalar<int>("patch", 7);
  Param<int> search = recipe.Scalar<int>("search", 7);
  Param<float> sigma = recipe.Scalar<float>("sigma", 0.12f);
  Var x("x"), y("y"), c("c"), dx("dx"), dy("dy"), tile_x("tile_x"), tile_y("tile_y");
  Func edge = BoundaryConditions::repeat_edge(input);
  Func difference("difference"), down("down"), distance("distance"), weight("weight"), with_one("with_one"), total("total"),
      output("output");

  RDom channel(0, 3), window(-(patch / 2), patch), area(-(search / 2), search, -(search / 2), search);
  const Expr step = edge(x, y, channel) - edge(x + dx, y + dy, channel);
  difference(x, y, dx, dy) = sum(step * step);
  down(x, y, dx, dy) = sum(difference(x, y + window, dx, dy));
  distance(x, y, dx, dy) = sum(down(x + window, y, dx, dy));
  weight(x, y, dx, dy) = fast_exp(distance(x, y, dx, dy) * (-1.0f / (sigma * sigma * patch * patch)));
  with_one(x, y, c) = mux(c, {edge(x, y, 0), edge(x, y, 1), edge(x, y, 2), 1.0f});
  total(x, y, c) += weight(x, y, area.x, area.y) * with_one(x + area.x, y + area.y, c);
  output(x, y, c) = clamp(total(x, y, c) / total(x, y, 3), 0.0f, 1.0f);
  output.output_buffer().dim(2).set_bounds(0, 3);
  recipe.Output(output, {kWidth, kHeight, 3});
  if (!recipe.hand) return;

  const int lanes = recipe.FloatLanes();
  output.compute_root().reorder(c, x, y).tile(x, y, tile_x, tile_y, x, y, 16, 8).parallel(tile_y).vectorize(x, lanes);
  down.compute_at(output, tile_x).hoist_storage(output, tile_y).reorder(y, x).vectorize(x, lanes);
  difference.compute_at(output, tile_x).hoist_storage(output, tile_y).vectorize(x, lanes);
  total.compute_at(output, x).reorder(c, x, y).bound(c, 0, 4).unroll(c).vectorize(x, lanes);
  total.update(0).reorder(c, x, y, area.x, area.y).unroll(c).vectorize(x, lanes);
  distance.compute_at(total, x).vectorize(x, lanes);
}
