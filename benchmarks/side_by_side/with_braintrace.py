"""The job with braintrace: SnAp with n = 2 is exact RTRL for a dense network."""

import brainstate
import braintools
import braintrace
import jax.numpy as jnp
import numpy as np
from brainstate.transform import for_loop, grad, jit
from braintools.metric import softmax_cross_entropy_with_integer_labels as cross_entropy


class Net(brainstate.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = braintrace.nn.ValinaRNNCell(2, 32, activation="tanh")
        self.out = brainstate.nn.Linear(32, 2)


def train(x, y, rate, seed):
    brainstate.random.seed(seed)
    net, row = Net(), jnp.zeros((1, 2))  # `out` stays outside: inside it gets no gradient
    learner = braintrace.compile(net.rnn, braintrace.SnAp, row, batch_size=1, n=2)
    weights = net.states(brainstate.ParamState)
    optimizer = braintools.optim.SGD(rate)
    optimizer.register_trainable_weights(weights)

    def loss(row, label):
        return cross_entropy(net.out(learner(row)), label).mean()

    def step(row, label):
        gradients, value = grad(loss, weights, return_value=True)(row, label)
        optimizer.update(gradients)
        return value

    run = jit(lambda x, y: for_loop(step, x, y))
    losses = run(jnp.asarray(x[:, None], "float32"), jnp.asarray(y[:, None]))
    return np.mean(losses[-len(x) // 10 :])


if __name__ == "__main__":
    loss = train(**np.load("stream-0.npz"), rate=0.0003, seed=0)
    print(f"mean loss over the last tenth: {loss:.3f}")
