"""The job with recurra, row by row, as live data come: predict, then learn."""

import numpy as np

import recurra as rc


def train(x, y, rate, seed):
    network = rc.Network(rc.RNN(n_in=2, n=32), n_out=2)
    step = rc.LearningStep(network, rc.RTRL(), optimizer=rate)
    step = rc.OnlineStep(step, scale_inputs=False, scale_target=False)
    model, losses = rc.Online(step, key=seed), []
    for row, label in zip(x, np.eye(2)[y], strict=True):
        z = model.learn_one(row, label)  # what it predicted before it saw the label
        losses.append(np.logaddexp(*z) - label @ z)
    return np.mean(losses[-len(x) // 10 :])


if __name__ == "__main__":
    loss = train(**np.load("stream-0.npz"), rate=0.003, seed=0)
    print(f"mean loss over the last tenth: {loss:.3f}")
