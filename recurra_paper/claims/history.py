"""Every change of a criterion since the first, with what was known when it was made."""

from recurra_paper.book import Section

FIRST, SECOND, THIRD = "2026-11-15, 8:24", "2026-11-15, 8:58", "2026-11-15, 12:54"
FOURTH, FIFTH = "2026-11-16, 18:58", "2026-11-16, 19:50"
SIXTH = "2026-11-19, 21:54"
NOTHING = "No data at any scale."
SMALL = "Runs at a small scale of what was changed."
ADD = "Loss curves of Add at the paper's scale, the rest at a small scale."
ALL = "All data of this page at the paper's scale, as first published, and an independent reading of it."
NEW = "All data of this page but those of bias/* and held/*, and all verdicts by the criteria of 18:58."
PUBLISHED = (
    "All data and verdicts of this page as published on 2026-11-16, 19:55, and an independent review of its criteria. "
    "Not the runs that judge them now."
)
HELD = "Also a trial of the new measurement on two networks."

_ROWS = (
    (FIRST, "all", "First version of every criterion. Changes are listed below.", NOTHING),
    (
        SECOND,
        "summed-unbiased",
        "Alignment had to go half of the way to one. Now the squared error has to fall with a power above 0.5.",
        SMALL,
    ),
    (SECOND, "facings", "The pairs that enter a gradient are compared as sets, no longer by their extent.", SMALL),
    (
        THIRD,
        "all about order of losses",
        "A claim that one learner is ahead of another failed only beyond a tenth of the gap. It now fails for any "
        "interval on the other side of zero.",
        ADD,
    ),
    (
        THIRD,
        "norm-*",
        "Steps, with their autocorrelation, were the sample. Seeds are.",
        "As above.",
    ),
    (THIRD, "align-closest", "The strongest rival was chosen by the data. All rivals are compared.", "As above."),
    (THIRD, "mimic-noisy-worse, mimic-local-better, memory-decay", "Unpaired differences became paired.", "As above."),
    (THIRD, "table-*", "Operations are counted with loops as often as they run, and along T and r too.", "As above."),
    (
        FOURTH,
        "all comparisons",
        "One rule for better, alike and worse, and one smallest difference that matters for each kind of quantity. A "
        "claim of a difference now also fails where the interval shows that there is none that matters. "
        "add-kernl-rflo, which a margin had kept open, is decided by it.",
        ALL,
    ),
    (
        FOURTH,
        "add-lead-*, mimic-lead-*",
        "Others were held against the mean of RTRL, F-BPTT and KF-RTRL. They are held against each of them.",
        ALL,
    ),
    (FOURTH, "*-beats-fixed-*", "Measured in gaps like all other losses, no longer in units of the loss.", ALL),
    (
        FOURTH,
        "align-uoro-*, align-r-kf-rtrl-*",
        "A mean had to lie within a factor of 1.5 of the paper's number. The number, of one run, now has to lie in the "
        "prediction interval of one more seed.",
        ALL,
    ),
    (FOURTH, "norm-*", "The correlation within windows of 2,000 steps has to be positive too.", ALL),
    (
        FOURTH,
        "unbiased",
        "A sampled bias had to be below a quarter of the norm. It is now the exact expectation over every pattern of "
        "signs.",
        ALL,
    ),
    (
        FOURTH,
        "biased, summed-biased",
        "DNI was held against RTRL at single steps. It is held against F-BPTT, over time, with weights that RTRL has "
        "trained and a map that was fitted first. A squared bias had to exceed a quarter of the norm, squared; it now "
        "has to exceed zero, and whether it matters is told apart. Sums "
        "had to rise by less than 0.1; now their squared error has to fall with a power below 0.5.",
        f"{ALL} {HELD}",
    ),
    (FOURTH, "lowest-variance", "Steps of one network were the sample. Twenty networks are.", ALL),
    (FOURTH, "summed-unbiased", "Windows with a squared error below 0.001 are not fitted.", ALL),
    (
        FOURTH,
        "memory-decay-*",
        "One claim became several: symmetric, and three ways to draw a diagonal matrix.",
        ALL,
    ),
    (
        FOURTH,
        "memory-rflo",
        "Gains that should be none had to stay below a limit. They must be near zero either way.",
        ALL,
    ),
    (FOURTH, "table-*", "Orders were tested from above only. They are tested from both sides, up to n = 4,096.", ALL),
    (
        FOURTH,
        "clusters, align-predicts-not, align-none, align-stochastic, norm-weak, memory-mechanism, add-dni-b-slightly, "
        "mimic-tie-*, mimic-horizon",
        "New claims.",
        f"{ALL} Somebody else's first look at rank correlations of alignment and loss, and a trial of the horizon on "
        "five targets.",
    ),
    (
        FIFTH,
        "align-predicts-not",
        "A mean of each seed's rank correlation became the rank correlation of means, since noise draws the former "
        "towards zero. What matters is 0.3, as in the study, and no longer 0.5. It speaks of these learners alone.",
        NEW,
    ),
    (
        FIFTH,
        "clusters",
        "A correlation had to exceed what chance reaches in one of twenty permutations, and failed otherwise. It now "
        "has an error and is judged like all others.",
        NEW,
    ),
    (
        FIFTH,
        "memory-mechanism",
        "A correlation over four initializations had to be positive. It was, although the initialization with the most "
        "evidence gains least. Evidence and gain are now compared for every pair.",
        NEW,
    ),
    (FIFTH, "memory-decay-*", "The three ways to draw a diagonal matrix are one claim. U[-1, 1] decides.", NEW),
    (FIFTH, "summed-unbiased", "A mean error had to be below the floor. Now it has to be at every seed.", NEW),
    (FIFTH, "add-kernl-*, add-lead-0.5", "“No better” also holds for an interval that reaches far above zero.", NEW),
    (FIFTH, "align-uoro-*, align-r-kf-rtrl-*", "Not decided where the prediction interval is too wide to tell.", NEW),
    (
        SIXTH,
        "align-predicts-not",
        "Eight learners had to have a rank correlation within 0.3 of zero in each of four conditions, by a bootstrap "
        "over seeds. Learners that are unrelated do so in one case of twelve, so that the claim could hardly hold; and "
        "the 0.69 that it failed by has p = 0.07 over permutations of the learners. Learners are now the sample, the "
        "paper's six decide, and a test that finds nothing leaves it open. The text is the paper's own.",
        PUBLISHED,
    ),
    (
        SIXTH,
        "clusters",
        "Eleven learners decided. The paper's nine do, of which it was known that r = 0.23, p = 0.045; r-OK and E-BPTT "
        "are reported.",
        PUBLISHED,
    ),
    (
        SIXTH,
        "biased, summed-biased",
        "Both held the weights, where the one implies the other. “biased” says so, and summed-biased is judged along "
        "learning, like summed-unbiased. It was known that DNI's mean cosine on Add then rises from 0.63 at single "
        "steps to 0.88 over 256 and 0.92 over 16,384.",
        PUBLISHED,
    ),
    (
        SIXTH,
        "memory-decay-diagonal",
        "U[-1, 1] decided, and the claim failed. It was known that it would hold with U[0, 1]. The paper does not say "
        "which it means: both are judged, and the claim depends on the draw where they disagree.",
        PUBLISHED,
    ),
    (
        SIXTH,
        "align-none",
        "“Hardly align”, within 0.1 of zero, was not the paper's wording, which is “do not align strongly”: within "
        "0.5. All values were known to be below 0.12. “Almost orthogonal with RTRL”, which the paper says too, is a "
        "claim of its own, align-orthogonal, with the old margin.",
        PUBLISHED,
    ),
    (
        SIXTH,
        "norm-weak",
        "The text is the paper's. The criterion says that its limit was chosen when the values were known.",
        PUBLISHED,
    ),
    (
        SIXTH,
        "align-uoro-*, align-r-kf-rtrl-*",
        "A number inside a prediction interval had only not been rejected. The interval now has to lie within a factor "
        "of 1.5 of the number, the factor of the first criteria. All of ours were known to be higher, by 11 to 15 %.",
        PUBLISHED,
    ),
    (
        SIXTH,
        "align-clusters, align-even-kf-rtrl, align-orthogonal, add-local-cluster, add-difficulty, mimic-local-cluster, "
        "mimic-order",
        "New claims: statements of the paper that had been left out. That align-even-kf-rtrl fails on Add, and that "
        "mimic-order holds, could be read off the published data.",
        PUBLISHED,
    ),
)

CHANGES = Section(
    "history",
    "How the criteria changed",
    (
        "A criterion that is chosen after the data have been seen proves less. This list says when each criterion was "
        "changed, and what was known then. All times are UTC. Since 2026-11-19 criteria are committed before the runs "
        "that judge them.",
    ),
    tuple(dict(zip(("date", "claims", "change", "known then"), row, strict=True)) for row in _ROWS),
)
