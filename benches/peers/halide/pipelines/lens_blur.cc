#include "applications.h"

using namespace Halide;

namespace {

constexpr int kLevels = 8, kSmallWidth = 192, kSmallHeight = 320;

Var x("x"), y("y"), z("z"), c("c");

// Halves the image with weights 1 3 3 1, x first.
Func Half(Func f) {
  Func across("half_x"), down("half");
  const auto taps = [](const Expr& a, const Expr& b, const Expr& c, const Expr& d) { return (a + 3.0f * (b + c) + d) / 8.0f; };
  across(x, y, _) = taps(f(2 * x - 1, y, _), f(2 * x, y, _), f(2 * x + 1, y, _), f(2 * x + 2, y, _));
  down(x, y, _) = taps(across(x, 2 * y - 1, _), across(x, 2 * y, _), across(x, 2 * y + 1, _), across(x, 2 * y + 2, _));
  return down;
}

// Doubles the image with bilinear interpolation, x first.
Func Twice(Func f) {
  Func across("twice_x"), down("twice");
  const auto far = [](const Var& v) { return v / 2 - 1 + 2 * (v % 2); };
  across(x, y, _) = 0.25f * f(far(x), y, _) + 0.75f * f(x / 2, y, _);
  down(x, y, _) = 0.25f * across(x, far(y), _) + 0.75f * across(x, y / 2, _);
  return down;
}

// A number in [0, 1) that depends on pixel, sample and axis alone.
Expr Random(uint32_t seed, const Expr& sample) {
  const auto mix = [](const Expr& t) {
    return (cast<uint32_t>(Expr(0x2545F490u)) * t + cast<uint32_t>(Expr(0x9E3779B1u))) * t + cast<uint32_t>(Expr(0x7F4A7C15u));
  };
  Expr h = mix(Expr(seed) + cast<uint32_t>(x));
  h = mix(h + cast<uint32_t>(y));
  h = mix(h + cast<uint32_t>(sample));
  return cast<float>(h >> 8) * (1.0f / (1 << 24));
}

struct Stages {
  Func difference{"difference"}, cost{"cost"}, confidence{"confidence"}, filtered{"filtered"}, depth{"depth"}, radius{"radius"},
      worst_y{"worst_y"}, worst{"worst"}, opaque{"opaque"}, places{"places"}, weight{"weight"}, total{"total"}, output{"output"};
  std::vector<Func> push = std::vector<Func>(kLevels), pull = std::vector<Func>(kLevels);
};

// The cost of each depth, and how much it says; both are blurred by a pyramid that fills in where it says little.
void Depth(Stages& s, Func left, Func right, const ImageParam& image, const Expr& slices) {
  const Expr shifted = x + 2 * z;
  s.difference(x, y, z, c) = min(absd(left(x, y, c), right(shifted, y, c)), absd(left(x, y, c), right(shifted + 1, y, c)));
  const auto square = [](const Expr& e) { return e * e; };
  Expr cost = 0.0f;
  for (int i = 0; i < 3; i++) cost += square(cast<float>(s.difference(x, y, z, i)));
  s.cost(x, y, z) = cost;
  RDom slice(0, slices);
  s.confidence(x, y) = sum(square(s.cost(x, y, slice))) / slices - square(sum(s.cost(x, y, slice) / slices));
  s.push[0](x, y, z, c) = mux(c, {s.cost(x, y, z) * s.confidence(x, y), s.confidence(x, y)});
  Expr width = image.dim(0).extent(), height = image.dim(1).extent();
  for (int i = 1; i < kLevels; i++) {
    s.push[i](x, y, z, c) = Half(s.push[i - 1])(x, y, z, c);
    width /= 2;
    height /= 2;
    s.push[i] = BoundaryConditions::repeat_edge(s.push[i], {{0, width}, {0, height}});
  }
  s.pull[kLevels - 1](x, y, z, c) = s.push[kLevels - 1](x, y, z, c);
  for (int i = kLevels - 2; i >= 0; i--) {
    s.pull[i](x, y, z, c) = lerp(Twice(s.pull[i + 1])(x, y, z, c), s.push[i](x, y, z, c), 0.5f);
  }
  s.filtered(x, y, z) = s.pull[0](x, y, z, 0) / s.pull[0](x, y, z, 1);
  s.depth(x, y) = argmin(s.filtered(x, y, slice))[0];
}

void Gather(Stages& s, Func left, RDom& sample, const Expr& widest, const Expr& focus, const Expr& scale) {
  s.radius(x, y) = abs(s.depth(x, y) - focus) * scale;
  RDom reach(-widest, 2 * widest + 1);
  s.worst_y(x, y) = maximum(s.radius(x, y + reach));
  s.worst(x, y) = maximum(s.worst_y(x + reach, y));
  const auto unit = [&](int channel) { return cast<float>(left(x, y, channel)) * (1.0f / 255.0f); };
  s.opaque(x, y, c) = mux(c, {unit(0), unit(1), unit(2), 1.0f});
  const auto place = [&](uint32_t seed) {
    return clamp(cast<int>((Random(seed, z) - 0.5f) * 2 * s.worst(x, y)), -widest, widest);
  };
  s.places(x, y, z) = {place(0x3C6EF372u), place(0xDAA66D2Bu)};
  const Expr u = s.places(x, y, z)[0], v = s.places(x, y, z)[1];
  const Expr distance = u * u + v * v;
  const auto covers = [&](const Expr& px, const Expr& py) { return distance < s.radius(px, py) * s.radius(px, py); };
  const Expr in_front = s.depth(x + u, y + v) < s.depth(x, y);
  s.weight(x, y, z) = select((covers(x, y) || in_front) && covers(x + u, y + v), 1.0f, 0.0f);
  s.total(x, y, c) = s.opaque(x, y, c);
  s.total(x, y, c) += s.weight(x, y, sample) * s.opaque(x + s.places(x, y, sample)[0], y + s.places(x, y, sample)[1], c);
  s.output(x, y, c) = s.total(x, y, c) / s.total(x, y, 3);
}

void Schedule(Stages& s, RDom& sample) {
  constexpr int kLanes = 8;
  Var in_x("in_x"), in_y("in_y"), task("task");
  const auto tiled = [&](Func f) { f.tile(x, y, in_x, in_y, kLanes, 2).vectorize(in_x).unroll(in_y); };
  s.push[0].compute_root().reorder(c, z, x, y).bound(c, 0, 2).unroll(c).vectorize(x, 16).parallel(y, 4);
  s.cost.compute_at(s.push[0], x).hoist_storage(s.push[0], y).vectorize(x);
  s.confidence.compute_at(s.push[0], x).vectorize(x);
  for (int i = 1; i < kLevels; i++) {
    s.push[i].compute_at(s.pull[1], task).vectorize(s.push[i].args()[0], kLanes);
    if (i == 1) continue;
    s.pull[i].compute_at(s.pull[1], task);
    tiled(s.pull[i]);
  }
  s.pull[1].compute_root().fuse(z, c, task).parallel(task);
  tiled(s.pull[1]);
  s.depth.compute_root();
  tiled(s.depth);
  s.depth.parallel(y, 8);
  s.opaque.compute_root().reorder(c, x, y).unroll(c).vectorize(x, kLanes).parallel(y, 8);
  s.worst_y.compute_at(s.output, y).vectorize(x, kLanes);
  s.worst.compute_at(s.output, y).vectorize(x, kLanes);
  s.output.compute_root().reorder(c, x, y).bound(c, 0, 3).unroll(c).vectorize(x, kLanes).parallel(y);
  s.total.compute_at(s.output, x).vectorize(x);
  s.total.update().reorder(c, x, sample).vectorize(x).unroll(c);
  s.weight.compute_at(s.total, x).unroll(x);
  s.places.compute_at(s.total, x).vectorize(x);
}

}  // namespace

void LensBlur(Recipe& recipe) {
  ImageParam left = recipe.Input("left", UInt(8), {kSmallWidth, kSmallHeight, 3});
  ImageParam right = recipe.Input("right", UInt(8), {kSmallWidth, kSmallHeight, 3});
  Param<int> slices = recipe.Scalar<int>("slices", 32);
  Param<int> focus = recipe.Scalar<int>("focus", 13);
  Param<float> scale = recipe.Scalar<float>("scale", 0.5f);
  Param<int> samples = recipe.Scalar<int>("samples", 32);
  // Bounds of stages are computed from these.
  slices.set_range(1, 64);
  focus.set_range(1, 32);
  scale.set_range(0.0f, 1.0f);
  samples.set_range(1, 64);
  Stages s;
  Func left_edge = BoundaryConditions::repeat_edge(left), right_edge = BoundaryConditions::repeat_edge(right);
  RDom sample(0, samples);
  Depth(s, left_edge, right_edge, left, slices);
  Gather(s, left_edge, sample, cast<int>(max(slices - focus, focus) * scale), focus, scale);
  recipe.Output(s.output, {kSmallWidth, kSmallHeight, 3});
  if (recipe.hand) Schedule(s, sample);
}
