"""KQueue's protocol, which shares the port of the native protocol."""
