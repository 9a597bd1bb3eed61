"""The broker itself: an embeddable object that programs and front ends use."""
