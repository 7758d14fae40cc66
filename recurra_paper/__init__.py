"""The paper, run again: its experiments, figures, tables and a ledger of its claims."""
