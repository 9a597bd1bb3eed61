"""Queue semantics over the log: plain state machines, no I/O, no clock."""
