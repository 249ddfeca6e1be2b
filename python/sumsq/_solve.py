"""The solver."""

import json
import os

import numpy as np

from sumsq import _native


def solve(energy, arrays, **options):
    """Minimises an energy.

    energy: the path of a file, as `pathlib.Path` or a str without a line break, or the text of one. arrays: unknowns, arrays, params, dims and graphs by
    their names, as `sumsq solve` reads them from an archive; integers, bool, float32 and float64. Options are those of `sumsq solve` by their names with
    underscores, as in `method="gn", iterations=10, precision="f64"`.

    Returns the unknowns by name, each with its shape (float32 for `precision="f32"`, else float64), and the report: a dict, as `--report` writes it. The
    arrays that were given stay as they are. A solve that fails has its last good unknowns, and says why as `termination`.
    """
    if isinstance(energy, os.PathLike) or "\n" not in energy:
        name = os.fspath(energy)
        with open(name, encoding="utf-8") as file:
            text = file.read()
    else:
        name, text = "energy", energy
    given = []
    for key, array in arrays.items():
        array = np.asarray(array)
        shape, dtype = list(array.shape), array.dtype.name
        if array.dtype.kind in "iu" and dtype != "uint8":
            if array.size and dtype == "uint64" and array.max() > np.iinfo(np.int64).max:
                raise ValueError(f"{key}: {array.max()} is beyond int64")
            array = array.astype(np.int64)
        if array.dtype.kind == "b":
            array = array.astype(np.uint8)
        given.append((str(key), shape, dtype, np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))))
    texts = [(key, str(value)) for key, value in options.items() if value is not None]
    unknowns, report = _native.solve(name, text, given, texts)
    return unknowns, json.loads(report)
