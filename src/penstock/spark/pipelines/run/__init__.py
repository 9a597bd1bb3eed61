"""The life of one pipeline run: settings, context, progress and state."""
