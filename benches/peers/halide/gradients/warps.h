// Schedule by hand of layers that sample their input bilinearly at places.
#pragma once

#include "gradients.h"

struct Warp {
  Halide::Func place, sampled, output;
  const Slopes& slopes;
  Halide::Func d_input;
  Halide::RDom taps;
};

// All but the slopes of what places are computed from.
void ScheduleWarp(Recipe& recipe, Warp warp);
