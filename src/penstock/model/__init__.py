"""The data model: messages, what a broker reports about itself, access rules, and traces.  No I/O."""
