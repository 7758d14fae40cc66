"""The paper's networks, tasks and hyperparameters: Table 2, Table 3 and the notes of its Appendix B."""

from recurra import Add, Learner, Mimic, Network, SoftmaxCrossEntropy, SquaredError, Task, cells, learners
from recurra.cells import MatrixInit

N = 32
#: the learning rate of all of the paper's runs, the fastest at which all of its algorithms settle
LEARNING_RATE = 1e-4
ALPHAS = {"1": 1.0, "0.5": 0.5}
TASKS = ("add", "mimic")
TASK_NAMES = {"add": "Add", "mimic": "Mimic"}

#: The paper's learners, in its order. A learner that is new to the library does not enter the paper's figures.
LEARNERS = (
    "rtrl", "uoro", "kf-rtrl", "r-kf-rtrl", "r-ok", "kernl", "rflo", "e-bptt", "f-bptt", "dni", "dni-b", "fixed",
)  # fmt: skip
#: KeRNL as its authors' program has it: the noise reaches the copy one step late
RELEASED = "kernl-released"
#: every learner of the loss curves
CURVES = (*LEARNERS, RELEASED)


def task_of(name: str, alpha: str) -> Task:
    """The task, stretched in time where the network is slow; Add's lags are then shorter, to keep it as hard."""
    slow = alpha != "1"
    stretch = 2 if slow else 1
    if name == "add":
        return Add(3, 5, stretch=stretch) if slow else Add(6, 10)
    return Mimic(cells.RNN(n_in=N, n=N, alpha=ALPHAS[alpha]), outputs=N, stretch=stretch)


def network_of(task: Task, alpha: str, w_rec: MatrixInit = cells.orthogonal) -> Network:
    """32 tanh units, trained by cross-entropy on Add and by squared error on Mimic."""
    loss = SoftmaxCrossEntropy() if isinstance(task, Add) else SquaredError()
    return Network(cells.RNN(n_in=task.n_in, n=N, alpha=ALPHAS[alpha], w_rec=w_rec), task.n_out, loss)


def learner_of(name: str, task: str, alpha: str) -> Learner:
    """The learner with the paper's hyperparameters; DNI learns faster on Add at α = 1."""
    if name == RELEASED:
        return learners.KeRNL(late_perturbation=True)
    if name in ("dni", "dni-b") and task == "add" and alpha == "1":
        return learners.DNI(0.05) if name == "dni" else learners.DNIb(0.05, 0.01)
    return learners.LEARNERS[name]()


def kind_of(name: str) -> type[Learner]:
    """The class of a learner, by its name in this package."""
    return learners.LEARNERS["kernl" if name == RELEASED else name]


def shown(name: str) -> str:
    """The name of a learner in tables and legends."""
    return "KeRNL (released)" if name == RELEASED else kind_of(name).about.name
