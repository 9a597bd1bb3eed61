"""What the client and the front ends share to exchange frames over asyncio."""
