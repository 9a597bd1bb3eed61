"""Reports and the tables that pipelines write."""
