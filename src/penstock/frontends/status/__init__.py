"""The status page (HTTP 8081): how many messages wait where, and how many connections there are."""
