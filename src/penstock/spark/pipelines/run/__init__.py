"""Running one pipeline: settings, context, progress and state."""
