"""Train one network with three learners and print their losses."""

import recurra as rc

task = rc.Add(t1=2, t2=4)
network = rc.Network(rc.RNN(n_in=task.n_in, n=32), n_out=task.n_out)

for learner in (rc.Fixed(), rc.RFLO(), rc.RTRL()):
    result = rc.train(network, learner, task, steps=20_000, seeds=4, optimizer=1e-3)
    final = result.final_loss()
    print(f"{learner.name:8} {final.mean():.3f} ± {rc.standard_error(final):.3f}")
