"""The two protocols of Amazon SQS, as values: requests, answers, checksums and signatures; no I/O."""
