"""Values, derivatives, strides and threads of the layers."""

import multiprocessing
import subprocess
import sys
import threading
import time
import unittest

import numpy as np
from cases import CASES, GOLDEN, STRIDES, arguments, directions, strided

from sumsq import _native, layers


class Values(unittest.TestCase):
    def near(self, what, came, expected, share):
        most = np.abs(expected).max()
        self.assertLessEqual(np.abs(came - expected).max(), share * most, what)

    def test_golden_vectors(self):
        with np.load(GOLDEN) as golden:
            for name in ["bilateral_slice", "spatial_transformer", "flow_warp"]:
                layer = getattr(layers, name)
                parameters = {"cell": 3} if name == "bilateral_slice" else {}
                x = [golden[f"{name}/{of}"] for of in layer.inputs]
                self.near(name, layer(*x, **parameters), golden[f"{name}/out"], 1e-12)
                slopes = layer.backward(golden[f"{name}/w"], *x, **parameters)
                for of, came in zip(layer.inputs, slopes, strict=True):
                    self.near(f"{name}, d.{of}", came, golden[f"{name}/d.{of}"], 1e-12)
                # In float32 to its precision.
                x = [np.float32(array) for array in x]
                came = layer(*x, **parameters)
                self.assertEqual(came.dtype, np.float32)
                self.near(name, came, golden[f"{name}/out"], 1e-5)

    def test_a_slice_of_equal_planes_is_that_of_one(self):
        layer, parameters, (grid, guide, image), _ = arguments("bilateral_slice")
        expected = layer(grid, guide, image, **parameters)
        grid = np.repeat(grid[:, :, :, None], 2, axis=3)
        guide, image = (np.repeat(array[..., None, :, :], 5, axis=-3) for array in (guide, image))
        came = layers.bilateral_slice_3d(grid, guide, image, **parameters)
        for plane in range(5):
            self.near(f"plane {plane}", came[:, :, plane], expected, 1e-12)

    def test_cubic_interpolation_reproduces_squares(self):
        y, x = np.mgrid[0.0:12.0, 0.0:15.0]
        image = (x * x - 2 * x * y + 3 * y)[None, None]
        flow = np.stack([np.full_like(x, 0.3), np.full_like(x, -0.6)])[None]
        came = layers.bicubic_warp(image, flow)[0, 0, 3:-3, 3:-3]
        x, y = x + 0.3, y - 0.6
        self.near("squares", came, (x * x - 2 * x * y + 3 * y)[3:-3, 3:-3], 1e-13)

    def test_backward_against_differences_of_the_layer(self):
        for name in CASES:
            layer, parameters, x, w = arguments(name)
            slopes, step = layer.backward(w, *x, **parameters), 1e-6
            for k, of in enumerate(layer.inputs):
                u = directions(x)[k]
                there = [[*x[:k], x[k] + sign * step * u, *x[k + 1 :]] for sign in (1, -1)]
                ahead, behind = (np.vdot(w, layer(*at, **parameters)) for at in there)
                came = np.vdot(slopes[k], u)
                self.assertAlmostEqual(came, (ahead - behind) / (2 * step), delta=1e-6 * (1 + abs(came)), msg=(name, of))

    def test_double_backward_against_differences_of_backward(self):
        for name in CASES:
            layer, parameters, x, w = arguments(name)
            v, step = directions(x, 5), 1e-6
            d_w, *d_x = layer.double_backward(v, w, *x, **parameters)

            def phi(w, x):
                return sum(np.vdot(a, b) for a, b in zip(v, layer.backward(w, *x, **parameters), strict=True))

            u = directions([w])[0]
            # Linear in w.
            self.assertAlmostEqual(np.vdot(d_w, u), phi(u, x), delta=1e-11 * (1 + abs(phi(u, x))), msg=name)
            for k, of in enumerate(layer.inputs):
                u = directions(x)[k]
                ahead, behind = (phi(w, [*x[:k], x[k] + sign * step * u, *x[k + 1 :]]) for sign in (1, -1))
                came = np.vdot(d_x[k], u)
                self.assertAlmostEqual(came, (ahead - behind) / (2 * step), delta=1e-5 * (1 + abs(came)), msg=(name, of))

    def test_none_is_a_direction_of_zeros(self):
        layer, parameters, x, w = arguments("flow_warp", np.float32)
        v = directions(x)
        expected = layer.double_backward([np.zeros_like(v[0]), v[1]], w, *x, **parameters)
        for a, b in zip(layer.double_backward([None, v[1]], w, *x, **parameters), expected, strict=True):
            self.assertTrue(np.array_equal(a, b))


