"""Commands on API keys and users."""
