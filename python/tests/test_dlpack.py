"""Tensors of other libraries, by DLPack."""

import gc
import unittest
import weakref

import numpy as np
from cases import OnlyDlpack, arguments, strided


class Dlpack(unittest.TestCase):
    def test_tensors_are_read_in_place(self):
        layer, _, x, w = arguments("flow_warp", np.float32)
        expected = layer(*x)
        for versions in [True, False]:
            for how in ["transposed", "reversed", "sliced"]:
                tensors = [OnlyDlpack(strided(array, how), versions) for array in x]
                self.assertTrue(np.array_equal(layer(*tensors), expected), how)
            out = np.zeros_like(w)
            tensor = OnlyDlpack(out, versions)
            self.assertIs(layer(*x, out=tensor), tensor)
            self.assertTrue(np.array_equal(out, expected))

    def test_results_go_round(self):
        layer, _, x, w = arguments("flow_warp", np.float32)
        output = layer(*x)
        again = np.from_dlpack(output)
        self.assertEqual(again.__array_interface__["data"][0], output.__array_interface__["data"][0])
        slopes = [layer.backward(given, *x) for given in (again, OnlyDlpack(output))]
        self.assertTrue(all(np.array_equal(a, b) for a, b in zip(*slopes, strict=True)))

    def test_memory_is_given_back(self):
        class Array(np.ndarray):
            pass

        layer, _, (image, flow), _ = arguments("flow_warp")
        for versions in [True, False]:
            array = image.copy().view(Array)
            gone = weakref.ref(array)
            layer(OnlyDlpack(array, versions), flow)
            del array
            gc.collect()
            self.assertIsNone(gone())

    def test_what_is_no_capsule(self):
        class Wrong(OnlyDlpack):
            def __dlpack__(self, **options):
                return 3

        layer, _, (image, flow), _ = arguments("flow_warp")
        with self.assertRaises(ValueError) as raised:
            layer(Wrong(image), flow)
        self.assertEqual(str(raised.exception), "input: its __dlpack__ gave no capsule with a tensor of version 1")
        with self.assertRaises(TypeError) as raised:
            layer(OnlyDlpack(image.astype(np.int16)), flow)
        self.assertEqual(str(raised.exception), "input: expected float32 or float64, came type 0 of 16 bits, 1 lanes")


if __name__ == "__main__":
    unittest.main()
