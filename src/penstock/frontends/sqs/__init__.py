"""Amazon SQS: its two protocols over HTTP, on the broker's queues."""
