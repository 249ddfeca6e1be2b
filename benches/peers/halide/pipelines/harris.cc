#include "applications.h"

using namespace Halide;

void Harris(Recipe& recipe) {
  ImageParam input = recipe.Input("input", Float(32), {kWidth, kHeight, 3});
  Var x("x"), y("y"), row("row");
  Func gray("gray"), along_x("along_x"), along_y("along_y"), output("output");
  gray(x, y) = Luminance(input(x, y, 0), input(x, y, 1), input(x, y, 2));
  Expr dx, dy;
  for (int i = -1; i <= 1; i++) {
    const float weight = (i == 0 ? 2.0f : 1.0f) / 12;
    const Expr in_x = gray(x + 1, y + i) * weight - gray(x - 1, y + i) * weight;
    const Expr in_y = gray(x + i, y + 1) * weight - gray(x + i, y - 1) * weight;
    dx = dx.defined() ? dx + in_x : in_x;
    dy = dy.defined() ? dy + in_y : in_y;
  }
  along_x(x, y) = dx;
  along_y(x, y) = dy;
  const auto products = [&](const char* name, Func a, Func b) {
    Func product(std::string(name) + "_product"), sum(name);
    product(x, y) = a(x, y) * b(x, y);
    Expr total = product(x - 1, y - 1);
    for (int i = 1; i < 9; i++) total += product(x + i % 3 - 1, y + i / 3 - 1);
    sum(x, y) = total;
    return sum;
  };
  const Expr xx = products("xx", along_x, along_x)(x, y);
  const Expr yy = products("yy", along_y, along_y)(x, y);
  const Expr xy = products("xy", along_x, along_y)(x, y);
  const Expr trace = xx + yy;
  output(x, y) = xx * yy - xy * xy - 0.04f * trace * trace;
  recipe.Output(output, Region{{3, kWidth - 6}, {3, kHeight - 6}});
  if (!recipe.hand) return;
  const int lanes = recipe.FloatLanes();
  output.split(y, y, row, 32).parallel(y).vectorize(x, lanes);
  for (Func stage : {gray, along_x, along_y}) stage.store_at(output, y).compute_at(output, row).vectorize(x, lanes);
  along_x.compute_with(along_y, x);
}
