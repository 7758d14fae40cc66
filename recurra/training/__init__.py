"""An experiment on the host: `train` runs one, and keeps its losses, records and checkpoints."""
