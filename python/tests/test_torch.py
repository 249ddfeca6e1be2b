"""The layers under PyTorch's autograd: where it is installed."""

import sys
import unittest

import numpy as np
from cases import CASES, GOLDEN, arguments

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

    def test_values_and_slopes_are_those_of_pytorchs_operators(self):
        sys.path.insert(0, str(GOLDEN.parents[2] / "benches" / "peers" / "torch"))
        from gradients import LAYERS

        for name in ["bilateral_slice", "spatial_transformer", "flow_warp"]:
            _, parameters, x = self.tensors(name)
            theirs, ours = LAYERS[name](*x, **parameters), self.function(name, parameters)(*x)
            w = torch.rand_like(ours)
            pairs = zip([theirs, *torch.autograd.grad(theirs, x, w)], [ours, *torch.autograd.grad(ours, x, w)], strict=True)
            for expected, came in pairs:
                apart, most = (came - expected).abs().max().item(), expected.abs().max().item()
                self.assertLessEqual(apart, 1e-12 * most, name)


if __name__ == "__main__":
    unittest.main()
