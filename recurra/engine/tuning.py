"""The tuned numbers of the engine, and where they were measured.

"Core" is one core of a 2-core cloud machine (AMD EPYC); "GPU" is an NVIDIA H200. `benchmarks/NOTES.md` tells more.
"""

#: Steps that an accelerator takes without asking the host whether to go on. GPU: 128 steps
#: take about as long for each, and fewer runs are whole multiples of them.
STRIDE = 32
#: Steps that are launched together, at most. GPU: with eight a step takes a tenth less, and compiling a third longer.
UNROLLED_STEPS = 5

#: Steps that one compiled call takes, at most.
CHUNK = 2**17
#: The least seconds between two pieces of results, and the least seconds that one call for a group should last. Core:
#: to start a call takes 0.3 ms.
PIECE_SECONDS, CALL_SECONDS = 0.5, 0.02
#: Steps of the first piece of a run: a slow network can be stopped soon, and a fast one is at its pace after a few.
FIRST_STEPS = 8
#: How much longer the next piece may be than the last one, while the pace is being learned.
PIECE_GROWTH = 8
#: Bytes of per-step output that one compiled call may hold. GPU, 1,024 members: the next call uses buffers of this size
#: again. Larger ones take new pages from the system at every call, and filling them took a quarter of the time.
OUTPUT_BYTES = 16 * 2**20
#: On an accelerator a call may hold up to so many bytes, if it could not take a whole stride otherwise.
STRIDE_BYTES = 64 * 2**20

#: Members of a core are vmapped if it has at least so many, and each carries at most so many bytes from step to step.
#: Core: others are faster one by one, in the core's nearest cache.
VMAPPED_MEMBERS, VMAPPED_BYTES = 6, 22 * 2**10
#: The same bytes where products of matrices are calls of a library, which then takes many at once. Core: 20 networks of
#: KF-RTRL with 48, 64, 96 and 128 units take 1.9, 1.5, 1.3 and 1.1 times as long one by one.
CALLED_BYTES = 80 * 2**10
#: Members are not vmapped if a step sums so many numbers, or multiplies small matrices into so many: one member then
#: fills the core's vectors. Core: UORO of 32 units takes 1.2 times as long vmapped, and of 24 units 0.7 times.
LONG = 1000
#: Nor are they if a step has a loop inside and carries at most so many bytes. Core: F-BPTT of 8 units takes three times
#: as long vmapped, and of 16 units 0.6 times.
LOOPED_BYTES = 2 * 2**10
#: The members of a group whose size must not depend on how many there are.
FIXED_MEMBERS = 8
#: The members for which the steps of one call are chosen, where another number of members must not compile anew. It
#: serves up to so many times as many.
COUNTED_MEMBERS, FEW_TIMES = 1024, 4
#: Bytes that a vmapped group may carry: they stay in a core's cache.
GROUP_BYTES = 512 * 2**10

#: The largest product of an m × k and a k × n matrix that is compiled into a loop on a CPU. Core: larger ones are
#: faster as calls of a library.
SMALL_M, SMALL_K, SMALL_N = 32, 128, 128

#: After so many steps RTRL brings its tensor up to date, on a CPU.
SPAN = 16

#: Steps that one kernel takes, at most, and the bytes of inputs and random numbers that are drawn for it. GPU: a call
#: takes about a millisecond besides its steps.
ON_CHIP_STEPS, ON_CHIP_BYTES = 2**17, 2**30
#: Bytes that a network may carry on chip from step to step. GPU: a multiprocessor has 256 kB of registers, and a step
#: needs many of them for what it computes.
ON_CHIP_STATE_BYTES = 160 * 2**10
#: Warps that may share a network, and the bytes of its state for which one more pays, for few networks and for many.
#: GPU, Mimic with 32 inputs: five learners that carry 17 to 30 kB are fastest with 4 warps for 20 networks, and with 1
#: or 2 for 8,192.
MOST_WARPS, WARP_BYTES_FEW, WARP_BYTES_MANY = 16, 8 * 2**10, 16 * 2**10
#: Up to so many networks, each has a multiprocessor to itself. GPU: it has 132.
FEW_NETWORKS = 132
#: How fast compiled loops are: bytes that a core, or the GPU, carries through a step in a microsecond, and the
#: microseconds that a step takes on the GPU at least, however small the network: the time to start its kernels.
CORE_BYTES_PER_MICROSECOND, GPU_BYTES_PER_MICROSECOND, GPU_STEP_MICROSECONDS = 9_600, 560_000, 20.0
