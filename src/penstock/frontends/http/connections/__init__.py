"""What the HTTP listener adds to a connection: WebSockets, and writes that are joined."""
