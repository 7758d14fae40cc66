"""Agents that learn while they live, from one stream of experience, at every step, with any past-facing learner.

    agents          AC(λ), Q(λ), SARSA(λ) and TD(λ), as three pure functions each
    approximator    the network that they all have, with its eligibility traces
    actions         discrete and continuous ones, and the policies over them
    environments    what an environment is; `memory` has some that need memory
    adapters        those of Gymnax and Gymnasium
    normalised      running normalisation of what an agent sees and earns
    feedforward     encoders and heads as streaming agents need them
    window          truncated backpropagation, as a baseline
    life            all seeds of an agent in an environment, in one program

What an agent needs of a recurrent network is the derivative of its outputs in the weights, through the whole past. Here
the past is followed forwards, by the estimate M of a learner: see `recurra.step.online_grad`. Everything else about an
agent is a line or two of the textbook.
"""

from recurra.checks import registered
from recurra.rl import memory as memory
from recurra.rl.actions import Actions as Actions
from recurra.rl.actions import Continuous as Continuous
from recurra.rl.actions import Discrete as Discrete
from recurra.rl.adapters import Gymnasium as Gymnasium
from recurra.rl.adapters import Gymnax as Gymnax
from recurra.rl.agents import AC as AC
from recurra.rl.agents import SARSA as SARSA
from recurra.rl.agents import TD as TD
from recurra.rl.agents import Agent as Agent
from recurra.rl.agents import Q as Q
from recurra.rl.approximator import Approximator as Approximator
from recurra.rl.environments import Environment as Environment
from recurra.rl.environments import Masked as Masked
from recurra.rl.environments import TimeLimit as TimeLimit
from recurra.rl.environments import Transition as Transition
from recurra.rl.feedforward import layers as layers
from recurra.rl.feedforward import sparse as sparse
from recurra.rl.life import Life as Life
from recurra.rl.life import Scene as Scene
from recurra.rl.life import live as live
from recurra.rl.life import watch as watch
from recurra.rl.memory import CountRecall as CountRecall
from recurra.rl.memory import MemoryChain as MemoryChain
from recurra.rl.memory import RepeatFirst as RepeatFirst
from recurra.rl.memory import TMaze as TMaze
from recurra.rl.memory import TraceConditioning as TraceConditioning
from recurra.rl.normalised import Normalised as Normalised
from recurra.rl.window import TruncatedBPTT as TruncatedBPTT

#: our own environments, by their names on the command line
ENVIRONMENTS: dict[str, type[Environment]] = registered(vars(memory), Environment)
