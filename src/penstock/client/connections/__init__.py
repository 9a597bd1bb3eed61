"""What a session stands on: addresses, the login, and one connection with its requests in flight."""
