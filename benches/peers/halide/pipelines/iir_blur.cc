#include "applications.h"

using namespace Halide;

namespace {

// Filters the columns of `f` down and up, and transposes.
Func Columns(Func f, const Expr& height, const Expr& alpha, const Recipe& recipe) {
  Var x("x"), y("y"), c("c"), strip("strip"), tile("tile");
  Func blur("blur"), turned("turned");
  RDom r(1, height - 1, "r");
  const Expr up = height - r - 1;
  blur(x, y, c) = undef<float>();
  blur(x, 0, c) = f(x, 0, c);
  blur(x, r, c) = (1 - alpha) * blur(x, r - 1, c) + alpha * f(x, r, c);
  blur(x, up, c) = (1 - alpha) * blur(x, up + 1, c) + alpha * blur(x, up, c);
  turned(x, y, c) = blur(y, x, c);
  if (!recipe.hand) return turned;
  // A strip of columns of `f` is filtered, then turned in tiles.
  const int lanes = recipe.FloatLanes();
  turned.compute_root().tile(x, y, tile, strip, x, y, lanes, lanes * 4).vectorize(x).parallel(strip).parallel(c);
  blur.compute_at(turned, strip);
  blur.update(0).unscheduled();
  blur.update(1).reorder(x, r).vectorize(x);
  blur.update(2).reorder(x, r).vectorize(x);
  return turned;
}

template <typename Image>
void FixSize(Image image) {
  image.dim(0).set_bounds(0, kWidth).set_stride(1);
  image.dim(1).set_bounds(0, kHeight).set_stride(kWidth);
  image.dim(2).set_bounds(0, 3).set_stride(kWidth * kHeight);
}

}  // namespace

void IirBlur(Recipe& recipe) {
  ImageParam input = recipe.Input("input", Float(32), {kWidth, kHeight, 3});
  Param<float> alpha = recipe.Scalar<float>("alpha", 0.1f);
  Func across = Columns(input, input.height(), alpha, recipe);
  Func output = Columns(across, input.width(), alpha, recipe);
  FixSize(input);
  FixSize(output.output_buffer());
  recipe.Output(output, {kWidth, kHeight, 3});
}
