"""Every algorithm as a bare loop in plain JAX, without the library: the floor its step times are compared with."""

from bare import eligibility, future, past, rtrl
from bare.loop import Algorithm

ALGORITHMS: dict[str, Algorithm] = {
    "rtrl": rtrl.RTRL,
    "uoro": past.UORO,
    "kf-rtrl": past.KF_RTRL,
    "r-kf-rtrl": past.R_KF_RTRL,
    "r-ok": past.R_OK,
    "kernl": eligibility.KERNL,
    "rflo": eligibility.RFLO,
    "e-bptt": future.E_BPTT,
    "f-bptt": future.F_BPTT,
    "dni": future.DNI,
    "dni-b": future.DNI_B,
    "fixed": future.FIXED,
}
