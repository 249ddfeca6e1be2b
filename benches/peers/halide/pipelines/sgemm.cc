#include "applications.h"

using namespace Halide;

void Sgemm(Recipe& recipe) {
  constexpr int kSize = 1024;
  Param<float> a = recipe.Scalar<float>("a", 1.5f);
  ImageParam left = recipe.Input("A", Float(32), {kSize, kSize});
  ImageParam right = recipe.Input("B", Float(32), {kSize, kSize});
  Param<float> b = recipe.Scalar<float>("b", 0.5f);
  ImageParam added = recipe.Input("C", Float(32), {kSize, kSize});
  Var i("i"), j("j"), panel("panel"), k("k");
  const Expr rows = left.dim(0).extent(), columns = right.dim(1).extent(), depth = left.dim(1).extent();
  // A in panels of rows, so that the inner loop reads it in order.
  const int height = 2 * recipe.FloatLanes();
  Func padded("padded"), panels("panels"), swizzled("swizzled"), product("product"), output("output");
  padded(i, j) = BoundaryConditions::constant_exterior(left, 0.0f)(i, j);
  panels(i, j, panel) = padded(panel * height + i, j);
  swizzled(i, j) = panels(i % height, j, i / height);
  RDom r(0, depth);
  product(i, j) += swizzled(i, r) * right(r, j);
  output(i, j) = a * product(i, j) + b * added(i, j);
  recipe.Output(output, {kSize, kSize});
  if (!recipe.hand) return;

  Var tile_i("tile_i"), tile_j("tile_j"), block_i("block_i"), block_j("block_j"), in_i("in_i"), in_j("in_j"), task("task");
  Var wide_i("wide_i"), wide_j("wide_j"), strip("strip");
  output.tile(i, j, tile_i, tile_j, i, j, 2 * height, 2 * height, TailStrategy::GuardWithIf);
  output.tile(i, j, in_i, in_j, height, 4).tile(i, j, block_i, block_j, i, j, 1, height / 4);
  output.specialize(rows >= 512 && columns >= 512).fuse(tile_j, tile_i, task).parallel(task);
  Stage medium = output.specialize(rows >= 128 && columns >= 128);
  medium.tile(tile_i, tile_j, wide_i, wide_j, tile_i, tile_j, 2, 2).fuse(wide_j, wide_i, task).parallel(task);
  output.bound(i, 0, rows).bound(j, 0, columns);
  panels.compute_root().split(j, strip, j, height).reorder(i, j, panel, strip).unroll(i).vectorize(j);
  panels.specialize(rows >= 256 && depth >= 256).parallel(strip, 4);
  padded.compute_at(panels, panel).vectorize(i).unroll(j);
  product.compute_at(output, i).bound_extent(j, 4).unroll(j).bound_extent(i, height).vectorize(i);
  product.update().reorder(i, j, r).unroll(j).unroll(r, 2).vectorize(i);
  left.dim(0).set_min(0);
  left.dim(1).set_min(0);
  right.dim(0).set_bounds(0, depth);
  right.dim(1).set_min(0);
  added.dim(0).set_bounds(0, rows);
  added.dim(1).set_bounds(0, columns);
  output.output_buffer().dim(0).set_bounds(0, rows);
  output.output_buffer().dim(1).set_bounds(0, columns);
}
