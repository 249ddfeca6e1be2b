// An application as the compiler of this folder sees it: inputs, scalars and outputs in the order of its arguments, with their sizes.
#pragma once

#include <Halide.h>

#include <functional>
#include <string>
#include <vector>

// What an application's function fills: its arguments and outputs. With `hand` it schedules its stages itself, else an autoscheduler
// will, which the sizes inform.
class Recipe {
 public:
  Recipe(const Halide::Target& target, bool hand) : target(target), hand(hand) {}

  // A dense array of that size.
  Halide::ImageParam Input(const std::string& name, Halide::Type type, const std::vector<int>& size);

  // A scalar that is an argument of the compiled pipeline; `usual` is its value in the benchmark.
  template <typename T>
  Halide::Param<T> Scalar(const std::string& name, T usual) {
    Halide::Param<T> parameter(name);
    parameter.set_estimate(usual);
    arguments_.push_back(parameter);
    return parameter;
  }

  void Output(Halide::Func f, const Halide::Region& region);
  void Output(Halide::Func f, const std::vector<int>& size);

  // Elements of a vector register.
  int Lanes(const Halide::Type& type) const { return target.natural_vector_size(type); }
  int FloatLanes() const { return Lanes(Halide::Float(32)); }

  const std::vector<Halide::Argument>& arguments() const { return arguments_; }
  const std::vector<Halide::Func>& outputs() const { return outputs_; }

  const Halide::Target target;
  const bool hand;

 private:
  std::vector<Halide::Argument> arguments_;
  std::vector<Halide::Func> outputs_;
};

struct Application {
  std::string name;
  std::function<void(Recipe&)> describe;
};

// What the folder of applications that is compiled has: all of them, and the names of their schedules: hand, and autoschedulers.
std::vector<Application> Applications();
std::vector<std::string> Schedules();

// The size of the images, and their luminance.
constexpr int kWidth = 1536;
constexpr int kHeight = 2560;
Halide::Expr Luminance(const Halide::Expr& red, const Halide::Expr& green, const Halide::Expr& blue);
