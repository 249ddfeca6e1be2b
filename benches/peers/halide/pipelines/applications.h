// One function per application; see ALGORITHMS.md.
#pragma once

#include "recipe.h"

void Blur(Recipe& recipe);
void Unsharp(Recipe& recipe);
void Harris(Recipe& recipe);
void Hist(Recipe& recipe);
void BilateralGrid(Recipe& recipe);
void LocalLaplacian(Recipe& recipe);
