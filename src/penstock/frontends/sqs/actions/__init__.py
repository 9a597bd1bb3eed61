"""Handlers of the actions of Amazon SQS; ``HANDLERS`` in `frontends/sqs/app.py` lists them."""
