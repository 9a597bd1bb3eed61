"""The protocols through which other processes reach a broker.  No front end imports another."""
