"""What was expected of the decompositions that the paper calls unexplored, before it was measured.

It follows from the algebra, and from small calculations in NumPy that are not used here. Column-UORO balances each
source by itself, where UORO balances all at once: it should vary less, but not much less. In Receiver-UORO, J mixes an
index that both factors have. Its variance should grow as ρ(|J|)^2t, and stay bounded only if ρ(|J|) < 1. Diagonal-UORO
keeps exactly what SnAp-1 keeps and samples the rest: it should vary less than UORO, and learn better. PREUORO puts the
noise at another place, which should gain nothing where φ' is close to 1.

Some final losses were known by then, and claims about losses say so: of a first version of Diagonal-UORO and of the
others after a million steps, and of all of them after 3,000 steps at four seeds.
"""

from recurra_paper.beyond.unexplored.parts import (
    BOUNDED,
    EXCESS,
    LEAST_PART,
    ahead,
    aligned,
    bounded,
    column,
    exactly,
    explodes,
    preuoro,
    varies_less,
)
from recurra_paper.beyond.unexplored.runs import COLUMN, DIAGONAL, NAME, RECEIVER
from recurra_paper.claims.base import Claim
from recurra_paper.claims.estimators import ROUNDING
from recurra_paper.claims.rule import COSINES, GAPS, RATIOS, Alike, More

WHERE = "Table 1 (unexplored)"
REPLICAS = (
    "Replicas along one trajectory, with the weights held; networks are the sample, paired. Mean variance over the "
    "later half of the steps, on Add and Mimic."
)
LOSSES = "Add and Mimic, alpha = 1. Differences of final losses, paired by seed, in units of fixed W's less RTRL's."
PEEK = "Known before: losses after 3,000 steps at four seeds."
ABOVE = "Holds if every interval lies above zero; fails if any lies below, or holds zero and lies within"

CLAIMS = [
    Claim(
        "unexplored-unbiased",
        "Column-UORO (A_kj B_ij), Receiver-UORO (A_ki B_kj), Diagonal-UORO and PREUORO estimate RTRL's gradient "
        "without bias.",
        WHERE,
        "A network of two units from M = 0, every pattern of random signs over several steps, in double precision: "
        f"their mean is the expectation. Holds if it differs from RTRL's tensor by less than {ROUNDING:g} of it; does "
        "not hold if it differs by more.",
        exactly,
        NAME,
        counted=True,
    ),
    Claim(
        "unexplored-column-variance",
        "A_kj B_ij: Column-UORO varies less than UORO, but by less than a quarter.",
        WHERE,
        f"{REPLICAS} The logarithm of UORO's variance over Column-UORO's. Holds if both intervals lie between zero and "
        f"-log {LEAST_PART:g}; fails if either lies outside. The same for R-KF-RTRL is reported.",
        column,
        NAME,
    ),
    Claim(
        "unexplored-column-loss",
        "A_kj B_ij: Column-UORO learns as well as UORO, no better.",
        WHERE,
        f"{LOSSES} UORO's loss less Column-UORO's. Holds if both intervals lie within {GAPS:g} of zero; fails if "
        f"either lies outside. {PEEK}",
        lambda data: ahead(data, COLUMN, "uoro", Alike(GAPS)),
        NAME,
    ),
    Claim(
        "unexplored-receiver-explodes",
        "A_ki B_kj: Receiver-UORO's variance grows faster than that of any other learner. After ten steps it is a "
        "thousand times UORO's.",
        WHERE,
        "Replicas on Add from M = 0, 32 units with orthogonal weights, which are held; networks are the sample, "
        f"paired. After 10 steps log10 of the ratio of variances must lie above {EXCESS:g}. From step 5 to 20, the "
        "orders of magnitude that its variance grows, less those of each other stochastic learner, must lie above "
        "zero; a tenth more or less does not matter.",
        explodes,
        NAME,
    ),
    Claim(
        "unexplored-receiver-bounded",
        "A_ki B_kj: Receiver-UORO's variance is bounded where the spectral radius of |J| is below 1.",
        WHERE,
        "As above. Orthogonal weights are scaled so that |W| has spectral norm 0.8, hence |J| at most that. Holds if "
        f"from step 10 to 40 the variance grows by less than {BOUNDED:g} order of magnitude there, and by more with "
        "orthogonal weights as they are; fails if either lies on the other side.",
        bounded,
        NAME,
    ),
    Claim(
        "unexplored-receiver-loss",
        "A_ki B_kj: Receiver-UORO ends behind fixed W.",
        WHERE,
        f"{LOSSES} Receiver-UORO's loss less fixed W's; a seed that diverged counts as untrained. {ABOVE} {GAPS:g} of "
        f"it. {PEEK}",
        lambda data: ahead(data, RECEIVER, "fixed", More(GAPS), "behind"),
        NAME,
    ),
    Claim(
        "unexplored-diagonal-variance",
        "Diagonal-UORO varies less than UORO.",
        WHERE,
        f"{REPLICAS} The logarithm of UORO's variance over Diagonal-UORO's; a ratio of 1.1 matters. {ABOVE} log 1.1 of "
        "it.",
        lambda data: varies_less(data, DIAGONAL, "uoro", More(RATIOS)),
        NAME,
    ),
    Claim(
        "unexplored-diagonal-aligned",
        "At single steps Diagonal-UORO's gradients align better with RTRL's than UORO's do.",
        WHERE,
        "The mean cosine with RTRL's gradient along a run that RTRL trains, Diagonal-UORO's less UORO's, paired by "
        f"seed, on Add and Mimic. {ABOVE} {COSINES:g} of it. Sums over the longest windows, and the same differences "
        "to SnAp-1, are reported.",
        aligned,
        NAME,
    ),
    Claim(
        "unexplored-diagonal-loss",
        "Diagonal-UORO ends ahead of UORO on both tasks.",
        WHERE,
        f"{LOSSES} UORO's loss less Diagonal-UORO's. {ABOVE} {GAPS:g} of it. {PEEK} Also those of a first version of "
        "Diagonal-UORO after a million steps, which were below UORO's.",
        lambda data: ahead(data, DIAGONAL, "uoro", More(GAPS)),
        NAME,
    ),
    Claim(
        "unexplored-preuoro",
        "On tanh networks PREUORO gains nothing: it varies no less than UORO, and ends no further ahead.",
        WHERE,
        f"{REPLICAS} The logarithm of PREUORO's variance over UORO's, of which log 1.1 matters. And {LOSSES} PREUORO's "
        f"loss less UORO's, of which {GAPS:g} matters. Holds if every interval lies above zero, or holds zero and does "
        f"not reach below by what matters; fails if any lies below zero. {PEEK}",
        preuoro,
        NAME,
    ),
]
