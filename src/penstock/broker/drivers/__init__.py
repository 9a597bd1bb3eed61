"""Running operations: in threads or on an event loop."""
