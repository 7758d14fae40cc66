"""The job with River: logistic regression on the ten latest coins."""

from collections import deque

import numpy as np
from river import linear_model, optim


def train(x, y, rate, seed):
    model = linear_model.LogisticRegression(optimizer=optim.SGD(rate), l2=0)
    coins, losses = deque([0] * 10, maxlen=10), []
    for (coin, _), label in zip(x.tolist(), y.astype(bool).tolist(), strict=True):
        coins.appendleft(coin)
        row = dict(enumerate(coins))
        chance = model.predict_proba_one(row)[label]
        losses.append(-np.log(max(chance, 1e-7)))
        model.learn_one(row, label)
    return np.mean(losses[-len(x) // 10 :])


if __name__ == "__main__":
    loss = train(**np.load("stream-0.npz"), rate=0.01, seed=0)
    print(f"mean loss over the last tenth: {loss:.3f}")
