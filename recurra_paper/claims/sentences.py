"""The paper's abstract, experiments, captions and discussion, sentence by sentence: what is claimed, and where not."""

from typing import NamedTuple

from recurra_paper.book import Section


class Sentence(NamedTuple):
    """Words of the paper by which a sentence can be found, the claims that judge it, or why there are none."""

    quote: str
    claims: tuple[str, ...] = ()
    why: str = ""


METHOD, TERMS = "How something was done: no claim.", "Introduces terms or a plan: no claim."
THEIRS = "What others did or found: no claim of this paper's."
SUPPOSED = "Supposed, and not measured in the paper"
BEYOND = "The study beyond the paper tests it"
EXPLAINED = "An explanation of what is claimed elsewhere"
ADVICE = "An outlook or an opinion: nothing to measure."

CLAIMED = {
    "Abstract": (
        Sentence("We present a framework for compactly summarizing many recent results", why=TERMS),
        Sentence("The framework organizes algorithms according to several criteria", why=TERMS),
        Sentence("These axes reveal latent conceptual connections", why=ADVICE),
        Sentence("we provide novel mathematical intuitions for their degree of success", why=ADVICE),
        Sentence("performances cluster according to our criteria", ("clusters",)),
        Sentence("a similar clustering is also observed for gradient alignment", ("align-clusters",)),
        Sentence(
            "alignment with exact methods does not alone explain ultimate performance",
            ("align-predicts-not", "align-dissociates"),
        ),
        Sentence("This suggests the need for better comparison metrics", why=ADVICE),
    ),
    "Introduction and theory, where they make claims": (
        Sentence("equivalent to BPTT in the limit of a small learning rate", ("rtrl-bptt",)),
        Sentence(
            "A list of learning algorithms reviewed here, together with their main properties",
            ("table-*",),
            "The orders of memory and time are claims. The other columns are definitions.",
        ),
        Sentence("roughly clusters according to criteria (a)-(d) across tasks", ("clusters",)),
        Sentence(
            "Curiously, gradient alignment with exact methods (RTRL and BPTT) does not predict performance",
            ("align-predicts-not",),
        ),
        Sentence("remains unbiased at every time step", ("unbiased",)),
        Sentence("with the lowest variance due to its natural decomposition structure", ("lowest-variance",)),
        Sentence("A visualization of various exact gradient methods", ("facings",)),
    ),
    "Setup": (
        Sentence("We run a number of experiments to empirically validate", why=TERMS),
        Sentence("We implemented every algorithm presented here", why=METHOD),
        Sentence(
            "the fastest learning rate for which all algorithms are able to converge",
            why=f"{BEYOND}: rates-stable, rates-fastest.",
        ),
        Sentence("We restrict ourselves to using a batch size of 1", why=METHOD),
        Sentence("Most algorithms demand additional configuration decisions", why=METHOD),
        Sentence("we independently optimize these choices by hand", why=METHOD),
        Sentence("We evaluate each algorithm's ability to learn two different synthetic tasks", why=METHOD),
        Sentence("a stream of i.i.d. Bernoulli inputs", why=METHOD),
        Sentence("has a baseline value of 0.5 that increases (or decreases)", why=METHOD),
        Sentence(
            "The longer the lags of the dependencies, the more difficult the task",
            why="Not tested: no experiment varies the lags of Add. Beyond the paper, demands-truncation has tasks of "
            "many lags.",
        ),
        Sentence("We choose t_1 = 6 and t_2 = 10", why=METHOD),
        Sentence("the outputs of a randomly generated, untrained target RNN", why=METHOD),
        Sentence(
            "chosen so that learning W is necessary for strong performance",
            ("mimic-beats-fixed-1", "mimic-beats-fixed-0.5"),
        ),
        Sentence("Cross-entropy loss for networks trained on Add task", why=METHOD),
        Sentence("Lines are means over 20 random seeds", why=METHOD),
        Sentence("Raw loss curves are first down-sampled", why=METHOD),
        Sentence("we consider a version on two different time scales", why=METHOD),
        Sentence("to keep the difficulty roughly the same", ("add-difficulty",)),
    ),
    "Add": (
        Sentence(
            "as a baseline",
            ("add-beats-fixed-1", "add-beats-fixed-0.5"),
            "That all do better than the baseline is what Figure 4 shows.",
        ),
        Sentence(
            "RTRL and F-BPTT perform best, although KF-RTRL is a sufficiently robust approximation to virtually tie",
            ("add-lead-1", "add-lead-0.5", "add-tie-1", "add-tie-0.5"),
        ),
        Sentence(
            "R-KF-RTRL and UORO perform similarly and worse than KF-RTRL does, as expected, since these approximations "
            "carry significantly more variance",
            ("add-noisy-alike", "add-noisy-behind", "lowest-variance"),
        ),
        Sentence("their performance is similar to that of KF-RTRL", ("add-noisy-near",)),
        Sentence("KeRNL is theoretically a stronger approximation of RTRL than RFLO", why=EXPLAINED + "."),
        Sentence("depends on several configuation/hyperparameter choices", why=EXPLAINED + "."),
        Sentence(
            "we are not able to get KeRNL to perform better than RFLO",
            ("add-kernl-rflo", "add-kernl-released-rflo"),
            f"At the paper's settings. {BEYOND} at others: kernl-derived, kernl-released.",
        ),
        Sentence("simply too noisy for online learning", why=f"Suspected. {BEYOND}: kernl-averaging, kernl-slower."),
        Sentence(
            "DNI sits somewhere between the RFLO-KeRNL cluster and the rest",
            ("add-dni-between-1", "add-dni-between-0.5", "add-local-cluster"),
        ),
        Sentence("DNI(b) performing slightly worse than DNI", ("add-dni-b", "add-dni-b-slightly")),
        Sentence("there is a larger space of configurations", why=f"{BEYOND}: rates-space."),
    ),
    "Mimic": (
        Sentence(
            "similar clustering of the algorithms but not in the same order",
            ("mimic-local-cluster", "mimic-noisy-alike", "mimic-order", "clusters"),
        ),
        Sentence(
            "RTRL, F-BPTT, and KF-RTRL perform the best",
            ("mimic-lead-1", "mimic-lead-0.5", "mimic-tie-1", "mimic-tie-0.5"),
        ),
        Sentence(
            "UORO and R-KF-RTRL perform similarly to each other, but relatively worse than they did on Add",
            ("mimic-noisy-alike", "mimic-noisy-worse"),
        ),
        Sentence("DNI, DNI(b), KeRNL, and RFLO perform relatively better on this task", ("mimic-local-better",)),
        Sentence(
            "The information content that must be memorized for Add is relatively small", why="True by construction."
        ),
        Sentence("it is difficult to quantify the exact time horizon", why="Quantified here: mimic-horizon."),
        Sentence(
            "perhaps UORO and R-KF-RTRL are effective at maintaining information over time",
            why=f"{SUPPOSED}. {BEYOND}: demands-horizon, demands-information.",
        ),
    ),
    "Gradient similarity": (
        Sentence("We conduct an in-depth investigation looking beyond task accuracy", why=TERMS),
        Sentence("Each subplot is a histogram giving the distribution", why=METHOD),
        Sentence("how a given pair of algorithms align on a time-step-by-time-step basis", why=METHOD),
        Sentence("Histograms of normalized gradient alignments", why=METHOD),
        Sentence("Gradients are calculated during a simulation of 100k time steps", why=METHOD),
        Sentence("Learning follows RTRL gradients, with other algorithms' gradients passively computed", why=METHOD),
        Sentence("align better with RTRL than with F-BPTT, and vice versa for FF", ("align-past", "align-future")),
        Sentence("The deterministic PF algorithms (RFLO and KeRNL) align better with RTRL", ("align-deterministic",)),
        Sentence("RFLO and KeRNL align more strongly with each other than any other pair", ("align-closest",)),
        Sentence("UORO and R-KF-RTRL do not align strongly with any other algorithms", ("align-none",)),
        Sentence(
            "UORO's mean alignments with RTRL are 0.043 on Add and 0.084 on Mimic",
            ("align-uoro-add", "align-uoro-mimic"),
        ),
        Sentence(
            "R-KF-RTRL's mean alignments with RTRL are 0.050 on Add and 0.092 on Mimic",
            ("align-r-kf-rtrl-add", "align-r-kf-rtrl-mimic"),
        ),
        Sentence("which are much lower than all other approximate algorithms", ("align-weakest",)),
        Sentence("even those that perform worse on the task in some cases", ("align-dissociates",)),
        Sentence("Observations (i)-(iii) validate our categorizations", ("align-clusters",)),
        Sentence(
            "angular alignment with exact algorithms is not predictive of learning performance", ("align-predicts-not",)
        ),
        Sentence("almost orthogonal with RTRL on average", ("align-orthogonal",)),
        Sentence("We address this question for both UORO and R-KF-RTRL", why=METHOD),
        Sentence("The joint distribution of normalized alignments and gradient norms", why=METHOD),
        Sentence("Color intensity represents (smoothed) observed frequency", why=METHOD),
        Sentence(
            "All 4 cases show a statistically significant positive linear correlation",
            ("norm-uoro-add", "norm-uoro-mimic", "norm-r-kf-rtrl-add", "norm-r-kf-rtrl-mimic"),
        ),
        Sentence("This observation may partially explain (iv)", why=EXPLAINED + "."),
        Sentence("these correlations are fairly weak even if statistically significant", ("norm-weak",)),
        Sentence("The estimated correlation coefficients r are all significant", why="Said above: norm-*."),
    ),
    "RFLO analysis": (
        Sentence("RFLO stands out as having the simplest tensor structure", why=TERMS),
        Sentence("yet it works so well in practice", why=THEIRS),
        Sentence("he does not address the more basic mystery", why=THEIRS),
        Sentence("we provide some intuition for how this simple learning rule is so successful", why=TERMS),
        Sentence(
            "RFLO works by training what is essentially a high-capacity feedforward model",
            ("memory-mechanism",),
            f"A hypothesis; its consequence is the claim. {BEYOND}: mechanism-*.",
        ),
        Sentence("This is reminiscient of reservoir computing", why=THEIRS),
        Sentence("via a single-hidden-layer feedforward network", why="True by construction."),
        Sentence("the learning rule still performs remarkably well", ("add-beats-fixed-1", "memory-rflo")),
        Sentence(
            "corresponds exactly to training W by backpropagation",
            why="An identity: a test of the library compares the two.",
        ),
        Sentence("this purely linear model cannot perfectly capture", ("memory-rflo",)),
        Sentence("analogous to how a single-hidden-layer feedforward network outperforms", why=THEIRS),
        Sentence(
            "the strength of natural memory traces in the RNN depends on its recurrent weights",
            ("memory-decay-symmetric", "memory-decay-diagonal"),
        ),
        Sentence("by running an untrained RNN with fixed weights forwards", why=METHOD),
        Sentence("The sudden jumps in information occur", ("memory-jumps",)),
        Sentence(
            "The speed of this decay differs by the choice of W", ("memory-decay-symmetric", "memory-decay-diagonal")
        ),
        Sentence(
            "orthogonal and Gaussian W seem to best preserve information over time",
            ("memory-decay-symmetric", "memory-decay-diagonal"),
        ),
        Sentence("likely due to their real spectra", why=f"{SUPPOSED}. {BEYOND}: mechanism-real-spectra."),
        Sentence(
            "only the networks initialized with orthogonal or Gaussian W are able to learn at all",
            ("memory-rflo",),
        ),
        Sentence("in cases where this evidence is absent (or at least weak)", ("memory-mechanism",)),
        Sentence("RFLO as a static multi-layer regression", why=METHOD),
        Sentence("Each trace is a different random initialization", why=METHOD),
        Sentence("The cyan dashed line shows the memory", why=METHOD),
        Sentence("Cross-entropy loss over learning by RFLO", why=METHOD),
    ),
    "Discussion": (
        Sentence("We have presented a framework for conceptually unifying", why=TERMS),
        Sentence("These advances come from multiple perspectives", why=THEIRS),
        Sentence("We started by articulating a crucial distinction", why=TERMS),
        Sentence("We then presented a few other properties", why=TERMS),
        Sentence("we clarified the relationship between some of the modern online approximations", why=TERMS),
        Sentence(
            "it's possible to create new algorithms by identifying unexplored combinations",
            why=f"Shown by R-KF-RTRL: unbiased. {BEYOND} with others: unexplored.",
        ),
        Sentence(
            "synthetic tasks on which all algorithms could perform reasonably well",
            ("add-beats-fixed-1", "add-beats-fixed-0.5", "mimic-beats-fixed-1", "mimic-beats-fixed-0.5"),
        ),
        Sentence(
            "training errors roughly cluster according to their categorical distinctions",
            ("clusters",),
            f"“Across tasks”. “Hyperparameter choices” are those of alpha. {BEYOND} at other learning rates.",
        ),
        Sentence(
            "UORO and R-KF-RTRL performed relatively well (poorly) on Add (Mimic)",
            ("mimic-noisy-worse", "mimic-local-better", "mimic-order"),
        ),
        Sentence("this can be explained in terms of the task demands", why=f"{SUPPOSED}. {BEYOND}: demands-*."),
        Sentence("likely shorter than 10 time steps", ("mimic-horizon",)),
        Sentence("produce gradients with a limited amount of information", why=f"{SUPPOSED}. {BEYOND}: demands-*."),
        Sentence("Future work should more systematically explore", why=ADVICE),
        Sentence("we used the pairwise vector alignments", why=METHOD),
        Sentence(
            "This similarity turned out to reflect the natural clustering of the algorithms along the axes",
            ("align-clusters",),
        ),
        Sentence(
            "past-facing approximations had stronger alignment with the exact past-facing gradients",
            ("align-past", "align-future"),
        ),
        Sentence("KeRNL and RFLO, which have the same tensor structure, featured strong alignment", ("align-closest",)),
        Sentence("did not account for task performance", ("align-predicts-not", "align-dissociates")),
        Sentence("Analyzing the magnitudes of the gradients partially explained this", why="Said above: norm-*."),
        Sentence("this effect was subtle", ("norm-weak",)),
        Sentence("This exposes a limitation of current ways of analyzing", why=ADVICE),
        Sentence(
            "better similarity metrics that go beyond time-point-wise gradient alignment",
            why=f"An outlook. {BEYOND}: predictor-*.",
        ),
        Sentence(
            "the stochastic algorithms that have particularly weak alignment with RTRL—even KF-RTRL",
            ("align-even-kf-rtrl", "align-deterministic", "align-weakest"),
        ),
        Sentence(
            "its performance is indistinguishable from the exact algorithms",
            ("add-tie-1", "add-tie-0.5", "mimic-tie-1", "mimic-tie-0.5"),
        ),
        Sentence("these stochastic methods do contain complete information", ("unbiased", "summed-unbiased")),
        Sentence("their errors have no reason to average out", ("biased", "summed-biased")),
        Sentence(
            "their inability to find the same minima as exact methods",
            ("add-lead-1", "add-lead-0.5", "mimic-lead-1", "mimic-lead-0.5"),
            f"That they end behind. {BEYOND} after ten times as many steps: rates-patience.",
        ),
        Sentence("why stochastic approximations do not align with each other", ("align-stochastic",)),
        Sentence(
            "Cartoon illustrating how alignment with RTRL and performance might dissociate",
            ("align-dissociates", "summed-unbiased", "summed-biased"),
            "A drawing of what might be. What it says of UORO and KeRNL is judged.",
        ),
        Sentence("We chose the simplest possible setup for comparison", why=METHOD),
        Sentence("there are alternative online methods that do not naturally fall", why=THEIRS),
        Sentence("Any online algorithm that exploits a particular RNN architecture", why=TERMS),
        Sentence("propose a specialized neural architecture", why=THEIRS),
        Sentence(
            "their locality ends up being more of a bug than a feature, as evidenced by their impaired performance",
            ("add-lead-1", "mimic-lead-1"),
            "Of local rules, RFLO, KeRNL and DNI(b): that they end behind.",
        ),
        Sentence("there are limits to general-purpose approximations of this kind", why=ADVICE),
        Sentence("In the brain, cortical architecture and synaptic plasticity rules evolved together", why=THEIRS),
        Sentence("The same is true from a biological perspective", why=ADVICE),
        Sentence("the details of how local plasticity rules interact", why=ADVICE),
        Sentence("Exploring which architectures allow locality", why=ADVICE),
    ),
}

SENTENCES = Section(
    "sentences",
    "What the paper claims, sentence by sentence",
    (
        "Every sentence of the abstract, the experiments and the discussion, and every caption there, by some of its "
        "words, with the claims that judge it or the reason why it is none. One claim of this page may judge several "
        "sentences; it is counted once.",
    ),
    tuple(
        {
            "where": where,
            "words of the paper": f"… {each.quote} …",
            "claims": ", ".join(each.claims) or "–",
            "reason": each.why,
        }
        for where, sentences in CLAIMED.items()
        for each in sentences
    ),
)
