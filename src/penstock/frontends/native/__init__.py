"""The native protocol (TCP 7070), which Penstock's own clients use."""
