"""Messages accepted but not yet due: a log of entries, and what is due when."""
