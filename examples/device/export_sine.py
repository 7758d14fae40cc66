"""A network that learns to forecast a series, as C: for the board and the browser beside this file.

python examples/device/export_sine.py DIR HORIZON        the value so many rows later, 1 where it is left out
"""

import sys

import recurra as rc

folder = sys.argv[1]
horizon = int(sys.argv[2]) if len(sys.argv) > 2 else 1
network = rc.Network(rc.RNN(n_in=8, n=16), n_out=1, loss=rc.SquaredError(), skip=True)
step = rc.LearningStep(network, rc.RFLO(), rc.Adam(1e-3, clip=1.0))
model = rc.Online(rc.OnlineStep(step, horizon, lags=8, lagged=1), key=1)
print(*rc.export(model, folder, "live"), sep="\n")
