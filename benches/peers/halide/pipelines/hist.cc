#include "applications.h"

using namespace Halide;

void Hist(Recipe& recipe) {
  constexpr int kBins = 256;
  ImageParam input = recipe.Input("input", UInt(8), {kWidth, kHeight, 3});
  Var x("x"), y("y"), c("c");
  Func luma("luma"), rows("rows"), counts("counts"), cdf("cdf"), output("output");
  const auto bounded = [](const Expr& e) { return clamp(e, 0.0f, 255.0f); };
  luma(x, y) = Luminance(input(x, y, 0), input(x, y, 1), input(x, y, 2));

  RDom column(0, input.width(), "column"), line(0, input.height(), "line"), bin(1, kBins - 1, "bin");
  rows(x, y) = 0;
  rows(cast<int>(bounded(luma(column, y))), y) += 1;
  counts(x) = 0;
  counts(x) += rows(x, line);
  cdf(x) = counts(0);
  cdf(bin) = cdf(bin - 1) + counts(bin);

  const Expr cr = (input(x, y, 0) - luma(x, y)) * 0.713f + 128.0f;
  const Expr cb = (input(x, y, 2) - luma(x, y)) * 0.564f + 128.0f;
  const Expr pixels = input.height() * input.width();
  const Expr level = bounded(cdf(cast<uint8_t>(bounded(luma(x, y)))) * (255.0f / pixels));
  const Expr red = level + (cr - 128) * 1.4f;
  const Expr green = level - 0.343f * (cb - 128) - 0.711f * (cr - 128);
  const Expr blue = level + 1.765f * (cb - 128);
  const auto byte = [&](const Expr& e) { return cast<uint8_t>(bounded(e)); };
  output(x, y, c) = mux(c, {byte(red), byte(green), byte(blue)});
  recipe.Output(output, {kWidth, kHeight, 3});
  if (!recipe.hand) return;

  const int lanes = recipe.FloatLanes();
  cdf.bound(x, 0, kBins);
  // The histograms read a luminance of their own, row by row, so that it is computed in vectors.
  luma.clone_in(rows).compute_at(rows.in(), y).vectorize(x, lanes);
  rows.in().compute_root().vectorize(x, lanes).parallel(y, 4);
  rows.compute_at(rows.in(), y).vectorize(x, lanes).update().reorder(y, column).unroll(y);
  counts.compute_root().vectorize(x, lanes);
  counts.update().reorder(x, line).vectorize(x, lanes).unroll(x, 4).parallel(x).reorder(line, x);
  cdf.compute_root().update().unscheduled();
  output.reorder(c, x, y).bound(c, 0, 3).unroll(c).parallel(y, 8).vectorize(x, lanes * 2);
}
