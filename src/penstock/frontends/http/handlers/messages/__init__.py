"""Handlers that publish, deliver, settle, schedule and read messages."""
