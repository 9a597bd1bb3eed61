"""Functions that work on messages: ``penstock.App`` and what runs it."""
