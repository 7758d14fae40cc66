"""Programs in C: a traced step of JAX's becomes plain C99 that needs no library but the mathematical one.

`lowering` walks a traced program operation by operation and writes statements about whole arrays (`statements`). Most
operations are expressions (`rules`), and become part of the loop that needs them; others move entries (`moving`),
multiply and sum (`products`), branch and repeat (`control`), or draw random numbers (`drawing`). `memory` finds which
arrays may share their place, so that a state is changed where it lies. `printing` turns statements into C, and
`helpers` holds the C functions that they call. `building` compiles, and keeps what it compiled.
"""
