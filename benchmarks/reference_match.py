"""Match two clouds with the code that the paper's authors released, for `speed.py --against`.

``python benchmarks/reference_match.py CHECKOUT A.ply B.ply OUT`` calls the functions of a checkout
(operators, network, nearest neighbours, as its ``test.py`` and data loader do) with its
``checkpoints/surreal.pth``, without attention. It needs torch, scikit-learn, potpourri3d and
robust-laplacian. What it imports for other ends (open3d, pandas) is left out where it is not
installed, which is to its favour.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import plyfile
import torch

N_EIG = 80  # with the constant, which is dropped
AREA = 1.9  # of a person in square metres; the network expects 1


def main(checkout, source, target, out):
    missing = [name for name in ("open3d", "pandas") if find_spec(name) is None]
    sys.modules.update({name: ModuleType(name) for name in missing})
    sys.path.insert(0, checkout)
    from model.model import CoeNet
    from utils import get_operators, nn_query

    for name in missing:
        del sys.modules[name]

    def inputs(path):
        vertices = plyfile.PlyData.read(path)["vertex"]
        points = np.stack([vertices[axis] for axis in "xyz"], axis=1).astype(np.float32)
        points = torch.from_numpy((points - points.mean(axis=0)) / np.float32(np.sqrt(AREA)))
        _, mass, laplacian, evals, evecs, grad_x, grad_y = get_operators(points, None, k=N_EIG)
        matrices = [one.to_dense() for one in (laplacian, grad_x, grad_y)]
        return points, evecs[:, 1:], evals[1:], matrices[0], mass, *matrices[1:]

    network = CoeNet(n_eig=N_EIG - 1)
    weights = Path(checkout) / "checkpoints" / "surreal.pth"
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.eval()
    with torch.no_grad():
        pair = zip(inputs(source), inputs(target), strict=True)
        first, second = network([torch.stack(both)[None] for both in pair])[0]
        np.savetxt(out, nn_query(second, first).numpy(), fmt="%d")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
