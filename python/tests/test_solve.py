"""The solver from Python."""

import pathlib
import tempfile
import unittest

import numpy as np

import sumsq

ENERGY = """
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float, {W, H}, 0)
local A = Array("A", opt_float, {W, H}, 1)
Energy(0.5 * (X(0, 0) - A(0, 0)))
Energy(X(0, 0) - X(1, 0))
"""


def minimum(a):
    """The minimiser for one row, by the normal equations."""
    n = len(a)
    d = np.eye(n - 1, n) - np.eye(n - 1, n, 1)
    return np.linalg.solve(0.25 * np.eye(n) + d.T @ d, 0.25 * a)


class Solve(unittest.TestCase):
    def setUp(self):
        self.a = np.random.default_rng(3).uniform(size=(4, 13))
        self.arrays = {"X": np.zeros_like(self.a), "A": self.a}

    def test_unknowns_and_report(self):
        options = dict(precision="f64", linear_tolerance=1e-12, iterations=5, threads=2)
        unknowns, report = sumsq.solve(ENERGY, self.arrays, **options)
        self.assertEqual(unknowns["X"].shape, self.a.shape)
        for row, a in zip(unknowns["X"], self.a, strict=True):
            self.assertLess(np.abs(row - minimum(a)).max(), 1e-6)
        self.assertLess(report["energy_final"], report["energy_initial"])
        self.assertEqual((report["precision"], report["threads"], report["unknowns"]), ("f64", 2, self.a.size))
        self.assertTrue((self.arrays["X"] == 0).all(), "what was given stays")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "energy.t"
            path.write_text(ENERGY)
            for place in [path, str(path)]:
                again, _ = sumsq.solve(place, self.arrays, **options)
                self.assertTrue(np.array_equal(again["X"], unknowns["X"]))

    def test_arrays_of_any_strides_and_types(self):
        expected, _ = sumsq.solve(ENERGY, self.arrays)
        turned = {name: np.asfortranarray(array) for name, array in self.arrays.items()}
        came, _ = sumsq.solve(ENERGY, turned)
        self.assertTrue(np.array_equal(came["X"], expected["X"]))
        came, _ = sumsq.solve(ENERGY, self.arrays | {"X": np.zeros(self.a.shape, np.float32)}, precision="f32")
        self.assertEqual(came["X"].dtype, np.float32)

    def test_what_is_refused(self):
        def refused(kind, words, *arguments, **options):
            with self.assertRaises(kind) as raised:
                sumsq.solve(*arguments, **options)
            self.assertIn(words, str(raised.exception))

        refused(TypeError, "speed: it is no option of solve; these are: backend, device, ", ENERGY, self.arrays, speed=3)
        refused(ValueError, "method: expected lm or gn, came newton", ENERGY, self.arrays, method="newton")
        refused(ValueError, "iterations: expected a whole number, came -1", ENERGY, self.arrays, iterations=-1)
        refused(ValueError, "option radius: expected ", ENERGY, self.arrays, radius=0)
        refused(ValueError, "A", ENERGY, {"X": self.a})
        refused(TypeError, "A: expected floats of 32 or 64 bits, integers or bool, came complex128", ENERGY, self.arrays | {"A": self.a + 1j})
        refused(ValueError, "Unknwn", "Unknwn('X')\n", self.arrays)
        refused(FileNotFoundError, "nowhere.t", "nowhere.t", self.arrays)


if __name__ == "__main__":
    unittest.main()
