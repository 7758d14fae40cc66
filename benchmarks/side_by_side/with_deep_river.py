"""The job with deep-river: a PyTorch network sees the ten latest rows at every step."""

import numpy as np
import torch
from deep_river.classification import RollingClassifier
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.RNN(2, 32), nn.Linear(32, 2)

    def forward(self, x):
        return self.out(self.rnn(x)[0][-1])


def train(x, y, rate, seed):
    torch.manual_seed(seed)
    descent = {"loss_fn": "cross_entropy", "optimizer_fn": "sgd", "lr": rate}
    model, losses = RollingClassifier(Net(), **descent, window_size=10), []
    for (coin, other), label in zip(x.tolist(), y.tolist(), strict=True):
        row = {"coin": coin, "other": other}
        chance = model.predict_proba_one(row).get(label, 0.5)
        losses.append(-np.log(max(chance, 1e-7)))
        model.learn_one(row, label)
    return np.mean(losses[-len(x) // 10 :])


if __name__ == "__main__":
    loss = train(**np.load("stream-0.npz"), rate=0.003, seed=0)
    print(f"mean loss over the last tenth: {loss:.3f}")
