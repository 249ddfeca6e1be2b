// One function per application; see ALGORITHMS.md.
#pragma once

#include "recipe.h"

void Blur(Recipe& recipe);
void Unsharp(Recipe& recipe);
void Harris(Recipe& recipe);
void Hist(Recipe& recipe);
void BilateralGrid(Recipe& recipe);
void LocalLaplacian(Recipe& recipe);
void Interpolate(Recipe& recipe);
void StencilChain(Recipe& recipe);
void IirBlur(Recipe& recipe);
void MaxFilter(Recipe& recipe);
void NlMeans(Recipe& recipe);
void CameraPipe(Recipe& recipe);
void ConvLayer(Recipe& recipe);
void DepthwiseSeparableConv(Recipe& recipe);
std::vector<Application> Resizes();
void LensBlur(Recipe& recipe);
void GuidedUpsampling(Recipe& recipe);
void Compositing(Recipe& recipe);
void Sgemm(Recipe& recipe);
void Fft(Recipe& recipe);
