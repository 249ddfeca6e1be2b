#include "applications.h"

using namespace Halide;

namespace {

constexpr int kLayers = 6;
// Colours times alpha as u16, alpha as u8.
using Pixel = std::vector<Expr>;

Pixel Premultiplied(const Pixel& p) { return {widening_mul(p[0], p[3]), widening_mul(p[1], p[3]), widening_mul(p[2], p[3]), p[3]}; }

// a * b / 255, rounded; a of 8 or 16 bits, b of 8.
Expr Scale(const Expr& a, const Expr& b) {
  Expr product = widening_mul(a, cast(a.type(), b));
  product += rounding_shift_right(product, 8);
  return cast(a.type(), rounding_shift_right(product, 8));
}

template <typename Combine>
Pixel Each(const Pixel& a, const Pixel& b, Combine combine) {
  Pixel result;
  for (int i = 0; i < 4; i++) result.push_back(combine(a[i], b[i]));
  return result;
}

// Porter and Duff's ways to put `b` onto `a`, in the order of the codes.
std::vector<Tuple> Blends(const Pixel& a, const Pixel& b) {
  const Expr a_out = ~a[3], b_out = ~b[3];
  Pixel over = Each(a, b, [&](Expr p, Expr q) { return q + Scale(p, b_out); });
  Pixel atop = Each(a, b, [&](Expr p, Expr q) { return Scale(q, a[3]) + Scale(p, b_out); });
  atop[3] = a[3];
  Pixel either = Each(a, b, [&](Expr p, Expr q) { return Scale(q, a_out) + Scale(p, b_out); });
  Pixel in = Each(a, b, [&](Expr p, Expr) { return Scale(p, b[3]); });
  Pixel out = Each(a, b, [&](Expr p, Expr) { return Scale(p, b_out); });
  return {Tuple(over), Tuple(atop), Tuple(either), Tuple(in), Tuple(out)};
}

}  // namespace

void Compositing(Recipe& recipe) {
  Var x("x"), y("y"), c("c"), k("k"), strip("strip"), row("row");
  std::vector<Tuple> layers;
  for (int i = 0; i < kLayers; i++) {
    ImageParam layer = recipe.Input("layer" + std::to_string(i), UInt(8), {kWidth, kHeight, 4});
    layers.push_back(Tuple{layer(x, y, 0), layer(x, y, 1), layer(x, y, 2), layer(x, y, 3)});
  }
  ImageParam ops = recipe.Input("ops", Int(32), {kLayers - 1});
  Func stacked("stacked"), blended("blended"), output("output");
  stacked(x, y, k) = mux(k, layers);
  blended(x, y) = Tuple(Premultiplied(layers[0].as_vector()));
  // Every way of every layer, of which the wanted one runs: unrolled, a switch.
  RDom r(0, 5, 0, kLayers - 1);
  r.where(r.x == ops(r.y));
  const Pixel below = Tuple(blended(x, y)).as_vector();
  const Pixel above = Premultiplied(Tuple(stacked(x, y, r.y + 1)).as_vector());
  blended(x, y) = mux(r.x, Blends(below, above));
  const Tuple p = blended(x, y);
  const auto colour = [&](int i) { return saturating_cast(UInt(8), fast_integer_divide(p[i] + p[3] / 2, p[3])); };
  output(x, y, c) = mux(c, {colour(0), colour(1), colour(2), p[3]});
  recipe.Output(output, {kWidth, kHeight, 4});
  if (!recipe.hand) return;
  const int lanes = recipe.Lanes(UInt(8));
  output.split(y, strip, row, 8).parallel(strip).vectorize(x, lanes).reorder(c, x, row, strip).bound(c, 0, 4).unroll(c);
  blended.store_in(MemoryType::Stack).compute_at(output, row).vectorize(x, lanes);
  blended.update().reorder(x, r.x, r.y).unroll(r.x).unroll(r.y).vectorize(x, lanes);
}
