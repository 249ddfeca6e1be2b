#include "gradients.h"

using namespace Halide;

void Convolution(Recipe& recipe) {
  const std::vector<int> whole{2562, 1604}, taps{3, 5}, size{2560, 1600};
  ImageParam image = Array(recipe, "image", whole), kernel = Array(recipe, "kernel", taps);
  Var x("x"), y("y");
  RDom r(0, taps[0], 0, taps[1]);
  Func sum("sum"), output("output");
  sum(x, y) += image(x + r.x, y + r.y) * kernel(r.x, r.y);
  output(x, y) = sum(x, y);
  recipe.Output(output, size);
  Slopes slopes(recipe, output, size);
  Slope d_image = slopes.Of(recipe, image, whole), d_kernel = slopes.Of(recipe, kernel, taps);
  if (!recipe.hand) return;

  const int lanes = recipe.FloatLanes();
  Var xo("xo"), xi("xi"), strip("strip"), row("row");
  output.split(x, xo, xi, lanes).vectorize(xi).parallel(y, 16);
  sum.compute_at(output, xo).vectorize(x);
  sum.update().reorder(x, r.x, r.y).vectorize(x).unroll(r.x).unroll(r.y);
  // From strips of w with zeros around it.
  const Var u = d_image.sum.args()[0], v = d_image.sum.args()[1];
  const std::vector<RVar> tap = d_image.sum.rvars();
  d_image.stored.split(u, xo, xi, lanes).split(v, strip, row, 16).vectorize(xi).parallel(strip);
  d_image.sum.compute_at(d_image.stored, xo).vectorize(u);
  d_image.sum.update().reorder(u, tap[0], tap[1]).vectorize(u).unroll(tap[0]).unroll(tap[1]);
  slopes.Of(sum, 0).in(d_image.sum).compute_at(d_image.stored, strip).vectorize(x, lanes);
  // Sums of all taps in registers.
  const Var i = d_kernel.sum.args()[0], j = d_kernel.sum.args()[1];
  d_kernel.stored.bound(i, 0, taps[0]).bound(j, 0, taps[1]);
  Func of_lanes = SumByStrips(recipe, d_kernel.sum, 0, 50);
  of_lanes.unroll(i).unroll(j).update().unroll(i).unroll(j);
}

// The layer: 3 x 3 taps of 16 channels onto 16, of 16 images.
namespace {

constexpr int kChannels = 16;
const std::vector<int> kImage{256, 256, kChannels, 16}, kInner{254, 254, kChannels, 16}, kTaps{3, 3, kChannels, kChannels};

}  // namespace

// The slopes of its input, as Halide derives them.
void Gather(Recipe& recipe) {
  ImageParam image(Float(32), 4, "image"), kernel = Array(recipe, "kernel", kTaps);
  Var x("x"), y("y"), c("c"), n("n");
  RDom r(0, kTaps[0], 0, kTaps[1], 0, kChannels);
  Func layer("layer");
  layer(x, y, c, n) += image(x + r.x, y + r.y, r.z, n) * kernel(r.x, r.y, r.z, c);
  Slopes slopes(recipe, layer, kInner);
  Slope d_image = slopes.Of(recipe, image, kImage);
  if (!recipe.hand) return;

  // Four vectors of pixels of four channels in registers, from strips of w with zeros around it.
  const int lanes = recipe.FloatLanes();
  const std::vector<Var> at = d_image.sum.args();
  const std::vector<RVar> over = d_image.sum.rvars();
  Var xo("xo"), xi("xi"), yo("yo"), yi("yi"), co("co"), ci("ci");
  d_image.stored.bound(at[2], 0, kChannels).split(at[0], xo, xi, 4 * lanes).split(at[1], yo, yi, 8).split(at[2], co, ci, 4);
  d_image.stored.reorder(xi, ci, xo, yi, co, yo, at[3]).vectorize(xi, lanes).unroll(xi).unroll(ci).parallel(at[3]);
  d_image.sum.compute_at(d_image.stored, xo).vectorize(at[0], lanes).unroll(at[0]).unroll(at[2]);
  d_image.sum.update().reorder(at[0], at[2], over[1], over[2], over[0]).vectorize(at[0], lanes);
  d_image.sum.update().unroll(at[0]).unroll(at[2]).unroll(over[1]).unroll(over[2]);
  slopes.seed.compute_at(d_image.stored, yo).vectorize(slopes.seed.args()[0], lanes);
}

// The same as a scatter: each pixel of the output adds to nine of the input.
void Atomic(Recipe& recipe) {
  ImageParam kernel = Array(recipe, "kernel", kTaps), w = Array(recipe, "w", kInner);
  Var x("x"), y("y"), c("c"), n("n");
  RDom r(0, kTaps[0], 0, kTaps[1], 0, w.dim(0).extent(), 0, w.dim(1).extent()), k(0, kChannels);
  Func across("across"), slope("slope");
  Var i("i"), j("j");
  // Vectors reach beyond w.
  Func padded = BoundaryConditions::constant_exterior(w, 0.0f);
  across(x, y, i, j, c, n) += padded(x, y, k, n) * kernel(i, j, c, k);
  slope(x, y, c, n) = 0.0f;
  slope(r.z + r.x, r.w + r.y, c, n) += across(r.z, r.w, r.x, r.y, c, n);
  recipe.Output(slope, kImage);
  if (!recipe.hand) return;

  const int lanes = recipe.FloatLanes();
  RVar xo("xo"), xi("xi");
  slope.vectorize(x, lanes).parallel(n);
  slope.update().atomic().split(r.z, xo, xi, lanes, TailStrategy::GuardWithIf).reorder(xi, r.x, r.y, c, xo, r.w, n);
  slope.update().vectorize(xi).parallel(r.w);
  // Sums for all nine taps at once.
  across.compute_at(slope, c).bound_extent(i, 3).bound_extent(j, 3).vectorize(x, lanes);
  across.update().reorder(x, i, j, k).vectorize(x, lanes).unroll(i).unroll(j);
}
