"""The text protocol (TCP 3000): a broker for netcat.  docs/protocols/text.md describes it."""
