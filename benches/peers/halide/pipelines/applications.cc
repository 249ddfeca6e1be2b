#include "applications.h"

std::vector<std::string> Schedules() { return {"hand", "Mullapudi2016", "Adams2019"}; }

std::vector<Application> Applications() {
  std::vector<Application> all{
      {"blur", Blur},
      {"unsharp", Unsharp},
      {"harris", Harris},
      {"hist", Hist},
      {"bilateral_grid", BilateralGrid},
      {"local_laplacian", LocalLaplacian},
      {"interpolate", Interpolate},
      {"stencil_chain", StencilChain},
      {"iir_blur", IirBlur},
      {"max_filter", MaxFilter},
      {"nl_means", NlMeans},
      {"camera_pipe", CameraPipe},
      {"conv_layer", ConvLayer},
      {"depthwise_separable_conv", DepthwiseSeparableConv},
  };
  for (const Application& resize : Resizes()) all.push_back(resize);
  all.push_back({"lens_blur", LensBlur});
  all.push_back({"guided_upsampling", GuidedUpsampling});
  all.push_back({"compositing", Compositing});
  all.push_back({"sgemm", Sgemm});
  all.push_back({"fft", Fft});
  return all;
}
