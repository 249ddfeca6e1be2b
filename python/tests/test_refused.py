"""What is refused, each with its exact words."""

import unittest

import numpy as np
from cases import OnlyDlpack, arguments

from sumsq import layers


class Refused(unittest.TestCase):
    def refused(self, kind, words, call, *arguments, **more):
        with self.assertRaises(kind) as raised:
            call(*arguments, **more)
        self.assertEqual(str(raised.exception), words)

    def setUp(self):
        self.layer, _, (self.image, self.flow), self.w = arguments("flow_warp")

    def test_what_is_no_tensor(self):
        layer, image, flow = self.layer, self.image, self.flow
        text = "flow: expected a NumPy array or a tensor with __dlpack__, came {}"
        self.refused(TypeError, text.format("list"), layer, image, flow.tolist())
        self.refused(TypeError, text.format("None"), layer, image, None)
        text = "flow_warp: expected {} arrays ({}), came {}"
        self.refused(TypeError, text.format(2, "input, flow", 1), layer, image)
        self.refused(TypeError, text.format(3, "w, input, flow", 2), layer.backward, image, flow)
        self.refused(
            TypeError, text.format(2, "d.input, d.flow", 1), layer.backward, self.w, image, flow, out=[np.empty(3)]
        )
        self.refused(
            TypeError, "v: expected 2 directions (input, flow), came 1", layer.double_backward, [None], self.w, image, flow
        )

    def test_types(self):
        layer, image, flow = self.layer, self.image, self.flow
        text = "input: expected float32 or float64, came {}"
        for dtype in ["int32", "float16", "complex64", "bool", ">f8"]:
            self.refused(TypeError, text.format(dtype), layer, image.astype(dtype), flow)
        self.refused(TypeError, text.format("B"), layer, bytes(8), flow)
        self.refused(
            TypeError, "flow: expected float64, as input has it, came float32", layer, image, flow.astype(np.float32)
        )
        self.refused(
            TypeError, "w: expected float64, as input has it, came float32", layer.backward, np.float32(self.w), image, flow
        )
        self.refused(
            TypeError,
            "output: expected float64, as input has it, came float32",
            layer,
            image,
            flow,
            out=np.empty(image.shape, np.float32),
        )

    def test_devices(self):
        text = "input: expected a tensor of the CPU, came one of {}"
        for device, words in [(2, "CUDA"), (10, "ROCm"), (99, "device 99")]:
            self.refused(ValueError, text.format(words), self.layer, OnlyDlpack(self.image, device=device), self.flow)

    def test_axes(self):
        text = "input: expected 4 axes (N, C, H, W), came {}"
        self.refused(ValueError, text.format("(3, 6, 19)"), self.layer, self.image[0], self.flow)
        self.refused(ValueError, text.format("(19,)"), self.layer, self.image[0, 0, 0], self.flow)
        self.refused(ValueError, text.format("()"), self.layer, np.float64(1.0), self.flow)
        self.refused(
            ValueError,
            "input: expected at least one element and at most 2147483647 along an axis, came (2, 0, 6, 19)",
            self.layer,
            self.image[:, :0],
            self.flow,
        )

    def test_shapes(self):
        layer, image, flow = self.layer, self.image, self.flow
        self.refused(
            ValueError,
            "flow_warp: shapes do not fit each other: input (2, 3, 6, 19), flow (2, 2, 6, 18); "
            "expected input (N, C, H, W), flow (N, 2, H, W)",
            layer,
            image,
            flow[..., 1:],
        )
        self.refused(
            ValueError,
            "w: expected the shape of the output, (2, 3, 6, 19), came (2, 3, 19)",
            layer.backward,
            self.w[:, :, 0],
            image,
            flow,
        )
        self.refused(
            ValueError,
            "v.flow: expected the shape of flow, (2, 2, 6, 19), came (2, 3, 6, 19)",
            layer.double_backward,
            [image, image],
            self.w,
            image,
            flow,
        )
        self.refused(
            ValueError,
            "d.flow: expected the shape of flow, (2, 2, 6, 19), came (1,)",
            layer.backward,
            self.w,
            image,
            flow,
            out=[None, np.empty(1)],
        )

    def test_outputs(self):
        layer, image, flow = self.layer, self.image, self.flow
        out = np.empty_like(image)
        out.flags.writeable = False
        self.refused(ValueError, "output: it is read-only, and results are written to it", layer, image, flow, out=out)
        self.refused(
            ValueError, "output: it is read-only, and results are written to it", layer, image, flow, out=OnlyDlpack(out)
        ) if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else None
        self.refused(ValueError, "output: its memory is also that of input", layer, image, flow, out=image)
        room = np.empty((2, 3, 6, 38))
        room[..., ::2] = image
        self.refused(
            ValueError, "output: its memory is also that of input", layer, room[..., ::2], flow, out=room[..., 1::2]
        )
        same = np.empty_like(flow)
        self.refused(
            ValueError,
            "d.flow: its memory is also that of d.input",
            layer.backward,
            image[:, :2].copy(),
            image[:, :2],
            flow,
            out=[same, same],
        )
        out = np.lib.stride_tricks.as_strided(np.empty(100), image.shape, (0, 0, 0, 8))
        self.refused(ValueError, "output: its elements share memory, and results are written to it", layer, image, flow, out=out)

    def test_addresses(self):
        text = "input: expected strides of whole elements, at aligned addresses"
        record = np.zeros(self.image.shape, np.dtype([("a", "i1"), ("b", "f8")], align=False))
        self.refused(ValueError, text, self.layer, record["b"], self.flow)
        shifted = np.frombuffer(bytes(self.image.nbytes + 1), np.uint8)[1:].view(np.float64).reshape(self.image.shape)
        self.refused(ValueError, text, self.layer, shifted, self.flow)

    def test_parameters(self):
        layer, image, flow = self.layer, self.image, self.flow
        self.refused(TypeError, "flow_warp has no parameter cell; it has none", layer, image, flow, cell=3)
        bilateral, _, x, _ = arguments("bilateral_slice")
        self.refused(TypeError, "bilateral_slice has no parameter channels; it has cell", bilateral, *x, channels=3)
        text = "parameter cell: expected a whole number from 1 to 4096, came {}"
        self.refused(ValueError, text.format("0"), bilateral, *x, cell=0)
        self.refused(ValueError, text.format("2.5"), bilateral, *x, cell=2.5)
        for threads in [0, -1, 1025]:
            self.refused(ValueError, f"threads: expected 1 to 1024, came {threads}", layer, image, flow, threads=threads)

    def test_layers_by_name(self):
        self.refused(
            ValueError,
            "there is no layer blur; there are bilateral_slice, bilateral_slice_3d, spatial_transformer, flow_warp, bicubic_warp",
            layers._native.run,
            "blur",
            "forward",
            [],
            None,
            [],
            None,
        )


if __name__ == "__main__":
    unittest.main()
