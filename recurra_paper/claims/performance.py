"""Claims about how well each learner learns the two tasks; `losses` says how losses are compared."""

from recurra_paper.claims import losses
from recurra_paper.claims.base import Claim
from recurra_paper.claims.losses import AHEAD, BEHIND, NO_BETTER, NOISY, TIE, TIED, UNITS
from recurra_paper.claims.rule import GAPS

COIN, MIMIC_LOSS = "training_loss_coin", "training_loss_mimic"
ADD_1, ADD_HALF = "Add task, Figure 4a", "Add task, Figure 4b"
ADD_BOTH, MIMIC_BOTH = "Add task, Figure 4", "Mimic task, Figure 5"
CONDITIONS = (("1", "a"), ("0.5", "b"))
SHARES = (
    "How far a learner is behind RTRL, as a share of how far fixed W is. {}'s share less {}'s, at both alphas. "
    f"{GAPS} matters. Holds if every interval lies above zero; does not hold if any lies below, or shows no difference."
)
NO_BETTER_TEXT = (
    f"{UNITS} Holds if at both alphas the interval lies above -{GAPS} and not below zero; does not hold if at either "
    "it lies below zero."
)

CLUSTER = (
    "The distance in loss of every other learner from the nearer of the two, less their distance from each other, at "
    f"both alphas, paired by seed, in gaps: fixed W's loss less RTRL's. {GAPS} gaps matter. Others are RTRL, F-BPTT, "
    "KF-RTRL, UORO, R-KF-RTRL, DNI and DNI(b). Holds if every interval lies above zero; does not hold if any lies "
    "below, or shows no difference."
)


def local_cluster(task: str) -> losses.Parts:
    """RFLO and KeRNL nearer to each other than any other learner is to either."""
    others = (*losses.LEADERS, *NOISY, "dni", "dni-b")
    return lambda data: [
        part for alpha in ("1", "0.5") for part in losses.one_cluster(f"{task}/{alpha}", "kernl", "rflo", others)(data)
    ]


ADD = [
    *(
        Claim(
            f"add-tie-{alpha}",
            f"At alpha = {alpha} F-BPTT and KF-RTRL reach the loss of RTRL.",
            where,
            f"{TIED} E-BPTT is reported and decides nothing.",
            losses.tie(f"add/{alpha}"),
            COIN,
        )
        for alpha, where in (("1", ADD_1), ("0.5", ADD_HALF))
    ),
    Claim(
        "add-lead-1",
        "At alpha = 1 RTRL, F-BPTT and KF-RTRL learn better than all others.",
        ADD_1,
        f"{AHEAD} Each of the six others against each of the three. E-BPTT and r-OK are reported.",
        losses.lead("add/1"),
        COIN,
    ),
    Claim(
        "add-lead-0.5",
        "At alpha = 0.5 RTRL, F-BPTT and KF-RTRL learn better than the others, and no worse than UORO and R-KF-RTRL.",
        ADD_HALF,
        f"{AHEAD} Each of the six others against each of the three. UORO and R-KF-RTRL, which the paper puts near them "
        f"here, need only be no better: their intervals must lie above -{GAPS} and not below zero. E-BPTT and r-OK are "
        "reported.",
        losses.lead("add/0.5", near=NOISY),
        COIN,
    ),
    Claim(
        "add-noisy-alike",
        "UORO and R-KF-RTRL learn alike.",
        ADD_BOTH,
        f"{TIED} At both alphas.",
        losses.both_alphas("add", ("r-kf-rtrl", "uoro", TIE)),
        COIN,
    ),
    Claim(
        "add-noisy-behind",
        "At alpha = 1 UORO and R-KF-RTRL learn worse than KF-RTRL.",
        ADD_1,
        AHEAD,
        lambda data: [losses.compare(data, "add/1", x, "kf-rtrl", BEHIND) for x in NOISY],
        COIN,
    ),
    Claim(
        "add-noisy-near",
        "At alpha = 0.5 UORO and R-KF-RTRL learn about as well as KF-RTRL.",
        ADD_HALF,
        TIED,
        lambda data: [losses.compare(data, "add/0.5", x, "kf-rtrl", TIE) for x in NOISY],
        COIN,
    ),
    *(
        Claim(
            f"add-{kernl}-rflo",
            f"KeRNL, {how}, learns no better than RFLO.",
            ADD_BOTH,
            NO_BETTER_TEXT,
            losses.both_alphas("add", (kernl, "rflo", NO_BETTER)),
            COIN,
        )
        for kernl, how in (("kernl", "as derived"), ("kernl-released", "as in the authors' program"))
    ),
    Claim(
        "add-local-cluster",
        "“The RFLO-KeRNL cluster”: they end nearer to each other than any other learner ends to either.",
        ADD_BOTH,
        CLUSTER,
        local_cluster("add"),
        COIN,
    ),
    *(
        Claim(
            f"add-dni-between-{alpha}",
            f"At alpha = {alpha} DNI learns better than RFLO and KeRNL and worse than the rest.",
            where,
            f"{AHEAD} DNI ahead of RFLO and KeRNL, and behind RTRL, F-BPTT, KF-RTRL, UORO and R-KF-RTRL.",
            losses.between(f"add/{alpha}"),
            COIN,
        )
        for alpha, where in (("1", ADD_1), ("0.5", ADD_HALF))
    ),
    Claim(
        "add-dni-b",
        "DNI(b) learns worse than DNI.",
        ADD_BOTH,
        f"{AHEAD} At both alphas.",
        losses.both_alphas("add", ("dni-b", "dni", BEHIND)),
        COIN,
    ),
    Claim(
        "add-dni-b-slightly",
        "DNI(b) learns only slightly worse than DNI.",
        ADD_BOTH,
        f"{TIED} At both alphas. That it is worse at all is another claim.",
        losses.both_alphas("add", ("dni-b", "dni", TIE)),
        COIN,
    ),
    *(
        Claim(
            f"add-beats-fixed-{alpha}",
            f"At alpha = {alpha} every learner does better than training the readout alone.",
            where,
            f"{AHEAD} Fixed W behind each of the eleven learners; KeRNL as released is reported.",
            losses.beats_fixed(f"add/{alpha}"),
            COIN,
        )
        for alpha, where in (("1", ADD_1), ("0.5", ADD_HALF))
    ),
    Claim(
        "add-difficulty",
        "With lags of 3 and 5, stretched by 2, Add at alpha = 0.5 is about as difficult as at alpha = 1.",
        "Setup; Figure 4",
        "RTRL's final loss at alpha = 0.5 less that at alpha = 1, paired by seed, since as much can be learnt; "
        f"{losses.LEARNABLE:.3f} nats matter, a tenth of what knowing both coins is worth. Holds if the interval lies "
        "within that of zero; does not hold if it lies beyond. Fixed W is reported.",
        losses.easier,
        COIN,
    ),
]

