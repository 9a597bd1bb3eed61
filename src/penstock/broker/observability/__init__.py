"""Read-only views of a broker: browsing, traces, metrics, progress and overviews."""
