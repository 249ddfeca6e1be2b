#include "applications.h"

using namespace Halide;

namespace {

Var x("x"), y("y"), c("c"), k("k");

struct Kernel {
  const char* name;
  int taps;
  Expr (*weight)(const Expr&);
};

Expr Cubic(const Expr& t) {
  const Expr a = abs(t), a2 = a * a, a3 = a2 * a;
  return select(a < 1.0f, 1.5f * a3 - 2.5f * a2 + 1.0f, a < 2.0f, -0.5f * a3 + 2.5f * a2 - 4.0f * a + 2.0f, 0.0f);
}

Expr Lanczos(const Expr& t) {
  const auto sinc = [](const Expr& v) { return sin(v * 3.14159265359f) / (v * 3.14159265359f); };
  return select(t == 0.0f, 1.0f, t > 3.0f || t < -3.0f, 0.0f, sinc(t) * sinc(t / 3.0f));
}

constexpr Kernel kKernels[] = {{"cubic", 4, Cubic}, {"lanczos", 6, Lanczos}};

// Resampling along one axis: `weights(position, tap)` of the input from `begin` on.
struct Axis {
  Func raw, sum, weights;
  Expr begin;
};

Axis Along(const Var& v, const ImageParam& input, int dimension, const Kernel& kernel, const Expr& inverse, const Expr& widening,
           const Expr& taps) {
  const std::string name = v.name();
  Axis axis{Func("raw_" + name), Func("sum_" + name), Func("weights_" + name), Expr()};
  const Expr source = (v + 0.5f) * inverse - 0.5f;
  const Expr radius = 0.5f * kernel.taps * widening;
  // Strict: bounds and weights must see the same begin.
  const Expr first = cast<int>(strict_float(ceil(source - radius)));
  axis.begin = clamp(first, input.dim(dimension).min(), input.dim(dimension).max() + 1 - taps);
  RDom r(0, taps);
  axis.raw(v, k) = kernel.weight((k + axis.begin - source) / widening);
  axis.sum(v) = sum(axis.raw(v, r), "sum_of_" + name);
  axis.weights(v, k) = axis.raw(v, k) / axis.sum(v);
  return axis;
}

void Schedule(Axis& across, Axis& down, Func first, Func second, Func output, bool up, bool packed, int lanes) {
  Var in_x("in_x"), in_y("in_y");
  across.raw.compute_at(across.weights, x).store_in(MemoryType::Stack).vectorize(x);
  across.sum.compute_at(across.weights, x).vectorize(x);
  across.weights.compute_root().reorder(k, x).vectorize(x, lanes);
  down.raw.compute_at(down.weights, y).vectorize(y, lanes);
  down.sum.compute_at(down.weights, y).vectorize(y);
  down.weights.compute_at(output, y).reorder(k, y).vectorize(y, lanes);
  output.tile(x, y, in_x, in_y, up ? 16 : 32, up ? 64 : 8).parallel(y).vectorize(in_x);
  if (up) {
    first.compute_at(output, x).hoist_storage(output, y).vectorize(x);
  } else {
    first.compute_at(output, y).vectorize(x, lanes);
  }
  second.compute_at(output, in_x).unroll(c);
  if (packed) {
    output.reorder(c, in_x, in_y, x, y).unroll(c);
    first.reorder(c, x, y).unroll(c);
  }
}

// The channels of a pixel side by side.
void Pack(OutputImageParam image, int channels) {
  image.dim(0).set_stride(channels);
  image.dim(2).set_stride(1).set_bounds(0, channels);
}

void Resize(Recipe& recipe, const Kernel& kernel, const Type& type, bool up, int packed) {
  constexpr int kOutWidth = 768, kOutHeight = 1280;
  const int channels = packed ? packed : 3;
  ImageParam input = recipe.Input("input", type, {up ? kOutWidth / 4 : kOutWidth * 2, up ? kOutHeight / 4 : kOutHeight * 2, channels});
  Param<float> scale = recipe.Scalar<float>("scale", up ? 4.0f : 0.5f);
  const Expr inverse = strict_float(1.0f / scale);
  const Expr widening = up ? Expr(1.0f) : inverse;
  const Expr taps = cast<int>(ceil(kernel.taps * widening));
  Axis across = Along(x, input, 0, kernel, inverse, widening, taps), down = Along(y, input, 1, kernel, inverse, widening, taps);
  Func real("real"), first("first"), second("second"), output("output");
  real(x, y, c) = cast<float>(input(x, y, c));
  RDom r(0, taps);
  // The pass along x is the slower one: it gets the smaller image.
  const auto along_x = [&](Func f) { return sum(across.weights(x, r) * f(r + across.begin, y, c), "along_x"); };
  const auto along_y = [&](Func f) { return sum(down.weights(y, r) * f(x, r + down.begin, c), "along_y"); };
  first(x, y, c) = up ? along_x(real) : along_y(real);
  second(x, y, c) = up ? along_y(first) : along_x(first);
  const Expr value = second(x, y, c);
  output(x, y, c) = type.is_float() ? clamp(value, 0.0f, 1.0f) : saturating_cast(type, value);
  recipe.Output(output, {kOutWidth, kOutHeight, channels});
  if (packed) {
    Pack(input, channels);
    Pack(output.output_buffer(), channels);
  }
  if (recipe.hand) Schedule(across, down, first, second, output, up, packed, recipe.FloatLanes());
}

}  // namespace

std::vector<Application> Resizes() {
  std::vector<Application> variants;
  const std::pair<const char*, Type> types[] = {{"u8", UInt(8)}, {"u16", UInt(16)}, {"f32", Float(32)}};
  for (const Kernel& kernel : kKernels) {
    for (const auto& [name, type] : types) {
      for (const bool up : {true, false}) {
        const std::string variant = std::string("resize_") + kernel.name + "_" + name + (up ? "_up" : "_down");
        variants.push_back({variant, [&kernel, type = type, up](Recipe& recipe) { Resize(recipe, kernel, type, up, 0); }});
      }
    }
  }
  for (const int channels : {3, 4}) {
    for (const bool up : {true, false}) {
      const std::string variant = std::string("resize_cubic_u8") + (up ? "_up" : "_down") + (channels == 3 ? "_rgb" : "_rgba");
      variants.push_back(
          {variant, [channels, up](Recipe& recipe) { Resize(recipe, kKernels[0], UInt(8), up, channels); }});
    }
  }
  return variants;
}
