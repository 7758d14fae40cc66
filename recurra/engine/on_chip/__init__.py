"""An engine that keeps a whole network on the chip: thousands of steps of learning in one GPU kernel."""
