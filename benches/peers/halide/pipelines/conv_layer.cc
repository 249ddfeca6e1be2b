#include "applications.h"

using namespace Halide;

namespace {

constexpr int kBatch = 5, kIn = 128, kOut = 128, kConvWidth = 100, kConvHeight = 80;

// Sizes and strides are known when the layer is compiled.
template <typename Image>
void Fix(Image image, const std::vector<int>& size) {
  int stride = 1;
  for (size_t i = 0; i < size.size(); i++) {
    image.dim(static_cast<int>(i)).set_bounds(0, size[i]).set_stride(stride);
    stride *= size[i];
  }
}

ImageParam Fixed(Recipe& recipe, const std::string& name, const std::vector<int>& size) {
  ImageParam image = recipe.Input(name, Float(32), size);
  Fix(image, size);
  return image;
}

}  // namespace

void ConvLayer(Recipe& recipe) {
  ImageParam input = Fixed(recipe, "input", {kIn, kConvWidth + 2, kConvHeight + 2, kBatch});
  ImageParam filter = Fixed(recipe, "filter", {kOut, 3, 3, kIn});
  ImageParam bias = Fixed(recipe, "bias", {kOut});
  Var x("x"), y("y"), c("c"), n("n"), block("block"), lane("lane"), x_block("x_block"), x_in("x_in");
  Func sum("sum"), output("output");
  RDom r(0, kIn, 0, 3, 0, 3);
  sum(c, x, y, n) = bias(c);
  sum(c, x, y, n) += filter(c, r.y, r.z, r.x) * input(r.x, x + r.y, y + r.z, n);
  output(c, x, y, n) = max(0, sum(c, x, y, n));
  const std::vector<int> size{kOut, kConvWidth, kConvHeight, kBatch};
  Fix(output.output_buffer(), size);
  recipe.Output(output, size);
  if (!recipe.hand) return;

  // A tile of sums in registers: vectors times pixels, as many as the register file takes.
  const bool many_registers = recipe.target.has_feature(Target::AVX512_Skylake);
  const int vectors = many_registers ? 4 : 3, pixels = many_registers ? 5 : 4, lanes = recipe.FloatLanes();
  output.split(c, block, lane, lanes * vectors).split(x, x_block, x_in, pixels).reorder(lane, x_in, x_block, y, n, block);
  output.vectorize(lane, lanes).unroll(lane).unroll(x_in).parallel(y).parallel(n).parallel(block);
  sum.compute_at(output, x_block).vectorize(c, lanes).unroll(c).unroll(x).unroll(y);
  sum.update().reorder(c, x, y, r.x, r.y, r.z, n).vectorize(c, lanes).unroll(c).unroll(x).unroll(y).unroll(r.x, 2);
  filter.in().compute_at(sum, r.x).vectorize(_0, lanes).unroll(_0).unroll(_3);
  input.in().compute_at(sum, x).unroll(_0);
}