class Memory(unittest.TestCase):
    def test_any_strides_have_the_same_bits(self):
        for name in ["bilateral_slice", "spatial_transformer", "flow_warp"]:
            layer, parameters, x, w = arguments(name, np.float32)
            v = directions(x)
            output = layer(*x, **parameters)
            slopes = layer.backward(w, *x, **parameters)
            for how in STRIDES:
                y, z = [strided(array, how) for array in x], strided(w, how)
                self.assertFalse(all(array.flags.c_contiguous for array in y), how)
                self.assertTrue(np.array_equal(layer(*y, **parameters), output), (name, how))
                # Written with these strides, too, and to nothing in between.
                out = [strided(np.zeros_like(array), how) for array in x]
                rooms = [array.base.copy() for array in out]
                for array, result, expected in zip(out, layer.backward(z, *y, out=out, **parameters), slopes, strict=True):
                    self.assertIs(array, result)
                    self.assertTrue(np.array_equal(array, expected), (name, how))
                for array, room in zip(out, rooms, strict=True):
                    self.assertTrue(np.array_equal(np.isnan(array.base), np.isnan(room)), (name, how))
        layer, parameters, x, w = arguments("flow_warp", np.float32)
        v, expected = directions(x), layer.double_backward(directions(x), w, *x)
        v, x = [strided(array, "transposed") for array in v], [strided(array, "reversed") for array in x]
        for came, array in zip(layer.double_backward(v, w, *x), expected, strict=True):
            self.assertTrue(np.array_equal(came, array))

    def test_elements_may_be_read_repeatedly(self):
        layer, _, (image, flow), _ = arguments("flow_warp")
        flow = np.broadcast_to(flow[:, :, :1, :1], flow.shape)
        self.assertTrue(np.array_equal(layer(image, flow), layer(image, flow.copy())))

    def test_results_are_written_where_they_are_asked_for(self):
        layer, parameters, x, w = arguments("spatial_transformer")
        out = np.empty_like(w)
        self.assertIs(layer(*x, out=out), out)
        self.assertTrue(np.array_equal(out, layer(*x)))
        d_theta = np.empty_like(x[1])
        came = layer.backward(w, *x, out=[None, d_theta])
        self.assertIs(came[1], d_theta)
        self.assertTrue(np.array_equal(came[0], layer.backward(w, *x)[0]))

    def test_nothing_is_copied(self):
        """The memory that a process takes at most, with 128 MB turned around, grows by less than a sixteenth of them."""
        code = """
import resource, numpy as np
from sumsq.layers import flow_warp
def small(n): return [np.zeros((1, c, n, n), np.float32)[..., ::-1] for c in (16, 2, 16)]
image, flow, w = small(20)
flow_warp(image, flow); flow_warp.backward(w, image, flow)
image, flow, w = (np.ones((1, c, 1024, 2048), np.float32)[..., ::-1] for c in (16, 2, 16))
out, d_image, d_flow = np.ones_like(w), np.ones_like(image), np.ones_like(flow)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
flow_warp(image, flow, out=out)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, end=" ")
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertLess(int(done.stdout), 128 * 1024 // 16, "kilobytes")


class Calls(unittest.TestCase):
    def test_routines_are_compiled_once(self):
        layer, _, x, w = arguments("flow_warp")
        x, w = [np.float32(array) for array in x], np.float32(w)
        layer(*x), layer.backward(w, *x)
        before = _native.compiled()
        larger = [np.concatenate([array, array], axis=2) for array in x]
        layer(*x), layer(*larger), layer.backward(w, *x), layer(*x, threads=1)
        self.assertEqual(_native.compiled(), before)

    def test_threads_change_no_bit(self):
        for name in ["bilateral_slice", "spatial_transformer"]:
            layer, parameters, x, w = arguments(name, np.float32)
            one = layer.backward(w, *x, threads=1, **parameters)
            for came, expected in zip(layer.backward(w, *x, threads=3, **parameters), one, strict=True):
                self.assertTrue(np.array_equal(came, expected), name)

    def test_other_threads_run_meanwhile(self):
        ticks, done = [0], threading.Event()

        def tick():
            while not done.wait(0.001):
                ticks[0] += 1

        thread = threading.Thread(target=tick)
        thread.start()
        layer, _, x, _ = arguments("bicubic_warp", np.float32)
        big = [np.ones((2, c, 1500, 1500), np.float32) for c in (2, 2)]
        before = ticks[0]
        layer(*big, threads=1)
        after = ticks[0]
        done.set()
        thread.join()
        self.assertGreaterEqual(after - before, 5)

    def test_several_threads_may_call(self):
        layer, parameters, x, w = arguments("bilateral_slice", np.float32, seed=7)
        expected, came = layer(*x, **parameters), [None] * 4

        def call(k):
            came[k] = [layer(*x, **parameters) for _ in range(5)]

        threads = [threading.Thread(target=call, args=[k]) for k in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertTrue(all(np.array_equal(array, expected) for arrays in came for array in arrays))

    def test_a_fork_has_threads_of_its_own(self):
        layer, _, x, _ = arguments("flow_warp")
        layer(*x, threads=2)
        child = multiprocessing.get_context("fork").Process(target=layer, args=x, kwargs={"threads": 2})
        child.start()
        child.join(60)
        self.assertEqual(child.exitcode, 0)


if __name__ == "__main__":
    unittest.main()
