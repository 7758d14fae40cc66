#!/bin/sh
# Compiles the model for a Cortex-M4 and runs it in QEMU: sh build_and_run.sh DIR, where DIR has live.c and live.h.
# Needs gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm.
set -e
here=$(dirname "$0")
arm-none-eabi-gcc -std=c99 -Wall -Wextra -Werror -Os -fno-math-errno -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 \
    -ffunction-sections -fdata-sections -Wl,--gc-sections --specs=rdimon.specs -nostartfiles -T "$here/board.ld" \
    -I "$1" -o "$1/board.elf" "$here/startup.c" "$here/main.c" "$1/live.c" \
    "$(arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -print-file-name=rdimon-crt0.o)" -lm
exec qemu-system-arm -M mps2-an386 -cpu cortex-m4 -nographic -semihosting -icount shift=0 -kernel "$1/board.elf"
