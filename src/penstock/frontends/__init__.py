"""The listeners of a server.  No front end imports another, except that SQS is served over the HTTP one."""
