"""Agents that learn while they live, from one stream of experience, at every step, with any past-facing learner.

    agents          AC(λ), Q(λ), SARSA(λ) and TD(λ), as three pure functions each
    approximator    the network that they all have, with its eligibility traces
    actions         discrete and continuous ones, and the policies over them

What an agent needs of a recurrent network is the derivative of its outputs in the weights, through the whole past. Here
the past is followed forwards, by the estimate M of a learner: see `recurra.step.online_grad`. Everything else about an
agent is a line or two of the textbook.
"""

from recurra.rl.actions import Actions as Actions
from recurra.rl.actions import Continuous as Continuous
from recurra.rl.actions import Discrete as Discrete
from recurra.rl.agents import AC as AC
from recurra.rl.agents import SARSA as SARSA
from recurra.rl.agents import TD as TD
from recurra.rl.agents import Agent as Agent
from recurra.rl.agents import Q as Q
from recurra.rl.approximator import Approximator as Approximator
