"""The best Kronecker-sum approximation without randomness: the baseline that says what being unbiased is worth."""

from jaxtyping import Array, Float

from recurra.learners.base import About
from recurra.learners.r_ok import Factors, KroneckerSummed
from recurra.linalg import matvec
from recurra.linalg.decompositions import orthonormal_rows, svd


class TruncatedOK(KroneckerSummed):
    """The r largest singular values of Σ_l A_l ⊗ J B_l + ahat ⊗ D are kept, and the least is dropped.

    No sum of r terms is closer. But what is dropped is lost, step after step, so the estimate has a bias. r-OK brings
    it back in expectation. With r = n + n_in + 1 nothing is dropped, and it is RTRL.
    """

    about = About(
        "truncated-ok", "Truncated r-OK", "Σ_l A_lj B_lki", memory="rn²", time="rn³", numerical=True, unitwise=True
    )

    def shortened(self, L: Float[Array, "q m"], R: Float[Array, "q p"], noise: None) -> Factors:
        C_L, Q_L = orthonormal_rows(L)
        C_R, Q_R = orthonormal_rows(R)
        U, sigma, V = svd(matvec(C_L.T, C_R))
        return matvec(sigma[: self.r, None] * U[: self.r], Q_L), matvec(V[: self.r], Q_R)
