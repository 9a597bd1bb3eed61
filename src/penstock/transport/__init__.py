"""Framed connections over asyncio, shared by the client and the front ends."""
