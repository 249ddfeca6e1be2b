"""The layers of `sumsq.layers` for PyTorch: functions that autograd derives, twice.

Tensors lie in the memory of the host and are not copied, whatever their strides.
"""

try:
    import torch
except ImportError as error:
    raise ImportError("sumsq.torch needs PyTorch: `pip install torch`") from error

from sumsq import layers

__all__ = ["bicubic_warp", "bilateral_slice", "bilateral_slice_3d", "flow_warp", "spatial_transformer"]


def _plain(tensors):
    return [None if t is None else t.detach() for t in tensors]


def _function(layer):
    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, parameters, w, *x):
            ctx.parameters = parameters
            ctx.save_for_backward(w, *x)
            ctx.set_materialize_grads(False)
            out = [torch.empty(t.shape, dtype=t.dtype) for t in x]
            return layer.backward(*_plain([w, *x]), out=out, **parameters)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *v):
            w, *x = ctx.saved_tensors
            out = [torch.empty(t.shape, dtype=t.dtype) for t in (w, *x)]
            return None, *layer.double_backward(_plain(v), *_plain([w, *x]), out=out, **ctx.parameters)

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, parameters, *x):
            ctx.parameters = parameters
            ctx.save_for_backward(*x)
            return torch.from_dlpack(layer(*_plain(x), **parameters))

        @staticmethod
        def backward(ctx, w):
            return None, *Backward.apply(ctx.parameters, w, *ctx.saved_tensors)

    def apply(*x, **parameters):
        return Forward.apply(parameters, *x)

    apply.__name__ = apply.__qualname__ = layer.__name__
    apply.__doc__ = layer.__doc__
    return apply


for _name in __all__:
    globals()[_name] = _function(getattr(layers, _name))
