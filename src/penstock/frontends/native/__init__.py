"""The native protocol (TCP 7070): Penstock's own clients, and KQueue's."""
