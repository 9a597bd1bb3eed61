"""Speed and memory of the core, each number beside its limit; see ``__main__.py``."""
