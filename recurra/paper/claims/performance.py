"""Claims about how well each learner learns the two tasks; `losses` says how losses are compared."""

from recurra.paper.claims import losses
from recurra.paper.claims.base import Claim
from recurra.paper.claims.losses import AHEAD, NO_LESS, NOISY, POSITIVE, TIE, TIED

ADD_1, ADD_HALF = "Add task, Figure 4a", "Add task, Figure 4b"
ADD_BOTH, MIMIC_BOTH = "Add task, Figure 4", "Mimic task, Figure 5"
BEATS = (
    "Fixed W's final loss less the learner's, paired by seed. Holds if the interval lies above zero for every learner; "
    "fails if for any it lies below."
)

ADD = [
    *(
        Claim(
            f"add-tie-{alpha}",
            f"At alpha = {alpha} F-BPTT and KF-RTRL reach the loss of RTRL.",
            where,
            f"{TIED} E-BPTT is reported and decides nothing.",
            losses.tie(f"add/{alpha}"),
        )
        for alpha, where in (("1", ADD_1), ("0.5", ADD_HALF))
    ),
    Claim(
        "add-lead-1",
        "At alpha = 1 RTRL, F-BPTT and KF-RTRL learn better than all others.",
        ADD_1,
        f"{AHEAD} Each of the six others against the mean of the three. E-BPTT and r-OK are reported.",
        losses.lead("add/1"),
    ),
    Claim(
        "add-lead-0.5",
        "At alpha = 0.5 RTRL, F-BPTT and KF-RTRL learn better than the others, and no worse than UORO and R-KF-RTRL.",
        ADD_HALF,
        f"{AHEAD} Each of the six others against the mean of the three; UORO and R-KF-RTRL, which the paper puts near "
        "them here, may be up to a tenth ahead.",
        losses.lead("add/0.5", near=NOISY),
    ),
    Claim(
        "add-noisy-alike",
        "UORO and R-KF-RTRL learn alike.",
        ADD_BOTH,
        f"{TIED} At both alphas.",
        losses.both_alphas("add", ("r-kf-rtrl", "uoro", TIE)),
    ),
    Claim(
        "add-noisy-behind",
        "At alpha = 1 UORO and R-KF-RTRL learn worse than KF-RTRL.",
        ADD_1,
        AHEAD,
        lambda data: [losses.compare(data, "add/1", x, "kf-rtrl", POSITIVE) for x in NOISY],
    ),
    Claim(
        "add-noisy-near",
        "At alpha = 0.5 UORO and R-KF-RTRL learn about as well as KF-RTRL.",
        ADD_HALF,
        TIED,
        lambda data: [losses.compare(data, "add/0.5", x, "kf-rtrl", TIE) for x in NOISY],
    ),
    *(
        Claim(
            f"add-{kernl}-rflo",
            f"KeRNL, {how}, learns no better than RFLO.",
            ADD_BOTH,
            f"{losses.GAPS} Holds if KeRNL is at most a tenth ahead at both alphas; fails if at either it is further "
            "ahead.",
            losses.both_alphas("add", (kernl, "rflo", NO_LESS)),
        )
        for kernl, how in (("kernl", "as derived"), ("kernl-released", "as in the authors' program"))
    ),
    *(
        Claim(
            f"add-dni-between-{alpha}",
            f"At alpha = {alpha} DNI learns better than RFLO and KeRNL and worse than the rest.",
            where,
            f"{AHEAD} DNI ahead of RFLO and KeRNL, and behind RTRL, F-BPTT, KF-RTRL, UORO and R-KF-RTRL.",
            losses.between(f"add/{alpha}"),
        )
        for alpha, where in (("1", ADD_1), ("0.5", ADD_HALF))
    ),
    Claim(
        "add-dni-b",
        "DNI(b) learns worse than DNI.",
        ADD_BOTH,
        f"{AHEAD} At both alphas.",
        losses.both_alphas("add", ("dni-b", "dni", POSITIVE)),
    ),
    *(
        Claim(
            f"add-beats-fixed-{alpha}",
            f"At alpha = {alpha} every learner does better than training the readout alone.",
            where,
            BEATS,
            losses.beats_fixed(f"add/{alpha}"),
        )
        for alpha, where in (("1", ADD_1), ("0.5", ADD_HALF))
    ),
]

MIMIC = [
    *(
        Claim(
            f"mimic-lead-{alpha}",
            f"At alpha = {alpha} RTRL, F-BPTT and KF-RTRL learn best.",
            f"Mimic task, Figure 5{panel}",
            f"{AHEAD} Each of the six others against the mean of the three. E-BPTT and r-OK are reported.",
            losses.lead(f"mimic/{alpha}"),
        )
        for alpha, panel in (("1", "a"), ("0.5", "b"))
    ),
    Claim(
        "mimic-noisy-alike",
        "UORO and R-KF-RTRL learn alike.",
        MIMIC_BOTH,
        f"{TIED} At both alphas.",
        losses.both_alphas("mimic", ("r-kf-rtrl", "uoro", TIE)),
    ),
    Claim(
        "mimic-noisy-worse",
        "UORO and R-KF-RTRL do relatively worse on Mimic than on Add.",
        MIMIC_BOTH,
        "How far a learner is behind RTRL, as a share of how far fixed W is: Mimic's share less Add's, at both alphas. "
        "Holds if the interval lies above zero; fails if it lies more than a tenth below.",
        losses.relative_to_add(NOISY, 1),
    ),
    Claim(
        "mimic-local-better",
        "DNI, DNI(b), KeRNL and RFLO do relatively better on Mimic than on Add.",
        MIMIC_BOTH,
        "How far a learner is behind RTRL, as a share of how far fixed W is: Add's share less Mimic's, at both alphas. "
        "Holds if the interval lies above zero; fails if it lies more than a tenth below.",
        losses.relative_to_add(("dni", "dni-b", "kernl", "rflo"), -1),
    ),
    *(
        Claim(
            f"mimic-beats-fixed-{alpha}",
            f"At alpha = {alpha} every learner does better than training the readout alone.",
            f"Mimic task, Figure 5{panel}",
            BEATS,
            losses.beats_fixed(f"mimic/{alpha}"),
        )
        for alpha, panel in (("1", "a"), ("0.5", "b"))
    ),
]
