"""The job with vanilla-rtrl, a checkout of it in PYTHONPATH: exact RTRL in NumPy."""

import numpy as np
from core import RNN, Simulation
from functions import softmax, softmax_cross_entropy, tanh
from learning_algorithms import RTRL
from optimizers import Stochastic_Gradient_Descent


def train(x, y, rate, seed):
    np.random.seed(seed)
    rnn = RNN(
        W_in=np.random.normal(0, np.sqrt(1 / 2), (32, 2)),
        W_rec=np.linalg.qr(np.random.normal(0, 1, (32, 32)))[0],
        W_out=np.random.normal(0, np.sqrt(1 / 32), (2, 32)),
        b_rec=np.zeros(32),
        b_out=np.zeros(2),
        activation=tanh,
        alpha=1,
        output=softmax,
        loss=softmax_cross_entropy,
    )
    data = {"train": {"X": x, "Y": np.eye(2)[y]}}
    simulation = Simulation(rnn)
    simulation.run(
        data,
        learn_alg=RTRL(rnn),
        optimizer=Stochastic_Gradient_Descent(lr=rate),
        monitors=["rnn.loss_"],
        a_initial=np.zeros(32),
        verbose=False,
    )
    return simulation.mons["rnn.loss_"][-len(x) // 10 :].mean()


if __name__ == "__main__":
    loss = train(**np.load("stream-0.npz"), rate=0.001, seed=0)
    print(f"mean loss over the last tenth: {loss:.3f}")
