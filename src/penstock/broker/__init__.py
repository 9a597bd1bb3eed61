"""The facade: one embeddable object that front ends and programs talk to."""
