"""Consumers behind HTTP requests: their registry, receipts and long polls."""