MIMIC = [
    *(
        Claim(
            f"mimic-tie-{alpha}",
            f"At alpha = {alpha} F-BPTT and KF-RTRL reach the loss of RTRL.",
            f"Mimic task, Figure 5{panel}",
            f"{TIED} E-BPTT is reported and decides nothing.",
            losses.tie(f"mimic/{alpha}"),
            MIMIC_LOSS,
        )
        for alpha, panel in CONDITIONS
    ),
    *(
        Claim(
            f"mimic-lead-{alpha}",
            f"At alpha = {alpha} RTRL, F-BPTT and KF-RTRL learn best.",
            f"Mimic task, Figure 5{panel}",
            f"{AHEAD} Each of the six others against each of the three. E-BPTT and r-OK are reported.",
            losses.lead(f"mimic/{alpha}"),
            MIMIC_LOSS,
        )
        for alpha, panel in CONDITIONS
    ),
    Claim(
        "mimic-noisy-alike",
        "UORO and R-KF-RTRL learn alike.",
        MIMIC_BOTH,
        f"{TIED} At both alphas.",
        losses.both_alphas("mimic", ("r-kf-rtrl", "uoro", TIE)),
        MIMIC_LOSS,
    ),
    Claim(
        "mimic-local-cluster",
        "“Similar clustering of the algorithms” as on Add: RFLO and KeRNL end nearer to each other than any other "
        "learner ends to either.",
        MIMIC_BOTH,
        CLUSTER,
        local_cluster("mimic"),
        MIMIC_LOSS,
    ),
    Claim(
        "mimic-order",
        "“But not in the same order”: UORO and R-KF-RTRL, ahead of DNI on Add, learn worse than DNI on Mimic.",
        f"{MIMIC_BOTH}; Discussion",
        f"{AHEAD} At both alphas. That they are ahead on Add is another claim.",
        losses.both_alphas("mimic", *((x, "dni", BEHIND) for x in NOISY)),
        MIMIC_LOSS,
    ),
    Claim(
        "mimic-noisy-worse",
        "UORO and R-KF-RTRL do relatively worse on Mimic than on Add.",
        MIMIC_BOTH,
        SHARES.format("Mimic", "Add"),
        losses.relative_to_add(NOISY, 1),
        MIMIC_LOSS,
    ),
    Claim(
        "mimic-local-better",
        "DNI, DNI(b), KeRNL and RFLO do relatively better on Mimic than on Add.",
        MIMIC_BOTH,
        SHARES.format("Add", "Mimic"),
        losses.relative_to_add(("dni", "dni-b", "kernl", "rflo"), -1),
        MIMIC_LOSS,
    ),
    *(
        Claim(
            f"mimic-beats-fixed-{alpha}",
            f"At alpha = {alpha} every learner does better than training the readout alone.",
            f"Mimic task, Figure 5{panel}",
            f"{AHEAD} Fixed W behind each of the eleven learners; KeRNL as released is reported.",
            losses.beats_fixed(f"mimic/{alpha}"),
            MIMIC_LOSS,
        )
        for alpha, panel in CONDITIONS
    ),
]
