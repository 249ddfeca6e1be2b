#include <array>
#include <cmath>

#include "applications.h"

using namespace Halide;

namespace {

constexpr int kSize = 32, kImages = 1000;
// 32 = kFirst * kSecond.
constexpr int kFirst = 8, kSecond = 4;

Var x("x"), y("y"), n("n"), k("k");

struct Complex {
  Expr re, im;
};

Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }

// a * exp(-2 pi i turns).
Complex Turned(const Complex& a, double turns) {
  const float re = static_cast<float>(std::cos(2 * M_PI * turns)), im = static_cast<float>(-std::sin(2 * M_PI * turns));
  return {a.re * re - a.im * im, a.re * im + a.im * re};
}

// Transform of a power of two of values, by halves of even and odd ones.
std::vector<Complex> Transform(const std::vector<Complex>& values) {
  const size_t half = values.size() / 2;
  if (half == 0) return values;
  std::vector<Complex> even, odd, result(2 * half);
  for (size_t i = 0; i < half; i++) {
    even.push_back(values[2 * i]);
    odd.push_back(values[2 * i + 1]);
  }
  even = Transform(even);
  odd = Transform(odd);
  for (size_t i = 0; i < half; i++) {
    // A quarter turn is no multiplication.
    const bool quarter = 4 * i == 2 * half;
    const Complex o = i == 0 ? odd[i] : quarter ? Complex{odd[i].im, -odd[i].re} : Turned(odd[i], double(i) / (2 * half));
    result[i] = even[i] + o;
    result[i + half] = even[i] - o;
  }
  return result;
}

Tuple Chosen(const Expr& index, const std::vector<Complex>& values) {
  std::vector<Expr> re, im;
  for (const Complex& v : values) {
    re.push_back(v.re);
    im.push_back(v.im);
  }
  return {mux(index, re), mux(index, im)};
}

// Columns of `f`: 8 values at distance 4, then 4 of those; `between` holds the first step as (x, remainder, frequency, image).
struct Pass {
  Func between, twiddle, result;
};

Pass Columns(Func f, const std::string& name) {
  Pass pass{Func(name + "_between"), Func(name + "_twiddle"), Func(name)};
  const auto at = [](Func g, const std::vector<Expr>& where) {
    const Tuple t = g(where);
    return Complex{t[0], t[1]};
  };
  std::vector<Complex> values;
  for (int i = 0; i < kFirst; i++) values.push_back(at(f, {x, kSecond * i + n, k}));
  pass.between(x, n, y, k) = Chosen(y, Transform(values));
  // Twiddles of (n, y % 8), in a table.
  Var p("p"), q("q");
  const Expr angle = cast<float>(p * q) * static_cast<float>(-2 * M_PI / kSize);
  pass.twiddle(p, q) = Tuple(cos(angle), sin(angle));
  values.clear();
  for (int i = 0; i < kSecond; i++) {
    const Complex v = at(pass.between, {x, i, y % kFirst, k});
    const Complex w = at(pass.twiddle, {i, y % kFirst});
    values.push_back(i == 0 ? v : Complex{v.re * w.re - v.im * w.im, v.re * w.im + v.im * w.re});
  }
  pass.result(x, y, k) = Chosen(y / kFirst, Transform(values));
  return pass;
}

}  // namespace

void Fft(Recipe& recipe) {
  ImageParam re = recipe.Input("re", Float(32), {kSize, kSize, kImages});
  ImageParam im = recipe.Input("im", Float(32), {kSize, kSize, kImages});
  Func input("input"), turned("turned"), output("output");
  input(x, y, k) = Tuple(re(x, y, k), im(x, y, k));
  Pass down = Columns(input, "down");
  turned(x, y, k) = down.result(y, x, k);
  Pass across = Columns(turned, "across");
  output(x, y, k) = across.result(y, x, k);
  recipe.Output(output, {kSize, kSize, kImages});
  if (!recipe.hand) return;
  const int lanes = recipe.FloatLanes();
  Var octave("octave"), bin("bin"), block("block");
  output.bound(x, 0, kSize).bound(y, 0, kSize).vectorize(x, lanes).parallel(k, 8);
  const auto schedule = [&](Pass& pass, Func at, Var level) {
    pass.twiddle.compute_root();
    pass.result.compute_at(at, level).bound(x, 0, kSize).bound(y, 0, kSize).split(x, block, x, lanes).vectorize(x);
    pass.result.split(y, octave, bin, kFirst).reorder(x, octave, bin, block).unroll(octave).unroll(bin);
    pass.between.compute_at(pass.result, block).store_in(MemoryType::Stack).bound(n, 0, kSecond).bound(y, 0, kFirst);
    pass.between.vectorize(x).reorder(x, y, n).unroll(y);
  };
  schedule(down, output, k);
  schedule(across, output, k);
  // In vectors along the rows that are read.
  turned.compute_at(output, k).bound(x, 0, kSize).bound(y, 0, kSize).vectorize(x, lanes);
}
