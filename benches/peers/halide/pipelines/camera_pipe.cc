#include "applications.h"

using namespace Halide;
using Halide::ConciseCasts::u8_sat;

namespace {

constexpr int kRawWidth = 2592, kRawHeight = 1968, kOutWidth = 2560, kOutHeight = 1920;

Var x("x"), y("y"), c("c");

// Mean of two unsigned integers, rounded up.
Expr Mean(const Expr& a, const Expr& b) {
  const Type wide = a.type().widen();
  return cast(a.type(), (cast(wide, a) + cast(wide, b) + 1) / 2);
}

// Weights 1 2 1.
Expr Smooth(const Expr& a, const Expr& b, const Expr& c) { return Mean(Mean(a, c), b); }

struct Stages {
  Func denoised{"denoised"}, mosaic{"mosaic"}, green_red{"green_red"}, green_blue{"green_blue"}, full{"full"}, matrix{"matrix"},
      corrected{"corrected"}, table{"table"}, toned{"toned"}, strength{"strength"}, output{"output"};
};

void Denoise(Stages& s, const ImageParam& raw) {
  Func shifted("shifted");
  shifted(x, y) = raw(x + 16, y + 12);
  const Expr around = max(shifted(x - 2, y), shifted(x + 2, y), shifted(x, y - 2), shifted(x, y + 2));
  s.denoised(x, y) = min(shifted(x, y), around);
  const auto& d = s.denoised;
  s.mosaic(x, y, c) = mux(c, {d(2 * x, 2 * y), d(2 * x + 1, 2 * y), d(2 * x, 2 * y + 1), d(2 * x + 1, 2 * y + 1)});
}

// What is known and interpolated at a site, with an offset.
using At = std::function<Expr(int, int)>;

At Plane(Func f, int channel) {
  return [=](int dx, int dy) -> Expr { return f(x + dx, y + dy, channel); };
}

At Values(Func f) {
  return [=](int dx, int dy) -> Expr { return f(x + dx, y + dy); };
}

struct Offset {
  int x, y;
};

// The mean of `color` at two sites, corrected by what the same mean of green misses there.
Expr Corrected(const Expr& green, const At& greens, const At& color, Offset a, Offset b) {
  return green - Mean(greens(a.x, a.y), greens(b.x, b.y)) + Mean(color(a.x, a.y), color(b.x, b.y));
}

Expr Apart(const At& f, Offset a, Offset b) { return absd(f(a.x, a.y), f(b.x, b.y)); }

void Demosaic(Stages& s) {
  const At gr = Plane(s.mosaic, 0), red = Plane(s.mosaic, 1), blue = Plane(s.mosaic, 2), gb = Plane(s.mosaic, 3);
  // Green along the direction in which it changes less.
  const auto green = [](const At& across, Offset h, const At& down, Offset v) {
    const Offset here{0, 0};
    return select(Apart(across, h, here) < Apart(down, v, here), Mean(across(h.x, h.y), across(0, 0)),
                  Mean(down(v.x, v.y), down(0, 0)));
  };
  s.green_red(x, y) = green(gr, {1, 0}, gb, {0, -1});
  s.green_blue(x, y) = green(gb, {-1, 0}, gr, {0, 1});
  const At g_r = Values(s.green_red), g_b = Values(s.green_blue);
  const auto diagonal = [](const Expr& here, const At& greens, const At& color, Offset p, Offset q, Offset m, Offset n) {
    return select(Apart(color, p, q) < Apart(color, m, n), Corrected(here, greens, color, p, q),
                  Corrected(here, greens, color, m, n));
  };
  const auto site = [](const char* name, const Expr& value) {
    Func f(name);
    f(x, y) = value;
    return f;
  };
  Func r_gr = site("r_gr", Corrected(gr(0, 0), g_r, red, {0, 0}, {-1, 0}));
  Func b_gr = site("b_gr", Corrected(gr(0, 0), g_b, blue, {0, 0}, {0, -1}));
  Func r_gb = site("r_gb", Corrected(gb(0, 0), g_r, red, {0, 0}, {0, 1}));
  Func b_gb = site("b_gb", Corrected(gb(0, 0), g_b, blue, {0, 0}, {1, 0}));
  Func r_b = site("r_b", diagonal(g_b(0, 0), g_r, red, {0, 0}, {-1, 1}, {-1, 0}, {0, 1}));
  Func b_r = site("b_r", diagonal(g_r(0, 0), g_b, blue, {0, 0}, {1, -1}, {1, 0}, {0, -1}));
  Func k_gr = site("k_gr", gr(0, 0)), k_r = site("k_r", red(0, 0)), k_b = site("k_b", blue(0, 0)), k_gb = site("k_gb", gb(0, 0));
  const auto woven = [](Func a, Func b, Func d, Func e) {
    const auto line = [](Func even, Func odd) { return select(x % 2 == 0, even(x / 2, y), odd(x / 2, y)); };
    Func upper("upper"), lower("lower");
    upper(x, y) = line(a, b);
    lower(x, y) = line(d, e);
    return select(y % 2 == 0, upper(x, y / 2), lower(x, y / 2));
  };
  Func r = site("r", woven(r_gr, k_r, r_b, r_gb)), g = site("g", woven(k_gr, s.green_red, s.green_blue, k_gb)),
       b = site("b", woven(b_gr, b_r, k_b, b_gb));
  s.full(x, y, c) = cast<int16_t>(mux(c, {r(x, y), g(x, y), b(x, y)}));
}

void Correct(Stages& s, const ImageParam& warm, const ImageParam& cold, const Expr& kelvin) {
  const Expr part = (1.0f / kelvin - 1.0f / 3200) / (1.0f / 7000 - 1.0f / 3200);
  s.matrix(x, y) = cast<int16_t>((warm(x, y) * part + cold(x, y) * (1 - part)) * 256.0f);
  const auto row = [&](int i) {
    Expr sum = cast<int>(s.matrix(3, i));
    for (int j = 0; j < 3; j++) sum += s.matrix(j, i) * cast<int>(s.full(x, y, j));
    return cast<int16_t>(sum / 256);
  };
  s.corrected(x, y, c) = mux(c, {row(0), row(1), row(2)});
}

void Tone(Stages& s, const Expr& gamma, const Expr& contrast, const Expr& black, const Expr& white) {
  const Expr q = 2.0f - pow(2.0f, contrast / 100.0f);
  const Expr p = 2.0f - 2.0f * q;
  const Expr linear = clamp(cast<float>(x - black) * (1.0f / (white - black)), 0.0f, 1.0f);
  const Expr g = pow(linear, 1.0f / gamma);
  const Expr curve = select(g > 0.5f, 1.0f - (p * (1.0f - g) * (1.0f - g) + q * (1.0f - g)), p * g * g + q * g);
  const Expr value = cast<uint8_t>(clamp(curve * 255.0f + 0.5f, 0.0f, 255.0f));
  s.table(x) = select(x <= black, cast<uint8_t>(0), x > white, cast<uint8_t>(255), value);
  s.toned(x, y, c) = s.table(clamp(s.corrected(x, y, c), 0, 1023));
}

void Sharpen(Stages& s, const Expr& amount) {
  s.strength() = u8_sat(amount * 32);
  Func down("down"), smooth("smooth");
  down(x, y, c) = Smooth(s.toned(x, y - 1, c), s.toned(x, y, c), s.toned(x, y + 1, c));
  smooth(x, y, c) = Smooth(down(x - 1, y, c), down(x, y, c), down(x + 1, y, c));
  const Expr here = s.toned(x, y, c);
  const Expr mask = cast<int16_t>(here) - cast<int16_t>(smooth(x, y, c));
  s.output(x, y, c) = u8_sat(here + (mask * s.strength()) / 32);
}

void Schedule(Stages& s, const ImageParam& raw, int lanes) {
  constexpr int kStrip = 32;
  const int wide = 2 * lanes;
  const Expr width = s.output.output_buffer().width(), height = s.output.output_buffer().height();
  Var strip("strip"), pair("pair"), row("row"), in_x("in_x"), in_y("in_y");
  s.matrix.compute_root();
  s.table.compute_root();
  s.strength.compute_root();
  s.output.compute_root().reorder(c, x, y).split(y, pair, row, 2, TailStrategy::RoundUp).split(pair, strip, pair, kStrip / 2);
  s.output.vectorize(x, wide, TailStrategy::RoundUp).unroll(c).parallel(strip);
  s.denoised.compute_at(s.output, pair).store_at(s.output, strip).prefetch(raw, y, y, 2).fold_storage(y, 4);
  s.denoised.tile(x, y, x, y, in_x, in_y, wide, 2).vectorize(in_x).unroll(in_y);
  s.mosaic.compute_at(s.output, pair).store_at(s.output, strip).fold_storage(y, 4).reorder(c, x, y);
  s.mosaic.vectorize(x, wide, TailStrategy::RoundUp).unroll(c);
  s.toned.compute_at(s.output, pair).store_at(s.output, strip).reorder(c, x, y);
  s.toned.tile(x, y, x, y, in_x, in_y, wide, 2, TailStrategy::RoundUp).vectorize(in_x).unroll(in_y).unroll(c);
  s.corrected.compute_at(s.toned, x).reorder(c, x, y).vectorize(x).unroll(c);
  for (Func green : {s.green_red, s.green_blue}) {
    green.compute_at(s.output, pair).store_at(s.output, strip).vectorize(x, wide, TailStrategy::RoundUp).fold_storage(y, 4);
  }
  s.green_blue.compute_with(s.green_red, x, {{x, LoopAlignStrategy::AlignStart}, {y, LoopAlignStrategy::AlignStart}});
  s.full.compute_at(s.toned, x).vectorize(x).unroll(y).reorder(c, x, y).unroll(c);
  s.output.bound(c, 0, 3).bound(x, 0, width / wide * wide).bound(y, 0, height / kStrip * kStrip);
}

}  // namespace

void CameraPipe(Recipe& recipe) {
  ImageParam raw = recipe.Input("input", UInt(16), {kRawWidth, kRawHeight});
  ImageParam warm = recipe.Input("matrix_3200", Float(32), {4, 3});
  ImageParam cold = recipe.Input("matrix_7000", Float(32), {4, 3});
  Param<float> kelvin = recipe.Scalar<float>("color_temp", 3700.0f);
  Param<float> gamma = recipe.Scalar<float>("gamma", 2.0f);
  Param<float> contrast = recipe.Scalar<float>("contrast", 50.0f);
  Param<float> sharpen = recipe.Scalar<float>("sharpen", 1.0f);
  Param<int> black = recipe.Scalar<int>("black", 25);
  Param<int> white = recipe.Scalar<int>("white", 1023);
  Stages s;
  Denoise(s, raw);
  Demosaic(s);
  Correct(s, warm, cold, kelvin);
  Tone(s, gamma, contrast, black, white);
  Sharpen(s, sharpen);
  recipe.Output(s.output, {kOutWidth, kOutHeight, 3});
  if (recipe.hand) Schedule(s, raw, recipe.Lanes(UInt(16)));
}
