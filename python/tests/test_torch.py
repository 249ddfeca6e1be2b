"""The layers under PyTorch's autograd: where it is installed."""

import unittest

import numpy as np
from cases import CASES, arguments

try:
    import torch
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Torch(unittest.TestCase):
    def tensors(self, name):
        layer, parameters, x, _ = arguments(name)
        return layer, parameters, [torch.tensor(array.tolist(), dtype=torch.float64, requires_grad=True) for array in x]

    def function(self, name, parameters):
        import sumsq.torch

        return lambda *x: getattr(sumsq.torch, name)(*x, **parameters)

    def test_gradcheck(self):
        for name in CASES:
            _, parameters, x = self.tensors(name)
            self.assertTrue(torch.autograd.gradcheck(self.function(name, parameters), x, fast_mode=True), name)

    def test_gradgradcheck(self):
        for name in CASES:
            _, parameters, x = self.tensors(name)
            self.assertTrue(torch.autograd.gradgradcheck(self.function(name, parameters), x, fast_mode=True), name)

    def test_outputs_are_those_of_the_layer(self):
        for name in CASES:
            layer, parameters, x = self.tensors(name)
            came = self.function(name, parameters)(*x)
            expected = layer(*(t.detach() for t in x), **parameters)
            self.assertTrue(np.array_equal(expected, np.from_dlpack(came.detach())), name)

    def test_the_transformer_is_that_of_pytorch(self):
        _, parameters, (image, theta) = self.tensors("spatial_transformer")
        grid = torch.nn.functional.affine_grid(theta, image.shape, align_corners=False)
        expected = torch.nn.functional.grid_sample(image, grid, align_corners=False)
        came = self.function("spatial_transformer", parameters)(image, theta)
        self.assertLess((came - expected).abs().max().item(), 1e-12)


if __name__ == "__main__":
    unittest.main()
