"""Commands on the lake, pipelines and SQL."""
