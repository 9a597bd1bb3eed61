"""Pages for people: the dashboard files, the OpenAPI document and /docs."""
