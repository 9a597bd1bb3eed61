"""What the broker measures about itself: rates, event-loop lag, storage problems, group verdicts."""
